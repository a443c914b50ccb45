"""`syncd status`: one row for each stream, the worst first, from the lake alone."""

import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.option_types import DurationType, common_options, tables_option
from syncd.cli.output import error_to_json, show_json, show_table
from syncd.cli.output_pipe import has_reader
from syncd.cli.stream_selection import SelectedStream, exit_with_errors, open_operator_context, select_streams
from syncd.cli.views.formats import format_duration, format_instant, format_position, instant_to_json
from watermarks.errors import Transient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncd.app.operator_context import OperatorContext
    from syncd.operations.status_query import StatusReader, StatusRequest, StatusResult
    from syncd.settings import Schedule

COLUMNS = (
    "table", "state", "complete up to", "proven", "mark", "loaded mark", "read lag", "load lag", "pending",
    "quarantined", "last run (UTC)", "next run",
)  # fmt: skip
_OPTIONAL_COLUMNS = ("loaded mark", "mark", "last run (UTC)")
_LAST_OPTIONAL_COLUMNS = ("load lag", "next run")
"""Columns that only a very narrow terminal leaves out."""
HOME_AND_CLEAR = "\x1b[H\x1b[2J"


@click.command()
@tables_option
@click.option("--watch", is_flag=True, help="Refresh until Ctrl-C.")
@click.option(
    "--every", type=DurationType(positive=True), default="2s", show_default=True, help="Refresh interval of --watch."
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
            show_json(_status_to_json(statuses, now=context.clock.now()))
        else:
            _show(statuses, now=context.clock.now())
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
        click.echo(f"{format_instant(now)} UTC: {error.message}")
        return
    click.echo(f"{format_instant(now)} UTC")
    _show(statuses, now=now)
    click.echo()


def _make_request(context: "OperatorContext", selected: SelectedStream) -> "StatusRequest":
    from syncd.operations.status_query import StatusRequest

    settings = selected.require_settings()
    return StatusRequest(name=selected.stream, settings=settings, zone=context.writer_time_zone(settings))


def _show(statuses: "Sequence[StatusResult]", *, now: datetime) -> None:
    """Print the table, and below it the reasons of each stream that is not current."""
    quarantined = () if any(result.status.quarantined.rows for result in statuses) else ("quarantined",)
    optional = (*_OPTIONAL_COLUMNS, *quarantined, *_LAST_OPTIONAL_COLUMNS)
    show_table(COLUMNS, [_table_row(result) for result in statuses], optional=optional)
    reasons = [(result, reason) for result in statuses for reason in result.status.reasons]
    overdue = dict.fromkeys(
        (result.request.name.source, result.status.polled_at) for result in statuses if result.status.is_overdue
    )
    if reasons or overdue:
        click.echo()
    for source, polled_at in overdue:
        ago = format_duration(None if polled_at is None else now - polled_at)
        click.echo(
            f"source {source} was polled last at {format_instant(polled_at)} UTC, {ago} ago, longer than `every`"
            " allows: check that the daemon or the schedule of `syncd run` is running, and that the source answers"
        )
    for result, reason in reasons:
        click.echo(f"{result.request.name.table_name}: {reason}")


def _table_row(result: "StatusResult") -> tuple[object, ...]:
    status = result.status
    return (
        result.request.name.table_name,
        status.condition,
        format_instant(status.complete_until),
        "yes" if status.proven else "no",
        format_position(status.mark),
        format_position(status.loaded_mark),
        format_duration(status.extract_lag),
        format_duration(status.load_lag),
        status.pending,
        status.quarantined.rows,
        format_instant(status.last_run_at),
        _describe_next_run(result),
    )


def _describe_next_run(result: "StatusResult") -> str:
    """Return the next retry that the watermark allows; else the schedule, which only a running daemon follows."""
    if result.status.retry_at is not None:
        return f"{format_instant(result.status.retry_at)} at the earliest"
    return _describe_schedule(result.request.settings.schedule)


def _describe_schedule(schedule: "Schedule") -> str:
    if schedule.every is not None:
        return f"every {format_duration(schedule.every)}"
    return f"{schedule.cron} {schedule.zone}"


def _status_to_json(statuses: "Sequence[StatusResult]", *, now: datetime) -> dict[str, Any]:
    return {"at": instant_to_json(now), "streams": [_to_json(result) for result in statuses]}


def _to_json(result: "StatusResult") -> dict[str, Any]:
    status = result.status
    return {
        "table": result.request.name.table_name,
        "source": result.request.name.source,
        "state": status.condition,
        "complete_up_to": instant_to_json(status.complete_until),
        "proven": status.proven,
        "in_lake_up_to": instant_to_json(status.lake_complete_until),
        "mark": status.mark.to_texts(),
        "loaded_mark": status.loaded_mark.to_texts(),
        "extract_lag_seconds": _seconds_to_json(status.extract_lag),
        "load_lag_seconds": _seconds_to_json(status.load_lag),
        "pending_batches": status.pending,
        "quarantined": status.quarantined.rows,
        "reasons": list(status.reasons),
        "extracted_at": instant_to_json(status.extracted_at),
        "loaded_at": instant_to_json(status.loaded_at),
        "failed_at": instant_to_json(status.failed_at),
        "last_run_at": instant_to_json(status.last_run_at),
        "retry_at": instant_to_json(status.retry_at),
        "schedule": _describe_schedule(result.request.settings.schedule),
        "polled_at": instant_to_json(status.polled_at),
        "poll_overdue": status.is_overdue,
        "error": error_to_json(result.error),
    }


def _seconds_to_json(lag: timedelta | None) -> float | None:
    return None if lag is None else round(lag.total_seconds(), 3)
