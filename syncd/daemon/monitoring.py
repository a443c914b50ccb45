"""Whoever watches one daemon: its board, its metrics and its health, and the server that shows them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from syncd.app.lake_access import open_quick_lake, open_store
from syncd.daemon.health import Health
from syncd.daemon.http_server import Server, serving
from syncd.daemon.routes import Answers
from syncd.events import Tell
from syncd.observe.board import Board, listed_of
from syncd.observe.mark_history import Move, moves_of
from syncd.observe.metrics import Metrics
from syncd.ports.request_stats import Meter
from syncd.settings import Settings
from watermarks.clock import Clock
from watermarks.document import Watermark
from watermarks.history import Journal
from watermarks.names import SYSTEM, StreamName, document_key

if TYPE_CHECKING:
    from watermarks.store import Store

PATIENCE: Final = 5.0
"""Seconds that a request to the lake may take for a page; it is not sent twice."""


class Watching:
    """Made before the daemon, which tells it of everything; what it shows of the daemon's loop comes with `serving`."""

    def __init__(self, settings: Settings, *, clock: Clock) -> None:
        """Prepare; `clock` is the one by which the daemon's loop goes."""
        self._settings = settings
        self._clock = clock
        self._beat: Callable[[], float] = clock.monotonic
        listed = listed_of(settings)
        self._board = Board(listed, clock=clock)
        self._health = Health(clock=clock, beat=self._came_round, look=self._look)
        self._metrics = Metrics(self._board, clock=clock, age=self._health.age)
        self._metrics.keep(listed)
        self._kept: Store | None = None

    @property
    def readers(self) -> Sequence[Tell]:
        """Who wants to be told of events."""
        return self._board, self._metrics, self._health

    @property
    def meter(self) -> Meter:
        """Who wants to be told what is asked of the outside."""
        return self._metrics.measure

    def settings(self, settings: Settings) -> None:
        """Other settings are in force: other streams, perhaps another lake."""
        if settings.lake != self._settings.lake:
            self._kept = None
        self._settings = settings
        listed = listed_of(settings)
        self._board.relist(listed)
        self._metrics.keep(listed)

    @contextmanager
    def serving(self, *, beat: Callable[[], float], say: Callable[[str], None]) -> Iterator[Server | None]:
        """Show it over HTTP, inside the `with`; `beat` tells when the daemon's loop came round last, by its clock.

        Raises:
            ConfigError: the address of `daemon.http` is not to be had.
        """
        self._beat = beat
        answers = Answers(board=self._board, metrics=self._metrics, health=self._health, history=self._history)
        with serving(self._settings.daemon, answers, say=say) as server:
            yield server

    def _came_round(self) -> float:
        return self._beat()

    def _history(self, stream: StreamName, limit: int, before: int | None) -> Sequence[Move]:
        return moves_of(Journal(self._store(), Watermark), stream, limit=limit, before=before)

    def _look(self) -> None:
        self._store().read(document_key(SYSTEM))

    def _store(self) -> "Store":
        """The lake's, over a client of its own: who looks at a page takes no connection from whoever works."""
        kept = self._kept
        if kept is None:
            self._kept = kept = open_store(open_quick_lake(self._settings.lake, within=PATIENCE, meter=self.meter))
        return kept
