"""What one poll of a server found out: who is at work, who changed rows, who holds which table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from syncd.horizon.statements import is_ignored, is_past_locking
from syncd.ports.source import TableName

NO_CLIENT = 0
"""The connection of a prepared XA transaction whose client left."""

LAG: Final = timedelta(seconds=1)
"""Further than that the clock by which MySQL counts a statement's seconds is not behind the one that stamps: it moves
with the kernel's ticks, so that for some milliseconds after each full second it shows the one before."""
GAP: Final = timedelta(seconds=0.1)
"""MariaDB takes a statement's stamp, and only then the time from which it counts: no longer than that lies between."""


class Sight(StrEnum):
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
class Thread:
    """One connection as the list of statements shows it (read A)."""

    connection: int
    holder: int
    """What locks name it by: a thread of MySQL, the connection itself on MariaDB."""
    command: str
    busy: timedelta | None
    """How long its statement runs, as its server counts; None where it does not say. See `Readings.began`."""
    whole_seconds: bool
    """Whether `busy` counts the seconds between two instants that were both cut to the second."""
    state: str = ""
    user: str = ""
    kind: str = ""
    """Of the top-level statement: `insert_select`, `drop_table`; empty where it is not known."""

    @property
    def stamps(self) -> bool:
        """Whether a statement runs that could stamp rows."""
        return not is_ignored(self.command, self.user, self.kind, self.state)

    @property
    def past_locking(self) -> bool:
        """Whether all locks of the statement are taken by now."""
        return is_past_locking(self.state, self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """One transaction that changed rows, or may have (read B)."""

    trx_id: str
    holder: int
    connection: int
    xa: bool = False
    """Whether it may have been another connection's: prepared and left, or an XA statement runs in it."""
    table: TableName | None = None
    """The one table that it was found at, where only tables asked for were seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """All answers of one poll, in the order in which they were read."""

    t0: datetime
    identity: str
    sight: Sight
    threads: tuple[Thread, ...] = ()
    """Every connection but our own, idle ones too."""
    writers: tuple[Writer, ...] = ()
    read_only: frozenset[int] = frozenset()
    """Connections whose transaction cannot write."""
    locks: Mapping[int, frozenset[TableName]] | None = None
    """Tables that each holder has a write-type lock on, folded; None where they could not be read."""
    tables: frozenset[TableName] | None = None
    """With the sight of tables: which were asked for, folded."""
    trouble: str = ""
    """Why there is no sight."""
    passing: bool = False
    """Whether a fuller sight is to be expected soon."""
    ids: Mapping[TableName, int] = field(default_factory=dict[TableName, int])
    """MAX(id) of tables, read before t0."""
    here: datetime | None = None
    """This machine's clock when the answers were there."""

    def began(self, thread: Thread) -> datetime:
        """An instant before or at the start of the thread's statement."""
        if thread.busy is None:
            return datetime.min.replace(tzinfo=self.t0.tzinfo)
        # Where both ends were cut to the second, the difference alone could be one too short.
        now = self.t0.replace(microsecond=0) - LAG if thread.whole_seconds else self.t0 - GAP
        try:
            return min(now - max(thread.busy, timedelta()), self.t0)
        except OverflowError:
            return datetime.min.replace(tzinfo=self.t0.tzinfo)
