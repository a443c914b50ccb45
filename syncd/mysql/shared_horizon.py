"""The horizons of one server: one poll at a time, for all who asked before it began."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, Final

from syncd.concurrency.resource_pool import NOBODY, Places
from syncd.errors import AnotherServer, NotKnownYet, SourceDown
from syncd.horizon import Notes, Readings, Sight, judge
from syncd.horizon.notes import Keeper
from syncd.mysql.connection import Opener, mapped
from syncd.mysql.connection_pool import OLDEST
from syncd.mysql.horizon_poll import Poller, StampedElsewhere
from syncd.ports.request_stats import Asking, HorizonHeld, Meter, SourceAsked, unmetered
from syncd.ports.source import Asked, Horizon, TableName
from syncd.settings import SourceSettings
from watermarks.clock import Clock, SystemClock
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from datetime import datetime

    from syncd.mysql.connection_pool import Connections

POLLS: Final = "polls"
SHARED_FOR: Final = 0.1
"""Seconds: where one stream asks after the other, a poll that began so little before answers too. A bound is true for
ever, and a second reader within that time would wait for the server to look anew."""
KEPT_EVERY: Final = timedelta(seconds=5)
"""Older notes are as right, so not every poll is worth a request to the lake."""
ASKED_AGAIN: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class _Poll:
    """The last poll: what it read, and the notes that it began with; or why there is none."""

    number: int
    began: float
    before: Notes | None
    readings: Readings | None = None
    failure: HintedError | None = None


class ServerHorizons:
    """The port `Horizons` over a real server, for any number of threads.

    Whoever asks waits for the poll that is under way, and then for the next: for theirs, which is asked about all
    tables that are waited for. A poll that began before somebody asked answers them only within `shared_for`.

    `opener` connects to the server where rows are stamped: to the primary, where the source is a replica.
    """

    def __init__(
        self,
        settings: SourceSettings,
        opener: Opener,
        keeper: Keeper,
        *,
        clock: Clock | None = None,
        pause: Callable[[float], None] = time.sleep,
        shared_for: float = SHARED_FOR,
        meter: Meter = unmetered,
        places: "Connections | None" = None,
    ) -> None:
        self._settings = settings
        self._opener = opener
        self._keeper = keeper
        self._clock = clock or SystemClock()
        self._pause = pause
        self._shared_for = shared_for
        self._meter = meter
        self._alone = places is None
        self._places: Connections = Places(1, oldest=OLDEST) if places is None else places
        self._guard = Lock()
        """Of who asks: held for no longer than it takes to say so."""
        self._asking: list[Sequence[Asked]] = []
        self._begun = 0
        """How many polls have begun."""
        self._lock = Lock()
        """Of polls and notes."""
        self._last: _Poll | None = None
        self._notes: Notes | None = None
        self._loaded = False
        self._kept: datetime | None = None
        self._tables: frozenset[TableName] = frozenset()

    def of(self, asked: Sequence[Asked], *, aged: float = 0.0) -> Mapping[TableName, Horizon]:
        """The horizons of these tables now, by one poll of the server, which may have begun so many seconds before."""
        at = self._clock.monotonic()
        with self._guard:
            self._asking.append(asked)
            begun = self._begun
        with self._lock:
            try:
                poll = self._shared(asked, begun=begun, since=at - max(aged, self._shared_for)) or self._polled(asked)
            finally:
                with self._guard:
                    self._asking = [each for each in self._asking if each is not asked]
            if poll.readings is None:
                raise _again(poll.failure)
            horizons, notes = judge(poll.readings, poll.before, asked)
            self._note(poll.readings, poll.before, notes)
            self._count_held(horizons)
            return horizons

    def known(self, asked: Sequence[Asked], *, within: timedelta) -> Mapping[TableName, Horizon]:
        """The horizons of these tables, once every bound is known."""
        deadline = self._clock.monotonic() + within.total_seconds()
        while True:
            horizons = self.of(asked)
            waiting = [(table, horizon) for table, horizon in horizons.items() if horizon.bound is None]
            if not waiting:
                return horizons
            left = deadline - self._clock.monotonic()
            if left <= 0:
                raise _not_known(*waiting[0], within)
            self._pause(min(ASKED_AGAIN, left))

    def close(self) -> None:
        """Keep the notes, and end the connection where it is nobody else's affair."""
        with self._lock:
            if self._alone:
                self._places.close()
            if self._notes is not None and self._notes.t0 != self._kept:
                self._keeper.keep(self._notes)

    def _count_held(self, horizons: Mapping[TableName, Horizon]) -> None:
        """Say how far the horizon is held; what stays behind by a fixed time is held by nobody."""
        held = [one.t0 - one.bound for one in horizons.values() if one.proven and one.bound is not None]
        if held:
            seconds = max(max(held).total_seconds(), 0.0)
            self._meter(HorizonHeld(source=self._settings.name, seconds=seconds))

    def _shared(self, asked: Sequence[Asked], *, begun: int, since: float) -> _Poll | None:
        """The last poll, if it began late enough and saw all that is asked."""
        poll = self._last
        if poll is None or not (poll.number > begun or _is_young(poll, since)):
            return None
        if poll.readings is None:
            return poll
        seen = poll.readings.tables
        names = {each.table.folded for each in asked}
        with_ids = {each.table for each in asked if each.id_column is not None}
        return poll if (seen is None or names <= seen) and with_ids <= poll.readings.ids.keys() else None

    def _polled(self, asked: Sequence[Asked]) -> _Poll:
        if not self._loaded:
            self._notes, self._loaded = self._keeper.load(), True
        with self._guard:
            self._begun += 1
            number, waited_for = self._begun, [each for every in (*self._asking, asked) for each in every]
        # Where writers show only table by table, a table that is left out once is unknown the next time.
        self._tables |= {each.table for each in waited_for}
        ids = {each.table: each.id_column for each in waited_for if each.id_column is not None}
        poll = _Poll(number=number, began=self._clock.monotonic(), before=self._notes)
        self._last = self._answered(poll, ids)
        return self._last

    def _answered(self, poll: _Poll, ids: Mapping[TableName, str]) -> _Poll:
        """The poll with its readings; where there are none, all who waited for it are told why."""
        try:
            try:
                readings = self._read(ids)
            except SourceDown:
                # The connection may have died of idleness, or lead to where rows were stamped: a new one tells.
                readings = self._read(ids)
        except HintedError as error:
            return replace(poll, failure=error)
        return replace(poll, readings=readings)

    def _read(self, ids: Mapping[TableName, str]) -> Readings:
        found = self._places.take(NOBODY, kind=POLLS)
        poller = found if isinstance(found, Poller) else None
        began = time.monotonic()
        try:
            with mapped(self._settings):
                if poller is None:
                    poller = Poller(self._opener, pause=self._pause)
                readings = replace(poller.poll(self._tables, ids=ids), here=self._clock.now())
        except BaseException as error:
            # Whatever is left on the line belongs to a poll that nobody reads.
            if poller is not None:
                poller.close()
            self._places.give_back()
            if isinstance(error, StampedElsewhere) and poller is found:
                # They were stamped there: its address may lead elsewhere by now, for whoever else is there still.
                self._places.close()
                raise AnotherServer("rows are not stamped any more where they were") from error
            raise
        finally:
            seconds = time.monotonic() - began
            self._meter(SourceAsked(source=self._settings.name, about=Asking.HORIZON, seconds=seconds))
        self._places.park(poller, kind=POLLS)
        return readings

    def _note(self, readings: Readings, before: Notes | None, notes: Notes | None) -> None:
        if notes is None:
            return
        if self._notes is not None and self._notes is not before:
            # Another call has noted its answers of the same poll: both stand.
            notes = replace(
                notes,
                answers={**self._notes.answers, **notes.answers},
                candidates={**self._notes.candidates, **notes.candidates},
            )
        broken = before is not None and notes.breaks != before.breaks
        self._notes = notes
        sighted = readings.sight in {Sight.SERVER, Sight.TABLES}
        if sighted and (self._kept is None or notes.t0 - self._kept >= KEPT_EVERY or notes.t0 < self._kept or broken):
            self._keeper.keep(notes)
            self._kept = notes.t0


def _is_young(poll: _Poll, since: float) -> bool:
    return poll.readings is not None and poll.began > since


def _again(failure: HintedError | None) -> HintedError:
    """The same error for each who waited: a trace is one thread's own."""
    assert failure is not None
    again = type(failure)(failure.message, hint=failure.hint, **failure.facts)
    again.__cause__ = failure
    return again


def _not_known(table: TableName, horizon: Horizon, within: timedelta) -> NotKnownYet:
    return NotKnownYet(
        f"after {within.total_seconds():.0f} s it is still not known what of {table} is complete: {horizon.reason}",
        hint="End that transaction, or give it more time with --wait.",
    )
