"""Completion markers: objects that tell other systems up to which instant a target is complete."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

from syncd.events import PassEnded
from syncd.lake.object_keys import hour_marker_key, latest_marker_key
from watermarks.cursor import BadCursor, format_instant, parse_instant
from watermarks.document import Stage
from watermarks.errors import AlreadyExists, OutcomeUnknown, Stale, StateUnreadable
from watermarks.names import StreamName
from watermarks.store import Revision, Store

FORMAT: Final = "syncd-marker"
FORMAT_VERSION: Final = 1
HOUR: Final = timedelta(hours=1)
MAX_CATCH_UP_HOURS: Final = 744
"""Hourly markers that are written after a pause: those of a month. Older ones are never written."""


class MarkerUnreadable(StateUnreadable):
    """The object at a marker's key is no marker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionMarker:
    """Everything that was committed at the source before `complete` is in the target."""

    stream: StreamName
    complete_until: datetime
    proven: bool
    batch: str | None
    """The newest loaded batch; None if it is not known."""
    rows: int
    """Rows loaded since the last full hour was complete."""
    at: datetime
    """When it was written."""

    @property
    def hour(self) -> datetime:
        """The last complete full hour, in UTC."""
        return self.complete_until.astimezone(UTC).replace(minute=0, second=0, microsecond=0)

    def to_bytes(self) -> bytes:
        fields = {
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
        return json.dumps(fields, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, body: bytes, *, stream: StreamName) -> Self:
        """Parse a marker.

        Raises:
            MarkerUnreadable: it is none, belongs to another stream, or has a newer format.
        """
        try:
            fields: dict[str, Any] = json.loads(body)
            if (fields["format"], fields["format_version"], fields["stream"]) != (FORMAT, FORMAT_VERSION, str(stream)):
                raise MarkerUnreadable(
                    f"the marker of {stream} has another format",
                    hint="A newer syncd may have written it: use that version.",
                )
            return cls(
                stream=stream,
                complete_until=parse_instant(fields["complete"]),
                proven=bool(fields["proven"]),
                batch=fields["batch"],
                rows=int(fields["rows"]),
                at=parse_instant(fields["at"]),
            )
        except (ValueError, KeyError, TypeError, BadCursor) as error:
            raise MarkerUnreadable(
                f"the marker of {stream} cannot be read", hint="Remove it: the next load writes it again."
            ) from error

    def merge_previous(self, previous: "CompletionMarker | None") -> Self:
        """Add the previous marker's rows of the same hour, and its batch if none is known."""
        if previous is None:
            return self
        rows = self.rows + (previous.rows if previous.hour == self.hour else 0)
        return replace(self, rows=rows, batch=self.batch or previous.batch)

    def hourly_markers(self, previous: "CompletionMarker | None") -> Iterator["CompletionMarker"]:
        """Yield the markers of full hours that are complete now and were not before, oldest first.

        Without a previous marker there is only the newest: the hours before are unknown.
        """
        count = 1 if previous is None else min((self.hour - previous.hour) // HOUR, MAX_CATCH_UP_HOURS)
        for back in range(count - 1, -1, -1):
            yield replace(self, complete_until=self.hour - back * HOUR, rows=self.rows if back == 0 else 0)

    def is_worth_writing(self, previous: "CompletionMarker | None") -> bool:
        """Return whether it is at least a minute later than the previous marker; less is not worth a request."""
        return previous is None or self.complete_until.replace(second=0, microsecond=0) > previous.complete_until


def describes_target(event: PassEnded, *, has_target: bool) -> bool:
    """Return whether the end of a pass tells up to when the target, or the lake without one, is complete.

    An extraction that leaves no batch to load tells it for the target, too.
    """
    if event.complete_up_to is None:
        return False
    return event.stage is Stage.LOAD or not has_target or event.pending_batches == 0


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
            self._store.put(hour_marker_key(hour.stream, hour.complete_until), hour.to_bytes(), expected=None)
        except AlreadyExists:
            return  # another process has written it

    def _replace_latest_marker(self, marker: CompletionMarker, seen: Revision | None) -> None:
        key = latest_marker_key(marker.stream)
        self._known.pop(marker.stream, None)
        try:
            revision = self._store.put(key, marker.to_bytes(), expected=seen)
        except (Stale, OutcomeUnknown):
            return  # it may be another owner's or ours: the next pass reads it first
        self._known[marker.stream] = marker, revision
