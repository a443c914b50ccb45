"""Connections to a source, and what its driver's errors mean."""

import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeAlias

import pymysql

from syncd.errors import SourceDown, SourceUnfit
from syncd.mysql.error_codes import AWAY, HINTS, passes
from syncd.mysql.sql import ALL_ROWS_OF_AN_ANSWER, AS_IT_IS_NOW
from syncd.mysql.tls_options import handshake_error, tls_options, unchecked
from syncd.settings import SourceSettings
from watermarks.errors import HintedError

Connection: TypeAlias = "pymysql.Connection[Any]"

CONNECTED_WITHIN: Final = 10
GREETED_WITHIN: Final = 20.0
"""Seconds of silence while a session is made: the answer to a long question may be worth more, a greeting never is."""
ISOLATION: Final = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
"""A statement of its own: the variable has another name on MariaDB before 11.1."""

FOREIGN: Final = (pymysql.err.MySQLError, OSError)
_STRANGE: Final = (struct.error, IndexError, ValueError)
"""What the driver raises over bytes that are no greeting of MySQL's."""


def connect(settings: SourceSettings, *, at: tuple[str, int] | None = None) -> Connection:
    """A connection in UTC that commits each statement by itself; no wait on it is longer than `settings.silence`.

    While it is made, none is longer than `GREETED_WITHIN` either.

    `at` is the near end of a tunnel; certificates are still checked for the host beyond it.

    Raises:
        SourceDown: nobody answers.
        SourceUnfit: the server does not let this user in, or is not believed.
        ConfigError: the file of the certificate authority is none.
    """
    connection = _prepared(settings)
    with mapped(settings):
        try:
            # The driver would check the certificate against the tunnel's end.
            connection.connect(_socket(at or (settings.host, settings.port)))
        except _STRANGE as error:
            raise SourceDown(
                f"{settings.host}:{settings.port} does not answer as MySQL does",
                hint="Is the port right in the configuration?",
            ) from error
        except RuntimeError as error:
            raise SourceUnfit(f"MySQL at {settings.host}:{settings.port}: {error}") from error
        with closed_on_error(connection), connection.cursor() as cursor:
            cursor.execute(ISOLATION)
    connection.wait_for_answers(settings.silence.total_seconds())
    return connection


@contextmanager
def closed_on_error(connection: Connection) -> Iterator[None]:
    """No connection stays open whose session could not be made ready."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


class _Quick(pymysql.connections.Connection):  # type: ignore[misc]  # nobody tells its types
    """The driver's connection; where it encrypts if the server can, and checks nobody, it loads nothing to check by."""

    def _create_ssl_ctx(self, sslp: Any) -> ssl.SSLContext:  # noqa: ANN401  # the driver's own
        return sslp if isinstance(sslp, ssl.SSLContext) else unchecked()

    def wait_for_answers(self, seconds: float) -> None:
        """From now on, wait for so long for the next bytes of an answer."""
        self._read_timeout = seconds


def _prepared(settings: SourceSettings) -> _Quick:
    silence = settings.silence.total_seconds()
    return _Quick(
        host=settings.host,
        port=settings.port,
        user=settings.user,
        # The driver would write a text in Latin-1, and show the password when it cannot.
        password=settings.password.value.encode(),
        database=settings.database,
        charset="utf8mb4",
        read_timeout=min(silence, GREETED_WITHIN),
        write_timeout=silence,
        init_command=session_of(silence),
        autocommit=True,
        defer_connect=True,
        **tls_options(settings),
    )


def session_of(silence: float) -> str:
    """The first statement of a session of which no wait is longer than so many seconds.

    No mode turns a value into something else, or a strange stamp into an error; no answer is cut, or of an earlier
    time; and no statement goes on at the server after we have given it up: the server ends it first, and says so.
    """
    milliseconds = max(1, int(silence * 900))
    return (
        "SET SESSION time_zone = '+00:00', sql_mode = '', character_set_results = utf8mb4,"
        f" sql_select_limit = {ALL_ROWS_OF_AN_ANSWER} /*!50708 , max_execution_time = {milliseconds} */"
        f" /*M!100101 , max_statement_time = {milliseconds / 1000} */ {AS_IT_IS_NOW}"
    )


def shut(connection: Connection) -> None:
    """End the line of a connection, from any thread: whoever waits on it sees its end at once."""
    line: socket.socket | None = getattr(connection, "_sock", None)  # the driver has no public way
    if line is not None:
        with suppress(OSError):  # it is ended, or closed
            # Not the method of an SSLSocket, which would let a write that follows go out in the clear.
            socket.socket.shutdown(line, socket.SHUT_RDWR)


def _socket(place: tuple[str, int]) -> socket.socket:
    made = socket.create_connection(place, CONNECTED_WITHIN)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return made


@contextmanager
def mapped(settings: SourceSettings) -> Iterator[None]:
    """Turn the driver's errors into ours."""
    try:
        yield
    except FOREIGN as error:
        raise error_of(error, settings) from error


def error_of(error: BaseException, settings: SourceSettings, *, database: str | None = None) -> HintedError:
    """What an error of the driver says about the source; `database` is the one that was asked about."""
    origin = getattr(error, "original_exception", error)
    if isinstance(origin, ssl.SSLError):
        return handshake_error(origin, settings)
    # Of an OSError the number is the system's, not MySQL's.
    numbered = isinstance(error, pymysql.err.MySQLError) and error.args and isinstance(error.args[0], int)
    code: int = error.args[0] if numbered else 0
    told = str(error.args[1] if len(error.args) > 1 else error) or type(error).__name__
    place = f"{settings.host}:{settings.port}"
    if not passes(code):
        names = {"user": settings.user, "database": database or settings.database or "the database"}
        return SourceUnfit(f"MySQL at {place} refuses: {told}", hint=HINTS.get(code, "").format(**names), code=code)
    hint = "Is the server up, and is there a way to it from this machine?" if code in AWAY or not code else ""
    return SourceDown(f"MySQL at {place}: {told}", hint=hint, code=code)


Opener: TypeAlias = Callable[[], Connection]
"""Opens one more connection to the same server."""
