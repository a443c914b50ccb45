"""Notifications of incidents: their texts, reminders, and the thread that hands them to mailboxes."""

import json
import logging
import threading
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, Self

from syncd.observe.board import Board
from syncd.observe.causes import CAUSE_SENTENCES
from syncd.observe.formatting import format_count
from syncd.observe.formatting import format_instant as clock_text
from syncd.observe.incidents import Incident, IncidentDetector, IncidentKey, IncidentKind, IncidentState, IncidentUpdate
from syncd.observe.log import ReportFunction
from syncd.observe.webhook import NotificationQueue, Webhook
from syncd.settings import Channel, NotifySettings
from watermarks.clock import Clock
from watermarks.cursor import format_instant

FORMAT: Final = "syncd-incident"
FORMAT_VERSION: Final = 1
UNDELIVERED_RETRY_SECONDS: Final = 60.0
"""Time after which an undelivered notice of an open incident is sent again."""
MAX_NAMED_STREAMS: Final = 20

_STATE_WORDS: Final = {
    IncidentState.OPENED: "opened",
    IncidentState.STILL_OPEN: "still open",
    IncidentState.CLOSED: "over",
}


@dataclass(slots=True)
class ReminderSchedule:
    """Notices that one recipient got: one for each incident, and reminders while it is open."""

    repeat_after: timedelta
    _sent_at: dict[IncidentKey, float] = field(default_factory=dict[IncidentKey, float])
    _never_delivered: set[IncidentKey] = field(default_factory=set[IncidentKey])
    """Incidents whose opening notice did not arrive."""

    def take_due(
        self,
        updates: Iterable[IncidentUpdate],
        open_incidents: Iterable[Incident],
        *,
        at: datetime,
        monotonic_now: float,
    ) -> list[IncidentUpdate]:
        """Return the notices that are due, and record them as sent."""
        due = [one for one in updates if one.state is IncidentState.OPENED or one.incident.key in self._sent_at]
        for update in due:
            key = update.incident.key
            if update.state is IncidentState.CLOSED:
                self._sent_at.pop(key, None)
                self._never_delivered.discard(key)
            else:
                self._sent_at[key] = monotonic_now
        for incident in open_incidents:
            key = incident.key
            if monotonic_now - self._sent_at.setdefault(key, monotonic_now) >= self.repeat_after.total_seconds():
                self._sent_at[key] = monotonic_now
                state = IncidentState.OPENED if key in self._never_delivered else IncidentState.STILL_OPEN
                self._never_delivered.discard(key)
                due.append(IncidentUpdate(state=state, incident=incident, at=at))
        return due

    def on_undelivered(self, update: IncidentUpdate, *, monotonic_now: float) -> None:
        """Make an undelivered notice due again soon, instead of after the whole reminder interval."""
        key = update.incident.key
        if update.state is IncidentState.CLOSED or key not in self._sent_at:
            return
        self._sent_at[key] = monotonic_now - max(self.repeat_after.total_seconds() - UNDELIVERED_RETRY_SECONDS, 0.0)
        if update.state is IncidentState.OPENED:
            self._never_delivered.add(key)


def encode_notice(update: IncidentUpdate, channel: Channel) -> bytes:
    """Return the body of a notice, in UTF-8."""
    body = notice_document(update) if channel is Channel.WEBHOOK else {"text": notice_text(update)}
    return json.dumps(body, sort_keys=True).encode()


def notice_document(update: IncidentUpdate) -> dict[str, object]:
    """Return the document of the channel `webhook`; docs/how-to/incidents.md lists its fields, which only grow."""
    incident = update.incident
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "incident": str(incident.key),
        "state": update.state,
        "kind": incident.key.kind,
        "cause": incident.key.cause,
        "cause_text": CAUSE_SENTENCES[incident.key.cause],
        "component": incident.key.component,
        "streams": [str(stream) for stream in incident.streams],
        "since": format_instant(incident.since),
        "at": format_instant(update.at),
        "message": incident.message,
        "hint": incident.hint or None,
        "complete_up_to": format_instant(incident.complete_upto) if incident.complete_upto else None,
    }


def notice_text(update: IncidentUpdate) -> str:
    """Return the text of the channel `slack`, escaped so that a message cannot mention Slack users."""
    incident = update.incident
    what = "not fresh" if incident.key.kind is IncidentKind.STALE else "failing"
    head = (
        f"syncd: {incident.key.component}: {what}, {CAUSE_SENTENCES[incident.key.cause]} ({_STATE_WORDS[update.state]})"
    )
    names = [stream.table_name for stream in incident.streams]
    more = f" and {len(names) - MAX_NAMED_STREAMS} more" if len(names) > MAX_NAMED_STREAMS else ""
    tables = f"{format_count(len(names), 'table')}: {', '.join(names[:MAX_NAMED_STREAMS])}{more}"
    lines = [head, tables, f"since {clock_text(incident.since)}"]
    if update.state is not IncidentState.CLOSED:
        lines += filter(None, (incident.message, incident.hint))
    return "\n".join(map(_escape_slack, lines))


def _escape_slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


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

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._notify_changes()
        self._queues.close()

    @property
    def open_count(self) -> int:
        return len(self._detector.open_incidents)

    def _make_recipient(self, number: int, settings: NotifySettings) -> NotificationRecipient:
        name = f"recipient {number} ({settings.channel})"

        def on_lost(reason: str) -> None:
            self._report(
                "notice.lost", f"a notice was lost: {reason}", level=logging.WARNING, recipient=name, reason=reason
            )

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
