"""What is sent of an incident, and when again: one JSON document, or a text as Slack takes it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from syncd.observe.causes import SENTENCES
from syncd.observe.event_text import clock as clock_text
from syncd.observe.event_text import counted
from syncd.observe.incidents import Change, Incident, Key, Trouble, Turn
from syncd.settings import Channel
from watermarks.cursor import instant_text

FORMAT: Final = "syncd-incident"
FORMAT_VERSION: Final = 1
TOLD_AGAIN: Final = 60.0
"""Seconds until what did not arrive is told once more, where its incident is open still."""
MOST_NAMED: Final = 20
"""How many streams a text names."""

_TURNS: Final = {Turn.OPENED: "opened", Turn.STILL_OPEN: "still open", Turn.CLOSED: "over"}


@dataclass(slots=True)
class Reminders:
    """What one recipient was told of each open incident, and when; so each is told once, and again after a while."""

    again: timedelta
    _told: dict[Key, float] = field(default_factory=dict[Key, float])
    _unknown: set[Key] = field(default_factory=set[Key])
    """Those of which the recipient does not even know that they opened."""

    def due(self, changes: Iterable[Change], open_: Iterable[Incident], *, at: datetime, now: float) -> list[Change]:
        """What to tell by `now`, in seconds of a clock that only rises."""
        told = [one for one in changes if one.turn is Turn.OPENED or one.incident.key in self._told]
        for change in told:
            if change.turn is Turn.CLOSED:
                self._told.pop(change.incident.key, None)
                self._unknown.discard(change.incident.key)
            else:
                self._told[change.incident.key] = now
        for incident in open_:
            if now - self._told.setdefault(incident.key, now) >= self.again.total_seconds():
                self._told[incident.key] = now
                turn = Turn.OPENED if incident.key in self._unknown else Turn.STILL_OPEN
                self._unknown.discard(incident.key)
                told.append(Change(turn=turn, incident=incident, at=at))
        return told

    def unheard(self, change: Change, *, now: float) -> None:
        """A notice did not arrive: it is due again before long, and not only `again` later."""
        key = change.incident.key
        if change.turn is Turn.CLOSED or key not in self._told:
            return
        self._told[key] = now - max(self.again.total_seconds() - TOLD_AGAIN, 0.0)
        if change.turn is Turn.OPENED:
            self._unknown.add(key)


def body_of(change: Change, channel: Channel) -> bytes:
    """What is sent, in UTF-8."""
    told = document(change) if channel is Channel.WEBHOOK else {"text": text_of(change)}
    return json.dumps(told, sort_keys=True).encode()


def document(change: Change) -> dict[str, object]:
    """The document of the channel `webhook`; its fields are listed in docs/incidents.md, and only grow."""
    incident = change.incident
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "incident": str(incident.key),
        "state": change.turn,
        "kind": incident.key.trouble,
        "cause": incident.key.cause,
        "cause_says": SENTENCES[incident.key.cause],
        "party": incident.key.party,
        "streams": [str(stream) for stream in incident.streams],
        "since": instant_text(incident.since),
        "at": instant_text(change.at),
        "message": incident.message,
        "hint": incident.hint or None,
        "complete": instant_text(incident.complete) if incident.complete else None,
    }


def text_of(change: Change) -> str:
    """A few lines for people; what others wrote cannot call anybody by it."""
    incident = change.incident
    what = "not fresh" if incident.key.trouble is Trouble.STALE else "failing"
    head = f"syncd: {incident.key.party}: {what}, {SENTENCES[incident.key.cause]} ({_TURNS[change.turn]})"
    names = [f"{stream.database}.{stream.table}" for stream in incident.streams]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    tables = f"{counted(len(names), 'table')}: {', '.join(names[:MOST_NAMED])}{more}"
    lines = [head, tables, f"since {clock_text(incident.since)}"]
    if change.turn is not Turn.CLOSED:
        lines += filter(None, (incident.message, incident.hint))
    return "\n".join(map(_escaped, lines))


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
