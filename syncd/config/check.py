"""Check of the whole configuration: all mistakes at once, or the settings."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from syncd.config.model import SCHEDULE_DEFAULTS, Daemon, Defaults, File, Lake, Table
from syncd.config.section_validation import validate_section
from syncd.config.servers import build_sources, build_warehouses, require_zone
from syncd.config.targets import TargetResolver, choose_server
from syncd.config.value_parsers import parse_url
from syncd.config.yaml_reader import ConfigDocument, read_document
from syncd.datatypes.columns import Policies
from syncd.settings import (
    DaemonSettings,
    LakeSettings,
    NotifySettings,
    Schedule,
    Secret,
    Settings,
    SourceSettings,
    SparkSettings,
    StreamSettings,
)


def read_settings(path: Path, environ: Mapping[str, str]) -> Settings:
    """Read the settings from a file and the environment.

    Raises:
        Misconfigured: the file has mistakes; the error holds all of them, each with its line.
        ConfigError: the file cannot be read.
    """
    return build_settings(read_document(path, environ))


def build_settings(document: ConfigDocument) -> Settings:
    """Build the settings from a document.

    Raises:
        Misconfigured: the document has mistakes; the error holds all of them.
    """
    file = validate_section(File, document.values, (), document)
    tables = _read_tables(document)
    if file is None:
        raise document.to_error()  # the document is not a mapping
    sources = {source.name: source for source in build_sources(file, document)}
    warehouses = {warehouse.name: warehouse for warehouse in build_warehouses(file, document)}
    targets = TargetResolver(document=document, warehouses=warehouses)
    streams = dict(_build_streams(tables, sources, targets, document))
    ordered = _resolve_predecessors(streams, file.tables, document)
    if document.mistakes:
        raise document.to_error()
    return Settings(
        sources=tuple(sources.values()),
        lake=_build_lake(file.lake),
        spark=SparkSettings(**file.spark.model_dump()),
        streams=ordered,
        warehouses=tuple(warehouses.values()),
        daemon=_build_daemon(file.daemon),
    )


def _read_tables(document: ConfigDocument) -> dict[str, Table]:
    """Validate each table, with `defaults` for the keys that it leaves out."""
    values = document.values if isinstance(document.values, dict) else {}
    defaults = values.get("defaults") or {}
    valid = validate_section(Defaults, defaults, ("defaults",), document) if isinstance(defaults, dict) else None
    shared = {key: defaults[key] for key in valid.model_fields_set if key in defaults} if valid else {}
    sections = values.get("tables")
    tables: dict[str, Table] = {}
    for name, section in (sections if isinstance(sections, dict) else {}).items():
        own = {} if section is None else section
        if not isinstance(own, dict):
            continue  # the validation of the file has reported it
        table = validate_section(Table, {**_drop_overridden_start(shared, own), **own}, ("tables", name), document)
        if table is not None:
            tables[name] = table
    return tables


def _drop_overridden_start(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Drop `start` and `first_run` from the defaults where the table has either: both say where it begins."""
    begins = {"start", "first_run"}
    return {key: value for key, value in shared.items() if not (own.keys() & begins and key in begins)}


def _build_streams(
    tables: dict[str, Table],
    sources: dict[str, SourceSettings],
    targets: TargetResolver,
    document: ConfigDocument,
) -> Iterator[tuple[str, StreamSettings]]:
    for name, table in tables.items():
        place = ("tables", name)
        stream = _build_stream(name, table, sources, document)
        target = targets.resolve_target(name, table, source=stream.table if stream else name, key_path=place)
        require_zone(table.zone, (*place, "zone"), document)
        if stream is not None:
            yield name, replace(stream, target=target)


def _build_stream(
    name: str, table: Table, sources: dict[str, SourceSettings], document: ConfigDocument
) -> StreamSettings | None:
    """Build the stream of a table, without its target; None where its source or database is not known."""
    key_path = ("tables", name)
    source = choose_server(sources, "source", table.source, (*key_path, "source"), document)
    if source is None:
        return None
    database, dot, short = name.partition(".")
    if not dot:
        database, short = source.database or "", name
    if not database:
        remedy = f"Write it as database.{name}, or end the source's url in /database."
        document.report_mistake(key_path, "names no database", remedy)
        return None
    first_run, start = table.first_run_and_start
    own = {
        "source": source.name,
        "database": database,
        "table": short,
        "first_run": first_run,
        "is_first_run_configured": bool({"first_run", "start"} & table.model_fields_set),
        "start": start,
        "start_by": table.first_run_column,
        "policies": Policies(**table.values_for(Policies)),
        "schedule": _build_schedule(table),
        "target": None,
    }
    return StreamSettings(**(table.values_for(StreamSettings) | own))


def _build_schedule(table: Table) -> Schedule:
    cron = table.every if isinstance(table.every, str) else None
    every = None if isinstance(table.every, str) else table.every
    own = {"every": every, "cron": cron, "zone": table.zone or SCHEDULE_DEFAULTS.zone}
    return Schedule(**(table.values_for(Schedule) | own))


def _build_lake(lake: Lake) -> LakeSettings:
    parts = parse_url(lake.url, "s3")
    return LakeSettings(bucket=parts.netloc, prefix=parts.path.strip("/"), region=lake.region, endpoint=lake.endpoint)


def _build_daemon(daemon: Daemon) -> DaemonSettings:
    notify = tuple(
        NotifySettings(url=Secret(entry.url), channel=entry.channel, again=entry.again) for entry in daemon.notify
    )
    token = Secret(daemon.token) if daemon.token else None
    return DaemonSettings(**(daemon.values_for(DaemonSettings) | {"token": token, "notify": notify}))


def _resolve_predecessors(
    streams: Mapping[str, StreamSettings], table_names: Collection[str], document: ConfigDocument
) -> tuple[StreamSettings, ...]:
    """Replace the names under `after` by `database.table`, and report unknown names and cycles.

    `table_names` are all tables of the file, those with mistakes too.
    """
    full_names = {name: stream.name for name, stream in streams.items()}
    after = {
        name: tuple(_resolve_names(name, stream, full_names, table_names, document)) for name, stream in streams.items()
    }
    if (cycle := _find_cycle({full_names[name]: names for name, names in after.items()})) is not None:
        name = next(name for name in streams if full_names[name] in cycle)
        message = f"waits for itself: {' after '.join(cycle)}"
        document.report_mistake(("tables", name, "after"), message, "Remove one of these.")
    return tuple(
        replace(stream, schedule=replace(stream.schedule, after=after[name])) for name, stream in streams.items()
    )


def _resolve_names(
    name: str,
    stream: StreamSettings,
    full_names: Mapping[str, str],
    table_names: Collection[str],
    document: ConfigDocument,
) -> Iterator[str]:
    for word in stream.schedule.after:
        full_name = word if word in full_names.values() else full_names.get(word)
        if full_name is not None:
            yield full_name
        elif word not in table_names:
            remedy = f"Available: {', '.join(full_names)}."
            document.report_mistake(("tables", name, "after"), f"no table {word!r} is configured", remedy)


def _find_cycle(after: Mapping[str, Sequence[str]]) -> list[str] | None:
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle[::-1]
    return None
