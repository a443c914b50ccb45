"""`syncd status`: one row for each stream, the worst first; from the lake alone."""

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output_pipe import has_reader
from syncd.cli.stream_options import (
    SelectedStream,
    common_options,
    exit_with_worst,
    open_operator_context,
    report_error,
    select_streams,
)
from syncd.cli.views.status_view import format_heading, show, status_to_json
from syncd.error_classes import ExitCode
from watermarks.errors import Transient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncd.app.operator_context import OperatorContext
    from syncd.operations.status_query import StatusReader, StatusRequest, StatusResult
    from watermarks.errors import HintedError

HOME_AND_CLEAR = "\x1b[H\x1b[2J"


@click.command()
@click.option("-t", "--table", "tables", multiple=True, metavar="TABLE", help="A table; default: every one.")
@click.option("--watch", is_flag=True, help="Look again and again, until Ctrl-C.")
@click.option("--every", default="2s", show_default=True, help="With --watch: how often.")
@common_options
def status(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Show how every table stands, the worst first; asks the lake and nobody else.

    Exit 12: a watermark cannot be read.
    """
    from syncd.cli.output import show_json
    from syncd.operations.status_query import PARALLEL_READS, StatusReader

    if options["watch"] and options["as_json"]:
        raise click.UsageError("--json prints one document: leave out --watch, and call again")
    every = _parse_interval(options["every"])
    with open_operator_context(options["config"], read_only=True, connections=PARALLEL_READS) as desk:
        names = select_streams(desk, options["tables"], all_=not options["tables"])
        streams = [_make_stream(desk, name) for name in names]
        standings = StatusReader(journal=desk.journal, parts=desk.lake)
        if options["watch"]:
            watch(lambda: _show_block(desk, standings, streams), every=every.total_seconds())
            return
        stood = standings.read_all(streams, now=desk.clock.now())
        if options["as_json"]:
            show_json(status_to_json(stood, now=desk.clock.now()))
        else:
            show(stood, now=desk.clock.now())
    exit_with_worst(_report_errors(stood))


def watch(show_block: Callable[[], None], *, every: float, pause: Callable[[float], None] = time.sleep) -> None:
    """Draw a block again and again: over the last one on a terminal, below it elsewhere.

    Ends by an interrupt, or where nobody reads it.
    """
    while has_reader():
        if sys.stdout.isatty():
            click.echo(HOME_AND_CLEAR, nl=False)
        show_block()
        sys.stdout.flush()
        pause(every)


def _show_block(context: "OperatorContext", standings: "StatusReader", streams: "Sequence[StatusRequest]") -> None:
    now = context.clock.now()
    try:
        stood = standings.read_all(streams, now=now)
    except Transient as error:  # the lake may be back the next time
        click.echo(f"{format_heading(now)}: {error.message}")
        return
    click.echo(format_heading(now))
    show(stood, now=now)
    click.echo()


def _make_stream(context: "OperatorContext", selected: SelectedStream) -> "StatusRequest":
    from syncd.operations.status_query import StatusRequest

    settings = selected.require_settings()
    return StatusRequest(name=selected.stream, settings=settings, zone=context.writer_time_zone(settings))


def _report_errors(statuses: "Sequence[StatusResult]") -> list[ExitCode]:
    broken: list[tuple[str, HintedError]] = [(str(one.request.name), one.error) for one in statuses if one.error]
    return [report_error(name, error) for name, error in broken]


def _parse_interval(text: str) -> timedelta:
    from syncd.config.value_parsers import parse_positive_duration

    try:
        return parse_positive_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--every") from error
