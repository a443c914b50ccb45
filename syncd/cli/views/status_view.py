"""What `syncd status` shows: a row for each stream and why it stands so, or one JSON document."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output import show_table
from syncd.cli.views.mark_format import format_instant, format_position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncd.operations.status_query import StatusResult
    from syncd.settings import Schedule

COLUMNS = (
    "table", "state", "complete up to", "proven", "mark", "loaded mark", "read lag", "load lag", "pending",
    "quarantined", "last run (UTC)", "next run",
)  # fmt: skip
_OPTIONAL_COLUMNS = ("loaded mark", "mark", "last run (UTC)")
_OPTIONAL_COLUMNS_LAST = ("load lag", "next run")
"""Only where it is narrower still."""

SHOW_TENTHS_BELOW_SECONDS = 10
"""Seconds below which a tenth matters."""


def format_heading(now: datetime) -> str:
    return f"{format_instant(now)} UTC"


def show(statuses: "Sequence[StatusResult]", *, now: datetime) -> None:
    """A table, and below it why each stream stands as it does that is not simply current."""
    calm = () if any(one.status.quarantined.rows for one in statuses) else ("quarantined",)
    show_table(
        COLUMNS, [_table_row(one) for one in statuses], optional=(*_OPTIONAL_COLUMNS, *calm, *_OPTIONAL_COLUMNS_LAST)
    )
    said = [(one, reason) for one in statuses for reason in one.status.reasons]
    left = dict.fromkeys((one.request.name.source, one.status.polled_at) for one in statuses if one.status.is_overdue)
    if said or left:
        click.echo()
    for source, polled_at in left:
        ago = format_duration(None if polled_at is None else now - polled_at)
        click.echo(
            f"source {source} was polled last at {format_instant(polled_at)} UTC, {ago} ago, which is longer than `every` lets"
            " one expect: is whatever is to read it at work, a daemon or a schedule that calls `syncd run`, and does"
            " the source answer it?"
        )
    for one, reason in said:
        click.echo(f"{_stream_name(one)}: {reason}")


def _table_row(status: "StatusResult") -> tuple[object, ...]:
    standing = status.status
    return (
        _stream_name(status),
        standing.condition,
        format_instant(standing.complete_until),
        "yes" if standing.proven else "no",
        format_position(standing.mark),
        format_position(standing.loaded_mark),
        format_duration(standing.extract_lag),
        format_duration(standing.load_lag),
        standing.pending,
        standing.quarantined.rows,
        format_instant(standing.last_run_at),
        _describe_next_run(status),
    )


def _stream_name(status: "StatusResult") -> str:
    return status.request.name.table_name


def _describe_next_run(status: "StatusResult") -> str:
    """When it is tried again, as its document says; else only what the daemon is told, if one runs."""
    if status.status.retry_at is not None:
        return f"{format_instant(status.status.retry_at)} at the earliest"
    return describe_schedule(status.request.settings.schedule)


def describe_schedule(schedule: "Schedule") -> str:
    if schedule.every is not None:
        return f"every {format_duration(schedule.every)}"
    return f"{schedule.cron} {schedule.zone}"


def format_duration(duration: timedelta | None) -> str:
    """A length of time in its two largest units: `3d 4h`, `12m 5s`, `0.4s`."""
    if duration is None:
        return ""
    seconds = duration.total_seconds()
    if seconds < SHOW_TENTHS_BELOW_SECONDS and seconds != int(seconds):
        return f"{seconds:.1f}s"
    left = round(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def status_to_json(statuses: "Sequence[StatusResult]", *, now: datetime) -> dict[str, Any]:
    return {"at": _instant_to_json(now), "streams": [_to_json(one) for one in statuses]}


def _to_json(status: "StatusResult") -> dict[str, Any]:
    from syncd.cli.stream_options import error_to_json

    standing = status.status
    return {
        "table": _stream_name(status),
        "source": status.request.name.source,
        "state": standing.condition,
        "complete_up_to": _instant_to_json(standing.complete_until),
        "proven": standing.proven,
        "in_lake_up_to": _instant_to_json(standing.lake_complete_until),
        "mark": standing.mark.to_texts(),
        "loaded_mark": standing.loaded_mark.to_texts(),
        "extract_lag_seconds": _seconds_to_json(standing.extract_lag),
        "load_lag_seconds": _seconds_to_json(standing.load_lag),
        "pending": standing.pending,
        "quarantined": standing.quarantined.rows,
        "reasons": list(standing.reasons),
        "extracted_at": _instant_to_json(standing.extracted_at),
        "loaded_at": _instant_to_json(standing.loaded_at),
        "failed_at": _instant_to_json(standing.failed_at),
        "last_run": _instant_to_json(standing.last_run_at),
        "next_try": _instant_to_json(standing.retry_at),
        "schedule": describe_schedule(status.request.settings.schedule),
        "polled_at": _instant_to_json(standing.polled_at),
        "overdue": standing.is_overdue,
        "error": error_to_json(status.error),
    }


def _instant_to_json(instant: datetime | None) -> str | None:
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if instant else None


def _seconds_to_json(lag: timedelta | None) -> float | None:
    return None if lag is None else round(lag.total_seconds(), 3)
