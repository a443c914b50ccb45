"""`syncd run`: one pass over the streams that are named, then an end that a scheduler understands."""

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.instant import InstantType
from syncd.cli.output import print_message
from syncd.cli.signals import interrupt_on_sigterm
from syncd.cli.stream_options import DEFAULT_CONFIG_PATH
from syncd.cli.views.run_view import StreamRunOutcome, exit_code_for_run, show
from syncd.error_classes import ExitCode
from syncd.errors import ConfigError
from syncd.suggestions import did_you_mean

if TYPE_CHECKING:
    from syncd.app import PassOptions, StageService
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
@click.option(
    "-c", "--config", type=click.Path(path_type=Path), default=DEFAULT_CONFIG_PATH, show_default=True, help="The file."
)
def run(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Bring the lake up to date with MySQL, and Redshift with the lake, once."""
    from syncd.app import PassOptions, StageService, open_overlay_store, open_store
    from syncd.concurrency.response_monitor import ResponseMonitor
    from syncd.config.check import read_settings
    from syncd.config.value_parsers import parse_duration
    from syncd.extract.plan_rules import ExtractRequest

    settings = read_settings(options["config"], os.environ)
    streams = select_configured_streams(settings, options["tables"], all_=options["all_"])
    _check_options(options)
    extracts, loads = not options["load_only"], not options["extract_only"]
    if loads:
        require_warehouses(streams)
    try:
        wait = parse_duration(options["wait"])
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--wait") from error
    request = ExtractRequest(limit=options["limit"], since=options["start"], until=options["until"])
    wanted = PassOptions(request=request, horizon_wait=wait, dry_run=options["dry_run"])
    with interrupt_on_sigterm(), ExitStack() as stack:
        progress = stack.enter_context(open_progress(quiet=options["as_json"]))
        store = open_overlay_store if wanted.dry_run else open_store
        silences = stack.enter_context(ResponseMonitor(progress.say))
        service = stack.enter_context(
            StageService(
                settings,
                environ=os.environ,
                emit=progress,
                make_store=store,
                one_shot=True,
                read_only=wanted.dry_run,
                response_monitor=silences,
            )
        )
        passed = [_run_stream(service, stream, wanted, extracts=extracts, loads=loads) for stream in streams]
    show(passed, as_json=options["as_json"], dry_run=wanted.dry_run, strict=options["strict"])
    _exit_with_errors(passed, strict=options["strict"], debug=options["debug"])


def _check_options(options: dict[str, Any]) -> None:
    if options["extract_only"] and options["load_only"]:
        raise click.UsageError("--extract-only and --load-only exclude each other: without either, both stages run")
    if options["start"] and not options["until"]:
        raise click.UsageError("--from wants --until: a range that is read again has two ends")
    if options["start"] and options["start"] > options["until"]:
        raise click.UsageError("--from is later than --until: nothing lies between them")
    if options["load_only"] and options["until"]:
        raise click.UsageError("--from and --until are about reading from MySQL: leave them out with --load-only")


def require_warehouses(streams: "Sequence[StreamSettings]") -> None:
    without = [stream.name for stream in streams if stream.target is None]
    if without:
        raise click.UsageError(
            f"{', '.join(without)}: there is no warehouse to load into:"
            " add `warehouse:` to the configuration, or run with --extract-only"
        )


def _run_stream(
    service: "StageService", stream: "StreamSettings", options: "PassOptions", *, extracts: bool, loads: bool
) -> StreamRunOutcome:
    """One stream, stage after stage; whatever befalls the first, the second drains what is there."""
    return StreamRunOutcome(
        database=stream.database,
        table=stream.table,
        source=stream.source,
        extract=service.extract(stream, options) if extracts else None,
        load=service.load(stream, options) if loads else None,
    )


def select_configured_streams(settings: "Settings", names: Sequence[str], *, all_: bool) -> "list[StreamSettings]":
    """The streams that were named; every name must be one, and some must be."""
    if all_ == bool(names):
        raise click.UsageError("name tables with -t, or say --all" if not names else "--all and -t exclude each other")
    if all_:
        return list(settings.streams)
    chosen: list[StreamSettings] = []
    for name in names:
        found = [stream for stream in settings.streams if name in {stream.table, stream.name, stream.stream_name.stem}]
        if not found:
            raise ConfigError(
                f"no table {name} is configured", hint=did_you_mean(name, [stream.name for stream in settings.streams])
            )
        if len(found) > 1:
            several = ", ".join(stream.stream_name.stem for stream in found)
            raise ConfigError(
                f"{name} is not one table but {len(found)}: {several}", hint="Write source/database.table."
            )
        chosen += [stream for stream in found if stream not in chosen]
    return chosen


def open_progress(*, quiet: bool) -> "Any":  # noqa: ANN401  # a context that gives whoever is told
    from syncd.cli.progress import LineProgress, LiveProgress

    return LiveProgress() if sys.stderr.isatty() and not quiet else LineProgress()


def _exit_with_errors(outcomes: Sequence[StreamRunOutcome], *, strict: bool, debug: bool) -> None:
    """Tell each error in two lines, and end with the worst one's code."""
    for one in outcomes:
        for error in one.errors:
            print_error(one.name, error, debug=debug)
    if (code := exit_code_for_run(outcomes, strict=strict)) is not ExitCode.DONE:
        sys.exit(code)


def print_error(name: str, error: "HintedError", *, debug: bool) -> None:
    if debug:
        import traceback

        print_message("".join(traceback.format_exception(error)))
    print_message(f"error: {name}: {error.message}")
    if error.hint:
        print_message(f"hint: {error.hint}")
