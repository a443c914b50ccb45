"""Completion markers: objects that say up to when a target is complete, for whoever waits for one."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

from syncd.events import PassEnded
from watermarks.cursor import BadCursor, format_instant, parse_instant
from watermarks.document import Stage
from watermarks.errors import StateUnreadable
from watermarks.names import StreamName

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
