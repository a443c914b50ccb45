"""What one poll of a server found out: who is at work, who changed rows, who holds which table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from syncd.horizon.statements import is_ignored, is_past_locking
from syncd.ports.source import TableName

NO_CONNECTION = 0
"""The connection of a prepared XA transaction whose client left."""

STATEMENT_CLOCK_LAG: Final = timedelta(seconds=1)
"""Further than that the clock by which MySQL counts a statement's seconds is not behind the one that stamps: it moves
with the kernel's ticks, so that for some milliseconds after each full second it shows the one before."""
STAMP_TO_TIMER_GAP: Final = timedelta(seconds=0.1)
"""MariaDB takes a statement's stamp, and only then the time from which it counts: no longer than that lies between."""


class Visibility(StrEnum):
    """How much of its writers a server let us see."""

    SERVER = "server"
    """Every transaction that changed rows (INNODB_TRX)."""
    TABLES = "tables"
    """Every transaction that holds a write lock on one of the tables asked for (data_locks)."""
    NOTHING = "nothing"
    """The right is missing, or the server has writers that it does not know of."""
    BLIND = "blind"
    """Nothing this time: too many, too stale, or an error that passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerThread:
    """One connection as the list of statements shows it (read A)."""

    connection: int
    lock_owner: int
    """What locks name it by: a thread of MySQL, the connection itself on MariaDB."""
    command: str
    running_for: timedelta | None
    """How long its statement runs, as its server counts; None where it does not say. See `Readings.began`."""
    whole_seconds: bool
    """Whether `busy` counts the seconds between two instants that were both cut to the second."""
    state: str = ""
    user: str = ""
    kind: str = ""
    """Of the top-level statement: `insert_select`, `drop_table`; empty where it is not known."""

    @property
    def may_stamp(self) -> bool:
        """Whether a statement runs that could stamp rows."""
        return not is_ignored(self.command, self.user, self.kind, self.state)

    @property
    def has_all_locks(self) -> bool:
        """Whether all locks of the statement are taken by now."""
        return is_past_locking(self.state, self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingTransaction:
    """One transaction that changed rows, or may have (read B)."""

    trx_id: str
    lock_owner: int
    connection: int
    xa: bool = False
    """Whether it may have been another connection's: prepared and left, or an XA statement runs in it."""
    table: TableName | None = None
    """The one table that it was found at, where only tables asked for were seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonPoll:
    """All answers of one poll, in the order in which they were read."""

    t0: datetime
    identity: str
    visibility: Visibility
    threads: tuple[ServerThread, ...] = ()
    """Every connection but our own, idle ones too."""
    writers: tuple[WritingTransaction, ...] = ()
    read_only: frozenset[int] = frozenset()
    """Connections whose transaction cannot write."""
    locks: Mapping[int, frozenset[TableName]] | None = None
    """Tables that each holder has a write-type lock on, folded; None where they could not be read."""
    tables: frozenset[TableName] | None = None
    """With the sight of tables: which were asked for, folded."""
    problem: str = ""
    """Why there is no sight."""
    is_temporary: bool = False
    """Whether a fuller sight is to be expected soon."""
    max_ids: Mapping[TableName, int] = field(default_factory=dict[TableName, int])
    """MAX(id) of tables, read before t0."""
    local_time: datetime | None = None
    """This machine's clock when the answers were there."""

    def statement_start(self, thread: ServerThread) -> datetime:
        """An instant before or at the start of the thread's statement."""
        if thread.running_for is None:
            return datetime.min.replace(tzinfo=self.t0.tzinfo)
        # Where both ends were cut to the second, the difference alone could be one too short.
        now = (
            self.t0.replace(microsecond=0) - STATEMENT_CLOCK_LAG
            if thread.whole_seconds
            else self.t0 - STAMP_TO_TIMER_GAP
        )
        try:
            return min(now - max(thread.running_for, timedelta()), self.t0)
        except OverflowError:
            return datetime.min.replace(tzinfo=self.t0.tzinfo)
