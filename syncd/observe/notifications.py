"""What is sent of an incident, and when again: one JSON document, or a text as Slack takes it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from syncd.observe.causes import CAUSE_SENTENCES
from syncd.observe.event_text import format_count
from syncd.observe.event_text import format_instant as clock_text
from syncd.observe.incidents import Incident, IncidentKey, IncidentKind, IncidentState, IncidentUpdate
from syncd.settings import Channel
from watermarks.cursor import format_instant

FORMAT: Final = "syncd-incident"
FORMAT_VERSION: Final = 1
UNDELIVERED_RETRY_SECONDS: Final = 60.0
"""Seconds until what did not arrive is told once more, where its incident is open still."""
MAX_NAMED_STREAMS: Final = 20
"""How many streams a text names."""

_STATE_WORDS: Final = {
    IncidentState.OPENED: "opened",
    IncidentState.STILL_OPEN: "still open",
    IncidentState.CLOSED: "over",
}


@dataclass(slots=True)
class ReminderSchedule:
    """What one recipient was told of each open incident, and when; so each is told once, and again after a while."""

    repeat_after: timedelta
    _sent_at: dict[IncidentKey, float] = field(default_factory=dict[IncidentKey, float])
    _never_delivered: set[IncidentKey] = field(default_factory=set[IncidentKey])
    """Those of which the recipient does not even know that they opened."""

    def take_due(
        self,
        updates: Iterable[IncidentUpdate],
        open_incidents: Iterable[Incident],
        *,
        at: datetime,
        monotonic_now: float,
    ) -> list[IncidentUpdate]:
        """What to tell by `now`, in seconds of a clock that only rises."""
        told = [one for one in updates if one.state is IncidentState.OPENED or one.incident.key in self._sent_at]
        for change in told:
            if change.state is IncidentState.CLOSED:
                self._sent_at.pop(change.incident.key, None)
                self._never_delivered.discard(change.incident.key)
            else:
                self._sent_at[change.incident.key] = monotonic_now
        for incident in open_incidents:
            if (
                monotonic_now - self._sent_at.setdefault(incident.key, monotonic_now)
                >= self.repeat_after.total_seconds()
            ):
                self._sent_at[incident.key] = monotonic_now
                turn = IncidentState.OPENED if incident.key in self._never_delivered else IncidentState.STILL_OPEN
                self._never_delivered.discard(incident.key)
                told.append(IncidentUpdate(state=turn, incident=incident, at=at))
        return told

    def on_undelivered(self, update: IncidentUpdate, *, monotonic_now: float) -> None:
        """A notice did not arrive: it is due again before long, and not only `again` later."""
        key = update.incident.key
        if update.state is IncidentState.CLOSED or key not in self._sent_at:
            return
        self._sent_at[key] = monotonic_now - max(self.repeat_after.total_seconds() - UNDELIVERED_RETRY_SECONDS, 0.0)
        if update.state is IncidentState.OPENED:
            self._never_delivered.add(key)


def encode_notice(update: IncidentUpdate, channel: Channel) -> bytes:
    """What is sent, in UTF-8."""
    told = notice_document(update) if channel is Channel.WEBHOOK else {"text": notice_text(update)}
    return json.dumps(told, sort_keys=True).encode()


def notice_document(update: IncidentUpdate) -> dict[str, object]:
    """The document of the channel `webhook`; its fields are listed in docs/how-to/incidents.md, and only grow."""
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
    """A few lines for people; what others wrote cannot call anybody by it."""
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
