"""Completion markers: objects that say up to when a target is complete, for whoever waits for one."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

from syncd.events import PassEnded
from watermarks.cursor import BadCursor, instant_of, instant_text
from watermarks.document import Stage
from watermarks.errors import StateUnreadable
from watermarks.names import StreamName

FORMAT: Final = "syncd-marker"
FORMAT_VERSION: Final = 1
HOUR: Final = timedelta(hours=1)
MOST_HOURS: Final = 744
"""Of one catching up: a month. Who waits for an older one waits for what was never promised."""


class NoMarker(StateUnreadable):
    """What stands at a marker's key is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """Everything that was committed at the source before `complete` is in the target."""

    stream: StreamName
    complete: datetime
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
        return self.complete.astimezone(UTC).replace(minute=0, second=0, microsecond=0)

    def to_bytes(self) -> bytes:
        told = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "stream": str(self.stream),
            "table": f"{self.stream.database}.{self.stream.table}",
            "complete": instant_text(self.complete),
            "proven": self.proven,
            "batch": self.batch,
            "rows": self.rows,
            "at": instant_text(self.at),
        }
        return json.dumps(told, sort_keys=True).encode()

    @classmethod
    def of_bytes(cls, body: bytes, *, stream: StreamName) -> Self:
        """The marker that `to_bytes` wrote.

        Raises:
            NoMarker: it is none, or that of another stream, or of a newer form.
        """
        try:
            told: dict[str, Any] = json.loads(body)
            if (told["format"], told["format_version"], told["stream"]) != (FORMAT, FORMAT_VERSION, str(stream)):
                raise NoMarker(f"the marker of {stream} is of another form", hint="Did a newer syncd write it?")
            return cls(
                stream=stream,
                complete=instant_of(told["complete"]),
                proven=bool(told["proven"]),
                batch=told["batch"],
                rows=int(told["rows"]),
                at=instant_of(told["at"]),
            )
        except (ValueError, KeyError, TypeError, BadCursor) as error:
            raise NoMarker(f"the marker of {stream} cannot be read", hint="Remove it: it is written anew.") from error

    def after(self, before: "Marker | None") -> Self:
        """The marker with what the one before tells: rows of the same hour, and a batch that is known."""
        if before is None:
            return self
        rows = self.rows + (before.rows if before.hour == self.hour else 0)
        return replace(self, rows=rows, batch=self.batch or before.batch)

    def hours(self, before: "Marker | None") -> Iterator["Marker"]:
        """The markers of full hours that are complete by now and were not before, the oldest first.

        Without one before only the newest: what was complete when nobody wrote markers is not told.
        """
        count = 1 if before is None else min((self.hour - before.hour) // HOUR, MOST_HOURS)
        for back in range(count - 1, -1, -1):
            yield replace(self, complete=self.hour - back * HOUR, rows=self.rows if back == 0 else 0)

    def is_news(self, before: "Marker | None") -> bool:
        """Whether it says more than the one before; a minute is the least that is worth a request."""
        return before is None or self.complete.replace(second=0, microsecond=0) > before.complete


def tells_of_target(event: PassEnded, *, has_target: bool) -> bool:
    """Whether the end of a pass says up to when the target is complete; where there is none, the lake is it.

    An extraction that leaves nothing to be loaded says the same of the target.
    """
    if event.complete is None:
        return False
    return event.stage is Stage.LOAD or not has_target or event.pending == 0
