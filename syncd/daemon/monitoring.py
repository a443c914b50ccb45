"""Whoever watches one daemon: its board, its metrics and its health, and the server that shows them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

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

if TYPE_CHECKING:
    from watermarks.store import Store

PAGE_REQUEST_TIMEOUT_SECONDS: Final = 5.0
"""Seconds that a request to the lake may take for a page; it is not sent twice."""


class DaemonMonitor:
    """Made before the daemon, which tells it of everything; what it shows of the daemon's loop comes with `serving`."""

    def __init__(self, settings: Settings, *, clock: Clock) -> None:
        """Prepare; `clock` is the one by which the daemon's loop goes."""
        self._settings = settings
        self._clock = clock
        self._get_last_iteration_at: Callable[[], float] = clock.monotonic
        listed = configured_streams(settings)
        self._board = Board(listed, clock=clock)
        self._health = HealthChecker(
            clock=clock, last_iteration_at=self._last_iteration_at, probe_lake=self._probe_lake
        )
        self._metrics = Metrics(self._board, clock=clock, heartbeat_age=self._health.seconds_since_iteration)
        self._metrics.set_streams(listed)
        self._cached_store: Store | None = None

    @property
    def readers(self) -> Sequence[EventListener]:
        """Who wants to be told of events."""
        return self._board, self._metrics, self._health

    @property
    def meter(self) -> CallObserver:
        """Who wants to be told what is asked of the outside."""
        return self._metrics.on_call

    def reconfigure(self, settings: Settings) -> None:
        """Other settings are in force: other streams, perhaps another lake."""
        if settings.lake != self._settings.lake:
            self._cached_store = None
        self._settings = settings
        listed = configured_streams(settings)
        self._board.set_streams(listed)
        self._metrics.set_streams(listed)

    @contextmanager
    def serve_http(
        self, *, last_iteration_at: Callable[[], float], report: Callable[[str], None]
    ) -> Iterator[HttpServer | None]:
        """Show it over HTTP, inside the `with`; `beat` tells when the daemon's loop came round last, by its clock.

        Raises:
            ConfigError: the address of `daemon.http` is not to be had.
        """
        self._get_last_iteration_at = last_iteration_at
        answers = Routes(board=self._board, metrics=self._metrics, health=self._health, read_history=self._read_history)
        with run_http_server(self._settings.daemon, answers, report=report) as server:
            yield server

    def _last_iteration_at(self) -> float:
        return self._get_last_iteration_at()

    def _read_history(self, stream: StreamName, limit: int, before: int | None) -> Sequence[MarkHistoryEntry]:
        return read_mark_history(Journal(self._store(), Watermark), stream, limit=limit, before=before)

    def _probe_lake(self) -> None:
        self._store().read(document_key(SYSTEM_STEM))

    def _store(self) -> "Store":
        """The lake's, over a client of its own: who looks at a page takes no connection from whoever works."""
        kept = self._cached_store
        if kept is None:
            self._cached_store = kept = open_store(
                open_quick_lake(self._settings.lake, timeout_seconds=PAGE_REQUEST_TIMEOUT_SECONDS, meter=self.meter)
            )
        return kept
