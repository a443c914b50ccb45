"""The daemon of a demonstration: in a thread beside it, on a session of Spark that starts before there is a table."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, Self

from syncd.app import StageService
from syncd.daemon.daemon_loop import DaemonLoop
from syncd.events import EventListener, StreamEvent
from syncd.settings import Settings

SESSION_TIMEOUT_SECONDS: Final = 120.0


class DemoService(StageService):
    """The service that the daemon works with; it stands before the daemon does."""

    def __init__(self, settings: Settings) -> None:
        self._event_receiver: EventListener = _ignore_event
        super().__init__(settings, environ=os.environ, emit=self._forward_event)

    def _forward_event(self, event: StreamEvent) -> None:
        self._event_receiver(event)

    def send_events_to(self, tell: EventListener) -> Self:
        self._event_receiver = tell
        return self

    def start_spark(self) -> None:
        """Start the session meanwhile. What befalls it is not asked for: the first reading meets it too, and tells."""
        starter = ThreadPoolExecutor(1, thread_name_prefix="warm")
        starter.submit(self.session.run, lambda spark: spark.range(1).count(), within=SESSION_TIMEOUT_SECONDS)
        starter.shutdown(wait=False)


@contextmanager
def run_daemon_in_thread(
    settings: Settings, service: DemoService, *, readers: Sequence[EventListener]
) -> Iterator[None]:
    """The daemon, at work in a thread of its own until the end of the `with`."""
    warm = [service]

    def make(settings: Settings, tell: EventListener, _lost: Callable[[], None]) -> DemoService:
        """The works that are warm; where a laptop slept and their lease is lost, others."""
        return (warm.pop() if warm else DemoService(settings)).send_events_to(tell)

    daemon = DaemonLoop(
        settings,
        read_settings=lambda: settings,
        make_runner=make,
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


def _ignore_event(_event: StreamEvent) -> None:
    """Nobody is told yet."""
