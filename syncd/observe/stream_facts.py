"""What events have told of one stream so far: what fails, what it waits for, and how far its target is complete."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, Self, TypeVar

from syncd.events import (
    BatchesLanded,
    Event,
    LandingRetried,
    PassBegan,
    PassEnded,
    PassHeldBack,
)
from syncd.lake.completion_markers import tells_of_target
from syncd.observe.causes import Cause, is_lock, of_error, of_reason
from watermarks.document import Stage

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An instant for people, and the seconds of this machine's clock that only rises."""

    at: datetime
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """Each pass of a stage ends in an error since a moment; this is the newest one."""

    since: Moment
    cause: Cause
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What was committed before an instant is there, as was known at a moment."""

    upto: datetime
    known: Moment

    def behind(self, now: Moment) -> timedelta:
        """How far this is behind by now; a step of the clock since it was known counts for nothing."""
        then = max(self.known.at - self.upto, timedelta(0))
        return then + timedelta(seconds=now.seconds - self.known.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One stream, as far as events have told."""

    since: Moment
    """When we began to listen."""
    has_target: bool
    failing: Mapping[Stage, Failing] = field(default_factory=dict[Stage, Failing])
    held_back: Mapping[Stage, str] = field(default_factory=dict[Stage, str])
    at_work: frozenset[Stage] = frozenset()
    reason: str = ""
    """Why the last extraction read no further."""
    pending: int = 0
    locked: bool = False
    """Whether the last landing was tried again because another transaction was in the way."""
    elsewhere: frozenset[Stage] = frozenset()
    """What another process works on, as far as we were told."""
    extracted: Reached | None = None
    complete: Reached | None = None
    """Of the target; of the lake where there is none."""

    def after(self, event: Event, now: Moment) -> Self:
        """What is known with one more event."""
        match event:
            case PassBegan():
                return replace(self, at_work=self.at_work | {event.stage}, held_back=_less(self.held_back, event.stage))
            case PassHeldBack():
                return replace(self, held_back=_more(self.held_back, event.stage, event.reason))
            case LandingRetried():
                return replace(self, locked=is_lock(event.error))
            case BatchesLanded():
                return replace(self, locked=False)
            case PassEnded():
                return self._ended(event, now)
            case _:
                return self

    def _ended(self, event: PassEnded, now: Moment) -> Self:
        if event.cut:
            return replace(self._with_reach(event, now), at_work=self.at_work - {event.stage})
        stage, cause = event.stage, of_reason(event.reason) if event.error is None else of_error(event.error)
        elsewhere = cause is Cause.OTHER_OWNER
        failing = _less(self.failing, stage)
        if event.error is not None and cause is not None and not elsewhere:
            failing = _more(self.failing, stage, self._failing(event, cause, now))
        return replace(
            self._with_reach(event, now),
            failing=failing,
            held_back=_less(self.held_back, stage),
            at_work=self.at_work - {stage},
            reason=event.reason if stage is Stage.EXTRACT else self.reason,
            pending=event.pending,
            locked=cause is Cause.WAREHOUSE_LOCKED if stage is Stage.LOAD else self.locked,
            elsewhere=self.elsewhere | {stage} if elsewhere else self.elsewhere - {stage},
        )

    def _failing(self, event: PassEnded, cause: Cause, now: Moment) -> Failing:
        assert event.error is not None
        before = self.failing.get(event.stage)
        since = before.since if before is not None and before.cause is cause else now
        return Failing(since=since, cause=cause, message=event.error.message, hint=event.error.hint)

    def _with_reach(self, event: PassEnded, now: Moment) -> Self:
        if event.complete is None:
            return self
        reached = Reached(upto=event.complete, known=now)
        told = self
        if event.stage is Stage.EXTRACT:
            told = replace(told, extracted=_newer(self.extracted, reached))
        if tells_of_target(event, has_target=self.has_target):
            told = replace(told, complete=_newer(self.complete, reached))
        return told


def _newer(before: Reached | None, now: Reached) -> Reached:
    return before if before is not None and before.upto > now.upto else now


def _more(kept: Mapping[Stage, T], stage: Stage, value: T) -> Mapping[Stage, T]:
    return MappingProxyType({**kept, stage: value})


def _less(kept: Mapping[Stage, T], stage: Stage) -> Mapping[Stage, T]:
    return MappingProxyType({each: value for each, value in kept.items() if each is not stage})


_BOTH: Final = (Stage.LOAD, Stage.EXTRACT)


def why_stale(facts: Facts, *, within: timedelta, now: Moment) -> Cause:
    """What keeps a target from being as fresh as was promised: what fails, then the stage that is behind."""
    failing = next((facts.failing[stage].cause for stage in _BOTH if stage in facts.failing), None)
    if failing is not None or facts.elsewhere:
        return failing or Cause.OTHER_OWNER
    read = facts.extracted
    is_read = read is not None and read.behind(now) <= within
    loads, extracts = _of_load(facts), _of_extract(facts)
    return (loads if is_read else None) or extracts or loads or Cause.UNKNOWN


def _of_load(facts: Facts) -> Cause | None:
    if not facts.has_target:
        return None
    if facts.locked:
        return Cause.WAREHOUSE_LOCKED
    return Cause.LOAD_QUEUE if facts.pending or Stage.LOAD in facts.held_back else None


def _of_extract(facts: Facts) -> Cause | None:
    held_back = facts.held_back.get(Stage.EXTRACT)
    named = of_reason(facts.reason) or (of_reason(held_back) if held_back else None)
    if named is not None:
        return named
    return Cause.EXTRACT_QUEUE if held_back or Stage.EXTRACT in facts.at_work else None
