"""Whoever is told of incidents: listens to events, judges by the clock, and hands notices to their mailboxes."""

import logging
import threading
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from functools import partial
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final, Protocol, Self

from syncd.app.lake_access import stream_of
from syncd.events import Event
from syncd.observe.incidents import Change, Turn, Watch, Watched
from syncd.observe.notifications import Reminders, body_of, document
from syncd.observe.webhook import Mailbox, Webhook
from syncd.settings import NotifySettings, Settings
from watermarks.clock import Clock

JUDGED_EVERY: Final = 1.0
"""Seconds."""


class Say(Protocol):
    """How the log is told of what happened to no stream in particular."""

    def __call__(self, name: str, message: str, *, level: int = logging.INFO, **facts: object) -> None:
        """Take note of it."""
        ...


def watched_of(settings: Settings) -> Iterable[Watched]:
    """Every stream, and what was promised of it."""
    for stream in settings.streams:
        yield Watched(
            stream=stream_of(stream),
            warehouse=stream.target.warehouse if stream.target else "",
            within=stream.schedule.fresh_within,
        )


class Recipient:
    """One address: what it was told, and its mailbox."""

    def __init__(self, settings: NotifySettings, mailbox: Mailbox) -> None:
        self._channel = settings.channel
        self._mailbox = mailbox
        self._reminders = Reminders(settings.again)
        self._unheard = SimpleQueue[Change]()
        """What did not arrive, from the thread that sends."""

    def tell(self, changes: Iterable[Change], watch: Watch, clock: Clock) -> None:
        """Send what this one does not know yet."""
        with suppress(Empty):
            while True:
                self._reminders.unheard(self._unheard.get_nowait(), now=clock.monotonic())
        due = self._reminders.due(changes, watch.open, at=clock.now(), now=clock.monotonic())
        for change in due:
            self._mailbox.post(body_of(change, self._channel), unheard=partial(self._unheard.put, change))


class Incidents:
    """A reader of events that tells people; it never makes a stream wait, and none fails by it."""

    def __init__(self, settings: Settings, *, clock: Clock, say: Say, every: float = JUDGED_EVERY) -> None:
        self._clock = clock
        self._say = say
        self._every = every
        self._watch = Watch(watched_of(settings), clock=clock)
        self._guard = threading.Lock()
        self._over = threading.Event()
        self._mail = ExitStack()
        self._notify = settings.daemon.notify
        self._recipients: tuple[Recipient, ...] = ()
        self._thread = threading.Thread(target=self._work, name="incidents", daemon=True)

    def __enter__(self) -> Self:
        self._recipients = self._made(self._notify)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._judge()
        self._mail.close()

    def __call__(self, event: Event) -> None:
        with self._guard:
            self._watch.heard(event)

    @property
    def open(self) -> int:
        """How many are open now."""
        with self._guard:
            return len(self._watch.open)

    def watch(self, settings: Settings) -> None:
        """Watch the streams of another configuration; what is known of those that stay, stays known."""
        with self._guard:
            self._watch.watch(watched_of(settings))

    def _made(self, notify: Iterable[NotifySettings]) -> tuple[Recipient, ...]:
        return tuple(self._recipient(number, one) for number, one in enumerate(notify, 1))

    def _recipient(self, number: int, settings: NotifySettings) -> Recipient:
        name = f"recipient {number} ({settings.channel})"
        hook = Webhook(settings.url, name=name)

        def lost(why: str) -> None:
            self._say("notice.lost", f"a notice was lost: {why}", level=logging.WARNING, recipient=name, why=why)

        return Recipient(settings, self._mail.enter_context(Mailbox(hook, lost=lost)))

    def _work(self) -> None:
        while not self._over.wait(self._every):
            self._judge()

    def _judge(self) -> None:
        with self._guard:
            changes = self._watch.judged()
            for recipient in self._recipients:
                recipient.tell(changes, self._watch, self._clock)
        for change in changes:
            self._log(change)

    def _log(self, change: Change) -> None:
        told = {
            name: value
            for name, value in document(change).items()
            if name not in {"format", "format_version", "message", "state"}
        }
        level = logging.INFO if change.turn is Turn.CLOSED else logging.WARNING
        self._say(f"incident.{change.turn}", change.incident.message, level=level, **told)
