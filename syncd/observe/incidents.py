"""Which incidents are open: streams that fail, and promises of freshness that are broken; pure rules over events."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from syncd.events import StreamEvent
from syncd.observe.causes import CAUSE_SENTENCES, TRANSIENT_CAUSES, IncidentCause, affected_party
from syncd.observe.dashboard.formatting import format_duration
from syncd.observe.event_text import format_instant as clock_text
from syncd.observe.stream_facts import EventTime, IncidentFacts, find_stale_cause
from watermarks.clock import Clock
from watermarks.names import StreamName

TRANSIENT_GRACE_PERIOD: Final = timedelta(seconds=60)
"""What may pass by itself is an incident only after so long."""


class IncidentKind(StrEnum):
    """What kind of incident."""

    FAILING = "failing"
    """Passes end in an error."""
    STALE = "stale"
    """A promise of freshness is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedStream:
    """A stream, and what was promised of it."""

    stream: StreamName
    warehouse: str = ""
    """The name of its warehouse; empty where it has none."""
    promised_lag: timedelta | None = None
    """How far its target may be behind."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class IncidentKey:
    """What makes two troubles one incident."""

    kind: IncidentKind
    cause: IncidentCause
    party: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.cause}/{self.party}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One trouble that somebody should know of, whatever number of streams it has."""

    key: IncidentKey
    since: datetime
    """Since when it fails; of a broken promise, when it was broken."""
    streams: tuple[StreamName, ...]
    message: str
    hint: str
    complete_upto: datetime | None = None
    """Of a broken promise: up to when the one that is furthest behind is complete."""


class IncidentState(StrEnum):
    """What became of an incident."""

    OPENED = "opened"
    STILL_OPEN = "still_open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentUpdate:
    """An incident, and what became of it."""

    state: IncidentState
    incident: Incident
    at: datetime


class IncidentDetector:
    """Listens, and says which incidents opened and which are over; sends nothing and waits for nothing."""

    def __init__(self, streams: Iterable[WatchedStream], *, clock: Clock) -> None:
        self._clock = clock
        self._watched: dict[StreamName, WatchedStream] = {}
        self._facts: dict[StreamName, IncidentFacts] = {}
        self._open: dict[IncidentKey, Incident] = {}
        self._reported_under: dict[tuple[StreamName, IncidentKind, object], IncidentKey] = {}
        """Where each stream's trouble is told already."""
        self.set_streams(streams)

    @property
    def open_incidents(self) -> tuple[Incident, ...]:
        """What is open now, as it was last judged."""
        return tuple(self._open.values())

    def set_streams(self, streams: Iterable[WatchedStream]) -> None:
        """Watch these streams from now on, and no others; of those that were watched, everything stays known."""
        now = self._read_clock()
        self._watched = {one.stream: one for one in streams}
        self._facts = {
            one.stream: replace(
                self._facts.get(one.stream) or IncidentFacts(since=now, has_target=bool(one.warehouse)),
                has_target=bool(one.warehouse),
            )
            for one in self._watched.values()
        }

    def on_event(self, event: StreamEvent) -> None:
        """Take note of an event; of a stream that is not watched nothing is kept."""
        stream = event.stream.default_stream
        if stream in self._facts:
            self._facts[stream] = self._facts[stream].with_event(event, self._read_clock())

    def detect_changes(self) -> tuple[IncidentUpdate, ...]:
        """What opened and what is over since it was judged last."""
        now = self._read_clock()
        due = self._current_incidents(now)
        changes = [
            IncidentUpdate(state=IncidentState.OPENED, incident=one, at=now.at)
            for key, one in due.items()
            if key not in self._open
        ]
        over = [one for key, one in self._open.items() if key not in due]
        self._open = due
        return (*changes, *(IncidentUpdate(state=IncidentState.CLOSED, incident=one, at=now.at) for one in over))

    def _read_clock(self) -> EventTime:
        return EventTime(at=self._clock.now(), monotonic=self._clock.monotonic())

    def _current_incidents(self, now: EventTime) -> dict[IncidentKey, Incident]:
        """Every incident that there is by now."""
        found: dict[IncidentKey, Incident] = {}
        kept: dict[tuple[StreamName, IncidentKind, object], IncidentKey] = {}
        for stream, facts in self._facts.items():
            known = (stream, IncidentKind.STALE, None) in self._reported_under
            troubles = (
                *_failing_incidents(stream, facts, now),
                *_stale_incidents(self._watched[stream], facts, now, was_open=known),
            )
            for mark, one in troubles:
                cause, told = one.key.cause, (stream, one.key.kind, mark)
                key = self._find_key(told, cause, found, message=one.message)
                kept[told] = key
                found[key] = _merge_incident(found.get(key) or self._as_opened(key, one), one)
        self._reported_under = kept
        return found

    def _find_key(
        self,
        told: tuple[StreamName, IncidentKind, object],
        cause: IncidentCause,
        found: dict[IncidentKey, Incident],
        *,
        message: str,
    ) -> IncidentKey:
        """Where a trouble belongs: where it was told already, else with those that have the same to say."""
        stream, trouble, _ = told
        before = self._reported_under.get(told)
        # A promise that is broken stays broken, whatever else comes in the way meanwhile.
        if before is not None and (before.cause is cause or trouble is IncidentKind.STALE):
            return before
        watched = self._watched[stream]
        party = affected_party(cause, source=stream.source, warehouse=watched.warehouse, stream=str(stream))
        own = IncidentKey(kind=trouble, cause=cause, party=party)
        if trouble is IncidentKind.FAILING and party == str(stream):
            for key, one in (*self._open.items(), *found.items()):
                if (key.kind, key.cause, one.message) == (trouble, cause, message):
                    return key
        return own

    def _as_opened(self, key: IncidentKey, one: Incident) -> Incident:
        """An incident without streams yet: as it was told, or to be told now."""
        before = self._open.get(key)
        return replace(one, key=key, streams=(), since=before.since if before else one.since)


def _merge_incident(incident: Incident, other: Incident) -> Incident:
    """The incident with the trouble of one more stream in it; the first one's words stay."""
    complete = min(filter(None, (incident.complete_upto, other.complete_upto)), default=None)
    streams = tuple(dict.fromkeys((*incident.streams, *other.streams)))
    return replace(incident, streams=streams, since=min(incident.since, other.since), complete_upto=complete)


def _failing_incidents(stream: StreamName, facts: IncidentFacts, now: EventTime) -> Iterator[tuple[object, Incident]]:
    for stage, failing in facts.failing.items():
        lasts = timedelta(seconds=now.monotonic - failing.since.monotonic)
        if failing.cause in TRANSIENT_CAUSES and lasts < TRANSIENT_GRACE_PERIOD:
            continue
        key = IncidentKey(kind=IncidentKind.FAILING, cause=failing.cause, party="")
        yield (
            stage,
            Incident(key=key, since=failing.since.at, streams=(stream,), message=failing.message, hint=failing.hint),
        )


def _stale_incidents(
    watched: WatchedStream, facts: IncidentFacts, now: EventTime, *, was_open: bool
) -> Iterator[tuple[object, Incident]]:
    """A broken promise; what another process works on is that one's promise, unless it was broken before."""
    within = watched.promised_lag
    if within is None or (facts.owned_elsewhere and not was_open):
        return
    reached = facts.target_complete
    behind = reached.lag(now) if reached else timedelta(seconds=now.monotonic - facts.since.monotonic)
    if behind <= within:
        return
    cause = find_stale_cause(facts, within=within, now=now)
    yield (
        None,
        Incident(
            key=IncidentKey(kind=IncidentKind.STALE, cause=cause, party=""),
            since=now.at - (behind - within),
            streams=(watched.stream,),
            message=_broken_promise_message(watched, reached.upto if reached else None, cause, facts),
            hint=_first_hint(facts),
            complete_upto=reached.upto if reached else None,
        ),
    )


def _broken_promise_message(
    watched: WatchedStream, upto: datetime | None, cause: IncidentCause, facts: IncidentFacts
) -> str:
    because = (
        facts.extract_reason
        if cause in {IncidentCause.HELD_TRANSACTION, IncidentCause.THROTTLED} and facts.extract_reason
        else CAUSE_SENTENCES[cause]
    )
    table = watched.stream.table_name
    where = (
        f"{table} is complete up to {clock_text(upto)}" if upto else f"of {table} nothing is known to be complete yet"
    )
    promised = f", and was promised within {format_duration(watched.promised_lag)}" if watched.promised_lag else ""
    return f"{where}{promised}: {because}"


def _first_hint(facts: IncidentFacts) -> str:
    return next((failing.hint for failing in facts.failing.values() if failing.hint), "")
