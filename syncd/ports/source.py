"""What the extract stage asks of the outside, in its own words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from syncd.datatypes.source_table import ServerInfo, SourceTable
from syncd.lake.removal_records import ListedObject, ObjectReader
from syncd.lake.window_reads import Part, ReadRequest, ReadResult
from watermarks.cursor import Cursor


class SourceDatabase(Protocol):
    """The server that rows come from; every wait is bounded, and every call begins on a live connection."""

    def get_server_info(self) -> ServerInfo:
        """Which server answers now.

        Raises:
            SourceDown: none does.
        """
        ...

    def describe_table(self, database: str, name: str) -> SourceTable:
        """The table as it is now.

        Raises:
            SourceUnfit: there is none, or it may not be seen; the hint names the grant.
        """
        ...

    def show_create_table(self, database: str, name: str) -> str:
        """The statement that SHOW CREATE TABLE prints."""
        ...

    def find_overload(self) -> str | None:
        """Why the source should not be read from now, in words; None where it may be."""
        ...

    def fetch_rows(self, sql: str) -> Sequence[tuple[object, ...]]:
        """All rows of a small answer, values as the driver has them; a streaming read is the reader's work."""
        ...

    def discard_connections(self) -> None:
        """Use nothing again that is open, for horizons either: its address may lead to another server by now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TableName:
    """A table of one server."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"

    @property
    def normal_form(self) -> "TableName":
        """The same for every spelling that a server may take for the same table."""
        return TableName(database=self.database.casefold(), table=self.table.casefold())


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonRequest:
    """One table whose horizon is wanted."""

    table: TableName
    mark: datetime | None = None
    """The instant up to which the stream is proven complete already, if it is."""
    settle: timedelta = timedelta(seconds=60)
    """How far behind now to stay where nothing can be proven."""
    transactional: bool = True
    """Whether its engine is InnoDB: of others the server does not tell who is at work."""
    id_column: str | None = None
    """The column that only grows, where ids are the order."""
    table_created_at: datetime | None = None
    """When the table was made, or not long after: what was known of ids before then is of another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTimeBreak:
    """A break in a server's time: another server took its place, or its clock went back.

    Rows that were stamped anew below marks are behind them: each stream reads that time again.
    """

    id: str
    clock_reset_to: datetime | None = None
    """Where its clock went back to, or earlier; None where it did not, or where nobody knows."""
    is_other_server: bool = False
    """Whether another server answers since: how far its clock is behind, nobody knows."""

    @property
    def is_start_unknown(self) -> bool:
        """Whether its clock went back, and nothing told how far: only a person can say from when on to read again."""
        return self.clock_reset_to is None and not self.is_other_server


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """The bound below which no open transaction can still commit a row that the server stamped."""

    bound: datetime | None
    """An instant; rows stamped before it are complete. None: not known yet."""
    proven: bool
    t0: datetime
    """The server's clock when the poll began."""
    identity: str
    """The server of whose rows this is true: of a replica, once it has what its primary's horizon covers."""
    reason: str = ""
    """What holds it, in words: `held by transaction 4711, user app, 40 s`."""
    holder: str = ""
    """Who holds it at its bound, where that is known: `transaction 4711, user app`.

    Of a transaction that no poll has seen before it is not: the time since then is that between two polls, and on a
    busy server some short one is open at each.
    """
    max_complete_id: int | None = None
    """Where an id column was asked for: rows with ids up to this one are complete."""
    breaks: tuple[ServerTimeBreak, ...] = ()
    """Every break in the server's time that is known of, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBound:
    """Position below which a table is complete at the source, by one poll of its server."""

    cursor: Cursor
    proven: bool
    reason: str
    """What holds the position, or why it is not proven."""
    source_identity: str


class HorizonProvider(Protocol):
    """The horizons of all tables of one server."""

    def get_horizons(self, asked: Sequence[HorizonRequest], *, aged: float = 0.0) -> Mapping[TableName, Horizon]:
        """The horizons of these tables now, by one poll of the server; or as they were less than `aged` seconds ago.

        The snapshot that reads up to a bound must be opened after this returns.

        Raises:
            SourceUnfit: rows are stamped on another server, or this one may not be asked.
            SourceDown: it gave no answer.
            AnotherServer: what was asked for it was answered by two.
        """
        ...

    def wait_for_horizons(self, asked: Sequence[HorizonRequest], *, within: timedelta) -> Mapping[TableName, Horizon]:
        """The same, but wait until every bound is known.

        Raises:
            NotKnownYet: it was not in that time; the message names who holds it.
        """
        ...


class BatchReader(Protocol):
    """Reads windows and writes parts; the one port behind which Spark stands."""

    def prepare(self, *, little: bool) -> None:
        """Get ready to read little or much, beside what the caller does next; a reader may do nothing of it.

        Nothing is raised: what goes wrong is told when something is read.
        """
        ...

    def read(self, reading: ReadRequest, *, tell: Callable[[int], None] = lambda _rows: None) -> ReadResult:
        """Read every window whole and write its rows to parts that no one knows of yet.

        All of it or an error: after one, parts may stand that nobody names. `tell`
        hears how many rows have arrived, now and then.

        Raises:
            SourceDown: a connection broke, or did not answer in time.
            LakeDown, LakeUnfit: a part could not be written.
            SourceReplaced: another server answered.
            SchemaDrift: the columns are not those of the passages any more.
            RowOutside: a row is not in its window.
            ValueRefused: a value met the policy `fail`.
        """
        ...


class CopyLake(ObjectReader, Protocol):
    """The lake as a loader needs it: where COPY's lists of files are put, and whether the files are those it means."""

    def address_of(self, key: str) -> str:
        """The address of an object."""
        ...

    def put(self, key: str, body: bytes) -> object:
        """Write an object at a key that nothing else has."""
        ...

    def has_part(self, part: Part) -> bool:
        """Whether a part stands as it was written, byte for byte.

        Raises:
            LakeDown, LakeUnfit: that cannot be told.
        """
        ...


class PartStore(Protocol):
    """The lake, as far as parts are concerned; documents are the affair of `watermarks.Store`."""

    def delete_objects(self, keys: Sequence[str]) -> None:
        """Remove objects; one that is gone already is removed."""
        ...

    def list_objects(self, prefix: str) -> Sequence[ListedObject]:
        """List every object below a prefix."""
        ...

    def abort_uploads(self, prefix: str, *, mine: Callable[[str], bool]) -> int:
        """Give up uploads that were begun below a prefix, at keys that are mine, and never finished; how many.

        Raises:
            LakeUnfit: the right to it is missing, or the lake knows no such thing.
        """
        ...
