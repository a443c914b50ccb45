"""The horizons of one server, polled over one connection that is kept."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, Final

from syncd.adapters.mysql.connect import Opener, mapped
from syncd.adapters.mysql.poll import Poller
from syncd.core.calls import Asking, HorizonHeld, Meter, SourceAsked, unmetered
from syncd.core.errors import NotKnownYet, SourceDown
from syncd.core.horizon import Notes, Readings, Sight, judge
from syncd.core.horizon.notes import Keeper
from syncd.core.ports import Asked, Horizon, TableName
from syncd.core.settings import SourceSettings
from watermarks.clock import Clock, SystemClock

if TYPE_CHECKING:
    from datetime import datetime

SHARED_FOR: Final = 0.1
"""Seconds for which the readings of one poll answer others too: a second reader would wait that long anyway."""
KEPT_EVERY: Final = timedelta(seconds=5)
"""Older notes are as right, so not every poll is worth a request to the lake."""
ASKED_AGAIN: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class _Poll:
    """The last poll: what it read, and the notes that it began with."""

    readings: Readings
    before: Notes | None
    at: float


class ServerHorizons:
    """The port `Horizons` over a real server; safe to use from several threads, which then share polls.

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
    ) -> None:
        self._settings = settings
        self._opener = opener
        self._keeper = keeper
        self._clock = clock or SystemClock()
        self._pause = pause
        self._shared_for = shared_for
        self._meter = meter
        self._lock = Lock()
        self._poller: Poller | None = None
        self._last: _Poll | None = None
        self._notes: Notes | None = None
        self._loaded = False
        self._kept: datetime | None = None
        self._tables: frozenset[TableName] = frozenset()

    def of(self, asked: Sequence[Asked]) -> Mapping[TableName, Horizon]:
        """The horizons of these tables now, by one poll of the server."""
        with self._lock:
            poll = self._shared(asked) or self._poll(asked)
            horizons, notes = judge(poll.readings, poll.before, asked)
            self._note(poll, notes)
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

    def rest(self) -> None:
        """End the connection until the next poll, so that others may have its place."""
        with self._lock:
            self._drop()

    def close(self) -> None:
        """Keep the notes, and end the connection."""
        with self._lock:
            if self._notes is not None and self._notes.t0 != self._kept:
                self._keeper.keep(self._notes)
            self._drop()

    def _count_held(self, horizons: Mapping[TableName, Horizon]) -> None:
        """Say how far the horizon is held; what stays behind by a fixed time is held by nobody."""
        held = [one.t0 - one.bound for one in horizons.values() if one.proven and one.bound is not None]
        if held:
            seconds = max(max(held).total_seconds(), 0.0)
            self._meter(HorizonHeld(source=self._settings.name, seconds=seconds))

    def _shared(self, asked: Sequence[Asked]) -> _Poll | None:
        """The last poll, if it is young enough and saw all that is asked."""
        poll = self._last
        if poll is None or self._clock.monotonic() - poll.at >= self._shared_for:
            return None
        seen = poll.readings.tables
        names = {each.table.folded for each in asked}
        with_ids = {each.table.folded for each in asked if each.id_column is not None}
        return poll if (seen is None or names <= seen) and with_ids <= poll.readings.ids.keys() else None

    def _poll(self, asked: Sequence[Asked]) -> _Poll:
        if not self._loaded:
            self._notes, self._loaded = self._keeper.load(), True
        # Where writers show only table by table, a table that is left out once is unknown the next time.
        self._tables |= {each.table for each in asked}
        ids = {each.table: each.id_column for each in asked if each.id_column is not None}
        try:
            readings = self._read(ids)
        except SourceDown:
            readings = self._read(ids)  # the connection may have died of idleness; a new one tells
        self._last = _Poll(readings=readings, before=self._notes, at=self._clock.monotonic())
        return self._last

    def _read(self, ids: Mapping[TableName, str]) -> Readings:
        began = time.monotonic()
        try:
            with mapped(self._settings):
                if self._poller is None:
                    self._poller = Poller(self._opener(), pause=self._pause)
                return replace(self._poller.poll(self._tables, ids=ids), here=self._clock.now())
        except BaseException:
            self._drop()  # whatever is left on the line belongs to a poll that nobody reads
            raise
        finally:
            seconds = time.monotonic() - began
            self._meter(SourceAsked(source=self._settings.name, about=Asking.HORIZON, seconds=seconds))

    def _drop(self) -> None:
        poller, self._poller, self._last = self._poller, None, None
        if poller is not None:
            poller.close()

    def _note(self, poll: _Poll, notes: Notes | None) -> None:
        if notes is None:
            return
        if self._notes is not None and self._notes is not poll.before:
            # Another call has noted its answers of the same poll: both stand.
            notes = replace(
                notes,
                answers={**self._notes.answers, **notes.answers},
                candidates={**self._notes.candidates, **notes.candidates},
            )
        broken = poll.before is not None and notes.breaks != poll.before.breaks
        self._notes = notes
        sighted = poll.readings.sight in {Sight.SERVER, Sight.TABLES}
        if sighted and (self._kept is None or notes.t0 - self._kept >= KEPT_EVERY or notes.t0 < self._kept or broken):
            self._keeper.keep(notes)
            self._kept = notes.t0


def _not_known(table: TableName, horizon: Horizon, within: timedelta) -> NotKnownYet:
    return NotKnownYet(
        f"after {within.total_seconds():.0f} s it is still not known what of {table} is complete: {horizon.reason}",
        hint="End that transaction, or give it more time with --wait.",
    )
