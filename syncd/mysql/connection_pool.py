"""Whose turn is it on the connections to one server? Each question borrows one, and no more are open than may be."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from syncd.concurrency.resource_pool import NOBODY
from syncd.concurrency.running_pass import UnderWay
from syncd.datatypes.source_table import Server, Table
from syncd.errors import AnotherServer, SourceUnfit
from syncd.mysql.replica import CaughtUp, Log, Replication
from syncd.mysql.source import MySqlSource

if TYPE_CHECKING:
    from syncd.concurrency.resource_pool import Places
    from syncd.mysql.horizon_poll import Poller

QUESTIONS: Final = "questions"
OLDEST: Final = 300.0
"""Seconds for which a connection is used: its server may live on, long after its address leads to another one."""

Connections: TypeAlias = "Places[MySqlSource | Poller]"
"""The places at one server, and what is open there."""


class LentSource:
    """The port `Source` for one pass, or for all: each question is asked over a connection that is lent for it.

    None is held from one question to the next, and so none while something else is waited for. All that is answered
    comes of one server: where another one answers, nothing open is used again, and its answers count from then on.
    """

    def __init__(self, places: Connections, make: Callable[[], MySqlSource], *, under_way: UnderWay = NOBODY) -> None:
        self._places = places
        self._make = make
        self._under_way = under_way
        self._identity: str | None = None
        """The server that answered so far."""

    @contextmanager
    def lent(self) -> Generator[MySqlSource]:
        """A connection for a while, ended with the pass.

        Raises:
            PassStopped: the pass was ended, before or meanwhile.
            AnotherServer: what it told is of another server than what was told before.
        """
        found = self._places.take(self._under_way, kind=QUESTIONS)
        source = found if isinstance(found, MySqlSource) else self._make()
        try:
            with self._under_way.holding(source.abort):
                yield source
                self._require_same(source)
        except SourceUnfit:
            raise  # the whole answer came
        except BaseException as error:
            source.close()  # what comes next on this line may answer an older question
            if self._under_way.ended and isinstance(error, Exception):
                raise self._under_way.stopped() from error
            raise
        finally:
            if source.waits:
                self._places.park(source, kind=QUESTIONS)
            else:
                source.close()
                self._places.give_back()

    def _require_same(self, source: MySqlSource) -> None:
        before, now = self._identity, source.identity
        self._identity = now
        if before not in {None, now}:
            self._places.close()
            raise AnotherServer(
                f"another server answers than before: {now}, and no longer {before}", hint="The next pass begins anew."
            )

    def forget(self) -> None:
        """Close what waits here, and what is in use once it is left."""
        self._identity = None
        self._places.close()

    def server(self) -> Server:
        with self.lent() as source:
            return source.server()

    def table(self, database: str, name: str) -> Table:
        with self.lent() as source:
            return source.table(database, name)

    def created_by(self, database: str, name: str) -> str:
        with self.lent() as source:
            return source.created_by(database, name)

    def busy(self) -> str | None:
        with self.lent() as source:
            return source.busy()

    def rows(self, sql: str) -> Sequence[tuple[object, ...]]:
        with self.lent() as source:
            return source.rows(sql)

    def logged(self) -> Log:
        with self.lent() as source:
            return source.logged()

    def following(self) -> Replication | None:
        with self.lent() as source:
            return source.following()

    def catch_up(self, log: Log) -> CaughtUp:
        with self.lent() as source:
            return source.catch_up(log)
