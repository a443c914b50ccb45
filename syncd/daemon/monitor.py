"""Monitoring of one daemon: its board, metrics and health, and the HTTP server that shows them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from syncd.app.lake_access import open_quick_lake, open_store
from syncd.daemon.health import HealthChecker
from syncd.daemon.http_server import HttpServer, run_http_server
from syncd.daemon.routes import Routes
from syncd.events import EventListener
from syncd.observe.board import Board, configured_streams
from syncd.observe.mark_history import MarkHistoryEntry, read_mark_history
from syncd.observe.metrics import Metrics
from syncd.ports.request_stats import CallObserver
from syncd.settings import Settings
from watermarks.clock import Clock
from watermarks.document import Watermark
from watermarks.history import Journal
from watermarks.names import SYSTEM_STEM, StreamName, document_key
from watermarks.store import Store

PAGE_REQUEST_TIMEOUT_SECONDS: Final = 5.0
"""Timeout of a request to the lake for a page; it is not retried."""


class DaemonMonitor:
    """Readers of events and calls that show the daemon; made before the loop, which is known from `serve_http` on."""

    def __init__(self, settings: Settings, *, clock: Clock) -> None:
        """Make the readers; `clock` is the clock of the loop."""
        self._settings = settings
        self._clock = clock
        self._get_last_iteration_at: Callable[[], float] = clock.monotonic
        streams = configured_streams(settings)
        self.board: Final = Board(streams, clock=clock)
        self._health = HealthChecker(
            clock=clock, last_iteration_at=self._read_last_iteration, probe_lake=self._probe_lake
        )
        self._metrics = Metrics(self.board, clock=clock, heartbeat_age=self._health.seconds_since_iteration)
        self._metrics.set_streams(streams)
        self._cached_store: Store | None = None

    @property
    def readers(self) -> Sequence[EventListener]:
        return self.board, self._metrics, self._health

    @property
    def meter(self) -> CallObserver:
        return self._metrics.on_call

    def reconfigure(self, settings: Settings) -> None:
        """Continue with other settings: other streams, perhaps another lake."""
        if settings.lake != self._settings.lake:
            self._cached_store = None
        self._settings = settings
        streams = configured_streams(settings)
        self.board.set_streams(streams)
        self._metrics.set_streams(streams)

    @contextmanager
    def serve_http(
        self, *, last_iteration_at: Callable[[], float], report: Callable[[str], None]
    ) -> Iterator[HttpServer | None]:
        """Run the HTTP server inside the `with`.

        Raises:
            ConfigError: `daemon.http` is no address to listen at.
        """
        self._get_last_iteration_at = last_iteration_at
        routes = Routes(board=self.board, metrics=self._metrics, health=self._health, read_history=self._read_history)
        with run_http_server(self._settings.daemon, routes, report=report) as server:
            yield server

    def _read_last_iteration(self) -> float:
        return self._get_last_iteration_at()

    def _read_history(self, stream: StreamName, limit: int, before: int | None) -> Sequence[MarkHistoryEntry]:
        return read_mark_history(Journal(self._store(), Watermark), stream, limit=limit, before=before)

    def _probe_lake(self) -> None:
        self._store().read(document_key(SYSTEM_STEM))

    def _store(self) -> Store:
        """Return the store, over an S3 client of its own so that pages take no connection from passes."""
        store = self._cached_store
        if store is None:
            lake = open_quick_lake(self._settings.lake, timeout_seconds=PAGE_REQUEST_TIMEOUT_SECONDS, meter=self.meter)
            self._cached_store = store = open_store(lake)
        return store
