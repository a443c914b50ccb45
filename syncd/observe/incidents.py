"""Which incidents are open: streams that fail, and promises of freshness that are broken; pure rules over events."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from syncd.events import Event
from syncd.observe.causes import PASSING, SENTENCES, Cause, party_of
from syncd.observe.dashboard.formatting import span
from syncd.observe.event_text import clock as clock_text
from syncd.observe.stream_facts import Facts, Moment, why_stale
from watermarks.clock import Clock
from watermarks.names import StreamName

GRACE: Final = timedelta(seconds=60)
"""What may pass by itself is an incident only after so long."""


class Trouble(StrEnum):
    """What kind of incident."""

    FAILING = "failing"
    """Passes end in an error."""
    STALE = "stale"
    """A promise of freshness is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A stream, and what was promised of it."""

    stream: StreamName
    warehouse: str = ""
    """The name of its warehouse; empty where it has none."""
    within: timedelta | None = None
    """How far its target may be behind."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Key:
    """What makes two troubles one incident."""

    trouble: Trouble
    cause: Cause
    party: str

    def __str__(self) -> str:
        return f"{self.trouble}/{self.cause}/{self.party}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One trouble that somebody should know of, whatever number of streams it has."""

    key: Key
    since: datetime
    """Since when it fails; of a broken promise, when it was broken."""
    streams: tuple[StreamName, ...]
    message: str
    hint: str
    complete: datetime | None = None
    """Of a broken promise: up to when the one that is furthest behind is complete."""


class Turn(StrEnum):
    """What became of an incident."""

    OPENED = "opened"
    STILL_OPEN = "still_open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An incident, and what became of it."""

    turn: Turn
    incident: Incident
    at: datetime


class Watch:
    """Listens, and says which incidents opened and which are over; sends nothing and waits for nothing."""

    def __init__(self, watched: Iterable[Watched], *, clock: Clock) -> None:
        self._clock = clock
        self._watched: dict[StreamName, Watched] = {}
        self._facts: dict[StreamName, Facts] = {}
        self._open: dict[Key, Incident] = {}
        self._kept: dict[tuple[StreamName, Trouble, object], Key] = {}
        """Where each stream's trouble is told already."""
        self.watch(watched)

    @property
    def open(self) -> tuple[Incident, ...]:
        """What is open now, as it was last judged."""
        return tuple(self._open.values())

    def watch(self, watched: Iterable[Watched]) -> None:
        """Watch these streams from now on, and no others; of those that were watched, everything stays known."""
        now = self._now()
        self._watched = {one.stream: one for one in watched}
        self._facts = {
            one.stream: replace(
                self._facts.get(one.stream) or Facts(since=now, has_target=bool(one.warehouse)),
                has_target=bool(one.warehouse),
            )
            for one in self._watched.values()
        }

    def heard(self, event: Event) -> None:
        """Take note of an event; of a stream that is not watched nothing is kept."""
        stream = event.stream.default
        if stream in self._facts:
            self._facts[stream] = self._facts[stream].after(event, self._now())

    def judged(self) -> tuple[Change, ...]:
        """What opened and what is over since it was judged last."""
        now = self._now()
        due = self._due(now)
        changes = [
            Change(turn=Turn.OPENED, incident=one, at=now.at) for key, one in due.items() if key not in self._open
        ]
        over = [one for key, one in self._open.items() if key not in due]
        self._open = due
        return (*changes, *(Change(turn=Turn.CLOSED, incident=one, at=now.at) for one in over))

    def _now(self) -> Moment:
        return Moment(at=self._clock.now(), seconds=self._clock.monotonic())

    def _due(self, now: Moment) -> dict[Key, Incident]:
        """Every incident that there is by now."""
        found: dict[Key, Incident] = {}
        kept: dict[tuple[StreamName, Trouble, object], Key] = {}
        for stream, facts in self._facts.items():
            known = (stream, Trouble.STALE, None) in self._kept
            troubles = (*_failing(stream, facts, now), *_stale(self._watched[stream], facts, now, known=known))
            for mark, one in troubles:
                cause, told = one.key.cause, (stream, one.key.trouble, mark)
                key = self._key(told, cause, found, message=one.message)
                kept[told] = key
                found[key] = _joined(found.get(key) or self._as_it_opened(key, one), one)
        self._kept = kept
        return found

    def _key(
        self, told: tuple[StreamName, Trouble, object], cause: Cause, found: dict[Key, Incident], *, message: str
    ) -> Key:
        """Where a trouble belongs: where it was told already, else with those that have the same to say."""
        stream, trouble, _ = told
        before = self._kept.get(told)
        # A promise that is broken stays broken, whatever else comes in the way meanwhile.
        if before is not None and (before.cause is cause or trouble is Trouble.STALE):
            return before
        watched = self._watched[stream]
        party = party_of(cause, source=stream.source, warehouse=watched.warehouse, stream=str(stream))
        own = Key(trouble=trouble, cause=cause, party=party)
        if trouble is Trouble.FAILING and party == str(stream):
            for key, one in (*self._open.items(), *found.items()):
                if (key.trouble, key.cause, one.message) == (trouble, cause, message):
                    return key
        return own

    def _as_it_opened(self, key: Key, one: Incident) -> Incident:
        """An incident without streams yet: as it was told, or to be told now."""
        before = self._open.get(key)
        return replace(one, key=key, streams=(), since=before.since if before else one.since)


def _joined(incident: Incident, one: Incident) -> Incident:
    """The incident with the trouble of one more stream in it; the first one's words stay."""
    complete = min(filter(None, (incident.complete, one.complete)), default=None)
    streams = tuple(dict.fromkeys((*incident.streams, *one.streams)))
    return replace(incident, streams=streams, since=min(incident.since, one.since), complete=complete)


def _failing(stream: StreamName, facts: Facts, now: Moment) -> Iterator[tuple[object, Incident]]:
    for stage, failing in facts.failing.items():
        lasts = timedelta(seconds=now.seconds - failing.since.seconds)
        if failing.cause in PASSING and lasts < GRACE:
            continue
        key = Key(trouble=Trouble.FAILING, cause=failing.cause, party="")
        yield (
            stage,
            Incident(key=key, since=failing.since.at, streams=(stream,), message=failing.message, hint=failing.hint),
        )


def _stale(watched: Watched, facts: Facts, now: Moment, *, known: bool) -> Iterator[tuple[object, Incident]]:
    """A broken promise; what another process works on is that one's promise, unless it was broken before."""
    within = watched.within
    if within is None or (facts.elsewhere and not known):
        return
    reached = facts.complete
    behind = reached.behind(now) if reached else timedelta(seconds=now.seconds - facts.since.seconds)
    if behind <= within:
        return
    cause = why_stale(facts, within=within, now=now)
    yield (
        None,
        Incident(
            key=Key(trouble=Trouble.STALE, cause=cause, party=""),
            since=now.at - (behind - within),
            streams=(watched.stream,),
            message=_broken(watched, reached.upto if reached else None, cause, facts),
            hint=_next(facts),
            complete=reached.upto if reached else None,
        ),
    )


def _broken(watched: Watched, upto: datetime | None, cause: Cause, facts: Facts) -> str:
    because = facts.reason if cause in {Cause.HELD_TRANSACTION, Cause.THROTTLED} and facts.reason else SENTENCES[cause]
    table = f"{watched.stream.database}.{watched.stream.table}"
    where = (
        f"{table} is complete up to {clock_text(upto)}" if upto else f"of {table} nothing is known to be complete yet"
    )
    promised = f", and was promised within {span(watched.within)}" if watched.within else ""
    return f"{where}{promised}: {because}"


def _next(facts: Facts) -> str:
    return next((failing.hint for failing in facts.failing.values() if failing.hint), "")
