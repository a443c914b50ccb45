"""Whoever writes completion markers: listens to events, and writes from a thread of its own."""

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from syncd.core.events import BatchesLanded, BatchExtracted, Event, PassEnded
from syncd.core.markers import Marker, tells_of_target
from syncd.core.settings import Settings
from syncd.stages.marking import Markers
from syncd.wiring.lake import stream_of
from syncd.wiring.telling import Say
from watermarks.clock import Clock
from watermarks.errors import HintedError
from watermarks.names import StreamName
from watermarks.store import Store


class Marking:
    """A reader of events that marks what is complete; of several passes of one stream only the newest is told of."""

    def __init__(self, settings: Settings, *, store: Callable[[], Store], clock: Clock, say: Say) -> None:
        """Prepare; `store` opens the lake's, from the writing thread."""
        self._clock = clock
        self._store = store
        self._say = say
        self._has_target = _targets(settings)
        self._batches: dict[StreamName, str] = {}
        self._rows: dict[StreamName, int] = {}
        self._due: dict[StreamName, Marker] = {}
        self._changed = threading.Condition()
        self._over = False
        self._thread = threading.Thread(target=self._work, name="markers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._over = True
            self._changed.notify()
        self._thread.join()

    def reconfigure(self, settings: Settings) -> None:
        """Go on with another configuration."""
        with self._changed:
            self._has_target = _targets(settings)

    def __call__(self, event: Event) -> None:
        with self._changed:
            has_target = self._has_target.get(event.stream)
            if has_target is None:
                return
            match event:
                case BatchesLanded():
                    self._counted(event.stream, str(event.last), event.rows)
                case BatchExtracted() if not has_target:
                    self._counted(event.stream, str(event.batch), event.rows)
                case PassEnded() if tells_of_target(event, has_target=has_target):
                    self._note(event)
                case _:
                    return

    def _counted(self, stream: StreamName, batch: str, rows: int) -> None:
        self._batches[stream] = batch
        self._rows[stream] = self._rows.get(stream, 0) + rows

    def _note(self, event: PassEnded) -> None:
        assert event.complete is not None
        stream = event.stream
        self._due[stream] = Marker(
            stream=stream,
            complete=event.complete,
            proven=event.proven,
            batch=self._batches.get(stream),
            rows=self._rows.get(stream, 0),
            at=self._clock.now(),
        )
        self._changed.notify()

    def _work(self) -> None:
        markers: Markers | None = None
        while (marker := self._next()) is not None:
            try:
                markers = markers or Markers(self._store())
                if markers.write(marker):
                    self._told(marker)
            except HintedError as error:
                self._say(
                    "marker.failed",
                    f"a marker was not written: {error.message}",
                    level=logging.WARNING,
                    why=error.message,
                )

    def _told(self, marker: Marker) -> None:
        with self._changed:
            self._rows[marker.stream] = max(0, self._rows.get(marker.stream, 0) - marker.rows)

    def _next(self) -> Marker | None:
        with self._changed:
            self._changed.wait_for(lambda: self._due or self._over)
            stream = next(iter(self._due), None)
            return self._due.pop(stream) if stream is not None else None


def _targets(settings: Settings) -> dict[StreamName, bool]:
    return {stream_of(one): one.target is not None for one in settings.streams}
