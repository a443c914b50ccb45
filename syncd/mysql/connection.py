"""Connections to a MySQL server, directly or through its bastion, and the meaning of its driver's errors."""

import socket
import ssl
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pymysql

from syncd.concurrency.response_monitor import WatchResponse, ignore_response
from syncd.errors import SourceDown, SourceUnfit
from syncd.mysql.error_codes import HINT_BY_CODE, UNREACHABLE_CODES, UNREACHABLE_HINT, is_transient
from syncd.mysql.sql import CURRENT_VERSION_SQL, NO_SELECT_LIMIT
from syncd.settings import SourceSettings, Tls
from syncd.tls import TlsPeer, make_verifying_context, map_handshake_error
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.ssh.tunnel import SshTunnel

Connection: TypeAlias = "pymysql.Connection[Any]"
OpenConnection: TypeAlias = Callable[[], Connection]
"""Opens one more connection to the same server."""

CONNECT_TIMEOUT_SECONDS: Final = 10
GREETING_TIMEOUT_SECONDS: Final = 20.0
"""Longest silence while a session is made. A long query may deserve a longer wait; a greeting never does."""
SET_ISOLATION_STATEMENT: Final = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
"""A statement of its own, because the variable has another name on MariaDB before 11.1."""

DRIVER_ERRORS: Final = (pymysql.err.MySQLError, OSError)
_NOT_MYSQL_ERRORS: Final = (struct.error, IndexError, ValueError)
"""Errors that the driver raises when the first bytes are not MySQL's greeting."""


def connect(settings: SourceSettings, *, address: tuple[str, int] | None = None) -> Connection:
    """Open a connection in UTC with autocommit; no wait on it is longer than `settings.silence`.

    While the session is made, no wait is longer than `GREETING_TIMEOUT_SECONDS` either. `address` is the local end of
    a tunnel; the certificate is still checked against the host beyond it.

    Raises:
        SourceDown: the server does not answer.
        SourceUnfit: the server refuses this user, or its certificate is not trusted.
        ConfigError: the certificate authority file is invalid.
    """
    connection = _build_connection(settings)
    with map_driver_errors(settings):
        try:
            # With its own socket the driver would check the certificate against the tunnel's address.
            connection.connect(_open_socket(address or (settings.host, settings.port)))
        except _NOT_MYSQL_ERRORS as error:
            raise SourceDown(
                f"the server at {settings.host}:{settings.port} does not speak the MySQL protocol",
                hint="Check the port in the configuration.",
            ) from error
        except RuntimeError as error:
            raise SourceUnfit(f"MySQL at {settings.host}:{settings.port}: {error}") from error
        with closed_on_error(connection), connection.cursor() as cursor:
            cursor.execute(SET_ISOLATION_STATEMENT)
    connection.set_read_timeout(settings.silence.total_seconds())
    return connection


@contextmanager
def closed_on_error(connection: Connection) -> Iterator[None]:
    """Close the connection if the block fails."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


class _LazyTlsConnection(pymysql.connections.Connection):  # type: ignore[misc]  # the driver is not typed
    """The driver's connection; it loads no certificate authorities when it verifies no certificate."""

    def _create_ssl_ctx(self, sslp: Any) -> ssl.SSLContext:  # noqa: ANN401  # the driver's own
        return sslp if isinstance(sslp, ssl.SSLContext) else _make_unverified_context()

    def set_read_timeout(self, seconds: float) -> None:
        self._read_timeout = seconds


def _build_connection(settings: SourceSettings) -> _LazyTlsConnection:
    silence = settings.silence.total_seconds()
    return _LazyTlsConnection(
        host=settings.host,
        port=settings.port,
        user=settings.user,
        # The driver would encode a str as Latin-1, and show the password in the error if it cannot.
        password=settings.password.value.encode(),
        database=settings.database,
        charset="utf8mb4",
        read_timeout=min(silence, GREETING_TIMEOUT_SECONDS),
        write_timeout=silence,
        init_command=session_setup_statement(silence),
        autocommit=True,
        defer_connect=True,
        **_tls_options(settings),
    )


def _tls_options(settings: SourceSettings) -> dict[str, Any]:
    match settings.tls:
        case Tls.DISABLE:
            return {"ssl_disabled": True}
        case Tls.PREFER:
            return {}
        case Tls.REQUIRE:
            return {"ssl": _make_unverified_context()}
        case Tls.VERIFY:
            return {"ssl": make_verifying_context(settings.ca)}


def _make_unverified_context() -> ssl.SSLContext:
    """Return a context that accepts every certificate; it skips the system's authorities, which load slowly."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def session_setup_statement(timeout_seconds: float) -> str:
    """Return the first statement of a session whose longest wait is `timeout_seconds`.

    It clears the SQL mode, so that no value is converted and no odd timestamp is an error. It makes results complete
    and current. It makes the server end a statement, and report that, before this client gives up on it.
    """
    milliseconds = max(1, int(timeout_seconds * 900))
    return (
        "SET SESSION time_zone = '+00:00', sql_mode = '', character_set_results = utf8mb4,"
        f" sql_select_limit = {NO_SELECT_LIMIT} /*!50708 , max_execution_time = {milliseconds} */"
        f" /*M!100101 , max_statement_time = {milliseconds / 1000} */ {CURRENT_VERSION_SQL}"
    )


def shut_down(connection: Connection) -> None:
    """Shut down the socket of a connection, from any thread; a thread that waits on it fails at once."""
    opened: socket.socket | None = getattr(connection, "_sock", None)  # the driver has no public way
    if opened is not None:
        with suppress(OSError):  # it is shut down or closed already
            # SSLSocket.shutdown would let a later write go out unencrypted.
            socket.socket.shutdown(opened, socket.SHUT_RDWR)


def _open_socket(address: tuple[str, int]) -> socket.socket:
    opened = socket.create_connection(address, CONNECT_TIMEOUT_SECONDS)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return opened


@contextmanager
def map_driver_errors(settings: SourceSettings) -> Iterator[None]:
    """Turn driver errors into `SourceDown` and `SourceUnfit`."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise map_error(error, settings) from error


def map_error(error: BaseException, settings: SourceSettings, *, database: str | None = None) -> HintedError:
    """Return the source error for an error of the driver; `database` is the one that was queried."""
    origin = getattr(error, "original_exception", error)
    if isinstance(origin, ssl.SSLError):
        return map_handshake_error(
            origin,
            TlsPeer(
                kind="MySQL",
                host=settings.host,
                port=settings.port,
                down_error=SourceDown,
                unfit_error=SourceUnfit,
            ),
        )
    # The number of an OSError is the system's, not MySQL's.
    numbered = isinstance(error, pymysql.err.MySQLError) and error.args and isinstance(error.args[0], int)
    code: int = error.args[0] if numbered else 0
    reason = str(error.args[1] if len(error.args) > 1 else error) or type(error).__name__
    place = f"{settings.host}:{settings.port}"
    if not is_transient(code):
        names = {"user": settings.user, "database": database or settings.database or "the database"}
        return SourceUnfit(
            f"MySQL at {place} refused: {reason}", hint=HINT_BY_CODE.get(code, "").format(**names), code=code
        )
    hint = UNREACHABLE_HINT if code in UNREACHABLE_CODES or not code else ""
    return SourceDown(f"MySQL at {place}: {reason}", hint=hint, code=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionFactory:
    """Maker of connections to one source, directly or through its open tunnel."""

    settings: SourceSettings
    tunnel: "SshTunnel | None" = None
    response_monitor: WatchResponse = ignore_response

    def endpoint(self) -> tuple[str, int]:
        """Return the host and port that a client on this machine connects to.

        Raises:
            SourceDown: the bastion does not answer.
            SourceUnfit: the bastion refuses the login.
        """
        return (self.settings.host, self.settings.port) if self.tunnel is None else self.tunnel.local_address()

    def proxy(self) -> tuple[str, int] | None:
        """Return the SOCKS proxy for a client that checks the certificate against the name it dials.

        Without a tunnel there is none.

        Raises:
            SourceDown, SourceUnfit: as `endpoint`.
        """
        return None if self.tunnel is None else self.tunnel.proxy_address()

    def open_connection(self) -> Connection:
        """Open one more connection, as `connect` does.

        Raises:
            SourceDown, SourceUnfit, ConfigError: as `connect`; an error of the bastion takes precedence.
        """
        try:
            with self.response_monitor(f"MySQL at {self.settings.host}:{self.settings.port}"):
                return connect(self.settings, address=self.endpoint())
        except SourceDown as error:
            # If the bastion refuses the forward, the driver sees only a lost connection.
            if self.tunnel is not None and (tunnel_error := self.tunnel.last_error) is not None:
                raise tunnel_error from error
            raise


@contextmanager
def open_connection_factory(
    settings: SourceSettings, *, response_monitor: WatchResponse = ignore_response
) -> Iterator[ConnectionFactory]:
    """Yield the connection factory of a source; its tunnel, if one is configured, is open inside the `with`.

    Raises:
        SourceDown: the bastion does not answer.
        SourceUnfit: the bastion refuses the login.
    """
    if settings.tunnel is None:
        yield ConnectionFactory(settings=settings, response_monitor=response_monitor)
        return
    # Loading the SSH library takes longer than a run that finds nothing to do.
    from syncd.ssh.tunnel import SshTunnel  # noqa: PLC0415  # see above

    with SshTunnel(settings.tunnel, server=(settings.host, settings.port)) as tunnel:
        yield ConnectionFactory(settings=settings, tunnel=tunnel, response_monitor=response_monitor)


@contextmanager
def open_snapshot(
    connection: Connection, settings: SourceSettings
) -> Iterator[Callable[[str], Sequence[tuple[Any, ...]]]]:
    """Yield a query function over one snapshot, which begins now; it takes no lock."""

    def query(sql: str) -> Sequence[tuple[Any, ...]]:
        with map_driver_errors(settings), connection.cursor() as cursor:
            cursor.execute(sql)
            return tuple(cursor.fetchall())

    for statement in (SET_ISOLATION_STATEMENT, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"):
        query(statement)
    try:
        yield query
    finally:
        if connection.open:
            query("ROLLBACK")
