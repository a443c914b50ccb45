"""Connections to a source, and what its driver's errors mean."""

import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeAlias

import pymysql

from syncd.errors import SourceDown, SourceUnfit
from syncd.mysql.error_codes import HINT_BY_CODE, UNREACHABLE_CODES, is_transient
from syncd.mysql.sql import CURRENT_VERSION_SQL, NO_SELECT_LIMIT
from syncd.mysql.tls_options import handshake_error, make_unverified_context, tls_options
from syncd.settings import SourceSettings
from watermarks.errors import HintedError

Connection: TypeAlias = "pymysql.Connection[Any]"

CONNECT_TIMEOUT_SECONDS: Final = 10
GREETED_WITHIN: Final = 20.0
"""Seconds of silence while a session is made: the answer to a long question may be worth more, a greeting never is."""
SET_ISOLATION_STATEMENT: Final = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
"""A statement of its own: the variable has another name on MariaDB before 11.1."""

DRIVER_ERRORS: Final = (pymysql.err.MySQLError, OSError)
_NOT_MYSQL_ERRORS: Final = (struct.error, IndexError, ValueError)
"""What the driver raises over bytes that are no greeting of MySQL's."""


def connect(settings: SourceSettings, *, address: tuple[str, int] | None = None) -> Connection:
    """A connection in UTC that commits each statement by itself; no wait on it is longer than `settings.silence`.

    While it is made, none is longer than `GREETED_WITHIN` either.

    `at` is the near end of a tunnel; certificates are still checked for the host beyond it.

    Raises:
        SourceDown: nobody answers.
        SourceUnfit: the server does not let this user in, or is not believed.
        ConfigError: the file of the certificate authority is none.
    """
    connection = _build_connection(settings)
    with map_driver_errors(settings):
        try:
            # The driver would check the certificate against the tunnel's end.
            connection.connect(_open_socket(address or (settings.host, settings.port)))
        except _NOT_MYSQL_ERRORS as error:
            raise SourceDown(
                f"{settings.host}:{settings.port} does not answer as MySQL does",
                hint="Is the port right in the configuration?",
            ) from error
        except RuntimeError as error:
            raise SourceUnfit(f"MySQL at {settings.host}:{settings.port}: {error}") from error
        with closed_on_error(connection), connection.cursor() as cursor:
            cursor.execute(SET_ISOLATION_STATEMENT)
    connection.set_read_timeout(settings.silence.total_seconds())
    return connection


@contextmanager
def closed_on_error(connection: Connection) -> Iterator[None]:
    """No connection stays open whose session could not be made ready."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


class _LazyTlsConnection(pymysql.connections.Connection):  # type: ignore[misc]  # nobody tells its types
    """The driver's connection; where it encrypts if the server can, and checks nobody, it loads nothing to check by."""

    def _create_ssl_ctx(self, sslp: Any) -> ssl.SSLContext:  # noqa: ANN401  # the driver's own
        return sslp if isinstance(sslp, ssl.SSLContext) else make_unverified_context()

    def set_read_timeout(self, seconds: float) -> None:
        """From now on, wait for so long for the next bytes of an answer."""
        self._read_timeout = seconds


def _build_connection(settings: SourceSettings) -> _LazyTlsConnection:
    silence = settings.silence.total_seconds()
    return _LazyTlsConnection(
        host=settings.host,
        port=settings.port,
        user=settings.user,
        # The driver would write a text in Latin-1, and show the password when it cannot.
        password=settings.password.value.encode(),
        database=settings.database,
        charset="utf8mb4",
        read_timeout=min(silence, GREETED_WITHIN),
        write_timeout=silence,
        init_command=session_setup_statement(silence),
        autocommit=True,
        defer_connect=True,
        **tls_options(settings),
    )


def session_setup_statement(timeout_seconds: float) -> str:
    """The first statement of a session of which no wait is longer than so many seconds.

    No mode turns a value into something else, or a strange stamp into an error; no answer is cut, or of an earlier
    time; and no statement goes on at the server after we have given it up: the server ends it first, and says so.
    """
    milliseconds = max(1, int(timeout_seconds * 900))
    return (
        "SET SESSION time_zone = '+00:00', sql_mode = '', character_set_results = utf8mb4,"
        f" sql_select_limit = {NO_SELECT_LIMIT} /*!50708 , max_execution_time = {milliseconds} */"
        f" /*M!100101 , max_statement_time = {milliseconds / 1000} */ {CURRENT_VERSION_SQL}"
    )


def shut_down(connection: Connection) -> None:
    """End the line of a connection, from any thread: whoever waits on it sees its end at once."""
    line: socket.socket | None = getattr(connection, "_sock", None)  # the driver has no public way
    if line is not None:
        with suppress(OSError):  # it is ended, or closed
            # Not the method of an SSLSocket, which would let a write that follows go out in the clear.
            socket.socket.shutdown(line, socket.SHUT_RDWR)


def _open_socket(address: tuple[str, int]) -> socket.socket:
    made = socket.create_connection(address, CONNECT_TIMEOUT_SECONDS)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return made


@contextmanager
def map_driver_errors(settings: SourceSettings) -> Iterator[None]:
    """Turn the driver's errors into ours."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise map_error(error, settings) from error


def map_error(error: BaseException, settings: SourceSettings, *, database: str | None = None) -> HintedError:
    """What an error of the driver says about the source; `database` is the one that was asked about."""
    origin = getattr(error, "original_exception", error)
    if isinstance(origin, ssl.SSLError):
        return handshake_error(origin, settings)
    # Of an OSError the number is the system's, not MySQL's.
    numbered = isinstance(error, pymysql.err.MySQLError) and error.args and isinstance(error.args[0], int)
    code: int = error.args[0] if numbered else 0
    told = str(error.args[1] if len(error.args) > 1 else error) or type(error).__name__
    place = f"{settings.host}:{settings.port}"
    if not is_transient(code):
        names = {"user": settings.user, "database": database or settings.database or "the database"}
        return SourceUnfit(
            f"MySQL at {place} refuses: {told}", hint=HINT_BY_CODE.get(code, "").format(**names), code=code
        )
    hint = (
        "Is the server up, and is there a way to it from this machine?" if code in UNREACHABLE_CODES or not code else ""
    )
    return SourceDown(f"MySQL at {place}: {told}", hint=hint, code=code)


OpenConnection: TypeAlias = Callable[[], Connection]
"""Opens one more connection to the same server."""
