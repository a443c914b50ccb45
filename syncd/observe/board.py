"""The board: how every stream stands, as events have told; for whoever wants to look, from any thread."""

import threading
from collections import deque
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from syncd.events import StreamEvent
from syncd.observe.board_view import STATE_RANKS, BatchRecord, BoardView, PassRecord, StreamView
from syncd.observe.stage_state import ObservationTime
from syncd.observe.stream_state import ConfiguredStream, StreamTracker
from syncd.settings import Settings, StreamSettings
from watermarks.clock import Clock
from watermarks.names import StreamName

LAG_SAMPLE_INTERVAL_SECONDS: Final = 30.0
"""Seconds between two points of a line that shows lag."""
MAX_RECENT_RECORDS: Final = 30
"""So many of the last runs and batches of all streams are remembered."""


class Board:
    """A reader of events that knows how every stream stands."""

    def __init__(self, streams: Iterable[ConfiguredStream], *, clock: Clock) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._since = self._read_clock()
        self._last_sample_seconds = self._since.monotonic
        self._trackers = {one.stream: StreamTracker(one, self._since) for one in streams}
        self._runs = deque[tuple[StreamName, PassRecord]](maxlen=MAX_RECENT_RECORDS)
        self._batches = deque[tuple[StreamName, BatchRecord]](maxlen=MAX_RECENT_RECORDS)

    def __call__(self, event: StreamEvent) -> None:
        with self._guard:
            now = self._read_clock()
            self._sample(now)
            standing = self._trackers.get(event.stream)
            if standing is None:
                standing = self._trackers[event.stream] = StreamTracker(ConfiguredStream(stream=event.stream), now)
            heard = standing.on_event(event, now)
            if isinstance(heard, PassRecord):
                self._runs.append((event.stream, heard))
            elif heard is not None:
                self._batches.append((event.stream, heard))

    def set_streams(self, listed: Iterable[ConfiguredStream]) -> None:
        """Know of these streams from now on, and of no other; what is known of those that stay is kept."""
        with self._guard:
            now, before = self._read_clock(), self._trackers
            self._trackers = {}
            for one in listed:
                standing = before.get(one.stream) or StreamTracker(one, now)
                standing.configured = one
                self._trackers[one.stream] = standing

    def view(self) -> BoardView:
        """How everything stands now."""
        with self._guard:
            now = self._read_clock()
            self._sample(now)
            streams = [standing.view(now) for standing in self._trackers.values()]
            runs, batches = tuple(reversed(self._runs)), tuple(reversed(self._batches))
        return BoardView(
            at=now.at,
            since=self._since.at,
            streams=tuple(sorted(streams, key=_sort_key)),
            runs=runs,
            batches=batches,
        )

    def _sample(self, now: ObservationTime) -> None:
        """One point for each step that has passed; after a long silence no more than there is room for."""
        passed = int((now.monotonic - self._last_sample_seconds) // LAG_SAMPLE_INTERVAL_SECONDS)
        if passed <= 0:
            return
        self._last_sample_seconds += passed * LAG_SAMPLE_INTERVAL_SECONDS
        for standing in self._trackers.values():
            standing.sample_lag(now)

    def _read_clock(self) -> ObservationTime:
        return ObservationTime(at=self._clock.now(), monotonic=self._clock.monotonic())


def _sort_key(view: StreamView) -> tuple[int, str]:
    return STATE_RANKS[view.state], str(view.stream)


def configured_streams(settings: Settings) -> tuple[ConfiguredStream, ...]:
    """The streams of a configuration."""
    return tuple(_configured_stream(one) for one in settings.streams)


def _configured_stream(one: StreamSettings) -> ConfiguredStream:
    target, schedule = one.target, one.schedule
    every = f"{schedule.cron} {schedule.zone}" if schedule.cron else f"every {_format_interval(schedule.every)}"
    return ConfiguredStream(
        stream=StreamName(source=one.source, database=one.database, table=one.table),
        target=f"{target.schema}.{target.table}" if target else "",
        schedule=every,
        promised_lag=schedule.fresh_within,
    )


def _format_interval(span: timedelta | None) -> str:
    """A span as the configuration writes it."""
    seconds = span.total_seconds() if span else 0.0
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:g}s"
