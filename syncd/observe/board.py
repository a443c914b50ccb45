"""The board: how every stream stands, as events have told; for whoever wants to look, from any thread."""

import threading
from collections import deque
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from syncd.events import Event
from syncd.observe.board_view import RANKS, BoardSeen, Ended, Moved, StreamSeen
from syncd.observe.stage_state import Moment
from syncd.observe.stream_state import Listed, Standing
from syncd.settings import Settings, StreamSettings
from watermarks.clock import Clock
from watermarks.names import StreamName

SAMPLED_EVERY: Final = 30.0
"""Seconds between two points of a line that shows lag."""
KEPT: Final = 30
"""So many of the last runs and batches of all streams are remembered."""


class Board:
    """A reader of events that knows how every stream stands."""

    def __init__(self, listed: Iterable[Listed], *, clock: Clock) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._since = self._now()
        self._sampled = self._since.seconds
        self._standing = {one.stream: Standing(one, self._since) for one in listed}
        self._runs = deque[tuple[StreamName, Ended]](maxlen=KEPT)
        self._batches = deque[tuple[StreamName, Moved]](maxlen=KEPT)

    def __call__(self, event: Event) -> None:
        with self._guard:
            now = self._now()
            self._sample(now)
            standing = self._standing.get(event.stream)
            if standing is None:
                standing = self._standing[event.stream] = Standing(Listed(stream=event.stream), now)
            heard = standing.hear(event, now)
            if isinstance(heard, Ended):
                self._runs.append((event.stream, heard))
            elif heard is not None:
                self._batches.append((event.stream, heard))

    def relist(self, listed: Iterable[Listed]) -> None:
        """Know of these streams from now on, and of no other; what is known of those that stay is kept."""
        with self._guard:
            now, before = self._now(), self._standing
            self._standing = {}
            for one in listed:
                standing = before.get(one.stream) or Standing(one, now)
                standing.listed = one
                self._standing[one.stream] = standing

    def view(self) -> BoardSeen:
        """How everything stands now."""
        with self._guard:
            now = self._now()
            self._sample(now)
            streams = [standing.seen(now) for standing in self._standing.values()]
            runs, batches = tuple(reversed(self._runs)), tuple(reversed(self._batches))
        return BoardSeen(
            at=now.at,
            since=self._since.at,
            streams=tuple(sorted(streams, key=_rank)),
            runs=runs,
            batches=batches,
        )

    def _sample(self, now: Moment) -> None:
        """One point for each step that has passed; after a long silence no more than there is room for."""
        passed = int((now.seconds - self._sampled) // SAMPLED_EVERY)
        if passed <= 0:
            return
        self._sampled += passed * SAMPLED_EVERY
        for standing in self._standing.values():
            standing.sample(now)

    def _now(self) -> Moment:
        return Moment(at=self._clock.now(), seconds=self._clock.monotonic())


def _rank(seen: StreamSeen) -> tuple[int, str]:
    return RANKS[seen.mood], str(seen.stream)


def listed_of(settings: Settings) -> tuple[Listed, ...]:
    """The streams of a configuration."""
    return tuple(_listed(one) for one in settings.streams)


def _listed(one: StreamSettings) -> Listed:
    target, schedule = one.target, one.schedule
    every = f"{schedule.cron} {schedule.zone}" if schedule.cron else f"every {_span(schedule.every)}"
    return Listed(
        stream=StreamName(source=one.source, database=one.database, table=one.table),
        target=f"{target.schema}.{target.table}" if target else "",
        every=every,
        promised=schedule.fresh_within,
    )


def _span(span: timedelta | None) -> str:
    """A span as the configuration writes it."""
    seconds = span.total_seconds() if span else 0.0
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:g}s"
