"""Tables that only grow: which keys are complete, although they are committed out of order."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from syncd.core.errors import SchemaDrift
from syncd.core.ports import Horizon, Source
from syncd.core.schema import Table
from watermarks.cursor import Cursor

MOST_NOTES: Final = 64

_NEXT: Final = re.compile(r"\bAUTO_INCREMENT=(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The last key of a table, as it stood before an instant of the server's clock."""

    high: Cursor
    before: datetime


class Notes(Protocol):
    """What was seen of a growing table; kept where a restart finds it, a restart costs no waiting."""

    def read(self) -> tuple[Seen, ...]: ...

    def write(self, seen: tuple[Seen, ...]) -> None: ...


@dataclass
class Remembered:
    """Notes for as long as a process lives."""

    kept: tuple[Seen, ...] = ()

    def read(self) -> tuple[Seen, ...]:
        return self.kept

    def write(self, seen: tuple[Seen, ...]) -> None:
        self.kept = seen


def complete(notes: Notes, horizon: Horizon) -> Cursor | None:
    """The highest key below which nothing can be missing any more.

    Whoever holds a number below one that was seen had drawn it before, by a
    statement that had begun before: once the horizon has passed the instant, it
    has ended.
    """
    seen, bound = notes.read(), horizon.bound
    passed = [] if bound is None else [note for note in seen if note.before <= bound]
    notes.write((*passed[-1:], *(note for note in seen if note not in passed)))
    return passed[-1].high if passed else None


def noted(notes: Notes, seen: Seen) -> None:
    """Keep what was seen; of many, every second one, for a later one stands for those before it."""
    kept = (*notes.read(), seen)
    notes.write(kept if len(kept) <= MOST_NOTES else (*kept[:-1:2], kept[-1]))


def require_same_numbers(source: Source, table: Table, mark: Cursor, last: Cursor | None) -> None:
    """Make sure that a table which numbers its rows has not begun anew below the mark.

    Raises:
        SchemaDrift: it has: rows would come under numbers that are taken for read.
    """
    if not mark or (last is not None and not last < mark):
        return
    match = _NEXT.search(source.created_by(table.database, table.name))
    following = int(match[1]) if match else 1
    if following <= int(str(mark.values[0].plain)):
        raise SchemaDrift(
            f"{table} counts from {following} again, although its rows are read up to {mark}: "
            "it was emptied or made anew",
            hint=f"Read it from its start: syncd watermark reset -t {table} --mysql-only --reason 'made anew'",
        )
