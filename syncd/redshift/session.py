"""Session with a warehouse: every wait has a limit, and after an error the session is either usable or closed."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, Protocol

from redshift_connector.cursor import Cursor
from redshift_connector.error import Error

from syncd.errors import TransactionConflict, WarehouseDown
from syncd.ports.request_stats import CallObserver, WarehouseQueried
from syncd.redshift.answer_timeout import WATCHDOG
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
from watermarks.errors import HintedError

CLOSE_TIMEOUT_SECONDS: Final = 2.0
"""Limit of an orderly end; after it, the connection is cut."""
METERED_STATEMENTS: Final = frozenset(
    {
        *("copy", "select", "insert", "update", "delete", "merge", "create", "alter", "drop", "truncate", "lock"),
        *("begin", "commit", "rollback", "set", "show", "grant", "analyze", "with"),
    }
)
"""First words of statements that have a counter of their own."""
_IDLE_STATUSES: Final = (b"I", b"")
_DRIVER_ERRORS: Final = (Error, OSError, *PROTOCOL_ERRORS)


class WarehouseSession:
    """Session that commits each statement by itself, except between `begin` and `commit` or `rollback`.

    It survives an error that the server sent in full. Any other error ends it, because
    the next answer on it could belong to another statement. The watchdog cuts the connection
    of a statement that exceeds its limit. One thread uses a session; any may call `abort`.
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
        """Take over a logged-in driver; `meter` is called with each statement and its seconds."""
        self._driver = driver
        self._wire = wire
        self._silence = silence
        self._meter = meter
        self._dead = False
        self.address: Final = address
        self.pid: Final = driver.pid
        """The server process of this session."""

    @property
    def is_alive(self) -> bool:
        """True if the session can be used, as far as the client knows."""
        return not self._dead

    @property
    def in_transaction(self) -> bool:
        """True if a transaction is open, even a failed one."""
        return self.is_alive and self._driver.transaction_status not in _IDLE_STATUSES

    def run(self, sql: str, args: Sequence[object] = (), *, within: timedelta | None = None) -> int:
        """Execute a statement; return the number of changed rows, or -1 where the driver knows none.

        `%s` stands for an argument only if there are arguments. `within` limits the whole
        statement; the default is the limit of a short one.

        Raises:
            WarehouseDown: no answer, or not in time. The server may still execute the statement.
            TransactionConflict: the whole transaction must be retried.
            WarehouseUnfit, FileRefused, RowRefused: the server refuses the statement.
        """
        return int(self._execute(sql, args, within).rowcount)

    def rows(self, sql: str, args: Sequence[object] = (), *, within: timedelta | None = None) -> list[tuple[Any, ...]]:
        """Return all rows of a query; raise as `run`."""
        return [tuple(row) for row in self._execute(sql, args, within).fetchall()]

    def begin(self) -> None:
        """Open a transaction, which has no snapshot yet; raise as `run`."""
        if self.in_transaction:
            raise RuntimeError("a transaction is open already; the server would only send a notice")
        self.run("BEGIN")

    def commit(self, *, within: timedelta | None = None) -> None:
        """Commit the transaction.

        Raises:
            CommitUnknown: no answer. The transaction is committed as a whole, or not at all.
            TransactionConflict, HintedError: the server refuses; nothing is committed.
        """
        if not self.is_alive:
            raise self._connection_lost_before()
        if not self.in_transaction:
            raise RuntimeError("there is no transaction to commit; a statement has ended it")
        self._execute("COMMIT", (), within, commits=True)
        if self._driver.command_tag != "COMMIT":
            # The server answers COMMIT of a failed transaction with a rollback and no error.
            raise TransactionConflict(
                f"{self.address}: a statement failed before COMMIT; nothing of the transaction was committed"
            )

    def rollback(self) -> None:
        """Roll the transaction back; the server rolls back that of a dead session."""
        if not self.in_transaction:
            return
        try:
            self._execute("ROLLBACK", (), None)
        except HintedError:
            self.close()

    def abort(self) -> None:
        """Cut the connection, from any thread; a running statement fails as on a broken connection."""
        self._wire.end_connection()

    def close(self) -> None:
        """End the session, without an error and within a short time."""
        is_open = not self._dead and not self._wire.closed
        self._dead = True
        try:
            if is_open:
                with WATCHDOG.limit(CLOSE_TIMEOUT_SECONDS, self._wire.end_connection):
                    self._driver.close()
        except _DRIVER_ERRORS:
            pass  # it had ended already
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
        """Limit the time of the `with` block, and map the errors of the driver."""
        with WATCHDOG.limit(within.total_seconds(), self._wire.end_connection) as wait:
            try:
                yield
            except _DRIVER_ERRORS as error:
                mapped = self._to_hinted_error(error, sql, late=within if wait.timed_out else None, commits=commits)
                raise mapped from _mask_error(error, sql)
            except BaseException:
                # Interrupted inside an answer: its rest would be taken for the next answer.
                self._drop_connection()
                raise
        if wait.timed_out:
            self._drop_connection()  # the watchdog cut it just as the statement completed

    def _to_hinted_error(self, error: Exception, sql: str, *, late: timedelta | None, commits: bool) -> HintedError:
        fields = server_error_fields(error)
        if fields is not None and fields.get("S") not in {"FATAL", "PANIC"}:
            # The driver raises it after the server is ready for the next statement.
            return map_server_error(fields, self.address, sql=sql)
        pending = server_error_fields(self._driver.pending_error)
        self._drop_connection()
        if commits:
            return commit_unknown(self.address, "no answer came in time" if late else "the connection was lost")
        if late:
            return self._timeout_error(late)
        if pending is not None:
            return map_server_error(pending, self.address, sql=sql)
        if isinstance(error, Error) and not _is_connection_error(error):
            # The statement or its arguments are wrong: a bug of ours.
            return HintedError(f"{self.address}: the driver refuses: {mask_secrets(str(error), sql)}")
        return connection_lost(error, self.address)

    def _timeout_error(self, within: timedelta) -> WarehouseDown:
        return WarehouseDown(
            f"{self.address}: no answer within {within.total_seconds():g} s; the connection was closed",
            hint="List what it waits for: SELECT * FROM svv_transactions;  To allow more time:"
            " `warehouse.longest_statement`, `warehouse.silence`.",
        )

    def _connection_lost_before(self) -> WarehouseDown:
        return WarehouseDown(f"{self.address}: this connection was lost earlier")

    def _drop_connection(self) -> None:
        self._dead = True
        self._wire.end_connection()
        self._wire.close()


class SessionProvider(Protocol):
    """Holder of a session with the warehouse."""

    def session(self) -> WarehouseSession:
        """Return a live session, a new one where the last was lost.

        Raises:
            WarehouseDown, WarehouseUnfit: no session can be opened.
        """
        ...


def statement_meter(meter: CallObserver, warehouse: str) -> Callable[[str, float], None]:
    """Return an observer that counts the statements of one warehouse by their first word."""

    def count(sql: str, seconds: float) -> None:
        word = sql.lstrip()[:12].split(None, 1)[0].rstrip(";").casefold() if sql.strip() else ""
        statement = word if word in METERED_STATEMENTS else "other"
        meter(WarehouseQueried(warehouse=warehouse, statement=statement, seconds=seconds))

    return count


def _is_connection_error(error: Exception) -> bool:
    return any(word in str(error) for word in ("BrokenPipe", "connection is closed", "communication error", "time out"))


def _mask_error(error: Exception, sql: str) -> Exception:
    """Mask secrets in the driver's error, which a traceback may show."""
    fields = server_error_fields(error)
    if fields is not None:
        error.args = ({name: mask_secrets(value, sql) for name, value in fields.items()},)
    return error
