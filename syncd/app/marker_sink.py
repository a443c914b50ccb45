"""Writer of completion markers: a reader of events that writes from a thread of its own."""

import logging
import threading
from collections.abc import Callable
from typing import Final, NamedTuple, Self

from syncd.events import BatchesLoaded, BatchExtracted, PassEnded, StreamEvent
from syncd.lake.completion_markers import CompletionMarker, MarkerStore, describes_target
from syncd.observe.log import ReportFunction
from syncd.settings import LakeSettings, Settings
from watermarks.clock import Clock
from watermarks.errors import HintedError
from watermarks.names import StreamName
from watermarks.store import Store

MARKER_FLUSH_SECONDS: Final = 3.0
"""Time that shutdown waits for markers to be written; the next pass of another process writes the rest."""


class _PendingMarker(NamedTuple):
    marker: CompletionMarker
    lake: LakeSettings


class MarkerSink:
    """Reader of events that writes completion markers; of several passes of one stream only the newest counts."""

    def __init__(
        self,
        settings: Settings,
        *,
        open_store: Callable[[LakeSettings], Store],
        clock: Clock,
        report: ReportFunction,
        flush_seconds: float = MARKER_FLUSH_SECONDS,
    ) -> None:
        """Make the sink; the writing thread calls `open_store`."""
        self._clock = clock
        self._open_store = open_store
        self._report = report
        self._flush_seconds = flush_seconds
        self._lake = settings.lake
        self._has_target = _target_by_stream(settings)
        self._batches: dict[StreamName, str] = {}
        self._rows: dict[StreamName, int] = {}
        self._pending: dict[StreamName, _PendingMarker] = {}
        self._changed = threading.Condition()
        self._over = False
        self._thread = threading.Thread(target=self._work, name="markers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._over = True
            self._changed.notify()
        self._thread.join(self._flush_seconds)
        with self._changed:
            self._pending.clear()  # a write in progress may take long; nothing is written after it

    def reconfigure(self, settings: Settings) -> None:
        """Continue with another configuration; the counts of a lake are void in another one."""
        with self._changed:
            self._has_target = _target_by_stream(settings)
            if settings.lake != self._lake:
                self._lake = settings.lake
                self._batches.clear()
                self._rows.clear()

    def __call__(self, event: StreamEvent) -> None:
        with self._changed:
            has_target = self._has_target.get(event.stream)
            if has_target is None:
                return
            match event:
                case BatchesLoaded():
                    self._count_rows(event.stream, str(event.last), event.rows)
                case BatchExtracted() if not has_target:
                    self._count_rows(event.stream, str(event.batch), event.rows)
                case PassEnded() if describes_target(event, has_target=has_target):
                    self._enqueue_marker(event)
                case _:
                    return

    def _count_rows(self, stream: StreamName, batch: str, rows: int) -> None:
        self._batches[stream] = batch
        self._rows[stream] = self._rows.get(stream, 0) + rows

    def _enqueue_marker(self, event: PassEnded) -> None:
        assert event.complete_up_to is not None
        stream = event.stream
        marker = CompletionMarker(
            stream=stream,
            complete_until=event.complete_up_to,
            proven=event.proven,
            batch=self._batches.get(stream),
            rows=self._rows.get(stream, 0),
            at=self._clock.now(),
        )
        self._pending[stream] = _PendingMarker(marker, self._lake)
        self._changed.notify()

    def _work(self) -> None:
        markers: MarkerStore | None = None
        lake: LakeSettings | None = None
        while (due := self._take_pending()) is not None:
            try:
                if markers is None or lake != due.lake:
                    markers, lake = MarkerStore(self._open_store(due.lake)), due.lake
                if markers.write(due.marker):
                    self._subtract_written_rows(due)
            except HintedError as error:
                self._report(
                    "marker.failed",
                    f"a marker was not written: {error.message}",
                    level=logging.WARNING,
                    reason=error.message,
                )

    def _subtract_written_rows(self, written: _PendingMarker) -> None:
        stream, rows = written.marker.stream, written.marker.rows
        with self._changed:
            if written.lake == self._lake:
                self._rows[stream] = max(0, self._rows.get(stream, 0) - rows)

    def _take_pending(self) -> _PendingMarker | None:
        """Return the next marker to write; None at shutdown."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._over)
            stream = next(iter(self._pending), None)
            return self._pending.pop(stream) if stream is not None else None


def _target_by_stream(settings: Settings) -> dict[StreamName, bool]:
    return {one.stream_name: one.target is not None for one in settings.streams}
