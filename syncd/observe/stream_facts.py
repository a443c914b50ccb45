"""What events have told of one stream so far: what fails, what it waits for, and how far its target is complete."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, Self, TypeVar

from syncd.events import (
    BatchesLoaded,
    LoadRetried,
    PassBegan,
    PassEnded,
    PassHeldBack,
    StreamEvent,
)
from syncd.lake.completion_markers import describes_target
from syncd.observe.causes import IncidentCause, classify_error, classify_reason, is_lock_conflict
from watermarks.document import Stage

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """An instant for people, and the seconds of this machine's clock that only rises."""

    at: datetime
    monotonic: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingFailure:
    """Each pass of a stage ends in an error since a moment; this is the newest one."""

    since: EventTime
    cause: IncidentCause
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletenessFact:
    """What was committed before an instant is there, as was known at a moment."""

    upto: datetime
    known_at: EventTime

    def lag(self, now: EventTime) -> timedelta:
        """How far this is behind by now; a step of the clock since it was known counts for nothing."""
        then = max(self.known_at.at - self.upto, timedelta(0))
        return then + timedelta(seconds=now.monotonic - self.known_at.monotonic)


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentFacts:
    """One stream, as far as events have told."""

    since: EventTime
    """When we began to listen."""
    has_target: bool
    failing: Mapping[Stage, OngoingFailure] = field(default_factory=dict[Stage, OngoingFailure])
    held_back: Mapping[Stage, str] = field(default_factory=dict[Stage, str])
    running: frozenset[Stage] = frozenset()
    extract_reason: str = ""
    """Why the last extraction read no further."""
    pending_batches: int = 0
    is_lock_conflict: bool = False
    """Whether the last landing was tried again because another transaction was in the way."""
    owned_elsewhere: frozenset[Stage] = frozenset()
    """What another process works on, as far as we were told."""
    lake_complete: CompletenessFact | None = None
    target_complete: CompletenessFact | None = None
    """Of the target; of the lake where there is none."""

    def with_event(self, event: StreamEvent, now: EventTime) -> Self:
        """What is known with one more event."""
        match event:
            case PassBegan():
                return replace(
                    self, running=self.running | {event.stage}, held_back=_without_stage(self.held_back, event.stage)
                )
            case PassHeldBack():
                return replace(self, held_back=_with_stage(self.held_back, event.stage, event.reason))
            case LoadRetried():
                return replace(self, is_lock_conflict=is_lock_conflict(event.error))
            case BatchesLoaded():
                return replace(self, is_lock_conflict=False)
            case PassEnded():
                return self._with_pass_ended(event, now)
            case _:
                return self

    def _with_pass_ended(self, event: PassEnded, now: EventTime) -> Self:
        if event.cut:
            return replace(self._with_completeness(event, now), running=self.running - {event.stage})
        stage, cause = (
            event.stage,
            classify_reason(event.reason) if event.error is None else classify_error(event.error),
        )
        elsewhere = cause is IncidentCause.OTHER_OWNER
        failing = _without_stage(self.failing, stage)
        if event.error is not None and cause is not None and not elsewhere:
            failing = _with_stage(self.failing, stage, self._ongoing_failure(event, cause, now))
        return replace(
            self._with_completeness(event, now),
            failing=failing,
            held_back=_without_stage(self.held_back, stage),
            running=self.running - {stage},
            extract_reason=event.reason if stage is Stage.EXTRACT else self.extract_reason,
            pending_batches=event.pending,
            is_lock_conflict=cause is IncidentCause.WAREHOUSE_LOCKED if stage is Stage.LOAD else self.is_lock_conflict,
            owned_elsewhere=self.owned_elsewhere | {stage} if elsewhere else self.owned_elsewhere - {stage},
        )

    def _ongoing_failure(self, event: PassEnded, cause: IncidentCause, now: EventTime) -> OngoingFailure:
        assert event.error is not None
        before = self.failing.get(event.stage)
        since = before.since if before is not None and before.cause is cause else now
        return OngoingFailure(since=since, cause=cause, message=event.error.message, hint=event.error.hint)

    def _with_completeness(self, event: PassEnded, now: EventTime) -> Self:
        if event.complete is None:
            return self
        reached = CompletenessFact(upto=event.complete, known_at=now)
        told = self
        if event.stage is Stage.EXTRACT:
            told = replace(told, lake_complete=_later_completeness(self.lake_complete, reached))
        if describes_target(event, has_target=self.has_target):
            told = replace(told, target_complete=_later_completeness(self.target_complete, reached))
        return told


def _later_completeness(before: CompletenessFact | None, now: CompletenessFact) -> CompletenessFact:
    return before if before is not None and before.upto > now.upto else now


def _with_stage(kept: Mapping[Stage, T], stage: Stage, value: T) -> Mapping[Stage, T]:
    return MappingProxyType({**kept, stage: value})


def _without_stage(kept: Mapping[Stage, T], stage: Stage) -> Mapping[Stage, T]:
    return MappingProxyType({each: value for each, value in kept.items() if each is not stage})


_STAGES_LAST_FIRST: Final = (Stage.LOAD, Stage.EXTRACT)


def find_stale_cause(facts: IncidentFacts, *, within: timedelta, now: EventTime) -> IncidentCause:
    """What keeps a target from being as fresh as was promised: what fails, then the stage that is behind."""
    failing = next((facts.failing[stage].cause for stage in _STAGES_LAST_FIRST if stage in facts.failing), None)
    if failing is not None or facts.owned_elsewhere:
        return failing or IncidentCause.OTHER_OWNER
    read = facts.lake_complete
    is_read = read is not None and read.lag(now) <= within
    loads, extracts = _load_cause(facts), _extract_cause(facts)
    return (loads if is_read else None) or extracts or loads or IncidentCause.UNKNOWN


def _load_cause(facts: IncidentFacts) -> IncidentCause | None:
    if not facts.has_target:
        return None
    if facts.is_lock_conflict:
        return IncidentCause.WAREHOUSE_LOCKED
    return IncidentCause.LOAD_QUEUE if facts.pending_batches or Stage.LOAD in facts.held_back else None


def _extract_cause(facts: IncidentFacts) -> IncidentCause | None:
    held_back = facts.held_back.get(Stage.EXTRACT)
    named = classify_reason(facts.extract_reason) or (classify_reason(held_back) if held_back else None)
    if named is not None:
        return named
    return IncidentCause.EXTRACT_QUEUE if held_back or Stage.EXTRACT in facts.running else None
