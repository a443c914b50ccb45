"""Live state of one stage of a stream, built from events."""

from collections import deque
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from syncd.error_classes import IncidentCause, classify_error
from syncd.events import BatchesLoaded, BatchExtracted, ClockReading, PassEnded, PassHeldBack, PassStarted
from syncd.observe.board_view import CompletenessView, StageFailure, StageState, StageView
from syncd.observe.causes import classify_reason
from watermarks.document import Stage
from watermarks.errors import HintedError

MAX_LAG_POINTS: Final = 60
MAX_TEXT_CHARS: Final = 500
"""Longer errors and reasons are cut on pages."""
RATE_BUCKET_SECONDS: Final = 30.0
RATE_BUCKETS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCompleteness:
    """Instant up to which everything committed at the source is present, with the moment it became known."""

    upto: datetime
    is_proven: bool
    known_at: ClockReading

    def lag(self, now: ClockReading) -> timedelta:
        """Return the lag now; a step of the host's clock since then does not count."""
        then = max(self.known_at.wall - self.upto, timedelta(0))
        return then + timedelta(seconds=now.seconds_since(self.known_at))


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingFailure:
    """Failed passes in a row; the error is that of the last one."""

    error: HintedError
    cause: IncidentCause
    since: ClockReading
    cause_since: ClockReading
    """Time when the first pass in a row with this cause ended."""
    times: int = 1

    def followed_by(self, error: HintedError, now: ClockReading) -> "OngoingFailure":
        cause = classify_error(error)
        since = self.cause_since if cause is self.cause else now
        return OngoingFailure(error=error, cause=cause, since=self.since, cause_since=since, times=self.times + 1)


class StageTracker:
    """State of one stage."""

    def __init__(self, stage: Stage, now: ClockReading) -> None:
        self._seen = StageView(stage=stage)
        self._throughput = ThroughputMeter(now.monotonic)
        self._lags = deque[float | None](maxlen=MAX_LAG_POINTS)
        self.failure: OngoingFailure | None = None
        self.completeness: StageCompleteness | None = None
        self.pass_reason = ""
        """Reason for which the last pass read no further."""
        self.held_reason = ""
        """Reason for which a due pass does not run."""
        self.is_owned_elsewhere = False
        """True if another process has the stage, as the last pass found."""

    @property
    def is_running(self) -> bool:
        return self._seen.running

    def on_pass_due(self, due_at: datetime) -> None:
        seen = self._seen
        if seen.state is StageState.HELD_BACK:
            seen = replace(seen, state=StageState.NEW if seen.last_ended_at is None else StageState.IDLE)
        self._seen = replace(seen, next_due_at=due_at, held_until=None)

    def on_held_back(self, event: PassHeldBack) -> None:
        self.held_reason = event.reason
        self._seen = replace(
            self._seen,
            state=self._failed_or(StageState.HELD_BACK),
            running=False,
            waiting_reason=truncate_text(event.reason),
            held_until=event.until,
            next_due_at=event.until,
        )

    def on_pass_started(self, event: PassStarted, now: ClockReading) -> None:
        self.held_reason = ""
        self._seen = replace(
            self._seen,
            state=self._failed_or(StageState.RUNNING),
            running=True,
            began_at=now.wall,
            strategy=str(event.strategy),
            next_due_at=None,
            held_until=None,
            rows_so_far=0,
        )

    def on_rows_read(self, rows: int) -> None:
        self._seen = replace(self._seen, rows_so_far=rows)

    def on_batch(self, event: BatchExtracted | BatchesLoaded, now: ClockReading) -> None:
        self._seen = replace(self._seen, mark=event.mark, rows_so_far=0)
        self._throughput.add(event.rows, now.monotonic)

    def on_pass_ended(self, event: PassEnded, now: ClockReading) -> None:
        self._seen = seen = replace(
            self._seen,
            running=False,
            began_at=None,
            rows_so_far=0,
            last_ended_at=now.wall,
            mark=event.mark or self._seen.mark,
        )
        reason = truncate_text(event.reason)
        if event.interrupted:
            self._seen = replace(seen, waiting_reason=reason, state=self._failed_or(StageState.WAITING))
            return
        cause = classify_reason(event.reason) if event.error is None else classify_error(event.error)
        self.pass_reason, self.held_reason = event.reason, ""
        self.is_owned_elsewhere = cause is IncidentCause.OTHER_OWNER
        if event.error is not None:
            self.failure = self._next_failure(event.error, now)
            self._seen = replace(seen, waiting_reason="", state=StageState.FAILED)
        else:
            self.failure = None
            state = StageState.WAITING if reason else StageState.IDLE
            self._seen = replace(seen, last_success_at=now.wall, waiting_reason=reason, state=state)

    def advance_completeness(self, upto: datetime, *, proven: bool, now: ClockReading) -> None:
        if self.completeness is None or upto >= self.completeness.upto:
            self.completeness = StageCompleteness(upto=upto, is_proven=proven, known_at=now)

    def sample_lag(self, now: ClockReading) -> None:
        self._lags.append(None if self.completeness is None else self.completeness.lag(now).total_seconds())

    def view(self, now: ClockReading) -> StageView:
        known, failing = self.completeness, self.failure
        return replace(
            self._seen,
            complete=CompletenessView(upto=known.upto, is_proven=known.is_proven, lag=known.lag(now))
            if known
            else None,
            failure=StageFailure(
                message=truncate_text(failing.error.message),
                hint=truncate_text(failing.error.hint),
                since=failing.since.wall,
                times=failing.times,
            )
            if failing
            else None,
            rows_per_second=self._throughput.per_second(now.monotonic),
            lag_seconds=tuple(self._lags),
        )

    def _failed_or(self, state: StageState) -> StageState:
        return StageState.FAILED if self.failure else state

    def _next_failure(self, error: HintedError, now: ClockReading) -> OngoingFailure:
        if self.failure is not None:
            return self.failure.followed_by(error, now)
        return OngoingFailure(error=error, cause=classify_error(error), since=now, cause_since=now)


class ThroughputMeter:
    """Average rate over the last minutes, counted in buckets."""

    def __init__(self, started_at: float) -> None:
        self._started_at = started_at
        self._buckets = deque[tuple[float, float]](maxlen=RATE_BUCKETS)
        """Number of each bucket, and the amount in it."""

    def add(self, amount: float, now: float) -> None:
        number = now // RATE_BUCKET_SECONDS
        if self._buckets and self._buckets[-1][0] == number:
            amount += self._buckets.pop()[1]
        self._buckets.append((number, amount))

    def per_second(self, now: float) -> float:
        oldest = now // RATE_BUCKET_SECONDS - RATE_BUCKETS + 1
        counted = sum(amount for number, amount in self._buckets if number >= oldest)
        began = max(oldest * RATE_BUCKET_SECONDS, self._started_at)
        return counted / max(now - began, RATE_BUCKET_SECONDS)


def truncate_text(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[:MAX_TEXT_CHARS]}…"
