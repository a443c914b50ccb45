"""How one stage of a stream stands, kept up by events."""

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from syncd.events import PassBegan, PassEnded, PassHeldBack
from syncd.observe.board_view import CompletenessView, StageFailure, StageState, StageView
from syncd.observe.rate import ThroughputMeter
from watermarks.cursor import Cursor
from watermarks.document import Stage
from watermarks.errors import HintedError

MAX_LAG_POINTS: Final = 60
"""So many points has the line that shows lag."""
MAX_TEXT_CHARS: Final = 500
"""Characters of an error or a reason: what is longer tells nobody more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationTime:
    """An instant for people, and the seconds of this machine's clock that only rises."""

    at: datetime
    monotonic: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCompleteness:
    """What was committed before an instant is there, as was known at a moment."""

    upto: datetime
    is_proven: bool
    known_at: ObservationTime

    def lag(self, now: ObservationTime) -> timedelta:
        """How far that is behind by now; a step of the host's clock since it was known counts for nothing."""
        then = max(self.known_at.at - self.upto, timedelta(0))
        return then + timedelta(seconds=now.monotonic - self.known_at.monotonic)


def truncate_text(text: str) -> str:
    """A text of somebody else's, cut where it is endless."""
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[:MAX_TEXT_CHARS]}…"


@dataclass(slots=True)
class StageTracker:
    """One stage of a stream; its fields are those of `StageSeen`, and change in place: events come by the thousand."""

    stage: Stage
    throughput: ThroughputMeter
    state: StageState = StageState.NEW
    running: bool = False
    strategy: str = ""
    began_at: datetime | None = None
    rows_so_far: int = 0
    waiting_reason: str = ""
    held_until: datetime | None = None
    failure: StageFailure | None = None
    next_due_at: datetime | None = None
    last_ended_at: datetime | None = None
    last_success_at: datetime | None = None
    mark: Cursor | None = None
    completeness: StageCompleteness | None = None
    lag_seconds: deque[float | None] = field(default_factory=lambda: deque[float | None](maxlen=MAX_LAG_POINTS))

    def on_pass_due(self, due_at: datetime) -> None:
        if self.state is StageState.HELD_BACK:
            self.state = StageState.NEW if self.last_ended_at is None else StageState.IDLE
        self.next_due_at, self.held_until = due_at, None

    def on_held_back(self, event: PassHeldBack) -> None:
        self.state = StageState.FAILED if self.failure else StageState.HELD_BACK
        self.running, self.waiting_reason = False, truncate_text(event.reason)
        self.held_until = self.next_due_at = event.until

    def on_pass_began(self, event: PassBegan, now: ObservationTime) -> None:
        self.state = StageState.FAILED if self.failure else StageState.RUNNING
        self.running, self.began_at, self.strategy = True, now.at, str(event.strategy)
        self.next_due_at, self.held_until, self.rows_so_far = None, None, 0

    def on_pass_ended(self, event: PassEnded, now: ObservationTime) -> None:
        self.running, self.began_at, self.rows_so_far = False, None, 0
        self.last_ended_at = now.at
        if event.cut:
            self.waiting_reason, self.state = (
                truncate_text(event.reason),
                StageState.FAILED if self.failure else StageState.WAITING,
            )
        elif event.error is None:
            self.failure, self.last_success_at, self.waiting_reason = None, now.at, truncate_text(event.reason)
            self.state = StageState.WAITING if self.waiting_reason else StageState.IDLE
        else:
            self.failure, self.waiting_reason, self.state = self._next_failure(event.error, now), "", StageState.FAILED
        if event.mark:
            self.mark = event.mark

    def advance_completeness(self, upto: datetime, *, proven: bool, now: ObservationTime) -> None:
        if self.completeness is None or upto >= self.completeness.upto:
            self.completeness = StageCompleteness(upto=upto, is_proven=proven, known_at=now)

    def sample_lag(self, now: ObservationTime) -> None:
        """Remember how far it is behind by now."""
        self.lag_seconds.append(None if self.completeness is None else self.completeness.lag(now).total_seconds())

    def view(self, now: ObservationTime) -> StageView:
        reached, complete = self.completeness, None
        if reached is not None:
            complete = CompletenessView(upto=reached.upto, is_proven=reached.is_proven, lag=reached.lag(now))
        return StageView(
            stage=self.stage,
            state=self.state,
            running=self.running,
            strategy=self.strategy,
            began_at=self.began_at,
            rows_so_far=self.rows_so_far,
            waiting_reason=self.waiting_reason,
            held_until=self.held_until,
            failure=self.failure,
            next_due_at=self.next_due_at,
            last_ended_at=self.last_ended_at,
            last_success_at=self.last_success_at,
            complete=complete,
            mark=self.mark,
            rows_per_second=self.throughput.per_second(now.monotonic),
            lag_seconds=tuple(self.lag_seconds),
        )

    def _next_failure(self, error: HintedError, now: ObservationTime) -> StageFailure:
        before = self.failure
        return StageFailure(
            message=truncate_text(error.message),
            hint=truncate_text(error.hint),
            since=before.since if before else now.at,
            times=before.times + 1 if before else 1,
        )
