"""A lane: one stage of one stream, when it is due, and how its last passes went."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from syncd.daemon.due_queue import Agenda
from syncd.daemon.failure_policy import Trouble
from syncd.daemon.schedule import Trigger
from syncd.settings import StreamSettings
from watermarks.batch import BatchId
from watermarks.cursor import START, Cursor
from watermarks.document import Stage
from watermarks.errors import HintedError
from watermarks.names import StreamName
from watermarks.progress import ORIGIN, Strategy


class Now(NamedTuple):
    """One moment on both clocks."""

    mono: float
    """Seconds that only rise, while the host sleeps too."""
    wall: datetime


class LaneKey(NamedTuple):
    """What names a lane."""

    stream: StreamName
    stage: Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """What one pass came to, whichever stage it was of."""

    state: str
    batches: int = 0
    rows: int = 0
    seconds: float = 0.0
    mark: Cursor = START
    last: BatchId = ORIGIN
    complete: datetime | None = None
    proven: bool = False
    pending: int = 0
    reason: str = ""
    error: HintedError | None = None
    more: bool = False
    """Whether it took all that it was allowed to, so that there may be more."""


@dataclass(slots=True, kw_only=True, eq=False)
class Lane:
    """One stage of one stream. Whoever decides about turns changes it, and nobody else."""

    key: LaneKey
    settings: StreamSettings
    sides: tuple[str, ...]
    """What it needs, in the words in which one speaks of it; the first one has a number of places."""
    agenda: Agenda
    """Hears of every change of `due`."""
    regular: float
    """When it is due by its schedule, whatever happens before; on the clock that only rises."""
    trigger: Trigger | None = None
    """Of a cron."""
    at: datetime | None = None
    """Of a cron: when it is due by the wall; at work, the first time since its pass began."""
    began: float | None = None
    """Since when it is at work."""
    passed_at: float | None = None
    """When its last pass began."""
    done: float = float("-inf")
    """When the last of its passes that are over began."""
    follows: bool = False
    """Whether it only goes on with what its last pass left: then those who wait for their turn come first."""
    again: bool = False
    """Whether something came while it was at work."""
    ending: bool = False
    """Whether it was told to come to an end."""
    failures: int = 0
    trouble: Trouble | None = None
    """Of its last pass."""
    owner: str = ""
    """Of the stage, where that is another process."""
    many: bool = False
    """Whether its last pass had much to read."""
    strategy: Strategy = Strategy.SEQUENTIAL
    """Of the pass that is at work, or was last."""
    said: str = ""
    """Why it is held back, as it was told last."""
    _due: float = float("inf")

    def __post_init__(self) -> None:
        self.due = self.regular

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def due(self) -> float:
        """When it is to have its next pass, on the clock that only rises."""
        return self._due

    @due.setter
    def due(self, at: float) -> None:
        self._due = at
        self.agenda.note(self)

    @property
    def stage(self) -> Stage:
        return self.key.stage

    @property
    def order(self) -> tuple[bool, int, float]:
        """Who comes first where several wait for one place."""
        return self.follows, -self.settings.schedule.priority, self.due

    @property
    def tries_again(self) -> bool:
        """Whether its next pass is another try, and not the one of its schedule."""
        return self.failures > 0 or self.due < self.regular

    def waits(self, now: float) -> bool:
        """Whether it is due and not at work."""
        return self.began is None and self.due <= now
