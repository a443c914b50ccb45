"""The sandbox's MySQL as its clients see it: an address, connections, and ways to cut them."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from syncd.errors import NotReady

if TYPE_CHECKING:
    import pymysql

    Connection: TypeAlias = pymysql.Connection[Any]
    Cursor: TypeAlias = Any  # the driver's stubs are not installed

PROBE_TIMEOUT_SECONDS: Final = 3.0
CONNECT_TIMEOUT_SECONDS: Final = 10
NO_SUCH_THREAD_ERROR: Final = 1094


@dataclass(frozen=True, slots=True, kw_only=True)
class MySqlAddress:
    """Address and login of a MySQL server."""

    host: str
    port: int
    user: str
    password: str
    database: str

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Parse `mysql://user:password@host:port/database`, with percent escapes."""
        parts = urlsplit(url)
        if parts.scheme not in ("mysql", "mariadb") or not parts.hostname:
            raise NotReady("the MySQL address is not of the form mysql://user:password@host:port/database")
        return cls(
            host=parts.hostname,
            port=parts.port or 3306,
            user=unquote(parts.username or "root"),
            password=unquote(parts.password or ""),
            database=parts.path.strip("/") or "shop",
        )

    @property
    def url(self) -> str:
        secret = f":{quote(self.password, safe='')}" if self.password else ""
        return f"mysql://{quote(self.user, safe='')}{secret}@{self.host}:{self.port}/{self.database}"

    @property
    def url_without_password(self) -> str:
        return replace(self, password="").url

    def connect(self, *, database: str | None = None, timeout_seconds: float | None = None) -> "Connection":
        """Connect in UTC with autocommit.

        `timeout_seconds` bounds each answer; without it, an answer may take any time.
        `database` replaces the address's database; an empty name selects none.
        """
        import pymysql

        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            database=self.database if database is None else database or None,
            charset="utf8mb4",
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            read_timeout=timeout_seconds,
            write_timeout=timeout_seconds,
            init_command="SET time_zone = '+00:00'",
            autocommit=True,
        )

    def ask_version(self) -> str | None:
        """Return the server's name and version, or None while it does not accept this login."""
        import pymysql

        try:
            with (
                self.connect(database="", timeout_seconds=PROBE_TIMEOUT_SECONDS) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute("SELECT VERSION()")
                return version_name(cursor.fetchone()[0])
        except (pymysql.Error, OSError):
            return None

    def cut_connections(self) -> int:
        """End every other connection, as an administrator would (KILL), and return their number."""
        with self.connect(database="") as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT id FROM information_schema.processlist"
                " WHERE id <> CONNECTION_ID() AND user NOT IN ('system user', 'event_scheduler')"
            )
            others = [row[0] for row in cursor.fetchall()]
            return sum(_kill(cursor, other) for other in others)


def _kill(cursor: "Cursor", connection_id: int) -> bool:
    import pymysql

    try:
        cursor.execute(f"KILL {connection_id:d}")
    except pymysql.err.OperationalError as error:
        if error.args[0] != NO_SUCH_THREAD_ERROR:
            raise
        return False  # it has ended by itself
    return True


def version_name(version: str) -> str:
    """Return a readable version: `11.4.5-MariaDB` is MariaDB 11.4.5, `9.7.4-2` is MySQL 9.7.4."""
    number = version.partition("-")[0]
    return f"{'MariaDB' if 'mariadb' in version.lower() else 'MySQL'} {number}"


def refusal_errors() -> tuple[type[Exception], ...]:
    """Return the driver's errors for deadlocks and for lost or refused connections."""
    import pymysql

    return (pymysql.err.OperationalError, pymysql.err.InterfaceError, pymysql.err.InternalError, OSError)


def driver_errors() -> tuple[type[Exception], ...]:
    """Return every error that a driver raises."""
    import pymysql

    return (pymysql.err.MySQLError, OSError)
