"""Completion markers: objects that say up to when a target is complete, for whoever waits for one."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

from syncd.events import PassEnded
from syncd.lake.keys import hour_marker_key, latest_marker_key
from watermarks.cursor import BadCursor, format_instant, parse_instant
from watermarks.document import Stage
from watermarks.errors import AlreadyExists, OutcomeUnknown, Stale, StateUnreadable
from watermarks.names import StreamName
from watermarks.store import Revision, Store

FORMAT: Final = "syncd-marker"
FORMAT_VERSION: Final = 1
HOUR: Final = timedelta(hours=1)
MAX_CATCH_UP_HOURS: Final = 744
"""Of one catching up: a month. Who waits for an older one waits for what was never promised."""


class MarkerUnreadable(StateUnreadable):
    """What stands at a marker's key is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionMarker:
    """Everything that was committed at the source before `complete` is in the target."""

    stream: StreamName
    complete_until: datetime
    proven: bool
    batch: str | None
    """The newest batch that had landed; none where that is not known."""
    rows: int
    """Rows that landed since the last full hour was complete."""
    at: datetime
    """When it was written."""

    @property
    def hour(self) -> datetime:
        """The last full hour that is complete, in UTC."""
        return self.complete_until.astimezone(UTC).replace(minute=0, second=0, microsecond=0)

    def to_bytes(self) -> bytes:
        told = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "stream": str(self.stream),
            "table": self.stream.table_name,
            "complete": format_instant(self.complete_until),
            "proven": self.proven,
            "batch": self.batch,
            "rows": self.rows,
            "at": format_instant(self.at),
        }
        return json.dumps(told, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, body: bytes, *, stream: StreamName) -> Self:
        """The marker that `to_bytes` wrote.

        Raises:
            NoMarker: it is none, or that of another stream, or of a newer form.
        """
        try:
            told: dict[str, Any] = json.loads(body)
            if (told["format"], told["format_version"], told["stream"]) != (FORMAT, FORMAT_VERSION, str(stream)):
                raise MarkerUnreadable(f"the marker of {stream} is of another form", hint="Did a newer syncd write it?")
            return cls(
                stream=stream,
                complete_until=parse_instant(told["complete"]),
                proven=bool(told["proven"]),
                batch=told["batch"],
                rows=int(told["rows"]),
                at=parse_instant(told["at"]),
            )
        except (ValueError, KeyError, TypeError, BadCursor) as error:
            raise MarkerUnreadable(
                f"the marker of {stream} cannot be read", hint="Remove it: it is written anew."
            ) from error

    def merge_previous(self, previous: "CompletionMarker | None") -> Self:
        """The marker with what the one before tells: rows of the same hour, and a batch that is known."""
        if previous is None:
            return self
        rows = self.rows + (previous.rows if previous.hour == self.hour else 0)
        return replace(self, rows=rows, batch=self.batch or previous.batch)

    def hourly_markers(self, previous: "CompletionMarker | None") -> Iterator["CompletionMarker"]:
        """The markers of full hours that are complete by now and were not before, the oldest first.

        Without one before only the newest: what was complete when nobody wrote markers is not told.
        """
        count = 1 if previous is None else min((self.hour - previous.hour) // HOUR, MAX_CATCH_UP_HOURS)
        for back in range(count - 1, -1, -1):
            yield replace(self, complete_until=self.hour - back * HOUR, rows=self.rows if back == 0 else 0)

    def is_worth_writing(self, previous: "CompletionMarker | None") -> bool:
        """Whether it says more than the one before; a minute is the least that is worth a request."""
        return previous is None or self.complete_until.replace(second=0, microsecond=0) > previous.complete_until


def describes_target(event: PassEnded, *, has_target: bool) -> bool:
    """Whether the end of a pass says up to when the target is complete; where there is none, the lake is it.

    An extraction that leaves nothing to be loaded says the same of the target.
    """
    if event.complete is None:
        return False
    return event.stage is Stage.LOAD or not has_target or event.pending == 0


class MarkerStore:
    """The markers of all streams, with the newest one of each that this process knows."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[StreamName, tuple[CompletionMarker, Revision]] = {}

    def write(self, marker: CompletionMarker) -> bool:
        """Write the markers of the hours, each once, then the newest one; return whether anything was new.

        After a kill the next write adds the missing ones: the newest is written last, and shows which hours follow it.

        Raises:
            HintedError: the lake did not take it; the next pass tries again.
        """
        known = self._known.get(marker.stream) or self._read(marker.stream)
        before = known[0] if known else None
        if not marker.is_worth_writing(before):
            return False
        for hour in marker.merge_previous(before).hourly_markers(before):
            self._create_hour_marker(hour)
        self._replace_latest_marker(marker.merge_previous(before), known[1] if known else None)
        return True

    def _read(self, stream: StreamName) -> tuple[CompletionMarker, Revision] | None:
        stored = self._store.read(latest_marker_key(stream))
        if stored is None:
            return None
        known = CompletionMarker.from_bytes(stored.body, stream=stream), stored.revision
        self._known[stream] = known
        return known

    def _create_hour_marker(self, hour: CompletionMarker) -> None:
        try:
            self._store.create(hour_marker_key(hour.stream, hour.complete_until), hour.to_bytes())
        except AlreadyExists:
            return  # another process has written it

    def _replace_latest_marker(self, marker: CompletionMarker, seen: Revision | None) -> None:
        key = latest_marker_key(marker.stream)
        self._known.pop(marker.stream, None)
        try:
            if seen is None:
                revision = self._store.create(key, marker.to_bytes())
            else:
                revision = self._store.replace(key, marker.to_bytes(), expected=seen)
        except (Stale, OutcomeUnknown):
            return  # it may be another owner's or ours: the next pass reads it first
        self._known[marker.stream] = marker, revision
