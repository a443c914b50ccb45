"""Notifier of incidents: checks the board by the clock and hands notices to the queues of their recipients."""

import logging
import threading
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from functools import partial
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final, Self

from syncd.observe.board import Board
from syncd.observe.incidents import IncidentDetector, IncidentState, IncidentUpdate
from syncd.observe.log import ReportFunction
from syncd.observe.notifications import ReminderSchedule, encode_notice, notice_document
from syncd.observe.webhook import NotificationQueue, Webhook
from syncd.settings import NotifySettings
from watermarks.clock import Clock

DETECT_INTERVAL_SECONDS: Final = 1.0


class NotificationRecipient:
    """One address with its queue and the notices that it got."""

    def __init__(self, settings: NotifySettings, queue: NotificationQueue) -> None:
        self._channel = settings.channel
        self._queue = queue
        self._reminders = ReminderSchedule(settings.again)
        self._undelivered = SimpleQueue[IncidentUpdate]()
        """Notices that did not arrive, put here by the sending thread."""

    def notify(self, updates: Iterable[IncidentUpdate], detector: IncidentDetector, clock: Clock) -> None:
        """Queue the notices that are due for this recipient."""
        with suppress(Empty):
            while True:
                self._reminders.on_undelivered(self._undelivered.get_nowait(), monotonic_now=clock.monotonic())
        due = self._reminders.take_due(
            updates, detector.open_incidents, at=clock.now(), monotonic_now=clock.monotonic()
        )
        for update in due:
            self._queue.enqueue(
                encode_notice(update, self._channel), on_no_answer=partial(self._undelivered.put, update)
            )


class IncidentNotifier:
    """Sends notices of incidents from a thread of its own; streams neither wait for it nor fail with it."""

    def __init__(
        self,
        board: Board,
        notify: Iterable[NotifySettings],
        *,
        clock: Clock,
        report: ReportFunction,
        interval_seconds: float = DETECT_INTERVAL_SECONDS,
    ) -> None:
        self._detector = IncidentDetector(board)
        self._notify = tuple(notify)
        self._clock = clock
        self._report = report
        self._interval_seconds = interval_seconds
        self._over = threading.Event()
        self._queues = ExitStack()
        self._recipients: tuple[NotificationRecipient, ...] = ()
        self._thread = threading.Thread(target=self._run, name="incidents", daemon=True)

    def __enter__(self) -> Self:
        self._recipients = tuple(self._make_recipient(number, one) for number, one in enumerate(self._notify, 1))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._notify_changes()
        self._queues.close()

    @property
    def open_count(self) -> int:
        return len(self._detector.open_incidents)

    def _make_recipient(self, number: int, settings: NotifySettings) -> NotificationRecipient:
        name = f"recipient {number} ({settings.channel})"

        def on_lost(why: str) -> None:
            self._report("notice.lost", f"a notice was lost: {why}", level=logging.WARNING, recipient=name, why=why)

        queue = NotificationQueue(Webhook(settings.url, name=name), on_lost=on_lost)
        return NotificationRecipient(settings, self._queues.enter_context(queue))

    def _run(self) -> None:
        while not self._over.wait(self._interval_seconds):
            self._notify_changes()

    def _notify_changes(self) -> None:
        updates = self._detector.detect_changes()
        for recipient in self._recipients:
            recipient.notify(updates, self._detector, self._clock)
        for update in updates:
            self._report_update(update)

    def _report_update(self, update: IncidentUpdate) -> None:
        skipped = {"format", "format_version", "message", "state"}
        facts = {name: value for name, value in notice_document(update).items() if name not in skipped}
        level = logging.INFO if update.state is IncidentState.CLOSED else logging.WARNING
        self._report(f"incident.{update.state}", update.incident.message, level=level, **facts)
