"""What Spark is told of the source: address, properties and statements, for both JDBC drivers."""

from collections.abc import Mapping
from typing import Final

from syncd.mysql.sql import CURRENT_VERSION_SQL, NO_SELECT_LIMIT, identity_expression
from syncd.settings import SourceSettings, Tls

CONNECT_TIMEOUT_MILLISECONDS: Final = 10_000
"""Milliseconds."""
STREAMING_FETCH_SIZE: Final = str(-(2**31))
"""The fetch size that makes Connector/J hand on row by row, instead of keeping the whole result."""
MARIADB_FETCH_SIZE: Final = "1000"
"""Rows that the MariaDB driver holds at a time."""
NARROW_ROW_BYTES: Final = 32 << 10
"""Bytes of a row, as it travels, that need no weighing: of such rows Spark hands over 128 MiB at once, at most."""
WRONG_SERVER_MARKER: Final = "syncd meets another server"
"""Names no time zone: an assignment of it fails, and its error carries the text."""

_DRIVER_CLASSES: Final = {"mysql": "com.mysql.cj.jdbc.Driver", "mariadb": "org.mariadb.jdbc.Driver"}
_SSL_MODES: Final = {
    "mysql": {
        Tls.DISABLE: "DISABLED",
        Tls.PREFER: "PREFERRED",
        Tls.REQUIRE: "REQUIRED",
        Tls.VERIFY: "VERIFY_IDENTITY",
    },
    # It knows no `prefer`; which allows a connection in the clear, and so that is what it gets.
    "mariadb": {Tls.DISABLE: "disable", Tls.PREFER: "disable", Tls.REQUIRE: "trust", Tls.VERIFY: "verify-full"},
}


def choose_driver(source: SourceSettings, preferred: str) -> str:
    """The driver that can be trusted with this source.

    That of MariaDB knows no proxy of its own, and believes any certificate whose server proves the password.
    """
    return "mysql" if source.tunnel is not None or source.tls is Tls.VERIFY else preferred


def build_jdbc_url(source: SourceSettings, *, driver: str) -> str:
    """The address without user or password, which travel as properties."""
    host, port = source.host, source.port
    shown = f"[{host}]" if ":" in host else host
    # Spark knows both servers by this one scheme; the MariaDB driver looks for its consent in the address alone.
    return f"jdbc:mysql://{shown}:{port}/{'?permitMysqlScheme' if driver == 'mariadb' else ''}"


def build_connection_properties(
    source: SourceSettings,
    *,
    driver: str,
    identity: str,
    trust_store: str | None = None,
    proxy: tuple[str, int] | None = None,
    only_narrow_rows: bool = False,
) -> dict[str, str]:
    """All that Spark and the driver are told.

    With `narrow` Connector/J gives up at the first row, or statement, that is longer than `NARROW`: to it both are
    packets, and so the bound costs nothing. The MariaDB driver bounds statements alone.
    `trust` is the file of authorities, as this driver reads it; `proxy` the near end of a tunnel, behind which the
    certificate is still checked for the source's own name.
    """
    common = {
        "driver": _DRIVER_CLASSES[driver],
        "user": source.user,
        "password": source.password.value,
        "sessionInitStatement": session_setup_statement(source, identity),
        "connectTimeout": str(CONNECT_TIMEOUT_MILLISECONDS),
        "socketTimeout": str(int(source.silence.total_seconds() * 1000)),
        "tcpKeepAlive": "true",
        "sslMode": _SSL_MODES[driver][source.tls],
        # Without TLS a password is sent under the server's own key, which has to be asked for.
        "allowPublicKeyRetrieval": str(source.tls in {Tls.DISABLE, Tls.PREFER}).lower(),
        "preferTimestampNTZ": "true",
        "pushDownPredicate": "false",
    }
    if proxy is not None:
        common |= {"socksProxyHost": proxy[0], "socksProxyPort": str(proxy[1]), "socksProxyRemoteDns": "true"}
    if only_narrow_rows:
        common |= {"maxAllowedPacket": str(NARROW_ROW_BYTES)}
    return common | (_connector_j_properties(trust_store) if driver == "mysql" else _mariadb_properties(trust_store))


def _connector_j_properties(trust_store: str | None) -> dict[str, str]:
    further = {"trustCertificateKeyStoreUrl": f"file:{trust_store}", "trustCertificateKeyStoreType": "PKCS12"}
    further |= {"trustCertificateKeyStorePassword": KEY_STORE_PHRASE, "fallbackToSystemTrustStore": "false"}
    return {
        "fetchsize": STREAMING_FETCH_SIZE,
        "characterEncoding": "UTF-8",
        "useServerPrepStmts": "false",
        "useLocalSessionState": "true",
        "processEscapeCodesForPrepStmts": "false",  # of JDBC: they would be looked for in names too
        "maintainTimeStats": "false",
        "netTimeoutForStreamingResults": "0",  # the session's own settings say it
        "logger": "com.mysql.cj.log.NullLogger",
        "paranoid": "true",
        **(further if trust_store else {}),
    }


def _mariadb_properties(trust_store: str | None) -> dict[str, str]:
    return {
        "fetchsize": MARIADB_FETCH_SIZE,
        "useServerPrepStmts": "false",
        "dumpQueriesOnException": "false",
        **({"serverSslCert": trust_store} if trust_store else {}),
    }


KEY_STORE_PHRASE: Final = "changeit"
"""What opens the file of authorities: it holds no secret, and its format wants a word."""


def session_setup_statement(source: SourceSettings, identity: str) -> str:
    """The first statement of every reading connection: its session, and whether this is the server it must be."""
    longest = max(1, int(source.longest_read.total_seconds()))
    known = "'" + identity.replace("\\", "\\\\").replace("'", "''") + "'"
    # Each server reads the comment that is meant for it. With no mode set, a backslash escapes.
    return (
        "SET SESSION sql_mode = '',"
        f" time_zone = IF({identity_expression(identity)} = {known}, '+00:00', '{WRONG_SERVER_MARKER}'),"
        f" net_write_timeout = {longest}, sql_select_limit = {NO_SELECT_LIMIT},"
        # Spark wraps every statement: a server that gathers what stands in brackets first would copy each window.
        " optimizer_switch = 'derived_merge=on'"
        f" /*!50708 , max_execution_time = {longest * 1000} */ /*M!100101 , max_statement_time = {longest} */"
        # A server may show all its sessions what others have not committed: such a row can be gone, with an older one
        # below the mark.
        " /*!50720 , transaction_isolation = 'REPEATABLE-READ' */ /*M!100101 , tx_isolation = 'REPEATABLE-READ' */"
        f" {CURRENT_VERSION_SQL}"
    )


def mark_statement(statement: str, nonce: str) -> str:
    """A statement that the server's list of statements shows as one of this attempt."""
    return f"/* syncd {nonce} */ {statement}"


def as_subquery(statement: str) -> str:
    """A statement where Spark wants a table, of whose columns it first asks names and types.

    It is one SELECT without LIMIT, DISTINCT and GROUP BY, and so both servers read it as if it stood alone: nothing is
    gathered in a table first. A union of all statements would be one relation to Spark, but copies every row once more.
    """
    return f"({statement}) AS q"


def redact_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties as an error may show them."""
    return {name: "***" if name == "password" else value for name, value in properties.items()}
