"""Connections to a source, and what its driver's errors mean."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import pymysql
from pymysql.constants import CR, ER

from syncd.core.errors import SourceDown, SourceUnfit
from syncd.core.settings import SourceSettings, Tls
from watermarks.errors import HintedError

Connection: TypeAlias = "pymysql.Connection[Any]"

CONNECTED_WITHIN: Final = 10
SESSION: Final = (
    "SET SESSION time_zone = '+00:00', sql_mode = '', transaction_isolation = 'REPEATABLE-READ',"
    " character_set_results = utf8mb4"
)
"""No mode that turns a value into something else, or a strange stamp into an error."""

FOREIGN: Final = (pymysql.err.MySQLError, OSError)

_UNFIT: Final[dict[int, str]] = {
    ER.ACCESS_DENIED_ERROR: "Is the user known to the server from this host, and is the password right?",
    ER.DBACCESS_DENIED_ERROR: "GRANT SELECT ON {database}.* TO {user}",
    ER.TABLEACCESS_DENIED_ERROR: "GRANT SELECT ON {database}.* TO {user}",
    ER.COLUMNACCESS_DENIED_ERROR: "GRANT SELECT ON {database}.* TO {user}",
    ER.SPECIFIC_ACCESS_DENIED_ERROR: "GRANT PROCESS ON *.* TO {user}",
    ER.BAD_DB_ERROR: "Is the database's name right in the configuration?",
    ER.NO_SUCH_TABLE: "Is the table's name right in the configuration?",
}


def connect(settings: SourceSettings, *, at: tuple[str, int] | None = None) -> Connection:
    """A connection in UTC that commits each statement by itself; no wait on it is longer than `settings.silence`.

    `at` is the near end of a tunnel; certificates are still checked for the host beyond it.

    Raises:
        SourceDown: nobody answers.
        SourceUnfit: the server does not let this user in.
    """
    host, port = at or (settings.host, settings.port)
    silence = settings.silence.total_seconds()
    with mapped(settings):
        return pymysql.connect(
            host=host,
            port=port,
            user=settings.user,
            password=settings.password.value,
            charset="utf8mb4",
            connect_timeout=CONNECTED_WITHIN,
            read_timeout=silence,
            write_timeout=silence,
            init_command=SESSION,
            autocommit=True,
            **_tls(settings),
        )


@contextmanager
def mapped(settings: SourceSettings) -> Iterator[None]:
    """Turn the driver's errors into ours."""
    try:
        yield
    except FOREIGN as error:
        raise error_of(error, settings) from error


def error_of(error: BaseException, settings: SourceSettings) -> HintedError:
    """What an error of the driver says about the source."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    told = str(error.args[1]) if len(error.args) > 1 else str(error) or type(error).__name__
    place = f"{settings.host}:{settings.port}"
    if code in _UNFIT:
        names = {"user": settings.user, "database": settings.database or "the database"}
        return SourceUnfit(f"MySQL at {place} refuses: {told}", hint=_UNFIT[code].format(**names), code=code)
    hint = "Is the server up, and is there a way to it from this machine?" if code in _AWAY or not code else ""
    return SourceDown(f"MySQL at {place}: {told}", hint=hint, code=code)


_AWAY: Final = frozenset({CR.CR_CONNECTION_ERROR, CR.CR_CONN_HOST_ERROR, CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST})


def _tls(settings: SourceSettings) -> dict[str, Any]:
    match settings.tls:
        case Tls.DISABLE:
            return {"ssl_disabled": True}
        case Tls.PREFER:
            return {}
        case Tls.REQUIRE:
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return {"ssl": context}
        case Tls.VERIFY:
            return {"ssl": ssl.create_default_context(cafile=str(settings.ca) if settings.ca else None)}


Opener: TypeAlias = Callable[[], Connection]
"""Opens one more connection to the same server."""
