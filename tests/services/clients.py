"""Clients of a MySQL server for tests: one connection each, statements that may hang, waits that look."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import pymysql

from syncd.sandbox.mysql import MySqlAddress

if TYPE_CHECKING:
    from concurrent.futures import Future

PATIENT: Final = 60.0
LOOK_EVERY: Final = 0.02


def eventually(found: Callable[[], bool], *, within: float = 60.0, every: float = LOOK_EVERY) -> bool:
    """Whether it came true in that many seconds; looks again and again."""
    end = time.monotonic() + within
    while not found():
        if time.monotonic() > end:
            return False
        time.sleep(every)
    return True


class Client:
    """One connection; `start` runs a statement in a thread of its own, so that it can be looked at meanwhile."""

    def __init__(self, address: MySqlAddress) -> None:
        self.connection = address.connect(timeout_seconds=PATIENT)
        self.id = int(self.connection.thread_id())
        self._thread = ThreadPoolExecutor(max_workers=1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, *statements: str) -> Sequence[tuple[Any, ...]]:
        """Run these; the rows of the last."""
        rows: Sequence[tuple[Any, ...]] = ()
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = cursor.fetchall()
        return rows

    def one(self, statement: str) -> Any:
        return self.run(statement)[0][0]

    def start(self, *statements: str) -> "Future[Sequence[tuple[Any, ...]]]":
        return self._thread.submit(self.run, *statements)

    def close(self) -> None:
        self._thread.shutdown(wait=True)
        with suppress(pymysql.err.Error):
            self.connection.close()

    def vanish(self) -> None:
        """Be gone without a word."""
        self._thread.shutdown(wait=True)
        self.connection._force_close()


def state_of(watcher: Client, connection: int) -> str:
    """What the process list says of a connection; empty while it runs nothing, or is gone."""
    rows = watcher.run("SHOW PROCESSLIST")
    return next((str(row[6] or "") for row in rows if row[0] == connection and row[4] != "Sleep"), "")


def standing(port: int) -> int:
    """How many connections to a port of this machine stand at one moment; one whose client has ended it does not.

    A server's own list holds such a one until it has heard of its end, which on a busy machine is later. The tables of
    the system are read one after the other: what stands in two readings stood between them.
    """
    return len(_established(port) & _established(port))


def _established(port: int) -> set[tuple[str, str]]:
    remote, established = f":{port:04X}", "01"
    tables = [path.read_text().splitlines()[1:] for path in (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))]
    found = [line.split() for table in tables for line in table]
    return {(fields[1], fields[9]) for fields in found if fields[2].endswith(remote) and fields[3] == established}


def is_gone(watcher: Client, connection: int) -> bool:
    return all(row[0] != connection for row in watcher.run("SHOW PROCESSLIST"))
