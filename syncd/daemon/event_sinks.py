"""Those who listen to a daemon beside its work: the log, whoever tells people, whoever writes markers."""

from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TextIO

from syncd.app.incident_alerts import Incidents
from syncd.app.lake_access import open_quick_lake, open_store
from syncd.app.marker_events import Marking
from syncd.events import Event
from syncd.observe.log import open_log, secrets_in
from syncd.settings import LakeSettings, Settings
from watermarks.clock import Clock
from watermarks.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE: Final = 5.0
"""Seconds that a request to the lake may take for a marker. It is not sent twice: the next pass makes up for it."""


class Tellers:
    """One reader of events for all of them; up inside a `with`, and silent outside."""

    def __init__(self, settings: Settings, *, clock: Clock, environ: Mapping[str, str], stream: TextIO) -> None:
        self._settings = settings
        self._clock = clock
        self._stack = ExitStack()
        log = open_log(stream, clock=clock, environ=environ, secrets=secrets_in(settings))
        self._log = self._stack.enter_context(log)
        self._incidents = Incidents(settings, clock=clock, say=self._log.say)
        self._marking = Marking(settings, store=_store, clock=clock, say=self._log.say)
        self._readers: list[Callable[[Event], None]] = [self._log]

    def __enter__(self) -> Self:
        self._stack.enter_context(self._incidents)
        self._readers.append(self._incidents)
        if self._settings.daemon.markers:
            self._stack.enter_context(self._marking)
            self._readers.append(self._marking)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def __call__(self, event: Event) -> None:
        for reader in self._readers:
            reader(event)

    def say(self, line: str) -> None:
        """Tell what is about the daemon and not a stream."""
        self._log.say("daemon.said", line)

    def reconfigure(self, settings: Settings) -> None:
        """Go on with the streams of another configuration; what stands below `daemon:` comes with the next start."""
        self._settings = settings
        self._incidents.watch(settings)
        self._marking.reconfigure(settings)

    def status(self) -> str:
        """How all of it stands, in a line."""
        return f"{len(self._settings.streams)} tables, {self._incidents.open} incidents open"


def _store(lake: LakeSettings) -> Store:
    return open_store(open_quick_lake(lake, within=PATIENCE))
