"""Readers of events that act on them: log, notices of incidents, completion markers."""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final, Self, TextIO

from syncd.app.lake_access import open_quick_lake, open_store
from syncd.app.marker_sink import MarkerSink
from syncd.events import EventListener, StreamEvent, StreamFailed
from syncd.observe.board import Board
from syncd.observe.incident_notifier import IncidentNotifier
from syncd.observe.log import collect_secrets, open_log
from syncd.settings import LakeSettings, Settings
from watermarks.clock import Clock
from watermarks.store import Store

MARKER_REQUEST_TIMEOUT_SECONDS: Final = 5.0
"""Timeout of a request that writes a marker. It is not retried: the next pass writes a newer marker."""


class EventDispatcher:
    """Hands each event to every reader, one event at a time, whichever thread it comes from.

    A reader that raises misses that event and no other; its first failure is reported.
    """

    def __init__(self, readers: Sequence[EventListener], *, report: Callable[[str], None]) -> None:
        self._readers = tuple(readers)
        self._report = report
        self._guard = threading.Lock()
        self._reported_readers = set[int]()

    def __call__(self, event: StreamEvent) -> None:
        if isinstance(event, StreamFailed):
            return  # PassEnded reports the failure with all its facts
        with self._guard:
            for number, reader in enumerate(self._readers):
                try:
                    reader(event)
                except Exception as error:  # noqa: BLE001  # a closed pipe, a full disk or a bug must not stop a stream
                    self._report_failure(number, error)

    def _report_failure(self, number: int, error: Exception) -> None:
        if number not in self._reported_readers:
            self._reported_readers.add(number)
            self._report(f"an event sink fails and misses events: {type(error).__name__}")


class EventSinks:
    """Reader of events that hands them to all sinks while its `with` block runs."""

    def __init__(
        self, settings: Settings, *, board: Board, clock: Clock, environ: Mapping[str, str], stream: TextIO
    ) -> None:
        self._settings = settings
        self._stack = ExitStack()
        log = open_log(stream, clock=clock, environ=environ, secrets=collect_secrets(settings))
        self._log = self._stack.enter_context(log)
        self._incident_notifier = IncidentNotifier(board, settings.daemon.notify, clock=clock, report=self._log.report)
        self._marker_sink = MarkerSink(settings, open_store=_open_marker_store, clock=clock, report=self._log.report)
        self._readers: list[EventListener] = [self._log]

    def __enter__(self) -> Self:
        self._stack.enter_context(self._incident_notifier)
        if self._settings.daemon.markers:
            self._stack.enter_context(self._marker_sink)
            self._readers.append(self._marker_sink)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __call__(self, event: StreamEvent) -> None:
        for reader in self._readers:
            reader(event)

    def report(self, line: str) -> None:
        """Log what concerns the daemon and no stream."""
        self._log.report("daemon.message", line)

    def reconfigure(self, settings: Settings) -> None:
        """Continue with the streams of another configuration; changes under `daemon:` need a restart."""
        self._settings = settings
        self._marker_sink.reconfigure(settings)

    def describe_status(self) -> str:
        """Return the status line for systemd."""
        return f"{len(self._settings.streams)} tables, {self._incident_notifier.open_count} incidents open"


def _open_marker_store(lake: LakeSettings) -> Store:
    return open_store(open_quick_lake(lake, timeout_seconds=MARKER_REQUEST_TIMEOUT_SECONDS))
