"""How a stream stands: what its document, its settings and the notes of its server say together, and nothing else."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Final, Self

from syncd.horizon import Notes
from syncd.settings import StreamSettings
from syncd.tables.order_clock import PER_SECOND, Clock
from syncd.tables.sort_order import BY_KEY, WHOLE
from watermarks.cursor import START, Cursor, Kind
from watermarks.document import Stage, Watermark
from watermarks.progress import Strategy

NEVER: Final = "it has never read anything"
ADOPTED: Final = "it was taken over from what loaded it before, and has read nothing since"
_MICROSECONDS: Final = 1_000_000
SILENT_AFTER: Final = 2
"""So many intervals, and"""
GRACE: Final = timedelta(minutes=1)
"""so much on top, a source may go without a poll until that is said: passes may take a while."""


class Condition(StrEnum):
    """How a stream stands, in one word; the worst comes first."""

    UNREADABLE = "unreadable"
    """Its watermark cannot be believed: nothing goes on."""
    FAILED = "failed"
    """The last attempt of a stage ended in an error."""
    BLOCKED = "blocked"
    """So many batches wait to be loaded that no more are read."""
    ASIDE = "quarantined"
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
class Aside:
    """What lies in quarantine of a stream, and waits."""

    rows: int = 0
    files: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One stream at one moment."""

    condition: Condition
    mark: Cursor = START
    loaded_mark: Cursor = START
    in_lake: datetime | None = None
    """What was committed at the source before it is in the lake; None where no time says so."""
    complete: datetime | None = None
    """The same of the target; of the lake, where there is no target."""
    proven: bool = False
    extract_lag: timedelta | None = None
    """At most so far is the lake behind the source: a table in which nothing happens has an old mark too."""
    load_lag: timedelta | None = None
    """So far is the target behind the lake."""
    pending: int = 0
    aside: Aside = field(default_factory=Aside)
    extracted_at: datetime | None = None
    loaded_at: datetime | None = None
    failed_at: datetime | None = None
    next_try: datetime | None = None
    reasons: tuple[str, ...] = ()
    """Why it does not go on, or stands as it does."""
    polled_at: datetime | None = None
    """When its source was polled last, by whichever process left notes of that; None where none did."""
    overdue: bool = False
    """Whether that is so long ago that nobody seems to be at work on it."""

    @property
    def trouble(self) -> tuple[int, float]:
        """Sorts the worst first; of the same kind, the one that is furthest behind."""
        lags = [lag.total_seconds() for lag in (self.extract_lag, self.load_lag) if lag is not None]
        return list(Condition).index(self.condition), -sum(lags)

    @property
    def last_run(self) -> datetime | None:
        """The last run that did something, or failed."""
        return max((at for at in (self.extracted_at, self.loaded_at, self.failed_at) if at), default=None)

    @classmethod
    def of(
        cls,
        state: Watermark | None,
        settings: StreamSettings,
        *,
        zone: tzinfo | None,
        now: datetime,
        notes: Notes | None = None,
        aside: Aside | None = None,
    ) -> Self:
        """How a stream stands whose document could be read; None: it has none yet."""
        aside = aside or Aside()
        polled_at = (notes.here or notes.t0) if notes else None
        overdue = _is_overdue(state, settings, polled_at=polled_at, now=now)
        if state is None:
            return cls(condition=Condition.NEW, reasons=(NEVER,), aside=aside, polled_at=polled_at, overdue=overdue)
        half, loaded = state.chain, state.loaded
        pending = sum(1 for _ in half.ids(after=loaded.last)) if settings.target else 0
        in_lake = instant_of(half.cursor, settings, zone=zone)
        in_target = instant_of(loaded.cursor, settings, zone=zone)
        failures = tuple(state.failures.values())
        return cls(
            condition=_condition(state, settings, pending=pending, aside=aside),
            mark=half.cursor,
            loaded_mark=loaded.cursor,
            in_lake=in_lake,
            complete=in_target if settings.target else in_lake,
            proven=half.proven and not loaded.skipped,
            extract_lag=None if in_lake is None else max(now - in_lake, timedelta(0)),
            load_lag=_load_lag(in_lake, in_target, pending=pending, loads=settings.target is not None),
            pending=pending,
            aside=aside,
            extracted_at=half.at,
            loaded_at=loaded.at,
            failed_at=max((failure.at for failure in failures), default=None),
            next_try=min((failure.next_try for failure in failures if failure.next_try), default=None),
            reasons=tuple(_reasons(state, settings, notes, pending=pending, aside=aside)),
            polled_at=polled_at,
            overdue=overdue,
        )


def instant_of(mark: Cursor, settings: StreamSettings, *, zone: tzinfo | None) -> datetime | None:
    """The instant up to which a mark says that rows are complete; None where it tells no time, or nobody said which."""
    if not mark.values or settings.cursor in {BY_KEY, WHOLE}:
        return None
    first = mark.values[0]
    if first.kind is Kind.INT and settings.cursor_unit is not None:
        return Clock(kind=first.kind, per_second=PER_SECOND[settings.cursor_unit]).instant(first)
    if first.kind is Kind.INSTANT:
        return Clock(kind=first.kind, per_second=_MICROSECONDS).instant(first)
    if first.kind is Kind.WALL and zone is not None:
        return Clock(kind=first.kind, per_second=_MICROSECONDS, zone=zone).instant(first)
    return None


def _is_overdue(
    state: Watermark | None, settings: StreamSettings, *, polled_at: datetime | None, now: datetime
) -> bool:
    """Whether nobody has polled the source for longer than the schedule lets one expect.

    Nothing is said of a cron, nor of what is read without a poll, or by an account whose polls may leave no notes.
    """
    every = settings.schedule.every
    assumed = state is not None and state.chain.tally.batches > 0 and not state.chain.proven
    if polled_at is None or every is None or settings.cursor == WHOLE or assumed:
        return False
    return now - polled_at > SILENT_AFTER * every + GRACE


def _load_lag(in_lake: datetime | None, in_target: datetime | None, *, pending: int, loads: bool) -> timedelta | None:
    if not loads:
        return None
    if not pending:
        return timedelta(0)
    return None if in_lake is None or in_target is None else max(in_lake - in_target, timedelta(0))


def _condition(state: Watermark, settings: StreamSettings, *, pending: int, aside: Aside) -> Condition:
    half = state.chain
    if state.failures:
        return Condition.FAILED
    if pending >= settings.max_pending:
        return Condition.BLOCKED
    if aside.rows:
        return Condition.ASIDE
    if half.tally.batches == 0 and not _is_adopted(state):
        return Condition.NEW
    if half.snapshot is not None and not half.snapshot.done:
        return Condition.BEGINNING
    return Condition.LOADING if pending else Condition.CURRENT


def _is_adopted(state: Watermark) -> bool:
    """Whether all that it has was loaded by something else, and taken over."""
    return state.chain.tally.batches == 0 and state.loaded.cursor != START


def _reasons(
    state: Watermark, settings: StreamSettings, notes: Notes | None, *, pending: int, aside: Aside
) -> Iterator[str]:
    half, loaded = state.chain, state.loaded
    if half.tally.batches == 0 and not state.failures:
        yield ADOPTED if _is_adopted(state) else NEVER
    for stage, failure in state.failures.items():
        again = f", attempt {failure.attempt}" if failure.attempt > 1 else ""
        yield f"{stage} failed{again}: {failure.message}"
    if pending >= settings.max_pending:
        yield f"{pending:,} batches wait to be loaded (max_pending): no more are read"
    elif pending and Stage.LOAD not in state.failures:
        yield f"{pending:,} {'batch waits' if pending == 1 else 'batches wait'} to be loaded"
    if aside.rows:
        yield f"{aside.rows:,} {'row waits' if aside.rows == 1 else 'rows wait'} in quarantine"
    if half.snapshot is not None and not half.snapshot.done:
        reached = ", ".join(str(value.plain) for value in half.snapshot.reached.values)
        yield f"its first pass is at key {reached}"
    if half.strategy is Strategy.MANUAL and not _is_adopted(state):
        yield "its mark was set by hand, and nothing is read since (who and why: syncd watermark history)"
    if loaded.skipped:
        yield "left out by hand: " + ", ".join(
            f"batches behind {span.after} up to {span.upto}" for span in loaded.skipped
        )
    if (held := _held(notes, settings)) is not None:
        yield held


def _held(notes: Notes | None, settings: StreamSettings) -> str | None:
    """What held the server's horizon when it was polled last."""
    if notes is None or settings.cursor in {BY_KEY, WHOLE}:
        return None
    since = min((each for each in notes.writers.values() if each is not None), default=None)
    if since is None or notes.t0 - since <= settings.ahead_after:
        return None
    return f"at {notes.t0:%H:%M:%S} a transaction held the horizon, since {since:%Y-%m-%d %H:%M:%S} at the earliest"
