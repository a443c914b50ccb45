"""Live state of all streams, built from events and readable from any thread."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from syncd.events import ClockReading, StreamEvent
from syncd.observe.board_view import STATE_RANKS, BatchRecord, BoardView, PassRecord, StreamView
from syncd.observe.stream_state import ConfiguredStream, StreamTracker
from syncd.settings import Settings, StreamSettings
from watermarks.clock import Clock
from watermarks.names import StreamName

LAG_SAMPLE_INTERVAL_SECONDS: Final = 30.0
MAX_RECENT_RECORDS: Final = 30
"""Passes, and batches, that are remembered of all streams together."""


class Board:
    """Reader of events that keeps the state of every stream."""

    def __init__(self, streams: Iterable[ConfiguredStream], *, clock: Clock) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._since = ClockReading.from_clock(clock)
        self._last_sample_seconds = self._since.monotonic
        self._trackers = {stream.stream: StreamTracker(stream, self._since) for stream in streams}
        self._passes = deque[tuple[StreamName, PassRecord]](maxlen=MAX_RECENT_RECORDS)
        self._batches = deque[tuple[StreamName, BatchRecord]](maxlen=MAX_RECENT_RECORDS)

    def __call__(self, event: StreamEvent) -> None:
        stream = event.stream
        with self._guard:
            now = self._sample()
            tracker = self._trackers.get(stream)
            if tracker is None:
                configured = ConfiguredStream(stream=stream, is_configured=False)
                tracker = self._trackers[stream] = StreamTracker(configured, now)
            record = tracker.on_event(event, now)
            if isinstance(record, PassRecord):
                self._passes.append((stream, record))
            elif record is not None:
                self._batches.append((stream, record))

    def set_streams(self, streams: Iterable[ConfiguredStream]) -> None:
        """Track these streams from now on and no others; those that stay keep their state."""
        with self._guard:
            now, before = ClockReading.from_clock(self._clock), self._trackers
            self._trackers = {}
            for stream in streams:
                tracker = before.get(stream.stream) or StreamTracker(stream, now)
                tracker.configured = stream
                self._trackers[stream.stream] = tracker

    def view(self) -> BoardView:
        with self._guard:
            now = self._sample()
            streams = [tracker.view(now) for tracker in self._trackers.values()]
            passes, batches = tuple(reversed(self._passes)), tuple(reversed(self._batches))
        return BoardView(
            at=now.wall,
            since=self._since.wall,
            streams=tuple(sorted(streams, key=_sort_key)),
            runs=passes,
            batches=batches,
        )

    @contextmanager
    def configured_trackers(self) -> Iterator[tuple[Sequence[StreamTracker], ClockReading]]:
        """Give the trackers of the configured streams for reading, with the time; events wait meanwhile."""
        with self._guard:
            trackers = [tracker for tracker in self._trackers.values() if tracker.configured.is_configured]
            yield trackers, ClockReading.from_clock(self._clock)

    def _sample(self) -> ClockReading:
        """Add one lag sample if an interval has passed, however long the silence was; return the time."""
        now = ClockReading.from_clock(self._clock)
        passed = int((now.monotonic - self._last_sample_seconds) // LAG_SAMPLE_INTERVAL_SECONDS)
        if passed > 0:
            self._last_sample_seconds += passed * LAG_SAMPLE_INTERVAL_SECONDS
            for tracker in self._trackers.values():
                tracker.sample_lag(now)
        return now


def _sort_key(view: StreamView) -> tuple[int, str]:
    return STATE_RANKS[view.state], str(view.stream)


def configured_streams(settings: Settings) -> tuple[ConfiguredStream, ...]:
    return tuple(_configured_stream(stream) for stream in settings.streams)


def _configured_stream(settings: StreamSettings) -> ConfiguredStream:
    target, schedule = settings.target, settings.schedule
    every = f"{schedule.cron} {schedule.zone}" if schedule.cron else f"every {_format_interval(schedule.every)}"
    return ConfiguredStream(
        stream=settings.stream_name,
        target=f"{target.schema}.{target.table}" if target else "",
        warehouse=target.warehouse if target else "",
        schedule=every,
        promised_lag=schedule.fresh_within,
    )


def _format_interval(span: timedelta | None) -> str:
    """Return a duration as the configuration writes it."""
    seconds = span.total_seconds() if span else 0.0
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:g}s"
