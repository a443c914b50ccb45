"""Notes of a poll for the next one: without them the first stamp of an open transaction is unknown."""

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
    """The highest id before a poll began: complete once a later horizon has passed that poll."""

    t0: datetime
    highest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonNotes:
    """The notes of the polls of one server. Older notes are never wrong; they only make bounds older."""

    identity: str
    t0: datetime
    statement_starts: Mapping[int, datetime] = field(default_factory=dict[int, datetime])
    """For each running statement, by its connection, an instant not after its start."""
    first_stamps: Mapping[str, datetime | None] = field(default_factory=dict[str, datetime | None])
    """For each transaction that changed rows, an instant not after its first stamp; None if unknown."""
    proven_bounds: Mapping[TableName, datetime] = field(default_factory=dict[TableName, datetime])
    """The last proven bound of each table."""
    tables: frozenset[TableName] | None = None
    """The only tables whose writers were visible; None: all were."""
    candidates: Mapping[TableName, tuple[IdCandidate, ...]] = field(
        default_factory=dict[TableName, tuple[IdCandidate, ...]]
    )
    is_break_open: bool = False
    """Whether the server's time had a break, and transactions that were open when it was noticed still are."""
    local_time: datetime | None = None
    """This machine's clock at that poll."""
    breaks: tuple[ServerTimeBreak, ...] = ()
    """Breaks for which streams have to read again, oldest first."""

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
        """Return the notes of a document.

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
    """Return the fields in the newest format; the first had no breaks."""
    if parse_json_object(body, location=at).get("format_version") == 1:
        return decode(body, FORMAT, 1, location=at) | {"here": None, "breaks": []}
    return decode(body, FORMAT, VERSION, location=at)


@contextmanager
def _map_shape_errors(at: str) -> Generator[None]:
    """Turn lists and texts of the wrong shape into `DamagedDocument`."""
    try:
        yield
    except (TypeError, AttributeError, LookupError) as error:
        raise DamagedDocument(f"{at} contains a value of the wrong type") from error


class HorizonNotesStore(Protocol):
    """Storage in which notes survive a restart."""

    def load(self) -> HorizonNotes | None:
        """Return the notes that any process saved last.

        Raises:
            StateUnreadable: the document is not valid.
            StoreUnavailable: it cannot be read.
        """
        ...

    def save(self, notes: HorizonNotes) -> None:
        """Save notes for the next process; a failure is no error, because older notes are valid too."""
        ...


def _table_to_names(table: TableName) -> tuple[str, str]:
    return table.database, table.table


def _table_from_names(database: str, table: str) -> TableName:
    return TableName(database=database, table=table)


def merge_breaks(one: tuple[ServerTimeBreak, ...], other: tuple[ServerTimeBreak, ...]) -> tuple[ServerTimeBreak, ...]:
    """Return the breaks of both; of too many, the oldest are folded into the oldest that stays."""
    breaks = tuple({each.id: each for each in (*one, *other)}.values())
    dropped, kept = breaks[:-MAX_BREAKS], breaks[-MAX_BREAKS:]
    if not dropped:
        return kept
    folded = (*dropped, kept[0])
    if any(each.is_start_unknown for each in folded):
        return (replace(kept[0], clock_reset_to=None, is_other_server=False), *kept[1:])
    low = min((each.clock_reset_to for each in folded if each.clock_reset_to is not None), default=None)
    return (
        replace(kept[0], clock_reset_to=low, is_other_server=any(each.is_other_server for each in folded)),
        *kept[1:],
    )


def thin_candidates(candidates: tuple[IdCandidate, ...]) -> tuple[IdCandidate, ...]:
    """Return few enough candidates: every second goes, the first and the last stay."""
    if len(candidates) <= MAX_CANDIDATES:
        return candidates
    return (*candidates[:-1:2], candidates[-1])
