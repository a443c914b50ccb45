"""`syncd status`: one row for each stream, the worst first, from the lake alone."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.option_types import DurationType
from syncd.cli.options import common_options, tables_option
from syncd.cli.output import show_json
from syncd.cli.output_pipe import has_reader
from syncd.cli.stream_selection import SelectedStream, exit_with_errors, open_operator_context, select_streams
from syncd.cli.views.status_view import format_heading, show, status_to_json
from watermarks.errors import Transient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncd.app.operator_context import OperatorContext
    from syncd.operations.status_query import StatusReader, StatusRequest

HOME_AND_CLEAR = "\x1b[H\x1b[2J"


@click.command()
@tables_option
@click.option("--watch", is_flag=True, help="Refresh until Ctrl-C.")
@click.option(
    "--every", type=DurationType(positive=True), default="2s", show_default=True, help="With --watch: how often."
)
@common_options
def status(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Show the status of every table, the worst first. Reads the lake only.

    Exit 12: a watermark cannot be read.
    """
    from syncd.operations.status_query import PARALLEL_READS, StatusReader

    if options["watch"] and options["as_json"]:
        raise click.UsageError("--json prints one document: leave out --watch, and call the command repeatedly")
    with open_operator_context(options["config"], read_only=True, connections=PARALLEL_READS) as context:
        selected = select_streams(context.settings, options["tables"], all_=not options["tables"])
        requests = [_make_request(context, one) for one in selected]
        reader = StatusReader(journal=context.journal, parts=context.lake)
        if options["watch"]:
            watch(lambda: _show_block(context, reader, requests), every=options["every"].total_seconds())
            return
        statuses = reader.read_all(requests, now=context.clock.now())
        if options["as_json"]:
            show_json(status_to_json(statuses, now=context.clock.now()))
        else:
            show(statuses, now=context.clock.now())
    exit_with_errors((str(status.request.name), status.error) for status in statuses)


def watch(show_block: Callable[[], None], *, every: float, pause: Callable[[float], None] = time.sleep) -> None:
    """Print the block repeatedly: on a terminal in place, elsewhere one below the other.

    Ends on an interrupt, or when the reader of the output has closed it.
    """
    while has_reader():
        if sys.stdout.isatty():
            click.echo(HOME_AND_CLEAR, nl=False)
        show_block()
        sys.stdout.flush()
        pause(every)


def _show_block(context: "OperatorContext", reader: "StatusReader", requests: "Sequence[StatusRequest]") -> None:
    now = context.clock.now()
    try:
        statuses = reader.read_all(requests, now=now)
    except Transient as error:  # the lake may answer the next time
        click.echo(f"{format_heading(now)}: {error.message}")
        return
    click.echo(format_heading(now))
    show(statuses, now=now)
    click.echo()


def _make_request(context: "OperatorContext", selected: SelectedStream) -> "StatusRequest":
    from syncd.operations.status_query import StatusRequest

    settings = selected.require_settings()
    return StatusRequest(name=selected.stream, settings=settings, zone=context.writer_time_zone(settings))
