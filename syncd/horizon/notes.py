"""What a poll leaves for the next one: without it, the start of an open transaction's stamps is not known."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Protocol, Self

from syncd.ports.source import Break, TableName
from watermarks.codec import Damaged, Fields, blamed, parse, seal, unseal
from watermarks.cursor import instant_of, instant_text

FORMAT: Final = "syncd/notes"
VERSION: Final = 2
MOST_CANDIDATES: Final = 16
MOST_BREAKS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An id that was the highest before a poll began: complete once a later horizon has passed that poll."""

    t0: datetime
    highest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """What the polls of one server left. Older notes are never wrong, they only make bounds older."""

    identity: str
    t0: datetime
    running: Mapping[int, datetime] = field(default_factory=dict[int, datetime])
    """Of each statement that ran, by its connection: an instant not after its start."""
    writers: Mapping[str, datetime | None] = field(default_factory=dict[str, datetime | None])
    """Of each transaction that changed rows: an instant not after its first stamp; None where that is not known."""
    answers: Mapping[TableName, datetime] = field(default_factory=dict[TableName, datetime])
    """The last proven bound of each table."""
    tables: frozenset[TableName] | None = None
    """The only tables whose writers were seen; None: all were."""
    candidates: Mapping[TableName, tuple[Candidate, ...]] = field(
        default_factory=dict[TableName, tuple[Candidate, ...]]
    )
    replaced: bool = False
    """Whether the server's time had a break, and transactions that were open at first sight of it still are."""
    here: datetime | None = None
    """This machine's clock at that poll."""
    breaks: tuple[Break, ...] = ()
    """What streams have to read again for, oldest first."""

    @property
    def unknown_writers(self) -> bool:
        """Whether transactions are open that were so before anyone looked."""
        return None in self.writers.values()

    def to_bytes(self) -> bytes:
        return seal(FORMAT, VERSION, self._fields())

    def _fields(self) -> dict[str, Any]:
        return {
            "identity": self.identity,
            "t0": instant_text(self.t0),
            "running": {str(connection): instant_text(since) for connection, since in self.running.items()},
            "writers": {trx_id: since and instant_text(since) for trx_id, since in self.writers.items()},
            "answers": [[*_names(table), instant_text(bound)] for table, bound in sorted(self.answers.items())],
            "tables": None if self.tables is None else {"seen": [_names(table) for table in sorted(self.tables)]},
            "candidates": [
                [*_names(table), [[instant_text(each.t0), each.highest] for each in found]]
                for table, found in sorted(self.candidates.items())
            ],
            "replaced": self.replaced,
            "here": self.here and instant_text(self.here),
            "breaks": [[each.id, each.low and instant_text(each.low), each.other] for each in self.breaks],
        }

    @classmethod
    def of_bytes(cls, body: bytes, *, at: str) -> Self:
        """The notes in the bytes.

        Raises:
            StateUnreadable: there are none.
        """
        read = Fields(_upgraded(body, at=at), at=at)
        with blamed(at), _shaped(at):
            tables, here = read.maybe_inner("tables"), read.maybe_text("here")
            notes = cls(
                identity=read.text("identity"),
                t0=instant_of(read.text("t0")),
                running={int(key): instant_of(since) for key, since in read.inner("running").items()},
                writers={key: since and instant_of(since) for key, since in read.inner("writers").items()},
                answers={_table(*names): instant_of(bound) for *names, bound in read.items("answers")},
                tables=None if tables is None else frozenset(_table(*names) for names in tables["seen"]),
                candidates={
                    _table(*names): tuple(Candidate(t0=instant_of(t0), highest=int(highest)) for t0, highest in found)
                    for *names, found in read.items("candidates")
                },
                replaced=read.flag("replaced"),
                here=instant_of(here) if here else None,
                breaks=tuple(
                    Break(id=str(name), low=instant_of(low) if low else None, other=bool(other))
                    for name, low, other in read.items("breaks")
                ),
            )
        read.known()
        return notes


def _upgraded(body: bytes, *, at: str) -> dict[str, Any]:
    """The fields in the newest form; the first knew of no breaks."""
    if parse(body, at=at).get("format_version") == 1:
        return unseal(body, FORMAT, 1, at=at) | {"here": None, "breaks": []}
    return unseal(body, FORMAT, VERSION, at=at)


@contextmanager
def _shaped(at: str) -> Generator[None]:
    """Turn lists and texts of the wrong shape into damage of the document that held them."""
    try:
        yield
    except (TypeError, AttributeError, LookupError) as error:
        raise Damaged(f"{at} holds a value of the wrong shape") from error


class Keeper(Protocol):
    """Where notes outlive a process."""

    def load(self) -> Notes | None:
        """What was kept last, by whichever process.

        Raises:
            StateUnreadable: something else stands there.
            StoreUnavailable: there is no telling.
        """
        ...

    def keep(self, notes: Notes) -> None:
        """Keep these for the next process; that it failed is no error, for older notes are as right."""
        ...


def _names(table: TableName) -> tuple[str, str]:
    return table.database, table.table


def _table(database: str, table: str) -> TableName:
    return TableName(database=database, table=table)


def joined(one: tuple[Break, ...], other: tuple[Break, ...]) -> tuple[Break, ...]:
    """All breaks of both; of many the oldest go, and what they demand goes to the oldest that stays."""
    every = tuple({each.id: each for each in (*one, *other)}.values())
    gone, kept = every[:-MOST_BREAKS], every[-MOST_BREAKS:]
    if not gone:
        return kept
    folded = (*gone, kept[0])
    if any(each.unknown for each in folded):
        return (replace(kept[0], low=None, other=False), *kept[1:])
    low = min((each.low for each in folded if each.low is not None), default=None)
    return (replace(kept[0], low=low, other=any(each.other for each in folded)), *kept[1:])


def thinned(candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Few enough of them to keep: every second goes, the first and the last stay."""
    if len(candidates) <= MOST_CANDIDATES:
        return candidates
    return (*candidates[:-1:2], candidates[-1])
