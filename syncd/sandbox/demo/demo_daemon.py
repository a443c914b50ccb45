"""Daemon of a demonstration, and the check that everything written has arrived."""

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from syncd.app.stage_services import StageService
from syncd.daemon.daemon_loop import DaemonLoop
from syncd.events import BatchesLoaded, BatchExtracted, EventListener, PassEnded, PassStarted, StreamEvent
from syncd.settings import Mode, Settings, StreamSettings
from watermarks.batch import BatchId
from watermarks.document import Stage
from watermarks.progress import BEFORE_FIRST_BATCH

MIN_QUIET_PASSES: Final = 2
"""Passes in a row that find nothing: the second reads what the first left out because of the horizon."""


@dataclass(slots=True)
class _TableDrainState:
    """Drain state of one table."""

    is_replaced: bool
    """True if each pass reads the whole table: then one pass is enough, and each finds something."""
    began_after_last_write: bool = False
    """True if the running pass began after the last write."""
    settled_passes: int = 0
    """Passes in a row without a surprise."""
    extracted: BatchId = BEFORE_FIRST_BATCH
    loaded: BatchId = BEFORE_FIRST_BATCH

    @property
    def is_drained(self) -> bool:
        return self.settled_passes >= (1 if self.is_replaced else MIN_QUIET_PASSES) and self.loaded >= self.extracted


class DrainMonitor:
    """Listener to events that detects when a source without writers has arrived in the warehouse."""

    def __init__(self, streams: Iterable[StreamSettings]) -> None:
        self._tables = {one.table: _TableDrainState(is_replaced=one.mode is Mode.REPLACE) for one in streams}
        self._written = threading.Event()
        self.progress_steps = 0
        """Number of steps towards the end so far."""

    def start(self) -> None:
        """Note that nothing is written from now on."""
        self._written.set()

    @property
    def is_drained(self) -> bool:
        return all(table.is_drained for table in self._tables.values())

    def __call__(self, event: StreamEvent) -> None:
        table = self._tables[event.stream.table]
        match event:
            case PassStarted(stage=Stage.EXTRACT):
                table.began_after_last_write = self._written.is_set()
            case BatchExtracted():
                table.extracted = event.batch
                self.progress_steps += 1
            case BatchesLoaded():
                table.loaded = event.last
                self.progress_steps += 1
            case PassEnded(stage=Stage.EXTRACT) if table.began_after_last_write:
                has_batches = event.batches > 0
                settled = event.error is None and not event.reason and has_batches == table.is_replaced
                table.settled_passes = table.settled_passes + 1 if settled else 0
                self.progress_steps += 0 < table.settled_passes <= MIN_QUIET_PASSES
            case _:
                return


SESSION_TIMEOUT_SECONDS: Final = 120.0


class DemoService:
    """A service that exists before the daemon does; the daemon's events are connected when it starts."""

    def __init__(self, settings: Settings) -> None:
        self._listener: EventListener | None = None
        self.stages = StageService(settings, environ=os.environ, emit=self._forward_event)

    def _forward_event(self, event: StreamEvent) -> None:
        if self._listener is not None:
            self._listener(event)

    def start_spark(self) -> None:
        """Start the session in a thread. A failure is ignored: the first read meets it too, and reports it."""
        starter = ThreadPoolExecutor(1, thread_name_prefix="warm")
        starter.submit(self.stages.session.run, lambda spark: spark.range(1).count(), within=SESSION_TIMEOUT_SECONDS)
        starter.shutdown(wait=False)

    @contextmanager
    def run_daemon(self, settings: Settings, *, readers: Sequence[EventListener]) -> Iterator[None]:
        """Run the daemon in a thread of its own until the end of the `with`."""

        def make_runner(settings: Settings, listener: EventListener, _lost: object) -> StageService:
            """Return the warm service first; another one after the machine slept and the lease was lost."""
            if self._listener is not None:
                return StageService(settings, environ=os.environ, emit=listener)
            self._listener = listener
            return self.stages

        daemon = DaemonLoop(
            settings,
            read_settings=lambda: settings,
            make_runner=make_runner,
            readers=readers,
            report=lambda _line: None,
        )
        thread = threading.Thread(target=daemon.run, name="daemon")
        thread.start()
        try:
            yield
        finally:
            daemon.stop()
            thread.join()
