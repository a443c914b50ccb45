"""How one stream stands, kept up by events; memory for it is bounded, however long it runs."""

from collections import deque
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from syncd.events import (
    BatchAbandoned,
    BatchesLanded,
    BatchExtracted,
    ColumnIncomplete,
    Event,
    LandingRetried,
    LedgerBehind,
    OrphansSwept,
    PassBegan,
    PassDue,
    PassEnded,
    PassHeldBack,
    RowsArrived,
    RowsPutAside,
    TableRemade,
)
from syncd.observe.board_view import Ended, Mood, Moved, Noticed, StageSeen, State, StreamSeen
from syncd.observe.rate import Rate
from syncd.observe.stage_state import Moment, StageStanding, short
from watermarks.document import Stage
from watermarks.names import StreamName

KEPT: Final = 20
"""So many runs and batches of a stream are remembered."""
NOTICES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A stream that is configured."""

    stream: StreamName
    target: str = ""
    """The table in the warehouse; empty where there is none."""
    every: str = ""
    promised: timedelta | None = None


class Standing:
    """One stream."""

    def __init__(self, listed: Listed, now: Moment) -> None:
        self.listed = listed
        stages = (Stage.EXTRACT, Stage.LOAD)
        self._stages = {stage: StageStanding(stage, Rate(now.seconds)) for stage in stages}
        self._pending = 0
        self._quarantined = 0
        self._runs = deque[Ended](maxlen=KEPT)
        self._batches = deque[Moved](maxlen=KEPT)
        self._notices = deque[Noticed](maxlen=NOTICES)

    def hear(self, event: Event, now: Moment) -> Ended | Moved | None:
        """Take an event in; what all streams' list of what went on should have of it is given back."""
        match event:
            case PassDue():
                self._stages[event.stage].due(event.at)
            case PassHeldBack():
                self._stages[event.stage].held_back(event)
            case PassBegan():
                self._stages[event.stage].began(event, now)
            case RowsArrived():
                self._stages[Stage.EXTRACT].rows_so_far = event.rows
            case PassEnded():
                return self._ended(event, now)
            case BatchExtracted() | BatchesLanded():
                return self._moved(event, now)
            case _:
                self._noticed(event, now)
        return None

    def sample(self, now: Moment) -> None:
        for each in self._at_work():
            each.sample(now)

    def seen(self, now: Moment) -> StreamSeen:
        stages = tuple(each.seen(now) for each in self._at_work())
        return StreamSeen(
            stream=self.listed.stream,
            target=self.listed.target,
            every=self.listed.every,
            promised=self.listed.promised,
            mood=mood_of(stages, self.listed.promised),
            stages=stages,
            pending=self._pending if self.listed.target else 0,
            quarantined=self._quarantined,
            runs=tuple(reversed(self._runs)),
            batches=tuple(reversed(self._batches)),
            notices=tuple(reversed(self._notices)),
        )

    def _at_work(self) -> tuple[StageStanding, ...]:
        stages = tuple(self._stages.values())
        return stages if self.listed.target else stages[:1]

    def _ended(self, event: PassEnded, now: Moment) -> Ended | None:
        extract, load = self._stages[Stage.EXTRACT], self._stages[Stage.LOAD]
        self._stages[event.stage].ended(event, now)
        if event.error is None and not event.cut:
            self._pending = event.pending
        if event.complete is not None:
            mine = extract if event.stage is Stage.EXTRACT else load
            mine.reach(event.complete, proven=event.proven, now=now)
            if event.stage is Stage.EXTRACT and event.pending == 0:
                # All that was extracted is loaded: what the lake has, the target has.
                load.reach(event.complete, proven=event.proven, now=now)
        return self._run(event, now)

    def _run(self, event: PassEnded, now: Moment) -> Ended | None:
        run = Ended(
            stage=event.stage,
            at=now.at,
            state=event.state,
            batches=event.batches,
            rows=event.rows,
            seconds=event.seconds,
            reason=short(event.reason),
            error=short(event.error.message) if event.error else "",
        )
        before = next((one for one in reversed(self._runs) if one.stage is run.stage), None)
        if before is not None and _same(before, run):
            # Passes that find nothing would soon be all that is remembered.
            self._runs.remove(before)
            run = replace(run, times=before.times + 1)
        self._runs.append(run)
        return run if run.batches or (run.error and run.times == 1) else None

    def _moved(self, event: BatchExtracted | BatchesLanded, now: Moment) -> Moved:
        extracts = isinstance(event, BatchExtracted)
        stage = self._stages[Stage.EXTRACT if extracts else Stage.LOAD]
        stage.mark = event.mark
        stage.rate.add(event.rows, now.seconds)
        moved = Moved(
            stage=stage.stage,
            at=now.at,
            batch=str(event.batch if isinstance(event, BatchExtracted) else event.first),
            last=str(event.batch if isinstance(event, BatchExtracted) else event.last),
            kind=event.kind if isinstance(event, BatchExtracted) else "landed",
            rows=event.rows,
            files=event.files,
            bytes=event.bytes if isinstance(event, BatchExtracted) else None,
            quarantined=event.quarantined if isinstance(event, BatchExtracted) else 0,
            seconds=event.seconds,
            mark=event.mark,
        )
        self._quarantined += moved.quarantined
        if extracts:
            self._pending += 1
            stage.rows_so_far = 0
        self._batches.append(moved)
        return moved

    def _noticed(self, event: Event, now: Moment) -> None:
        if isinstance(event, RowsPutAside):
            self._quarantined += event.rows
        if text := noticed(event):
            self._notices.append(Noticed(at=now.at, text=short(text)))


def noticed(event: Event) -> str:  # noqa: PLR0911  # a case each
    """What a reader should know of an event that is neither a pass nor a batch; empty where it is nothing."""
    match event:
        case LandingRetried():
            return f"tried to land again after {event.seconds:.1f} s: {event.error}"
        case LedgerBehind():
            return f"the warehouse had lost batches that were loaded: {event.batches} landed again"
        case RowsPutAside():
            return f"rows of batch {event.batch} are in quarantine: {event.rows}, the first because {event.reason}"
        case ColumnIncomplete() | TableRemade():
            return event.said
        case BatchAbandoned():
            return f"batch {event.batch} was planned for a world that is gone: abandoned, planned anew"
        case OrphansSwept():
            return f"files of earlier attempts removed: {event.files}"
        case _:
            return ""


def mood_of(stages: tuple[StageSeen, ...], promised: timedelta | None) -> Mood:
    """How a stream stands as a whole: as its worst stage does."""
    states = {each.state for each in stages}
    complete = stages[-1].complete
    if State.FAILED in states:
        return Mood.FAILED
    if promised is not None and complete is not None and complete.behind > promised:
        return Mood.LATE
    for state, mood in _MOODS:
        if state in states:
            return mood
    return Mood.NEW if states == {State.NEW} else Mood.IDLE


_MOODS: Final = (
    (State.HELD_BACK, Mood.HELD_BACK),
    (State.WAITING, Mood.WAITING),
    (State.RUNNING, Mood.RUNNING),
)


def _same(before: Ended, run: Ended) -> bool:
    """Whether a pass says nothing that the one before did not say."""
    alike = (before.state, before.reason, before.error) == (run.state, run.reason, run.error)
    return alike and not before.batches and not run.batches
