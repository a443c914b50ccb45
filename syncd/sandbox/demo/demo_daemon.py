"""The daemon of a demonstration: in a thread beside it, on a session of Spark that starts before there is a table."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, Self

from syncd.app import Service
from syncd.daemon.daemon_loop import Daemon
from syncd.events import Event, Tell
from syncd.settings import Settings

SESSION_WITHIN: Final = 120.0


class DemoWorks(Service):
    """The service that the daemon works with; it stands before the daemon does."""

    def __init__(self, settings: Settings) -> None:
        self._heard: Tell = _nobody
        super().__init__(settings, environ=os.environ, tell=self._hear)

    def _hear(self, event: Event) -> None:
        self._heard(event)

    def told_to(self, tell: Tell) -> Self:
        self._heard = tell
        return self

    def warm(self) -> None:
        """Start the session meanwhile. What befalls it is not asked for: the first reading meets it too, and tells."""
        starter = ThreadPoolExecutor(1, thread_name_prefix="warm")
        starter.submit(self.session.run, lambda spark: spark.range(1).count(), within=SESSION_WITHIN)
        starter.shutdown(wait=False)


@contextmanager
def at_work(settings: Settings, works: DemoWorks, *, readers: Sequence[Tell]) -> Iterator[None]:
    """The daemon, at work in a thread of its own until the end of the `with`."""
    warm = [works]

    def make(settings: Settings, tell: Tell, _lost: Callable[[], None]) -> DemoWorks:
        """The works that are warm; where a laptop slept and their lease is lost, others."""
        return (warm.pop() if warm else DemoWorks(settings)).told_to(tell)

    daemon = Daemon(
        settings,
        read=lambda: settings,
        make=make,
        readers=readers,
        say=lambda _line: None,
    )
    thread = threading.Thread(target=daemon.run, name="daemon")
    thread.start()
    try:
        yield
    finally:
        daemon.stop()
        thread.join()


def _nobody(_event: Event) -> None:
    """Nobody is told yet."""
