"""Ports of the stages to the source, to Spark and to the lake."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from syncd.datatypes.source_table import ServerInfo, SourceTable
from syncd.lake.read_requests import Part, ReadRequest, ReadResult
from syncd.lake.removal_records import ListedObject, ObjectReader
from watermarks.cursor import Cursor
from watermarks.loading import LedgerKey


class SourceDatabase(Protocol):
    """Server that rows are read from; every wait is bounded, and every call begins on a live connection."""

    def get_server_info(self) -> ServerInfo:
        """Return which server answers now.

        Raises:
            SourceDown: no server does.
        """
        ...

    def describe_table(self, database: str, name: str) -> SourceTable:
        """Return the table as it is now.

        Raises:
            SourceUnfit: it does not exist, or is not visible; the hint names the grant.
        """
        ...

    def show_create_table(self, database: str, name: str) -> str:
        """Return the statement that SHOW CREATE TABLE prints."""
        ...

    def find_overload(self) -> str | None:
        """Return why the source should not be read now; None if it may be."""
        ...

    def fetch_rows(self, sql: str) -> Sequence[tuple[object, ...]]:
        """Return all rows of a small result, as the driver returns them; large reads are the reader's work."""
        ...

    def discard_connections(self) -> None:
        """Drop all open connections, those of horizons too: the address may lead to another server by now."""
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
        """The same name for every spelling that a server may take for the same table."""
        return TableName(database=self.database.casefold(), table=self.table.casefold())


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonRequest:
    """Request for the horizon of one table."""

    table: TableName
    mark: datetime | None = None
    """The instant up to which the stream is proven complete."""
    settle: timedelta = timedelta(seconds=60)
    """Distance from now if nothing can be proven."""
    transactional: bool = True
    """True for InnoDB: for other engines the server does not list transactions."""
    id_column: str | None = None
    """The growing column, if ids are the order."""
    table_created_at: datetime | None = None
    """When the table was created, or shortly after: ids known before are those of another table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTimeBreak:
    """A break in a server's time: another server took its place, or its clock was set back.

    Rows may have been stamped below the marks since: each stream reads that time again.
    """

    id: str
    clock_reset_to: datetime | None = None
    """The time that its clock was set back to, or earlier; None if it was not, or it is unknown."""
    is_other_server: bool = False
    """True if another server answers since: the lag of its clock is unknown."""

    @property
    def is_start_unknown(self) -> bool:
        """Return whether its clock was set back by an unknown time: only an operator can say what to read again."""
        return self.clock_reset_to is None and not self.is_other_server


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """Bound below which no open transaction can still commit a row that the server stamped."""

    bound: datetime | None
    """Rows stamped before this instant are complete; None: not known yet."""
    proven: bool
    t0: datetime
    """The server's clock when the poll began."""
    identity: str
    """Identity of the server that this is true for; for a replica, once it has what its primary's horizon covers."""
    reason: str = ""
    """What holds it: `held by transaction 4711, user app, 40 s`."""
    holder: str = ""
    """The transaction that holds it at its bound, if that is known: `transaction 4711, user app`.

    A transaction that no earlier poll has seen is not named: it may be as short as the time between two polls, and a
    busy server has such a transaction at each poll.
    """
    max_complete_id: int | None = None
    """Rows with ids up to this one are complete, if an id column was requested."""
    breaks: tuple[ServerTimeBreak, ...] = ()
    """Every known break in the server's time, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBound:
    """Position below which a table is complete at the source, by one poll of its server."""

    cursor: Cursor
    proven: bool
    reason: str
    """What holds the position, or why it is not proven."""
    source_identity: str


class HorizonProvider(Protocol):
    """Provider of the horizons of all tables of one server."""

    def get_horizons(self, asked: Sequence[HorizonRequest], *, aged: float = 0.0) -> Mapping[TableName, Horizon]:
        """Return the horizons of these tables by one poll of the server, or those of less than `aged` seconds ago.

        The snapshot that reads up to a bound must be opened after this returns.

        Raises:
            SourceUnfit: rows are stamped on another server, or this one refuses the queries.
            SourceDown: it gave no answer.
            ServerChanged: two servers answered.
        """
        ...

    def wait_for_horizons(self, asked: Sequence[HorizonRequest], *, within: timedelta) -> Mapping[TableName, Horizon]:
        """Return the horizons once every bound is known.

        Raises:
            HorizonNotKnown: a bound was not known in that time; the message names what holds it.
        """
        ...


class BatchReader(Protocol):
    """Reader of windows that writes parts; Spark implements it."""

    def prepare(self, *, little: bool) -> None:
        """Prepare for a small or large read while the caller goes on; a reader may do nothing.

        It raises nothing: errors are raised by the read.
        """
        ...

    def read(self, reading: ReadRequest, *, tell: Callable[[int], None] = lambda _rows: None) -> ReadResult:
        """Read every window whole and write its rows to parts that no batch names yet.

        After an error, parts may be left that no batch names. `tell` is called now and then with the number of rows
        read.

        Raises:
            SourceDown: a connection broke, or did not answer in time.
            LakeDown, LakeUnfit: a part could not be written.
            SourceReplaced: another server answered.
            SchemaDrift: the columns are not those of the mappings any more.
            RowOutsideWindow: a row is not in its window.
            ValueRefused: a value met the policy `fail`.
        """
        ...


class CopyLake(ObjectReader, Protocol):
    """The lake of a loader: it takes the lists of files for COPY, and checks the files."""

    def address_of(self, key: str) -> str:
        """Return the address of an object."""
        ...

    def put(self, key: str, body: bytes) -> object:
        """Write an object at a key that does not exist yet."""
        ...

    def has_part(self, part: Part) -> bool:
        """Return whether a part is stored as it was written, byte for byte.

        Raises:
            LakeDown, LakeUnfit: the lake is not readable.
        """
        ...


class PartStore(Protocol):
    """The lake of parts; documents are in `watermarks.Store`."""

    def delete_objects(self, keys: Sequence[str]) -> None:
        """Delete objects; an object that does not exist counts as deleted."""
        ...

    def list_objects(self, prefix: str) -> Sequence[ListedObject]:
        """List every object below a prefix."""
        ...

    def abort_uploads(self, prefix: str, *, mine: Callable[[str], bool]) -> int:
        """Abort unfinished uploads below a prefix, at keys that are `mine`; return their number.

        Raises:
            LakeUnfit: the right to it is missing, or the lake has no such request.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRecord:
    """Ledger record of one loaded batch."""

    rows: int
    table: str
    manifest: str


class LedgerReader(Protocol):
    """Ledger and target of one stream.

    Raises:
        WarehouseDown, WarehouseUnfit: the warehouse is not reachable, or refuses access.
    """

    @property
    def table(self) -> str:
        """The name of the target, as its ledger writes it."""
        ...

    def read_entries(self) -> Mapping[LedgerKey, LedgerRecord]:
        """Return the ledger's records of the stream; none if there is no ledger."""
        ...

    def find_other_streams(self) -> Sequence[str]:
        """Return other streams that were loaded into the target."""
        ...

    def target_exists(self) -> bool:
        """Return whether the target table exists."""
        ...
