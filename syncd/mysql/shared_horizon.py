"""The horizons of one server: one poll at a time, shared by all callers that waited before it began."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, Final

from syncd.concurrency.resource_pool import NO_PASS, ResourcePool
from syncd.errors import HorizonNotKnown, ServerChanged, SourceDown
from syncd.horizon import HorizonNotes, HorizonPoll, Visibility, compute_horizons
from syncd.horizon.horizon_notes import HorizonNotesStore
from syncd.mysql.connection import OpenConnection, map_driver_errors
from syncd.mysql.horizon_poll import NotPrimaryServer, Poller
from syncd.mysql.source import MAX_CONNECTION_AGE_SECONDS
from syncd.ports.request_stats import CallObserver, HorizonLagMeasured, SourceQueried, SourceQueryPurpose, ignore_call
from syncd.ports.source import Horizon, HorizonRequest, TableName
from syncd.settings import SourceSettings
from watermarks.clock import Clock, SystemClock
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from datetime import datetime

    from syncd.mysql.source import SourceConnectionPool

POLLER_KIND: Final = "polls"
POLL_SHARED_SECONDS: Final = 0.1
"""When streams ask one after the other, a poll that began this long before serves them too. A bound stays true

for ever, and a second read within that time would wait for the server to refresh its list.
"""
NOTES_SAVE_INTERVAL: Final = timedelta(seconds=5)
"""Older notes are valid too, so not every poll is worth a request to the lake."""
HORIZON_RETRY_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class _Poll:
    """The last poll: its readings and the notes it began with, or the reason why it failed."""

    number: int
    started_at: float
    notes_before: HorizonNotes | None
    readings: HorizonPoll | None = None
    failure: HintedError | None = None


class ServerHorizons:
    """The port `HorizonProvider` over a real server, for any number of threads.

    A caller waits for the running poll, and then for the next one, which covers all tables that callers wait for. A
    poll that began before a call serves it only within `shared_seconds`.

    `opener` connects to the server where rows are stamped: to the primary if the source is a replica.
    """

    def __init__(
        self,
        settings: SourceSettings,
        opener: OpenConnection,
        keeper: HorizonNotesStore,
        *,
        clock: Clock | None = None,
        pause: Callable[[float], None] = time.sleep,
        shared_seconds: float = POLL_SHARED_SECONDS,
        meter: CallObserver = ignore_call,
        pool: "SourceConnectionPool | None" = None,
    ) -> None:
        self._settings = settings
        self._opener = opener
        self._keeper = keeper
        self._clock = clock or SystemClock()
        self._pause = pause
        self._shared_seconds = shared_seconds
        self._meter = meter
        self._owns_pool = pool is None
        self._pool: SourceConnectionPool = (
            ResourcePool(1, max_age_seconds=MAX_CONNECTION_AGE_SECONDS) if pool is None else pool
        )
        self._guard = Lock()
        """Guards the list of waiting requests; held only to read or change it."""
        self._asking: list[Sequence[HorizonRequest]] = []
        self._begun = 0
        """Number of polls that have begun."""
        self._lock = Lock()
        """Guards polls and notes."""
        self._last: _Poll | None = None
        self._notes: HorizonNotes | None = None
        self._loaded = False
        self._kept: datetime | None = None
        self._tables: frozenset[TableName] = frozenset()

    def get_horizons(self, requests: Sequence[HorizonRequest], *, aged: float = 0.0) -> Mapping[TableName, Horizon]:
        """Return the current horizons of these tables from one poll, which may be up to `aged` seconds old."""
        at = self._clock.monotonic()
        with self._guard:
            self._asking.append(requests)
            begun = self._begun
        with self._lock:
            try:
                poll = self._reusable_poll(
                    requests, begun=begun, since=at - max(aged, self._shared_seconds)
                ) or self._poll(requests)
            finally:
                with self._guard:
                    self._asking = [each for each in self._asking if each is not requests]
            if poll.readings is None:
                raise _copy_error(poll.failure)
            horizons, notes = compute_horizons(poll.readings, poll.notes_before, requests)
            self._save_notes(poll.readings, poll.notes_before, notes)
            self._report_hold(horizons)
            return horizons

    def wait_for_horizons(
        self, requests: Sequence[HorizonRequest], *, within: timedelta
    ) -> Mapping[TableName, Horizon]:
        """Return the horizons of these tables once every bound is known."""
        deadline = self._clock.monotonic() + within.total_seconds()
        while True:
            horizons = self.get_horizons(requests)
            waiting = [(table, horizon) for table, horizon in horizons.items() if horizon.bound is None]
            if not waiting:
                return horizons
            left = deadline - self._clock.monotonic()
            if left <= 0:
                raise _not_known_error(*waiting[0], within)
            self._pause(min(HORIZON_RETRY_SECONDS, left))

    def close(self) -> None:
        """Save the notes; close the connections unless the pool is shared."""
        with self._lock:
            if self._owns_pool:
                self._pool.close()
            if self._notes is not None and self._notes.t0 != self._kept:
                self._keeper.save(self._notes)

    def _report_hold(self, horizons: Mapping[TableName, Horizon]) -> None:
        """Report how far the horizon is held; a bound behind by a fixed delay is not held."""
        held = [one.t0 - one.bound for one in horizons.values() if one.proven and one.bound is not None]
        if held:
            seconds = max(max(held).total_seconds(), 0.0)
            self._meter(HorizonLagMeasured(source=self._settings.name, seconds=seconds))

    def _reusable_poll(self, requests: Sequence[HorizonRequest], *, begun: int, since: float) -> _Poll | None:
        """Return the last poll if it began late enough and covers the requested tables."""
        poll = self._last
        if poll is None or not (poll.number > begun or _is_recent(poll, since)):
            return None
        if poll.readings is None:
            return poll
        seen = poll.readings.tables
        names = {each.table.normal_form for each in requests}
        with_ids = {each.table for each in requests if each.id_column is not None}
        return poll if (seen is None or names <= seen) and with_ids <= poll.readings.max_ids.keys() else None

    def _poll(self, requests: Sequence[HorizonRequest]) -> _Poll:
        if not self._loaded:
            self._notes, self._loaded = self._keeper.load(), True
        with self._guard:
            self._begun += 1
            number, waited_for = self._begun, [each for every in (*self._asking, requests) for each in every]
        # Where writers show only table by table, a table that one poll leaves out is unknown to the next.
        self._tables |= {each.table for each in waited_for}
        ids = {each.table: each.id_column for each in waited_for if each.id_column is not None}
        poll = _Poll(number=number, started_at=self._clock.monotonic(), notes_before=self._notes)
        self._last = self._read_poll(poll, ids)
        return self._last

    def _read_poll(self, poll: _Poll, ids: Mapping[TableName, str]) -> _Poll:
        """Return the poll with its readings, or with the error for all who wait for it."""
        try:
            try:
                readings = self._read_server(ids)
            except SourceDown:
                # The idle connection may have been closed, or lead to a former primary: retry on a new one.
                readings = self._read_server(ids)
        except HintedError as error:
            return replace(poll, failure=error)
        return replace(poll, readings=readings)

    def _read_server(self, ids: Mapping[TableName, str]) -> HorizonPoll:
        found = self._pool.acquire(NO_PASS, kind=POLLER_KIND)
        poller = found if isinstance(found, Poller) else None
        began = time.monotonic()
        try:
            with map_driver_errors(self._settings):
                if poller is None:
                    poller = Poller(self._opener, pause=self._pause)
                readings = replace(poller.poll(self._tables, ids=ids), local_time=self._clock.now())
        except BaseException as error:
            # Unread results of this poll may remain on the connection.
            if poller is not None:
                poller.close()
            self._pool.release()
            if isinstance(error, NotPrimaryServer) and poller is found:
                # It was the primary: after a failover the address may lead to another server, for all connections.
                self._pool.close()
                raise ServerChanged("this server is no longer the primary") from error
            raise
        finally:
            seconds = time.monotonic() - began
            self._meter(SourceQueried(source=self._settings.name, purpose=SourceQueryPurpose.HORIZON, seconds=seconds))
        self._pool.put_idle(poller, kind=POLLER_KIND)
        return readings

    def _save_notes(self, readings: HorizonPoll, before: HorizonNotes | None, notes: HorizonNotes | None) -> None:
        if notes is None:
            return
        if self._notes is not None and self._notes is not before:
            # Another call has already noted its horizons of the same poll: keep both.
            notes = replace(
                notes,
                proven_bounds={**self._notes.proven_bounds, **notes.proven_bounds},
                candidates={**self._notes.candidates, **notes.candidates},
            )
        broken = before is not None and notes.breaks != before.breaks
        self._notes = notes
        sighted = readings.visibility in {Visibility.SERVER, Visibility.TABLES}
        if sighted and (
            self._kept is None or notes.t0 - self._kept >= NOTES_SAVE_INTERVAL or notes.t0 < self._kept or broken
        ):
            self._keeper.save(notes)
            self._kept = notes.t0


def _is_recent(poll: _Poll, since: float) -> bool:
    return poll.readings is not None and poll.started_at > since


def _copy_error(failure: HintedError | None) -> HintedError:
    """Return a copy of the error for each waiting thread: a traceback belongs to one thread."""
    assert failure is not None
    copy = type(failure)(failure.message, hint=failure.hint, **failure.facts)
    copy.__cause__ = failure
    return copy


def _not_known_error(table: TableName, horizon: Horizon, within: timedelta) -> HorizonNotKnown:
    return HorizonNotKnown(
        f"it is still unknown after {within.total_seconds():.0f} s up to where {table} is complete: {horizon.reason}",
        hint="End that transaction, or wait longer with --wait.",
    )
