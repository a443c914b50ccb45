"""The configuration as a whole: every mistake at once, or the settings."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from syncd.config.mistakes import describe_mistake, strip_alternatives
from syncd.config.model import Daemon, Defaults, File, Lake, Source, Table, Tunnel
from syncd.config.partial_file import validate_without_mistakes
from syncd.config.predecessors import resolve_predecessors
from syncd.config.redaction import KeyPath
from syncd.config.targets import TargetResolver, WarehouseReader
from syncd.config.value_parsers import extract_credentials, is_cron, is_loopback, parse_duration, parse_url
from syncd.config.yaml_reader import ConfigDocument, Misconfigured, read_document
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
    Tls,
    TunnelSettings,
)
from syncd.suggestions import did_you_mean

DEFAULT_SOURCE_NAME: Final = "mysql"
"""What the one server of `source:` is called in keys of the lake."""

M = TypeVar("M", bound=BaseModel)


def read_settings(path: Path, environ: Mapping[str, str]) -> Settings:
    """The settings that a file and the environment ask for.

    Raises:
        Misconfigured: with every mistake at once, each with its line.
        ConfigError: the file cannot be read at all.
    """
    return build_settings(read_document(path, environ))


def build_settings(text: ConfigDocument) -> Settings:
    """The settings of a text that was read.

    Raises:
        Misconfigured: with every mistake at once.
    """
    return _Checker(text).build()


class _Checker:
    """Collects mistakes on the way to the settings."""

    def __init__(self, text: ConfigDocument) -> None:
        self._text = text
        self._mistakes = list(text.mistakes)

    def build(self) -> Settings:
        file = self._validate_part(File, self._text.values, ())
        tables = self._read_tables()
        if file is None:
            raise self._to_error()  # it holds no keys at all
        sources = tuple(self._build_sources(file))
        warehouses = tuple(
            WarehouseReader(
                report_mistake=self._report_mistake, resolve_path=self._resolve_path, build_tunnel=self._build_tunnel
            ).read_all(file)
        )
        targets = TargetResolver(
            report_mistake=self._report_mistake, warehouses={one.name: one for one in warehouses}, stream_by_target={}
        )
        named = dict(self._build_streams(tables, {source.name: source for source in sources}, targets))
        streams = resolve_predecessors(named, table_names=file.tables, report_mistake=self._report_mistake)
        if self._mistakes:
            raise self._to_error()
        return Settings(
            sources=sources,
            lake=_build_lake(file.lake),
            spark=SparkSettings(**file.spark.model_dump()),
            streams=streams,
            warehouses=warehouses,
            daemon=_build_daemon(file.daemon),
        )

    def _to_error(self) -> Misconfigured:
        return Misconfigured.from_mistakes(self._text.path, self._mistakes)

    def _report_mistake(self, key_path: KeyPath, message: str, remedy: str = "", *, key: bool = False) -> None:
        found = self._text.make_mistake(key_path, message, remedy, key=key)
        if any((mistake.line, mistake.key) == (found.line, found.key) for mistake in self._mistakes):
            return  # one word a place: what follows from a first mistake is no second one
        self._mistakes.append(found)

    def _validate_part(self, model: type[M], values: object, key_path: KeyPath) -> M | None:
        """A part of the file; with mistakes they are told, and it is what is left without them."""
        try:
            return model.model_validate(values)
        except ValidationError as error:
            for found in error.errors(include_url=False):
                unknown = found["type"] == "extra_forbidden"
                self._report_mistake(
                    (*key_path, *strip_alternatives(found["loc"])), *describe_mistake(found, model), key=unknown
                )
        return validate_without_mistakes(model, values)

    def _read_tables(self) -> dict[str, Table]:
        """Each table with the defaults filled in where it is silent."""
        values = self._text.values if isinstance(self._text.values, dict) else {}
        defaults = values.get("defaults") or {}
        good = self._validate_part(Defaults, defaults, ("defaults",)) if isinstance(defaults, dict) else None
        shared = {key: defaults[key] for key in good.model_fields_set if key in defaults} if good else {}
        tables = values.get("tables")
        found: dict[str, Table] = {}
        for name, own in (tables if isinstance(tables, dict) else {}).items():
            said = {} if own is None else own
            if not isinstance(said, dict):
                continue  # the model of the file has told it
            table = self._validate_part(Table, {**_drop_overridden_start(shared, said), **said}, ("tables", name))
            if table is not None:
                found[name] = table
        return found

    def _build_sources(self, file: File) -> Iterator[SourceSettings]:
        if file.source is not None and file.sources:
            self._report_mistake(("sources",), "stands beside `source`", "Name every server under `sources`.")
        if file.source is None and not file.sources:
            self._report_mistake(
                (), "there is no source", "Add: source: {url: mysql://user:${MYSQL_PASSWORD}@host/database}"
            )
        named: dict[str, tuple[Source, KeyPath]] = {
            name: (one, ("sources", name)) for name, one in file.sources.items()
        }
        if file.source is not None:
            named[DEFAULT_SOURCE_NAME] = (file.source, ("source",))
        for name, (source, place) in named.items():
            yield self._build_source(name, source, place)

    def _build_source(self, name: str, source: Source, key_path: KeyPath) -> SourceSettings:
        parts = parse_url(source.url, "mysql", "mariadb")
        user, password = extract_credentials(parts)
        host = parts.hostname or ""
        primary = self._build_source(name, source.primary, (*key_path, "primary")) if source.primary else None
        self._require_zone(source.zone, (*key_path, "zone"))
        return SourceSettings(
            name=name,
            host=host,
            port=parts.port or 3306,
            user=user,
            password=Secret(password),
            database=parts.path.strip("/") or None,
            tls=source.tls or (Tls.PREFER if is_loopback(host) and source.tunnel is None else Tls.VERIFY),
            ca=self._resolve_path(source.ca),
            zone=source.zone,
            max_connections=source.max_connections,
            tunnel=self._build_tunnel(source.tunnel),
            primary=primary,
            silence=source.silence,
            longest_read=source.longest_read,
            max_threads_running=source.max_threads_running,
            max_replica_lag=source.max_replica_lag,
            reread=source.reread,
            catch_up=source.catch_up,
        )

    def _build_tunnel(self, tunnel: Tunnel | None) -> TunnelSettings | None:
        if tunnel is None:
            return None
        return TunnelSettings(
            host=tunnel.host,
            user=tunnel.user,
            port=tunnel.port,
            key_file=self._resolve_path(tunnel.key_file),
            known_hosts=self._resolve_path(tunnel.known_hosts),
        )

    def _resolve_path(self, path: Path | None) -> Path | None:
        """A path as the file means it: from where the file lies."""
        return None if path is None else Path(self._text.path).parent / path

    def _require_zone(self, name: str | None, key_path: KeyPath) -> None:
        if name is None:
            return
        from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415  # rare, and it reads files

        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):  # of a folder of zones, such as Europe, no file is read
            self._report_mistake(key_path, f"{name!r} is no time zone", "Write a name such as UTC or Europe/Berlin.")

    def _build_streams(
        self, tables: dict[str, Table], sources: dict[str, SourceSettings], targets: TargetResolver
    ) -> Iterator[tuple[str, StreamSettings]]:
        for name, table in tables.items():
            place = ("tables", name)
            stream = self._build_stream(name, table, sources, place)
            target = targets.resolve_target(name, table, source=stream.table if stream else name, key_path=place)
            self._require_zone(table.zone, (*place, "zone"))
            if stream is not None:
                yield name, replace(stream, target=target)

    def _build_stream(
        self, name: str, table: Table, sources: dict[str, SourceSettings], key_path: KeyPath
    ) -> StreamSettings | None:
        source = self._find_source(table, sources, key_path)
        if source is None:
            return None
        database, dot, short = name.partition(".")
        if not dot:
            database, short = source.database or "", name
        if not database:
            self._report_mistake(
                key_path, "names no database", f"Write it as database.{name}, or end the source's url in /database."
            )
            return None
        first_run, start = table.first_run_and_start
        return StreamSettings(
            source=source.name,
            database=database,
            table=short,
            cursor=table.cursor,
            cursor_unit=table.cursor_unit,
            key=table.key,
            query=table.query,
            mode=table.mode,
            batch_rows=table.batch_rows,
            max_pending=table.max_pending,
            settle=table.settle,
            ahead_after=table.ahead_after,
            first_run=first_run,
            is_first_run_configured=bool({"first_run", "start"} & table.model_fields_set),
            start=start,
            start_by=table.first_run_column,
            null_cursor=table.null_cursor,
            boolean=table.boolean,
            policies=Policies(
                zero_dates=table.zero_dates,
                oversize=table.oversize,
                out_of_range=table.out_of_range,
                invalid_text=table.invalid_text,
            ),
            schedule=_build_schedule(table),
        )

    def _find_source(
        self, table: Table, sources: dict[str, SourceSettings], key_path: KeyPath
    ) -> SourceSettings | None:
        if table.source is not None:
            if table.source not in sources:
                self._report_mistake(
                    (*key_path, "source"), f"no source is called {table.source!r}", did_you_mean(table.source, sources)
                )
            return sources.get(table.source)
        if len(sources) > 1:
            self._report_mistake(
                key_path, "there are several sources", f"Add `source:` with one of {', '.join(sources)}."
            )
            return None
        return next(iter(sources.values()), None)


def _build_lake(lake: Lake) -> LakeSettings:
    parts = parse_url(lake.url, "s3")
    return LakeSettings(bucket=parts.netloc, prefix=parts.path.strip("/"), region=lake.region, endpoint=lake.endpoint)


def _build_daemon(daemon: Daemon) -> DaemonSettings:
    return DaemonSettings(
        http=daemon.http,
        token=Secret(daemon.token) if daemon.token else None,
        stop_timeout=daemon.stop_timeout,
        notify=tuple(
            NotifySettings(url=Secret(one.url), channel=one.channel, again=one.again) for one in daemon.notify
        ),
        markers=daemon.markers,
    )


def _build_schedule(table: Table) -> Schedule:
    cron = is_cron(table.every)
    return Schedule(
        every=None if cron else parse_duration(table.every),
        cron=table.every if cron else None,
        zone=table.zone or "UTC",
        after=table.after,
        priority=table.priority,
        longest_run=table.longest_run,
        fresh_within=table.fresh_within,
    )


def _drop_overridden_start(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults for a table; its own beginning, in either of its two forms, replaces both."""
    if own.keys() & {"start", "first_run"}:
        return {key: value for key, value in shared.items() if key not in {"start", "first_run"}}
    return dict(shared)
