"""`syncd run`: one pass over the streams that are named, then an end that a scheduler understands."""

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.exit_codes import Exit
from syncd.cli.instant import InstantType
from syncd.cli.output import say
from syncd.cli.signals import ended_by_sigterm
from syncd.cli.stream_options import CONFIG
from syncd.cli.views.run_view import Passed, show, worst_of
from syncd.errors import ConfigError
from syncd.suggestions import meant

if TYPE_CHECKING:
    from syncd.app import Pass, Service
    from syncd.settings import Settings, StreamSettings
    from watermarks.errors import HintedError


@click.command()
@click.option("-t", "--table", "tables", multiple=True, metavar="TABLE", help="A table; give it again for more.")
@click.option("--all", "all_", is_flag=True, help="Every table of the configuration.")
@click.option("--extract-only", "--backup-only", is_flag=True, help="From MySQL to S3, and no further.")
@click.option("--load-only", "--redshift-only", is_flag=True, help="From S3 to Redshift; MySQL is not asked.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Extract at most N rows of each table; load whole batches of at most N rows, and one at least.",
)
@click.option("--from", "start", type=InstantType(), help="With --until: read this range again; moves no mark.")
@click.option("--until", type=InstantType(), help="Go no further than this instant.")
@click.option(
    "--wait",
    default="60s",
    show_default=True,
    help="How long to wait for an owner that may be gone, and for old transactions.",
)
@click.option("--strict", is_flag=True, help="Exit 7 when rows went into quarantine.")
@click.option("--dry-run", is_flag=True, help="Say what would be read and loaded; write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--debug", is_flag=True, help="Show where in the code an error came up.")
@click.option("-c", "--config", type=click.Path(path_type=Path), default=CONFIG, show_default=True, help="The file.")
def run(**words: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Bring the lake up to date with MySQL, and Redshift with the lake, once."""
    from syncd.app import Pass, Service, open_store, open_unwritten
    from syncd.concurrency.response_monitor import Silences
    from syncd.config.check import read_settings
    from syncd.config.value_parsers import duration
    from syncd.extract.plan_rules import Request

    settings = read_settings(words["config"], os.environ)
    streams = chosen(settings, words["tables"], all_=words["all_"])
    _require_sense(words)
    extracts, loads = not words["load_only"], not words["extract_only"]
    if loads:
        require_warehouses(streams)
    try:
        wait = duration(words["wait"])
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--wait") from error
    request = Request(limit=words["limit"], since=words["start"], until=words["until"])
    wanted = Pass(request=request, wait=wait, dry=words["dry_run"])
    with ended_by_sigterm(), ExitStack() as stack:
        progress = stack.enter_context(progress_of(quiet=words["as_json"]))
        store = open_unwritten if wanted.dry else open_store
        silences = stack.enter_context(Silences(progress.say))
        service = stack.enter_context(
            Service(
                settings,
                environ=os.environ,
                tell=progress,
                store=store,
                one_shot=True,
                looks=wanted.dry,
                silences=silences,
            )
        )
        passed = [_passed(service, stream, wanted, extracts=extracts, loads=loads) for stream in streams]
    show(passed, as_json=words["as_json"], dry_run=wanted.dry, strict=words["strict"])
    _leave(passed, strict=words["strict"], debug=words["debug"])


def _require_sense(words: dict[str, Any]) -> None:
    if words["extract_only"] and words["load_only"]:
        raise click.UsageError("--extract-only and --load-only exclude each other: without either, both stages run")
    if words["start"] and not words["until"]:
        raise click.UsageError("--from wants --until: a range that is read again has two ends")
    if words["start"] and words["start"] > words["until"]:
        raise click.UsageError("--from is later than --until: nothing lies between them")
    if words["load_only"] and words["until"]:
        raise click.UsageError("--from and --until are about reading from MySQL: leave them out with --load-only")


def require_warehouses(streams: "Sequence[StreamSettings]") -> None:
    without = [f"{stream.database}.{stream.table}" for stream in streams if stream.target is None]
    if without:
        raise click.UsageError(
            f"{', '.join(without)}: there is no warehouse to load into:"
            " add `warehouse:` to the configuration, or run with --extract-only"
        )


def _passed(service: "Service", stream: "StreamSettings", wanted: "Pass", *, extracts: bool, loads: bool) -> Passed:
    """One stream, stage after stage; whatever befalls the first, the second drains what is there."""
    return Passed(
        database=stream.database,
        table=stream.table,
        source=stream.source,
        extract=service.extract(stream, wanted) if extracts else None,
        load=service.load(stream, wanted) if loads else None,
    )


def chosen(settings: "Settings", names: Sequence[str], *, all_: bool) -> "list[StreamSettings]":
    """The streams that were named; every name must be one, and some must be."""
    from syncd.app.operator_context import name_of

    if all_ == bool(names):
        raise click.UsageError("name tables with -t, or say --all" if not names else "--all and -t exclude each other")
    if all_:
        return list(settings.streams)
    chosen: list[StreamSettings] = []
    for name in names:
        found = [stream for stream in settings.streams if name in {stream.table, stream.name, name_of(stream).stem}]
        if not found:
            raise ConfigError(
                f"no table {name} is configured", hint=meant(name, [stream.name for stream in settings.streams])
            )
        if len(found) > 1:
            several = ", ".join(name_of(stream).stem for stream in found)
            raise ConfigError(
                f"{name} is not one table but {len(found)}: {several}", hint="Write source/database.table."
            )
        chosen += [stream for stream in found if stream not in chosen]
    return chosen


def progress_of(*, quiet: bool) -> "Any":  # noqa: ANN401  # a context that gives whoever is told
    from syncd.cli.progress import Lines, Live

    return Live() if sys.stderr.isatty() and not quiet else Lines()


def _leave(passed: Sequence[Passed], *, strict: bool, debug: bool) -> None:
    """Tell each error in two lines, and end with the worst one's code."""
    for one in passed:
        for error in one.errors:
            tell_error(one.name, error, debug=debug)
    if (code := worst_of(passed, strict=strict)) is not Exit.DONE:
        sys.exit(code)


def tell_error(name: str, error: "HintedError", *, debug: bool) -> None:
    if debug:
        import traceback

        say("".join(traceback.format_exception(error)))
    say(f"error: {name}: {error.message}")
    if error.hint:
        say(f"hint: {error.hint}")
