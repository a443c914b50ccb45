"""Output of `syncd status`: a row for each stream with its reasons, or one JSON document."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output import error_to_json, show_table
from syncd.cli.views.formats import format_duration, format_instant, format_position, instant_to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncd.operations.status_query import StatusResult
    from syncd.settings import Schedule

COLUMNS = (
    "table", "state", "complete up to", "proven", "mark", "loaded mark", "read lag", "load lag", "pending",
    "quarantined", "last run (UTC)", "next run",
)  # fmt: skip
_OPTIONAL_COLUMNS = ("loaded mark", "mark", "last run (UTC)")
_LAST_OPTIONAL_COLUMNS = ("load lag", "next run")
"""Columns that only a very narrow terminal leaves out."""


def format_heading(now: datetime) -> str:
    return f"{format_instant(now)} UTC"


def show(statuses: "Sequence[StatusResult]", *, now: datetime) -> None:
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
    return describe_schedule(result.request.settings.schedule)


def describe_schedule(schedule: "Schedule") -> str:
    if schedule.every is not None:
        return f"every {format_duration(schedule.every)}"
    return f"{schedule.cron} {schedule.zone}"


def status_to_json(statuses: "Sequence[StatusResult]", *, now: datetime) -> dict[str, Any]:
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
        "pending": status.pending,
        "quarantined": status.quarantined.rows,
        "reasons": list(status.reasons),
        "extracted_at": instant_to_json(status.extracted_at),
        "loaded_at": instant_to_json(status.loaded_at),
        "failed_at": instant_to_json(status.failed_at),
        "last_run": instant_to_json(status.last_run_at),
        "next_try": instant_to_json(status.retry_at),
        "schedule": describe_schedule(result.request.settings.schedule),
        "polled_at": instant_to_json(status.polled_at),
        "overdue": status.is_overdue,
        "error": error_to_json(result.error),
    }


def _seconds_to_json(lag: timedelta | None) -> float | None:
    return None if lag is None else round(lag.total_seconds(), 3)
