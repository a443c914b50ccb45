"""Readings of one poll of a server: its statements, its writers and its locks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from syncd.horizon.running_statements import is_ignored, is_past_locking
from syncd.ports.source import TableName

NO_CONNECTION = 0
"""Connection of a prepared XA transaction whose client has left."""

STATEMENT_CLOCK_LAG: Final = timedelta(seconds=1)
"""The most by which MySQL's statement timer lags behind the clock that stamps: the timer advances with the

kernel's ticks, so it shows the previous second for some milliseconds.
"""
STAMP_TO_TIMER_GAP: Final = timedelta(seconds=0.1)
"""The most that lies between a statement's stamp and the start of its timer on MariaDB."""


class Visibility(StrEnum):
    """Extent to which a server shows its writers."""

    SERVER = "server"
    """Every transaction that changed rows (INNODB_TRX)."""
    TABLES = "tables"
    """Every transaction that holds a write lock on one of the requested tables (data_locks)."""
    NOTHING = "nothing"
    """A privilege is missing, or the server has writers that it cannot show."""
    BLIND = "blind"
    """Nothing this time: too many rows, a stale list, or a transient error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerThread:
    """One connection in the list of statements (read A)."""

    connection: int
    lock_owner: int
    """Its id in the list of locks: a thread of MySQL, the connection itself on MariaDB."""
    command: str
    running_for: timedelta | None
    """Age of its statement as the server counts; None if not shown. See `HorizonPoll.statement_start`."""
    whole_seconds: bool
    """Whether `running_for` is the difference of two instants that were both cut to the second."""
    state: str = ""
    user: str = ""
    kind: str = ""
    """Kind of the top-level statement, such as `insert_select` or `drop_table`; empty if unknown."""

    @property
    def may_stamp(self) -> bool:
        """Return whether a statement runs that could stamp rows."""
        return not is_ignored(self.command, self.user, self.kind, self.state)

    @property
    def has_all_locks(self) -> bool:
        """Return whether the statement has taken all its locks."""
        return is_past_locking(self.state, self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingTransaction:
    """One transaction that changed rows, or may have (read B)."""

    trx_id: str
    lock_owner: int
    connection: int
    xa: bool = False
    """Whether another connection may have worked in it: prepared and left, or running an XA statement."""
    table: TableName | None = None
    """The one table at which it was found, if only requested tables were visible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonPoll:
    """All readings of one poll, in the order in which they were taken."""

    t0: datetime
    identity: str
    visibility: Visibility
    threads: tuple[ServerThread, ...] = ()
    """Every connection but our own, including idle ones."""
    writers: tuple[WritingTransaction, ...] = ()
    read_only: frozenset[int] = frozenset()
    """Connections whose transaction cannot write."""
    locks: Mapping[int, frozenset[TableName]] | None = None
    """Tables on which each holder has a write lock, folded; None if they could not be read."""
    tables: frozenset[TableName] | None = None
    """The requested tables, folded, if writers were visible only table by table."""
    problem: str = ""
    """Why writers are not visible."""
    is_temporary: bool = False
    """Whether a fuller view is expected soon."""
    max_ids: Mapping[TableName, int] = field(default_factory=dict[TableName, int])
    """MAX(id) of tables, read before t0."""
    local_time: datetime | None = None
    """This machine's clock after the readings."""

    def statement_start(self, thread: ServerThread) -> datetime:
        """Return an instant not after the start of the thread's statement."""
        if thread.running_for is None:
            return datetime.min.replace(tzinfo=self.t0.tzinfo)
        # If both ends were cut to the second, the difference can be one second too short.
        now = (
            self.t0.replace(microsecond=0) - STATEMENT_CLOCK_LAG
            if thread.whole_seconds
            else self.t0 - STAMP_TO_TIMER_GAP
        )
        try:
            return min(now - max(thread.running_for, timedelta()), self.t0)
        except OverflowError:
            return datetime.min.replace(tzinfo=self.t0.tzinfo)
