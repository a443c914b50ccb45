"""Status of a stream by its document, its settings and the notes of its server."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from itertools import islice
from typing import Any, Final, Self

from syncd.horizon import HorizonNotes
from syncd.settings import StreamSettings
from syncd.tables.order_clock import STEPS_PER_SECOND, OrderClock
from syncd.tables.sort_order import CURSOR_BY_KEY, CURSOR_NONE
from syncd.tables.table_identity import find_replacing_batch
from watermarks.batch import BatchId, Plan
from watermarks.cursor import START_CURSOR, Cursor, ValueKind
from watermarks.document import Stage, Watermark
from watermarks.errors import HintedError
from watermarks.progress import ExtractProgress, RunStrategy

MAX_PLANS_READ: Final = 16
"""Plans that are searched for a horizon: plans of reads by key, and of deletes, have none."""
NEVER_READ: Final = "nothing has been read yet"
IMPORTED_NOT_READ: Final = "it was imported from another tool, and nothing has been read since"
OVERDUE_AFTER_INTERVALS: Final = 2
OVERDUE_GRACE: Final = timedelta(minutes=1)
"""A source without a poll for so many intervals, and this grace for long passes, is overdue."""


class StreamCondition(StrEnum):
    """Condition of a stream; the worst comes first."""

    UNREADABLE = "unreadable"
    """Its watermark is not readable: both stages stop."""
    FAILED = "failed"
    """The last attempt of a stage ended in an error."""
    BLOCKED = "blocked"
    """No more is read, because too many batches wait to be loaded."""
    QUARANTINED = "quarantined"
    """Rows wait in quarantine."""
    NEW = "new"
    """It has never read anything."""
    BEGINNING = "beginning"
    """Its first pass is under way."""
    LOADING = "loading"
    """Batches are extracted and not loaded."""
    CURRENT = "current"
    """Everything that is extracted is loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineCount:
    """Rows in quarantine that wait for a replay, and their files."""

    rows: int = 0
    files: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatus:
    """Status of one stream at one moment."""

    condition: StreamCondition
    mark: Cursor = START_CURSOR
    loaded_mark: Cursor = START_CURSOR
    lake_complete_until: datetime | None = None
    """Everything committed at the source before this instant is in the lake; None where the order is no time."""
    complete_until: datetime | None = None
    """The same for the target, or for the lake if there is no target."""
    proven: bool = False
    extract_lag: timedelta | None = None
    """Upper bound for the lag of the lake: the mark of a table without changes is old, too."""
    load_lag: timedelta | None = None
    """Lag of the target behind the lake."""
    pending: int = 0
    quarantined: QuarantineCount = field(default_factory=QuarantineCount)
    extracted_at: datetime | None = None
    loaded_at: datetime | None = None
    failed_at: datetime | None = None
    retry_at: datetime | None = None
    reasons: tuple[str, ...] = ()
    """Reasons for the condition."""
    polled_at: datetime | None = None
    """When any process polled the source last; None where no notes tell."""
    is_overdue: bool = False
    """True if that is so long ago that no process seems to work on the stream."""

    @property
    def sort_key(self) -> tuple[int, float]:
        """Sort key: the worst condition first, then the largest lag."""
        lags = [lag.total_seconds() for lag in (self.extract_lag, self.load_lag) if lag is not None]
        return list(StreamCondition).index(self.condition), -sum(lags)

    @property
    def last_run_at(self) -> datetime | None:
        """The last run that moved a mark, or failed."""
        return max((at for at in (self.extracted_at, self.loaded_at, self.failed_at) if at), default=None)

    @classmethod
    def from_watermark(
        cls,
        state: Watermark | None,
        settings: StreamSettings,
        *,
        zone: tzinfo | None,
        now: datetime,
        notes: HorizonNotes | None = None,
        quarantined: QuarantineCount | None = None,
    ) -> Self:
        """Return the status of a stream; `state` is None if it has no document yet."""
        quarantined = quarantined or QuarantineCount()
        polled_at = (notes.local_time or notes.t0) if notes else None
        overdue = _is_overdue(state, settings, polled_at=polled_at, now=now)
        if state is None:
            return cls(
                condition=StreamCondition.NEW,
                reasons=(NEVER_READ,),
                quarantined=quarantined,
                polled_at=polled_at,
                is_overdue=overdue,
            )
        half, loaded = state.required_extract_progress, state.load_progress
        pending = sum(1 for _ in half.batch_ids(after=loaded.last_batch)) if settings.target else 0
        in_lake = cursor_to_instant(half.cursor, settings, zone=zone)
        in_target = cursor_to_instant(loaded.cursor, settings, zone=zone)
        failures = tuple(state.failures.values())
        return cls(
            condition=_find_condition(state, settings, pending=pending, quarantined=quarantined),
            mark=half.cursor,
            loaded_mark=loaded.cursor,
            lake_complete_until=in_lake,
            complete_until=in_target if settings.target else in_lake,
            proven=half.proven and not loaded.skipped_batches,
            extract_lag=None if in_lake is None else max(now - in_lake, timedelta(0)),
            load_lag=_load_lag(in_lake, in_target, pending=pending, loads=settings.target is not None),
            pending=pending,
            quarantined=quarantined,
            extracted_at=half.extracted_at,
            loaded_at=loaded.loaded_at,
            failed_at=max((failure.failed_at for failure in failures), default=None),
            retry_at=min((failure.retry_at for failure in failures if failure.retry_at), default=None),
            reasons=tuple(_describe_reasons(state, settings, notes, pending=pending, quarantined=quarantined)),
            polled_at=polled_at,
            is_overdue=overdue,
        )


def cursor_to_instant(mark: Cursor, settings: StreamSettings, *, zone: tzinfo | None) -> datetime | None:
    """Return the instant up to which a mark says that rows are complete; None where the order is no known time."""
    if not mark.values or settings.cursor in {CURSOR_BY_KEY, CURSOR_NONE}:
        return None
    first = mark.values[0]
    if first.kind is ValueKind.INT and settings.cursor_unit is not None:
        return OrderClock(kind=first.kind, steps_per_second=STEPS_PER_SECOND[settings.cursor_unit]).to_instant(first)
    return mark_to_instant(mark, zone=zone)


def mark_to_instant(mark: Cursor, *, zone: tzinfo | None) -> datetime | None:
    """Return the instant of a mark; None if its first value is no time, or a wall clock's of an unknown zone."""
    raw = mark.values[0].raw if mark.values else None
    if not isinstance(raw, datetime):
        return None
    if mark.values[0].kind is ValueKind.INSTANT:
        return raw
    return None if zone is None else raw.replace(tzinfo=zone).astimezone(UTC)


def latest_known(*instants: datetime | None) -> datetime | None:
    return max((instant for instant in instants if instant is not None), default=None)


def _is_overdue(
    state: Watermark | None, settings: StreamSettings, *, polled_at: datetime | None, now: datetime
) -> bool:
    """Return whether the last poll of the source is older than the schedule allows.

    Streams with a cron, without polls, or whose account may write no notes, are never overdue.
    """
    every = settings.schedule.every
    assumed = (
        state is not None
        and state.required_extract_progress.counts.batches > 0
        and not state.required_extract_progress.proven
    )
    if polled_at is None or every is None or settings.cursor == CURSOR_NONE or assumed:
        return False
    return now - polled_at > OVERDUE_AFTER_INTERVALS * every + OVERDUE_GRACE


def _load_lag(in_lake: datetime | None, in_target: datetime | None, *, pending: int, loads: bool) -> timedelta | None:
    if not loads:
        return None
    if not pending:
        return timedelta(0)
    return None if in_lake is None or in_target is None else max(in_lake - in_target, timedelta(0))


def _find_condition(
    state: Watermark, settings: StreamSettings, *, pending: int, quarantined: QuarantineCount
) -> StreamCondition:
    half = state.required_extract_progress
    if state.failures:
        return StreamCondition.FAILED
    if pending >= settings.max_pending:
        return StreamCondition.BLOCKED
    if quarantined.rows:
        return StreamCondition.QUARANTINED
    if half.counts.batches == 0 and not _is_imported(state):
        return StreamCondition.NEW
    if half.snapshot is not None and not half.snapshot.done:
        return StreamCondition.BEGINNING
    return StreamCondition.LOADING if pending else StreamCondition.CURRENT


def _is_imported(state: Watermark) -> bool:
    """Return whether another tool loaded all of its rows."""
    return state.required_extract_progress.counts.batches == 0 and state.load_progress.cursor != START_CURSOR


def _describe_reasons(
    state: Watermark,
    settings: StreamSettings,
    notes: HorizonNotes | None,
    *,
    pending: int,
    quarantined: QuarantineCount,
) -> Iterator[str]:
    half, loaded = state.required_extract_progress, state.load_progress
    if half.counts.batches == 0 and not state.failures:
        yield IMPORTED_NOT_READ if _is_imported(state) else NEVER_READ
    for stage, failure in state.failures.items():
        again = f", attempt {failure.attempt}" if failure.attempt > 1 else ""
        yield f"{stage} failed{again}: {failure.message}"
    if pending >= settings.max_pending:
        yield f"{pending:,} batches wait to be loaded (max_pending), so no more are read"
    elif pending and Stage.LOAD not in state.failures:
        yield f"{pending:,} {'batch waits' if pending == 1 else 'batches wait'} to be loaded"
    if quarantined.rows:
        yield f"{quarantined.rows:,} {'row waits' if quarantined.rows == 1 else 'rows wait'} in quarantine"
    if half.snapshot is not None and not half.snapshot.done:
        reached = ", ".join(str(value.raw) for value in half.snapshot.reached_key.values)
        yield f"its first pass is at key {reached}"
    if half.strategy is RunStrategy.MANUAL and not _is_imported(state):
        yield "its mark was set by hand, and nothing has been read since (who and why: syncd watermark history)"
    if loaded.skipped_batches:
        yield "skipped by an operator: " + ", ".join(
            f"batches after {span.after} up to {span.up_to}" for span in loaded.skipped_batches
        )
    if (held := _describe_hold(notes, settings)) is not None:
        yield held


def _describe_hold(notes: HorizonNotes | None, settings: StreamSettings) -> str | None:
    """Return what held the server's horizon at its last poll."""
    if notes is None or settings.cursor in {CURSOR_BY_KEY, CURSOR_NONE}:
        return None
    since = min((each for each in notes.first_stamps.values() if each is not None), default=None)
    if since is None or notes.t0 - since <= settings.ahead_after:
        return None
    return f"at {notes.t0:%H:%M:%S} a transaction held the horizon, since {since:%Y-%m-%d %H:%M:%S} at the earliest"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnprovenReason:
    """Why the completeness of a stream is not proven."""

    reason: str
    table_replaced_in: BatchId | None = None
    """The batch that found another table than those before it, if nothing else is in doubt."""


def find_unproven_reason(
    progress: ExtractProgress, read_plan: Callable[[BatchId], Plan | None]
) -> UnprovenReason | None:
    """Return why it is not certain that all rows up to the mark were read; None if it is, or the plans do not tell.

    It costs one request, and one more for each plan without a horizon.
    """
    if progress.proven:
        return None
    if progress.seq == 0:
        return UnprovenReason(reason="nothing has been read since the mark was set")
    try:
        body = _newest_plan_body(progress, read_plan)
    except HintedError as error:  # the caller has its answer; this is only the reason for it
        return UnprovenReason(reason=f"its plans cannot be read: {error.message}")
    horizon: Mapping[str, Any] = body.get("horizon") or {}
    doubt = "" if horizon.get("proven", True) else str(horizon.get("reason", "")).removeprefix("not proven: ")
    replaced_in = find_replacing_batch(body)
    replaced = f"the table was replaced before batch {replaced_in}" if replaced_in else ""
    reason = "; ".join(filter(None, (replaced, doubt)))
    return UnprovenReason(reason=reason, table_replaced_in=None if doubt else replaced_in) if reason else None


def _newest_plan_body(progress: ExtractProgress, read_plan: Callable[[BatchId], Plan | None]) -> Mapping[str, Any]:
    """Return the body of the newest plan that has a horizon."""
    newest = progress.batch_ids_newest_first(up_to=progress.last_batch, after=BatchId(progress.generation, 0))
    for batch in islice(newest, MAX_PLANS_READ):
        plan = read_plan(batch)
        if plan is not None and plan.draft.body.get("horizon"):
            return plan.draft.body
    return {}
