"""Connection pool for one MySQL server: each query borrows a connection."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

from syncd.concurrency.resource_pool import NO_PASS, ResourcePool
from syncd.concurrency.running_pass import RunningPass
from syncd.datatypes.source_table import ServerInfo, SourceTable
from syncd.errors import ServerChanged, SourceUnfit
from syncd.mysql.horizon_poll import Poller
from syncd.mysql.source import MySqlSource, ServerAction, T

QUERY_KIND: Final = "questions"
MAX_CONNECTION_AGE_SECONDS: Final = 300.0
"""Longest use of one connection: after a failover the old server may stay reachable over it."""

SourceConnectionPool: TypeAlias = ResourcePool[MySqlSource | Poller]
"""The connection slots of one server, with its idle connections."""


class PooledSource:
    """The port `SourceDatabase` for one pass, or for all: each query borrows a connection.

    No connection is held between queries, so none is held while the pass waits for something else. All answers come
    from one server. If another server answers, every open connection is discarded and its answers count from then on.
    """

    def __init__(
        self, pool: SourceConnectionPool, make_source: Callable[[], MySqlSource], *, running_pass: RunningPass = NO_PASS
    ) -> None:
        self._pool = pool
        self._make_source = make_source
        self._running_pass = running_pass
        self._identity: str | None = None
        """The server that answered last."""

    @contextmanager
    def borrow(self) -> Generator[MySqlSource]:
        """Yield a connection for a while; the end of the pass aborts it.

        Raises:
            PassStopped: the pass was ended, before or meanwhile.
            ServerChanged: another server answered than before.
        """
        idle = self._pool.acquire(self._running_pass, kind=QUERY_KIND)
        source = idle if isinstance(idle, MySqlSource) else self._make_source()
        try:
            with self._running_pass.call_on_end(source.abort):
                yield source
                self._require_same_server(source)
        except SourceUnfit:
            raise  # the result was read to its end
        except BaseException as error:
            source.close()  # the next bytes on this connection may answer an earlier query
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
                f"the source is now server {now}, it was {before} before", hint="The next pass starts over."
            )

    def discard_connections(self) -> None:
        """Close idle connections now, and borrowed ones when they are returned."""
        self._identity = None
        self._pool.close()

    def run(self, action: ServerAction[T]) -> T:
        """Run an action over one borrowed connection; see `MySqlSource.run`."""
        with self.borrow() as source:
            return source.run(action)

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
