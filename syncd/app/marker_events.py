"""Whoever writes completion markers: listens to events, and writes from a thread of its own."""

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, NamedTuple, Self

from syncd.app.incident_alerts import Say
from syncd.app.lake_access import stream_of
from syncd.events import BatchesLanded, BatchExtracted, Event, PassEnded
from syncd.lake.completion_markers import Marker, tells_of_target
from syncd.load.marker_writer import Markers
from syncd.settings import LakeSettings, Settings
from watermarks.clock import Clock
from watermarks.errors import HintedError
from watermarks.names import StreamName
from watermarks.store import Store

LAST_WORDS: Final = 3.0
"""Seconds that the end waits for what is still to be written: the next pass of another process writes the rest."""


class _Due(NamedTuple):
    """A marker, and the lake that it tells of."""

    marker: Marker
    lake: LakeSettings


class Marking:
    """A reader of events that marks what is complete; of several passes of one stream only the newest is told of."""

    def __init__(
        self,
        settings: Settings,
        *,
        store: Callable[[LakeSettings], Store],
        clock: Clock,
        say: Say,
        last_words: float = LAST_WORDS,
    ) -> None:
        """Prepare; `store` opens that of a lake, from the writing thread."""
        self._clock = clock
        self._store = store
        self._say = say
        self._last_words = last_words
        self._lake = settings.lake
        self._has_target = _targets(settings)
        self._batches: dict[StreamName, str] = {}
        self._rows: dict[StreamName, int] = {}
        self._due: dict[StreamName, _Due] = {}
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
        self._thread.join(self._last_words)
        with self._changed:
            self._due.clear()  # what is under way may not come to an end for long, and nothing follows it

    def reconfigure(self, settings: Settings) -> None:
        """Go on with another configuration; in another lake nothing was marked yet, and its batches are others."""
        with self._changed:
            self._has_target = _targets(settings)
            if settings.lake != self._lake:
                self._lake = settings.lake
                self._batches.clear()
                self._rows.clear()

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
        marker = Marker(
            stream=stream,
            complete=event.complete,
            proven=event.proven,
            batch=self._batches.get(stream),
            rows=self._rows.get(stream, 0),
            at=self._clock.now(),
        )
        self._due[stream] = _Due(marker, self._lake)
        self._changed.notify()

    def _work(self) -> None:
        markers: Markers | None = None
        lake: LakeSettings | None = None
        while (due := self._next()) is not None:
            try:
                if markers is None or lake != due.lake:
                    markers, lake = Markers(self._store(due.lake)), due.lake
                if markers.write(due.marker):
                    self._told(due)
            except HintedError as error:
                self._say(
                    "marker.failed",
                    f"a marker was not written: {error.message}",
                    level=logging.WARNING,
                    why=error.message,
                )

    def _told(self, due: _Due) -> None:
        stream, rows = due.marker.stream, due.marker.rows
        with self._changed:
            if due.lake == self._lake:
                self._rows[stream] = max(0, self._rows.get(stream, 0) - rows)

    def _next(self) -> _Due | None:
        """What is to be written next; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._due or self._over)
            stream = next(iter(self._due), None)
            return self._due.pop(stream) if stream is not None else None


def _targets(settings: Settings) -> dict[StreamName, bool]:
    return {stream_of(one): one.target is not None for one in settings.streams}
