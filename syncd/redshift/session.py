"""One connection to a warehouse as the loader uses it: every wait is bounded, and no error leaves it half usable."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from redshift_connector.cursor import Cursor
from redshift_connector.error import Error

from syncd.errors import TransactionConflict, WarehouseDown
from syncd.ports.request_stats import CallObserver, WarehouseQueried
from syncd.redshift.driver import DriverSocket, RedshiftDriver
from syncd.redshift.error_table import (
    PROTOCOL_ERRORS,
    SessionAddress,
    commit_unknown,
    connection_lost,
    map_server_error,
    mask_secrets,
    server_error_fields,
)
from syncd.redshift.watchdog import WATCHDOG
from watermarks.errors import HintedError

CLOSE_TIMEOUT_SECONDS: Final = 2.0
"""Seconds for a polite end; whatever is not over by then is ended without one."""
METERED_STATEMENTS: Final = frozenset(
    {
        *("copy", "select", "insert", "update", "delete", "merge", "create", "alter", "drop", "truncate", "lock"),
        *("begin", "commit", "rollback", "set", "show", "grant", "analyze", "with"),
    }
)
"""First words of statements that are counted by themselves."""
_IDLE_STATUSES: Final = (b"I", b"")
_DRIVER_ERRORS: Final = (Error, OSError, *PROTOCOL_ERRORS)


class WarehouseSession:
    """A connection that commits each statement by itself, but between `begin` and `commit` or `rollback`.

    After an error that the server told in full it goes on; after any other it is dead:
    what comes next on it could be the answer to something else. A statement that takes
    longer than it may ends the connection, from outside. One thread uses it; `abort`
    is for any.
    """

    def __init__(
        self,
        driver: RedshiftDriver,
        wire: DriverSocket,
        *,
        address: SessionAddress,
        silence: timedelta,
        meter: Callable[[str, float], None] = lambda _sql, _seconds: None,
    ) -> None:
        """Take over a driver that was greeted; `meter` hears of each statement, and how many seconds it took."""
        self._driver = driver
        self._wire = wire
        self._silence = silence
        self._meter = meter
        self._dead = False
        self.address: Final = address
        self.pid: Final = driver.pid
        """The process that serves it."""

    @property
    def is_alive(self) -> bool:
        """Whether it can still be used, as far as this side knows."""
        return not self._dead

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open here, be it one that has failed."""
        return self.is_alive and self._driver.transaction_status not in _IDLE_STATUSES

    def run(self, sql: str, args: Sequence[object] = (), *, within: timedelta | None = None) -> int:
        """Carry out a statement; how many rows it changed, -1 where the driver knows no number.

        `%s` in the text stands for an argument, only if there are any. `within` bounds
        the whole statement; without it, it is a short one.

        Raises:
            WarehouseDown: there was no answer, or not in time. It may still be carried out there.
            Collided: the whole transaction is to be run again.
            WarehouseUnfit, FileRefused, RowRefused: as the server told.
        """
        return int(self._execute(sql, args, within).rowcount)

    def rows(self, sql: str, args: Sequence[object] = (), *, within: timedelta | None = None) -> list[tuple[Any, ...]]:
        """The rows that a query gives, all at once.

        Raises:
            As `run`.
        """
        return [tuple(row) for row in self._execute(sql, args, within).fetchall()]

    def begin(self) -> None:
        """Open a transaction; it has no snapshot yet.

        Raises:
            As `run`.
        """
        if self.in_transaction:
            raise RuntimeError("a transaction is open here: the server would say so in a notice only")
        self.run("BEGIN")

    def commit(self, *, within: timedelta | None = None) -> None:
        """End the transaction, everything in it done.

        Raises:
            CommitUnknown: no answer came. It landed as a whole, or not at all.
            Collided: nothing of it landed.
            HintedError: as the server told; nothing of it landed.
        """
        if not self.is_alive:
            raise self._connection_lost_before()
        if not self.in_transaction:
            raise RuntimeError("there is no transaction to commit: a statement has ended it")
        self._execute("COMMIT", (), within, commits=True)
        if self._driver.command_tag != "COMMIT":
            # A transaction that failed before answers COMMIT with a rollback, and calls it no error.
            raise TransactionConflict(
                f"{self.address}: a statement had failed before COMMIT: nothing of the transaction landed"
            )

    def rollback(self) -> None:
        """End the transaction, nothing in it done; on a dead session the server does so by itself."""
        if not self.in_transaction:
            return
        try:
            self._execute("ROLLBACK", (), None)
        except HintedError:
            self.close()

    def abort(self) -> None:
        """End the connection at once, from any thread; a statement under way fails as if the line had broken."""
        self._wire.end_connection()

    def close(self) -> None:
        """End the session; never waits long, never fails."""
        polite = not self._dead and not self._wire.closed
        self._dead = True
        try:
            if polite:
                with WATCHDOG.limit(CLOSE_TIMEOUT_SECONDS, self._wire.end_connection):
                    self._driver.close()
        except _DRIVER_ERRORS:
            pass  # it was ended already: that is all that was wanted
        finally:
            self._wire.close()

    def _execute(self, sql: str, args: Sequence[object], within: timedelta | None, *, commits: bool = False) -> Cursor:
        if self._dead:
            raise self._connection_lost_before()
        self._driver.reset_statement()
        cursor = self._driver.cursor()
        began = time.monotonic()
        try:
            with self._map_errors(sql, within or self._silence, commits=commits):
                if args:
                    cursor.execute(sql, tuple(args))
                else:
                    cursor.execute(sql)
        finally:
            self._meter(sql, time.monotonic() - began)
        return cursor

    @contextmanager
    def _map_errors(self, sql: str, within: timedelta, *, commits: bool) -> Iterator[None]:
        """Bound what is done here, and turn the driver's errors into ours."""
        with WATCHDOG.limit(within.total_seconds(), self._wire.end_connection) as bound:
            try:
                yield
            except _DRIVER_ERRORS as error:
                found = self._to_hinted_error(error, sql, late=within if bound.timed_out else None, commits=commits)
                raise found from _mask_error(error, sql)
            except BaseException:
                self._drop_connection()  # interrupted in the middle of an answer: the rest of it would answer the next question
                raise
        if bound.timed_out:
            self._drop_connection()  # it was over in the moment in which it was ended

    def _to_hinted_error(self, error: Exception, sql: str, *, late: timedelta | None, commits: bool) -> HintedError:
        fields = server_error_fields(error)
        if fields is not None and fields.get("S") not in {"FATAL", "PANIC"}:
            # The driver raises it after the server has said that it is ready for more.
            return map_server_error(fields, self.address, sql=sql)
        last_word = server_error_fields(self._driver.pending_error)
        self._drop_connection()
        if commits:
            return commit_unknown(self.address, "no answer came in time" if late else "the connection was lost")
        if late:
            return self._timeout_error(late)
        if last_word is not None:
            return map_server_error(last_word, self.address, sql=sql)
        if isinstance(error, Error) and not _is_connection_error(error):
            # It does not take what we gave it: a fault of ours.
            return HintedError(f"{self.address}: the driver refuses: {mask_secrets(str(error), sql)}")
        return connection_lost(error, self.address)

    def _timeout_error(self, within: timedelta) -> WarehouseDown:
        return WarehouseDown(
            f"{self.address}: no answer within {within.total_seconds():g} s; the connection was ended",
            hint="See what it waits for: SELECT * FROM svv_transactions;  A longer time: `warehouse.longest_statement`,"
            " `warehouse.silence`.",
        )

    def _connection_lost_before(self) -> WarehouseDown:
        return WarehouseDown(f"{self.address}: this connection was lost before")

    def _drop_connection(self) -> None:
        self._dead = True
        self._wire.end_connection()
        self._wire.close()


def statement_meter(meter: CallObserver, warehouse: str) -> Callable[[str, float], None]:
    """What counts statements of sessions with one warehouse, by their first word."""

    def count(sql: str, seconds: float) -> None:
        word = sql.lstrip()[:12].split(None, 1)[0].rstrip(";").casefold() if sql.strip() else ""
        meter(
            WarehouseQueried(
                warehouse=warehouse, statement=word if word in METERED_STATEMENTS else "other", seconds=seconds
            )
        )

    return count


def _is_connection_error(error: Exception) -> bool:
    return any(word in str(error) for word in ("BrokenPipe", "connection is closed", "communication error", "time out"))


def _mask_error(error: Exception, sql: str) -> Exception:
    """The driver's error as a traceback may show it."""
    fields = server_error_fields(error)
    if fields is not None:
        error.args = ({name: mask_secrets(told, sql) for name, told in fields.items()},)
    return error
