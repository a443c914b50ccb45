"""The daemon of a demonstration: in a thread of this process, on a Spark session that starts early."""

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from syncd.app import StageService
from syncd.daemon.daemon_loop import DaemonLoop
from syncd.events import EventListener, StreamEvent
from syncd.settings import Settings

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
