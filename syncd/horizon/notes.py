"""What a poll leaves for the next one: without it, the start of an open transaction's stamps is not known."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Protocol, Self

from syncd.ports.source import ServerTimeBreak, TableName
from watermarks.codec import DamagedDocument, FieldReader, decode, encode, parse_json_object, raise_as_damaged
from watermarks.cursor import format_instant, parse_instant

FORMAT: Final = "syncd/notes"
VERSION: Final = 2
MAX_CANDIDATES: Final = 16
MAX_BREAKS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class IdCandidate:
    """An id that was the highest before a poll began: complete once a later horizon has passed that poll."""

    t0: datetime
    highest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonNotes:
    """What the polls of one server left. Older notes are never wrong, they only make bounds older."""

    identity: str
    t0: datetime
    statement_starts: Mapping[int, datetime] = field(default_factory=dict[int, datetime])
    """Of each statement that ran, by its connection: an instant not after its start."""
    first_stamps: Mapping[str, datetime | None] = field(default_factory=dict[str, datetime | None])
    """Of each transaction that changed rows: an instant not after its first stamp; None where that is not known."""
    proven_bounds: Mapping[TableName, datetime] = field(default_factory=dict[TableName, datetime])
    """The last proven bound of each table."""
    tables: frozenset[TableName] | None = None
    """The only tables whose writers were seen; None: all were."""
    candidates: Mapping[TableName, tuple[IdCandidate, ...]] = field(
        default_factory=dict[TableName, tuple[IdCandidate, ...]]
    )
    is_break_open: bool = False
    """Whether the server's time had a break, and transactions that were open at first sight of it still are."""
    local_time: datetime | None = None
    """This machine's clock at that poll."""
    breaks: tuple[ServerTimeBreak, ...] = ()
    """What streams have to read again for, oldest first."""

    @property
    def has_unknown_writers(self) -> bool:
        """Whether transactions are open that were so before anyone looked."""
        return None in self.first_stamps.values()

    def to_bytes(self) -> bytes:
        return encode(FORMAT, VERSION, self._to_fields())

    def _to_fields(self) -> dict[str, Any]:
        return {
            "identity": self.identity,
            "t0": format_instant(self.t0),
            "running": {str(connection): format_instant(since) for connection, since in self.statement_starts.items()},
            "writers": {trx_id: since and format_instant(since) for trx_id, since in self.first_stamps.items()},
            "answers": [
                [*_table_to_names(table), format_instant(bound)] for table, bound in sorted(self.proven_bounds.items())
            ],
            "tables": None
            if self.tables is None
            else {"seen": [_table_to_names(table) for table in sorted(self.tables)]},
            "candidates": [
                [*_table_to_names(table), [[format_instant(each.t0), each.highest] for each in found]]
                for table, found in sorted(self.candidates.items())
            ],
            "replaced": self.is_break_open,
            "here": self.local_time and format_instant(self.local_time),
            "breaks": [
                [each.id, each.clock_reset_to and format_instant(each.clock_reset_to), each.is_other_server]
                for each in self.breaks
            ],
        }

    @classmethod
    def from_bytes(cls, body: bytes, *, at: str) -> Self:
        """The notes in the bytes.

        Raises:
            StateUnreadable: there are none.
        """
        read = FieldReader(_upgrade(body, at=at), location=at)
        with raise_as_damaged(at), _map_shape_errors(at):
            tables, here = read.optional_mapping("tables"), read.optional_text("here")
            notes = cls(
                identity=read.text("identity"),
                t0=parse_instant(read.text("t0")),
                statement_starts={int(key): parse_instant(since) for key, since in read.mapping("running").items()},
                first_stamps={key: since and parse_instant(since) for key, since in read.mapping("writers").items()},
                proven_bounds={
                    _table_from_names(*names): parse_instant(bound) for *names, bound in read.items("answers")
                },
                tables=None if tables is None else frozenset(_table_from_names(*names) for names in tables["seen"]),
                candidates={
                    _table_from_names(*names): tuple(
                        IdCandidate(t0=parse_instant(t0), highest=int(highest)) for t0, highest in found
                    )
                    for *names, found in read.items("candidates")
                },
                is_break_open=read.flag("replaced"),
                local_time=parse_instant(here) if here else None,
                breaks=tuple(
                    ServerTimeBreak(
                        id=str(name), clock_reset_to=parse_instant(low) if low else None, is_other_server=bool(other)
                    )
                    for name, low, other in read.items("breaks")
                ),
            )
        read.require_all_read()
        return notes


def _upgrade(body: bytes, *, at: str) -> dict[str, Any]:
    """The fields in the newest form; the first knew of no breaks."""
    if parse_json_object(body, location=at).get("format_version") == 1:
        return decode(body, FORMAT, 1, location=at) | {"here": None, "breaks": []}
    return decode(body, FORMAT, VERSION, location=at)


@contextmanager
def _map_shape_errors(at: str) -> Generator[None]:
    """Turn lists and texts of the wrong shape into damage of the document that held them."""
    try:
        yield
    except (TypeError, AttributeError, LookupError) as error:
        raise DamagedDocument(f"{at} holds a value of the wrong shape") from error


class HorizonNotesStore(Protocol):
    """Where notes outlive a process."""

    def load(self) -> HorizonNotes | None:
        """What was kept last, by whichever process.

        Raises:
            StateUnreadable: something else stands there.
            StoreUnavailable: there is no telling.
        """
        ...

    def save(self, notes: HorizonNotes) -> None:
        """Keep these for the next process; that it failed is no error, for older notes are as right."""
        ...


def _table_to_names(table: TableName) -> tuple[str, str]:
    return table.database, table.table


def _table_from_names(database: str, table: str) -> TableName:
    return TableName(database=database, table=table)


def merge_breaks(one: tuple[ServerTimeBreak, ...], other: tuple[ServerTimeBreak, ...]) -> tuple[ServerTimeBreak, ...]:
    """All breaks of both; of many the oldest go, and what they demand goes to the oldest that stays."""
    every = tuple({each.id: each for each in (*one, *other)}.values())
    gone, kept = every[:-MAX_BREAKS], every[-MAX_BREAKS:]
    if not gone:
        return kept
    folded = (*gone, kept[0])
    if any(each.is_start_unknown for each in folded):
        return (replace(kept[0], clock_reset_to=None, is_other_server=False), *kept[1:])
    low = min((each.clock_reset_to for each in folded if each.clock_reset_to is not None), default=None)
    return (
        replace(kept[0], clock_reset_to=low, is_other_server=any(each.is_other_server for each in folded)),
        *kept[1:],
    )


def thin_candidates(candidates: tuple[IdCandidate, ...]) -> tuple[IdCandidate, ...]:
    """Few enough of them to keep: every second goes, the first and the last stay."""
    if len(candidates) <= MAX_CANDIDATES:
        return candidates
    return (*candidates[:-1:2], candidates[-1])
