"""Those who listen to a daemon beside its work: the log, whoever tells people, whoever writes markers."""

from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TextIO

from syncd.app.incident_alerts import IncidentNotifier
from syncd.app.lake_access import open_quick_lake, open_store
from syncd.app.marker_events import MarkerSink
from syncd.events import StreamEvent
from syncd.observe.log import collect_secrets, open_log
from syncd.settings import LakeSettings, Settings
from watermarks.clock import Clock
from watermarks.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

MARKER_REQUEST_TIMEOUT_SECONDS: Final = 5.0
"""Seconds that a request to the lake may take for a marker. It is not sent twice: the next pass makes up for it."""


class EventSinks:
    """One reader of events for all of them; up inside a `with`, and silent outside."""

    def __init__(self, settings: Settings, *, clock: Clock, environ: Mapping[str, str], stream: TextIO) -> None:
        self._settings = settings
        self._clock = clock
        self._stack = ExitStack()
        log = open_log(stream, clock=clock, environ=environ, secrets=collect_secrets(settings))
        self._log = self._stack.enter_context(log)
        self._incident_notifier = IncidentNotifier(settings, clock=clock, report=self._log.report)
        self._marker_sink = MarkerSink(settings, open_store=_open_marker_store, clock=clock, report=self._log.report)
        self._readers: list[Callable[[StreamEvent], None]] = [self._log]

    def __enter__(self) -> Self:
        self._stack.enter_context(self._incident_notifier)
        self._readers.append(self._incident_notifier)
        if self._settings.daemon.markers:
            self._stack.enter_context(self._marker_sink)
            self._readers.append(self._marker_sink)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def __call__(self, event: StreamEvent) -> None:
        for reader in self._readers:
            reader(event)

    def report(self, line: str) -> None:
        """Tell what is about the daemon and not a stream."""
        self._log.report("daemon.said", line)

    def reconfigure(self, settings: Settings) -> None:
        """Go on with the streams of another configuration; what stands below `daemon:` comes with the next start."""
        self._settings = settings
        self._incident_notifier.reconfigure(settings)
        self._marker_sink.reconfigure(settings)

    def describe_status(self) -> str:
        """How all of it stands, in a line."""
        return f"{len(self._settings.streams)} tables, {self._incident_notifier.open_count} incidents open"


def _open_marker_store(lake: LakeSettings) -> Store:
    return open_store(open_quick_lake(lake, timeout_seconds=MARKER_REQUEST_TIMEOUT_SECONDS))
