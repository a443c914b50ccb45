"""Whoever is told of incidents: listens to events, judges by the clock, and hands notices to their mailboxes."""

import logging
import threading
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from functools import partial
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final, Protocol, Self

from syncd.app.lake_access import stream_name_of
from syncd.events import StreamEvent
from syncd.observe.incidents import IncidentDetector, IncidentState, IncidentUpdate, WatchedStream
from syncd.observe.notifications import ReminderSchedule, encode_notice, notice_document
from syncd.observe.webhook import NotificationQueue, Webhook
from syncd.settings import NotifySettings, Settings
from watermarks.clock import Clock

DETECT_INTERVAL_SECONDS: Final = 1.0
"""Seconds."""


class ReportFunction(Protocol):
    """How the log is told of what happened to no stream in particular."""

    def __call__(self, name: str, message: str, *, level: int = logging.INFO, **facts: object) -> None:
        """Take note of it."""
        ...


def watched_streams(settings: Settings) -> Iterable[WatchedStream]:
    """Every stream, and what was promised of it."""
    for stream in settings.streams:
        yield WatchedStream(
            stream=stream_name_of(stream),
            warehouse=stream.target.warehouse if stream.target else "",
            promised_lag=stream.schedule.fresh_within,
        )


class NotificationRecipient:
    """One address: what it was told, and its mailbox."""

    def __init__(self, settings: NotifySettings, mailbox: NotificationQueue) -> None:
        self._channel = settings.channel
        self._mailbox = mailbox
        self._reminders = ReminderSchedule(settings.again)
        self._undelivered = SimpleQueue[IncidentUpdate]()
        """What did not arrive, from the thread that sends."""

    def notify(self, updates: Iterable[IncidentUpdate], detector: IncidentDetector, clock: Clock) -> None:
        """Send what this one does not know yet."""
        with suppress(Empty):
            while True:
                self._reminders.on_undelivered(self._undelivered.get_nowait(), monotonic_now=clock.monotonic())
        due = self._reminders.take_due(
            updates, detector.open_incidents, at=clock.now(), monotonic_now=clock.monotonic()
        )
        for change in due:
            self._mailbox.enqueue(
                encode_notice(change, self._channel), on_no_answer=partial(self._undelivered.put, change)
            )


class IncidentNotifier:
    """A reader of events that tells people; it never makes a stream wait, and none fails by it."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock,
        report: ReportFunction,
        interval_seconds: float = DETECT_INTERVAL_SECONDS,
    ) -> None:
        self._clock = clock
        self._report = report
        self._interval_seconds = interval_seconds
        self._detector = IncidentDetector(watched_streams(settings), clock=clock)
        self._guard = threading.Lock()
        self._over = threading.Event()
        self._mailboxes = ExitStack()
        self._notify = settings.daemon.notify
        self._recipients: tuple[NotificationRecipient, ...] = ()
        self._thread = threading.Thread(target=self._work, name="incidents", daemon=True)

    def __enter__(self) -> Self:
        self._recipients = self._make_recipients(self._notify)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._notify_changes()
        self._mailboxes.close()

    def __call__(self, event: StreamEvent) -> None:
        with self._guard:
            self._detector.on_event(event)

    @property
    def open_count(self) -> int:
        """How many are open now."""
        with self._guard:
            return len(self._detector.open_incidents)

    def reconfigure(self, settings: Settings) -> None:
        """Watch the streams of another configuration; what is known of those that stay, stays known."""
        with self._guard:
            self._detector.set_streams(watched_streams(settings))

    def _make_recipients(self, notify: Iterable[NotifySettings]) -> tuple[NotificationRecipient, ...]:
        return tuple(self._make_recipient(number, one) for number, one in enumerate(notify, 1))

    def _make_recipient(self, number: int, settings: NotifySettings) -> NotificationRecipient:
        name = f"recipient {number} ({settings.channel})"
        hook = Webhook(settings.url, name=name)

        def lost(why: str) -> None:
            self._report("notice.lost", f"a notice was lost: {why}", level=logging.WARNING, recipient=name, why=why)

        return NotificationRecipient(settings, self._mailboxes.enter_context(NotificationQueue(hook, on_lost=lost)))

    def _work(self) -> None:
        while not self._over.wait(self._interval_seconds):
            self._notify_changes()

    def _notify_changes(self) -> None:
        with self._guard:
            changes = self._detector.detect_changes()
            for recipient in self._recipients:
                recipient.notify(changes, self._detector, self._clock)
        for change in changes:
            self._report_update(change)

    def _report_update(self, update: IncidentUpdate) -> None:
        told = {
            name: value
            for name, value in notice_document(update).items()
            if name not in {"format", "format_version", "message", "state"}
        }
        level = logging.INFO if update.state is IncidentState.CLOSED else logging.WARNING
        self._report(f"incident.{update.state}", update.incident.message, level=level, **told)
