"""Rules for incidents: streams that fail, and promises of freshness that are broken."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeAlias

from syncd.error_classes import IncidentCause
from syncd.events import ClockReading
from syncd.observe.board import Board
from syncd.observe.causes import CAUSE_SENTENCES, TRANSIENT_CAUSES, affected_component, find_stale_cause
from syncd.observe.formatting import format_duration, format_instant
from syncd.observe.stream_state import StreamTracker
from watermarks.document import Stage
from watermarks.names import StreamName

TRANSIENT_GRACE_PERIOD: Final = timedelta(seconds=60)
"""A failure that may pass by itself becomes an incident only after this time."""


class IncidentKind(StrEnum):
    """Kind of an incident."""

    FAILING = "failing"
    """Passes end in an error."""
    STALE = "stale"
    """A promise of freshness is broken."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class IncidentKey:
    """Identity of an incident: troubles with the same key are one incident."""

    kind: IncidentKind
    cause: IncidentCause
    component: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.cause}/{self.component}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One trouble, of any number of streams."""

    key: IncidentKey
    since: datetime
    """Time since which it fails, or when the promise was broken."""
    streams: tuple[StreamName, ...]
    message: str
    hint: str
    complete_upto: datetime | None = None
    """For a broken promise: completeness of the stream that is furthest behind."""


class IncidentState(StrEnum):
    """State of an incident in a notice."""

    OPENED = "opened"
    STILL_OPEN = "still_open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentUpdate:
    """Change of an incident's state."""

    state: IncidentState
    incident: Incident
    at: datetime


_TroubleKey: TypeAlias = tuple[StreamName, IncidentKind, Stage | None]
"""Trouble of one stream; a failure is of one stage."""


class IncidentDetector:
    """Derives open incidents from the board; sends nothing and waits for nothing."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._open: dict[IncidentKey, Incident] = {}
        self._reported_under: dict[_TroubleKey, IncidentKey] = {}
        """Incident under which each trouble was reported."""

    @property
    def open_incidents(self) -> tuple[Incident, ...]:
        return tuple(self._open.values())

    def detect_changes(self) -> tuple[IncidentUpdate, ...]:
        """Return the incidents that opened or closed since the last call."""
        with self._board.configured_trackers() as (trackers, now):
            troubles = [(tracker, list(self._find_troubles(tracker, now))) for tracker in trackers]
        current = self._group_troubles(troubles)
        opened = [incident for key, incident in current.items() if key not in self._open]
        closed = [incident for key, incident in self._open.items() if key not in current]
        self._open = current
        return (
            *(IncidentUpdate(state=IncidentState.OPENED, incident=incident, at=now.wall) for incident in opened),
            *(IncidentUpdate(state=IncidentState.CLOSED, incident=incident, at=now.wall) for incident in closed),
        )

    def _find_troubles(self, tracker: StreamTracker, now: ClockReading) -> Iterator[tuple[_TroubleKey, Incident]]:
        yield from _failures(tracker, now)
        key = (tracker.configured.stream, IncidentKind.STALE, None)
        if (broken := _find_broken_promise(tracker, now, was_open=key in self._reported_under)) is not None:
            yield key, broken

    def _group_troubles(
        self, troubles: list[tuple[StreamTracker, list[tuple[_TroubleKey, Incident]]]]
    ) -> dict[IncidentKey, Incident]:
        current: dict[IncidentKey, Incident] = {}
        reported: dict[_TroubleKey, IncidentKey] = {}
        for tracker, found in troubles:
            for trouble, incident in found:
                key = self._choose_key(trouble, incident, tracker, current)
                reported[trouble] = key
                current[key] = _merge(current.get(key) or self._without_streams(key, incident), incident)
        self._reported_under = reported
        return current

    def _choose_key(
        self, trouble: _TroubleKey, incident: Incident, tracker: StreamTracker, current: dict[IncidentKey, Incident]
    ) -> IncidentKey:
        """Return the incident of a trouble: that of its last report, or one with the same message, or a new one."""
        stream, kind, _ = trouble
        before, cause = self._reported_under.get(trouble), incident.key.cause
        # A broken promise stays one incident, whatever its cause becomes meanwhile.
        if before is not None and (before.cause is cause or kind is IncidentKind.STALE):
            return before
        component = affected_component(
            cause, source=stream.source, warehouse=tracker.configured.warehouse, stream=str(stream)
        )
        if kind is IncidentKind.FAILING and component == str(stream):
            for key, other in (*self._open.items(), *current.items()):
                if (key.kind, key.cause, other.message) == (kind, cause, incident.message):
                    return key
        return IncidentKey(kind=kind, cause=cause, component=component)

    def _without_streams(self, key: IncidentKey, incident: Incident) -> Incident:
        """Return the start of an incident; one that is open keeps the time when it opened."""
        before = self._open.get(key)
        return replace(incident, key=key, streams=(), since=before.since if before else incident.since)


def _merge(incident: Incident, other: Incident) -> Incident:
    """Return the incident with one more stream; the first message stays."""
    complete = min(filter(None, (incident.complete_upto, other.complete_upto)), default=None)
    streams = tuple(dict.fromkeys((*incident.streams, *other.streams)))
    return replace(incident, streams=streams, since=min(incident.since, other.since), complete_upto=complete)


def _failures(tracker: StreamTracker, now: ClockReading) -> Iterator[tuple[_TroubleKey, Incident]]:
    stream = tracker.configured.stream
    for stage, state in ((Stage.EXTRACT, tracker.extract), (Stage.LOAD, tracker.load)):
        failure = state.failure
        if failure is None or state.is_owned_elsewhere:
            continue
        lasts = timedelta(seconds=now.seconds_since(failure.cause_since))
        if failure.cause in TRANSIENT_CAUSES and lasts < TRANSIENT_GRACE_PERIOD:
            continue
        yield (
            (stream, IncidentKind.FAILING, stage),
            Incident(
                key=IncidentKey(kind=IncidentKind.FAILING, cause=failure.cause, component=""),
                since=failure.cause_since.wall,
                streams=(stream,),
                message=failure.error.message,
                hint=failure.error.hint,
            ),
        )


def _find_broken_promise(tracker: StreamTracker, now: ClockReading, *, was_open: bool) -> Incident | None:
    """Return the broken promise of a stream.

    While another process works on the stream, the promise is that process's, unless it was broken before.
    """
    within, reached = tracker.configured.promised_lag, tracker.target_completeness
    is_elsewhere = tracker.extract.is_owned_elsewhere or tracker.load.is_owned_elsewhere
    if within is None or (is_elsewhere and not was_open):
        return None
    lag = reached.lag(now) if reached else timedelta(seconds=now.seconds_since(tracker.since))
    if lag <= within:
        return None
    cause = find_stale_cause(tracker, within=within, now=now)
    failures = (stage.failure for stage in (tracker.extract, tracker.load))
    return Incident(
        key=IncidentKey(kind=IncidentKind.STALE, cause=cause, component=""),
        since=now.wall - (lag - within),
        streams=(tracker.configured.stream,),
        message=_broken_promise_message(tracker, within, cause),
        hint=next((failure.error.hint for failure in failures if failure and failure.error.hint), ""),
        complete_upto=reached.upto if reached else None,
    )


def _broken_promise_message(tracker: StreamTracker, within: timedelta, cause: IncidentCause) -> str:
    reason, reached = tracker.extract.pass_reason, tracker.target_completeness
    if cause not in {IncidentCause.HELD_TRANSACTION, IncidentCause.THROTTLED} or not reason:
        reason = CAUSE_SENTENCES[cause]
    table = tracker.configured.stream.table_name
    state = (
        f"complete up to {format_instant(reached.upto)}" if reached else "not known to be complete up to any instant"
    )
    return f"{table} is {state}, but its fresh_within is {format_duration(within)}: {reason}"
