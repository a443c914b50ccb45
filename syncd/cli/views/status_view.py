"""What `syncd status` shows: a row for each stream and why it stands so, or one JSON document."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output import show_table
from syncd.cli.views.mark_format import moment, position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncd.operations.status_query import Stood
    from syncd.settings import Schedule

COLUMNS = (
    "table", "state", "complete up to", "proven", "mark", "loaded mark", "read lag", "load lag", "pending",
    "quarantined", "last run (UTC)", "next run",
)  # fmt: skip
_SPARE = ("loaded mark", "mark", "last run (UTC)")
_SPARE_TOO = ("load lag", "next run")
"""Only where it is narrower still."""

SHORT = 10
"""Seconds below which a tenth matters."""


def head(at: datetime) -> str:
    return f"{moment(at)} UTC"


def show(stood: "Sequence[Stood]", *, at: datetime) -> None:
    """A table, and below it why each stream stands as it does that is not simply current."""
    calm = () if any(one.standing.aside.rows for one in stood) else ("quarantined",)
    show_table(COLUMNS, [_row(one) for one in stood], spare=(*_SPARE, *calm, *_SPARE_TOO))
    said = [(one, reason) for one in stood for reason in one.standing.reasons]
    left = dict.fromkeys((one.stream.name.source, one.standing.polled_at) for one in stood if one.standing.overdue)
    if said or left:
        click.echo()
    for source, polled_at in left:
        ago = span(None if polled_at is None else at - polled_at)
        click.echo(
            f"source {source} was polled last at {moment(polled_at)} UTC, {ago} ago, which is longer than `every` lets"
            " one expect: is whatever is to read it at work, a daemon or a schedule that calls `syncd run`, and does"
            " the source answer it?"
        )
    for one, reason in said:
        click.echo(f"{_name(one)}: {reason}")


def _row(one: "Stood") -> tuple[object, ...]:
    standing = one.standing
    return (
        _name(one),
        standing.condition,
        moment(standing.complete),
        "yes" if standing.proven else "no",
        position(standing.mark),
        position(standing.loaded_mark),
        span(standing.extract_lag),
        span(standing.load_lag),
        standing.pending,
        standing.aside.rows,
        moment(standing.last_run),
        _next(one),
    )


def _name(one: "Stood") -> str:
    return f"{one.stream.name.database}.{one.stream.name.table}"


def _next(one: "Stood") -> str:
    """When it is tried again, as its document says; else only what the daemon is told, if one runs."""
    if one.standing.next_try is not None:
        return f"{moment(one.standing.next_try)} at the earliest"
    return schedule_of(one.stream.settings.schedule)


def schedule_of(schedule: "Schedule") -> str:
    if schedule.every is not None:
        return f"every {span(schedule.every)}"
    return f"{schedule.cron} {schedule.zone}"


def span(lag: timedelta | None) -> str:
    """A length of time in its two largest units: `3d 4h`, `12m 5s`, `0.4s`."""
    if lag is None:
        return ""
    seconds = lag.total_seconds()
    if seconds < SHORT and seconds != int(seconds):
        return f"{seconds:.1f}s"
    left = round(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def status_fields(stood: "Sequence[Stood]", *, at: datetime) -> dict[str, Any]:
    return {"at": _instant(at), "streams": [_fields(one) for one in stood]}


def _fields(one: "Stood") -> dict[str, Any]:
    from syncd.cli.stream_options import error_fields

    standing = one.standing
    return {
        "table": _name(one),
        "source": one.stream.name.source,
        "state": standing.condition,
        "complete_up_to": _instant(standing.complete),
        "proven": standing.proven,
        "in_lake_up_to": _instant(standing.in_lake),
        "mark": standing.mark.texts(),
        "loaded_mark": standing.loaded_mark.texts(),
        "extract_lag_seconds": _seconds(standing.extract_lag),
        "load_lag_seconds": _seconds(standing.load_lag),
        "pending": standing.pending,
        "quarantined": standing.aside.rows,
        "reasons": list(standing.reasons),
        "extracted_at": _instant(standing.extracted_at),
        "loaded_at": _instant(standing.loaded_at),
        "failed_at": _instant(standing.failed_at),
        "last_run": _instant(standing.last_run),
        "next_try": _instant(standing.next_try),
        "schedule": schedule_of(one.stream.settings.schedule),
        "polled_at": _instant(standing.polled_at),
        "overdue": standing.overdue,
        "error": error_fields(one.error),
    }


def _instant(at: datetime | None) -> str | None:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if at else None


def _seconds(lag: timedelta | None) -> float | None:
    return None if lag is None else round(lag.total_seconds(), 3)
