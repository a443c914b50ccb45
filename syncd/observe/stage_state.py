"""How one stage of a stream stands, kept up by events."""

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from syncd.events import PassBegan, PassEnded, PassHeldBack
from syncd.observe.board_view import Complete, StageSeen, State, Trouble
from syncd.observe.rate import Rate
from watermarks.cursor import Cursor
from watermarks.document import Stage
from watermarks.errors import HintedError

LAGS: Final = 60
"""So many points has the line that shows lag."""
LONGEST_TEXT: Final = 500
"""Characters of an error or a reason: what is longer tells nobody more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An instant for people, and the seconds of this machine's clock that only rises."""

    at: datetime
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What was committed before an instant is there, as was known at a moment."""

    upto: datetime
    proven: bool
    known: Moment

    def behind(self, now: Moment) -> timedelta:
        """How far that is behind by now; a step of the host's clock since it was known counts for nothing."""
        then = max(self.known.at - self.upto, timedelta(0))
        return then + timedelta(seconds=now.seconds - self.known.seconds)


def short(text: str) -> str:
    """A text of somebody else's, cut where it is endless."""
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


@dataclass(slots=True)
class StageStanding:
    """One stage of a stream; its fields are those of `StageSeen`, and change in place: events come by the thousand."""

    stage: Stage
    rate: Rate
    state: State = State.NEW
    running: bool = False
    strategy: str = ""
    began_at: datetime | None = None
    rows_so_far: int = 0
    why: str = ""
    until: datetime | None = None
    trouble: Trouble | None = None
    next: datetime | None = None
    last: datetime | None = None
    last_good: datetime | None = None
    mark: Cursor | None = None
    reached: Reached | None = None
    lags: deque[float | None] = field(default_factory=lambda: deque[float | None](maxlen=LAGS))

    def due(self, at: datetime) -> None:
        if self.state is State.HELD_BACK:
            self.state = State.NEW if self.last is None else State.IDLE
        self.next, self.until = at, None

    def held_back(self, event: PassHeldBack) -> None:
        self.state = State.FAILED if self.trouble else State.HELD_BACK
        self.running, self.why = False, short(event.reason)
        self.until = self.next = event.until

    def began(self, event: PassBegan, now: Moment) -> None:
        self.state = State.FAILED if self.trouble else State.RUNNING
        self.running, self.began_at, self.strategy = True, now.at, str(event.strategy)
        self.next, self.until, self.rows_so_far = None, None, 0

    def ended(self, event: PassEnded, now: Moment) -> None:
        self.running, self.began_at, self.rows_so_far = False, None, 0
        self.last = now.at
        if event.cut:
            self.why, self.state = short(event.reason), State.FAILED if self.trouble else State.WAITING
        elif event.error is None:
            self.trouble, self.last_good, self.why = None, now.at, short(event.reason)
            self.state = State.WAITING if self.why else State.IDLE
        else:
            self.trouble, self.why, self.state = self._trouble(event.error, now), "", State.FAILED
        if event.mark:
            self.mark = event.mark

    def reach(self, upto: datetime, *, proven: bool, now: Moment) -> None:
        if self.reached is None or upto >= self.reached.upto:
            self.reached = Reached(upto=upto, proven=proven, known=now)

    def sample(self, now: Moment) -> None:
        """Remember how far it is behind by now."""
        self.lags.append(None if self.reached is None else self.reached.behind(now).total_seconds())

    def seen(self, now: Moment) -> StageSeen:
        reached, complete = self.reached, None
        if reached is not None:
            complete = Complete(upto=reached.upto, proven=reached.proven, behind=reached.behind(now))
        return StageSeen(
            stage=self.stage,
            state=self.state,
            running=self.running,
            strategy=self.strategy,
            began=self.began_at,
            rows_so_far=self.rows_so_far,
            why=self.why,
            until=self.until,
            trouble=self.trouble,
            next=self.next,
            last=self.last,
            last_good=self.last_good,
            complete=complete,
            mark=self.mark,
            rows_a_second=self.rate.a_second(now.seconds),
            lags=tuple(self.lags),
        )

    def _trouble(self, error: HintedError, now: Moment) -> Trouble:
        before = self.trouble
        return Trouble(
            message=short(error.message),
            hint=short(error.hint),
            since=before.since if before else now.at,
            times=before.times + 1 if before else 1,
        )
