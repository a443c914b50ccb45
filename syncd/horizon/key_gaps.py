"""Complete keys of growing tables, whose keys are committed out of order."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from syncd.ports.source import Horizon
from watermarks.codec import DamagedDocument, FieldReader, decode, encode, raise_as_damaged
from watermarks.cursor import Cursor, format_instant, parse_instant

FORMAT: Final = "syncd/growing"
VERSION: Final = 1
MAX_SEEN_KEYS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenKey:
    """The last key of a table before an instant of the server's clock."""

    key: Cursor
    before: datetime
    server: str = ""
    """The server of that clock; after a restart by an operator, also which of its tables was seen."""


class SeenKeyStore(Protocol):
    """Seen keys of a growing table, stored so that a restart costs no waiting."""

    def read(self) -> tuple[SeenKey, ...]: ...

    def write(self, seen: tuple[SeenKey, ...]) -> None:
        """Save these; a failure is no error, because fewer seen keys only mean a longer wait."""
        ...


@dataclass
class InMemorySeenKeys:
    """Seen keys for the life of the process."""

    kept: tuple[SeenKey, ...] = ()

    def read(self) -> tuple[SeenKey, ...]:
        return self.kept

    def write(self, seen: tuple[SeenKey, ...]) -> None:
        self.kept = seen


def find_complete_key(
    notes: SeenKeyStore, horizon: Horizon, *, table_created_at: datetime | None = None
) -> Cursor | None:
    """Return the highest key below which no row can still appear.

    A transaction that holds a number below a seen key drew it before, by a statement that had begun before. Once the
    horizon has passed that instant, the transaction has ended. Keys seen before the table's creation are of another
    table.
    """
    noted, bound = notes.read(), horizon.bound
    seen = tuple(note for note in noted if table_created_at is None or note.before >= table_created_at)
    passed = [] if bound is None else [note for note in seen if note.before <= bound]
    kept = (*passed[-1:], *(note for note in seen if note not in passed))
    if kept != noted:
        notes.write(kept)
    return passed[-1].key if passed else None


def add_seen_key(notes: SeenKeyStore, seen: SeenKey) -> None:
    """Add a seen key; of too many, every second goes, because a later one stands for those before it."""
    before = notes.read()
    kept = tuple(note for note in before if note.server == seen.server)
    if not kept or kept[-1].key != seen.key:  # a key seen again keeps its earlier instant
        kept = (*kept, seen)
    if kept != before:
        notes.write(kept if len(kept) <= MAX_SEEN_KEYS else (*kept[:-1:2], kept[-1]))


def to_bytes(seen: tuple[SeenKey, ...]) -> bytes:
    """Return the document of the seen keys."""
    return encode(FORMAT, VERSION, {"seen": [_seen_to_fields(each) for each in seen]})


def from_bytes(body: bytes, *, at: str) -> tuple[SeenKey, ...]:
    """Return the seen keys of a document.

    Raises:
        StateUnreadable: the document is not valid.
    """
    read = FieldReader(decode(body, FORMAT, VERSION, location=at), location=at)
    with raise_as_damaged(at):
        try:
            seen = tuple(map(_seen_from_fields, read.items("seen")))
        except (TypeError, LookupError) as error:
            raise DamagedDocument(f"{at} contains a value of the wrong type") from error
    read.require_all_read()
    return seen


def _seen_to_fields(seen: SeenKey) -> dict[str, Any]:
    return {"high": seen.key.to_texts(), "before": format_instant(seen.before), "server": seen.server}


def _seen_from_fields(fields: Mapping[str, Any]) -> SeenKey:
    return SeenKey(
        key=Cursor.from_texts(fields["high"]), before=parse_instant(fields["before"]), server=str(fields["server"])
    )
