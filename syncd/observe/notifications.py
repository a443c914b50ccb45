"""Notices of incidents: when one is due, and its form as a JSON document or as a Slack text."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from syncd.observe.causes import CAUSE_SENTENCES
from syncd.observe.formatting import format_count
from syncd.observe.formatting import format_instant as clock_text
from syncd.observe.incidents import Incident, IncidentKey, IncidentKind, IncidentState, IncidentUpdate
from syncd.settings import Channel
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
        "cause_says": CAUSE_SENTENCES[incident.key.cause],
        "party": incident.key.party,
        "streams": [str(stream) for stream in incident.streams],
        "since": format_instant(incident.since),
        "at": format_instant(update.at),
        "message": incident.message,
        "hint": incident.hint or None,
        "complete": format_instant(incident.complete_upto) if incident.complete_upto else None,
    }


def notice_text(update: IncidentUpdate) -> str:
    """Return the text of the channel `slack`, escaped so that a message cannot mention Slack users."""
    incident = update.incident
    what = "not fresh" if incident.key.kind is IncidentKind.STALE else "failing"
    head = f"syncd: {incident.key.party}: {what}, {CAUSE_SENTENCES[incident.key.cause]} ({_STATE_WORDS[update.state]})"
    names = [stream.table_name for stream in incident.streams]
    more = f" and {len(names) - MAX_NAMED_STREAMS} more" if len(names) > MAX_NAMED_STREAMS else ""
    tables = f"{format_count(len(names), 'table')}: {', '.join(names[:MAX_NAMED_STREAMS])}{more}"
    lines = [head, tables, f"since {clock_text(incident.since)}"]
    if update.state is not IncidentState.CLOSED:
        lines += filter(None, (incident.message, incident.hint))
    return "\n".join(map(_escape_slack, lines))


def _escape_slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
