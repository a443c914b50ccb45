"""Whose turn is it on the connections to one server? Each question borrows one, and no more are open than may be."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

from syncd.concurrency.resource_pool import NO_PASS, ResourcePool
from syncd.concurrency.running_pass import RunningPass
from syncd.datatypes.source_table import ServerInfo, SourceTable
from syncd.errors import ServerChanged, SourceUnfit
from syncd.mysql.horizon_poll import Poller
from syncd.mysql.replica import BinaryLog, CaughtUpReplica, Replication
from syncd.mysql.source import MySqlSource

QUERY_KIND: Final = "questions"
MAX_CONNECTION_AGE_SECONDS: Final = 300.0
"""Seconds for which a connection is used: its server may live on, long after its address leads to another one."""

SourceConnectionPool: TypeAlias = ResourcePool[MySqlSource | Poller]
"""The places at one server, and what is open there."""


class PooledSource:
    """The port `Source` for one pass, or for all: each question is asked over a connection that is lent for it.

    None is held from one question to the next, and so none while something else is waited for. All that is answered
    comes of one server: where another one answers, nothing open is used again, and its answers count from then on.
    """

    def __init__(
        self, pool: SourceConnectionPool, make_source: Callable[[], MySqlSource], *, running_pass: RunningPass = NO_PASS
    ) -> None:
        self._pool = pool
        self._make_source = make_source
        self._running_pass = running_pass
        self._identity: str | None = None
        """The server that answered so far."""

    @contextmanager
    def borrow(self) -> Generator[MySqlSource]:
        """A connection for a while, ended with the pass.

        Raises:
            PassStopped: the pass was ended, before or meanwhile.
            AnotherServer: what it told is of another server than what was told before.
        """
        found = self._pool.acquire(self._running_pass, kind=QUERY_KIND)
        source = found if isinstance(found, MySqlSource) else self._make_source()
        try:
            with self._running_pass.call_on_end(source.abort):
                yield source
                self._require_same_server(source)
        except SourceUnfit:
            raise  # the whole answer came
        except BaseException as error:
            source.close()  # what comes next on this line may answer an older question
            if self._running_pass.is_ended and isinstance(error, Exception):
                raise self._running_pass.stop_error() from error
            raise
        finally:
            if source.is_reusable:
                self._pool.put_idle(source, kind=QUERY_KIND)
            else:
                source.close()
                self._pool.release()

    def _require_same_server(self, source: MySqlSource) -> None:
        before, now = self._identity, source.identity
        self._identity = now
        if before not in {None, now}:
            self._pool.close()
            raise ServerChanged(
                f"another server answers than before: {now}, and no longer {before}", hint="The next pass begins anew."
            )

    def discard_connections(self) -> None:
        """Close what waits here, and what is in use once it is left."""
        self._identity = None
        self._pool.close()

    def get_server_info(self) -> ServerInfo:
        with self.borrow() as source:
            return source.get_server_info()

    def describe_table(self, database: str, name: str) -> SourceTable:
        with self.borrow() as source:
            return source.describe_table(database, name)

    def show_create_table(self, database: str, name: str) -> str:
        with self.borrow() as source:
            return source.show_create_table(database, name)

    def find_overload(self) -> str | None:
        with self.borrow() as source:
            return source.find_overload()

    def fetch_rows(self, sql: str) -> Sequence[tuple[object, ...]]:
        with self.borrow() as source:
            return source.fetch_rows(sql)

    def read_binary_log(self) -> BinaryLog:
        with self.borrow() as source:
            return source.read_binary_log()

    def read_replication_status(self) -> Replication | None:
        with self.borrow() as source:
            return source.read_replication_status()

    def wait_until_caught_up(self, log: BinaryLog) -> CaughtUpReplica:
        with self.borrow() as source:
            return source.wait_until_caught_up(log)
