"""JDBC URL, properties, statements and certificate store of a source, for both drivers."""

import hashlib
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncd.errors import ConfigError
from syncd.mysql.sql import CURRENT_VERSION_SQL, NO_SELECT_LIMIT, identity_expression
from syncd.settings import SourceSettings, Tls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT_TIMEOUT_MILLISECONDS: Final = 10_000
STREAMING_FETCH_SIZE: Final = str(-(2**31))
"""Fetch size that makes Connector/J stream rows instead of buffering the result."""
MARIADB_FETCH_SIZE: Final = "1000"
"""Rows that the MariaDB driver holds at a time."""
NARROW_ROW_BYTES: Final = 32 << 10
"""Rows of up to this size, as transferred, are not measured: Spark hands over at most 128 MiB of them."""
WRONG_SERVER_MARKER: Final = "syncd meets another server"
"""Names no time zone, so assigning it fails with an error that holds this text."""

KEY_STORE_PHRASE: Final = "changeit"
"""Password of the certificate store, which holds no secret; its format requires one."""

_DRIVER_CLASSES: Final = {"mysql": "com.mysql.cj.jdbc.Driver", "mariadb": "org.mariadb.jdbc.Driver"}
_SSL_MODES: Final = {
    "mysql": {
        Tls.DISABLE: "DISABLED",
        Tls.PREFER: "PREFERRED",
        Tls.REQUIRE: "REQUIRED",
        Tls.VERIFY: "VERIFY_IDENTITY",
    },
    # It has no `prefer`, which permits an unencrypted connection; so it gets that.
    "mariadb": {Tls.DISABLE: "disable", Tls.PREFER: "disable", Tls.REQUIRE: "trust", Tls.VERIFY: "verify-full"},
}


def choose_driver(source: SourceSettings, preferred: str) -> str:
    """Return the driver that is safe for this source.

    That of MariaDB has no proxy support, and trusts any certificate whose server proves the password.
    """
    return "mysql" if source.tunnel is not None or source.tls is Tls.VERIFY else preferred


def build_jdbc_url(source: SourceSettings, *, driver: str) -> str:
    """Return the URL without user and password, which are properties."""
    host, port = source.host, source.port
    shown = f"[{host}]" if ":" in host else host
    # Spark supports both servers by this scheme; the MariaDB driver requires the option in the URL.
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
    """Return all properties for Spark and the driver.

    With `only_narrow_rows` Connector/J fails at the first row or statement that is longer than `NARROW_ROW_BYTES`: to
    it both are packets, so this check costs nothing. The MariaDB driver limits statements only. `trust_store` is the
    file of authorities for this driver; `proxy` is the local end of a tunnel, behind which the certificate is still
    checked against the source's own name.
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
        # Without TLS the password is encrypted with the server's public key, which has to be requested.
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
        "processEscapeCodesForPrepStmts": "false",  # JDBC escapes, which would be looked for in names too
        "maintainTimeStats": "false",
        "netTimeoutForStreamingResults": "0",  # set by the session itself
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


def session_setup_statement(source: SourceSettings, identity: str) -> str:
    """Return the first statement of every reading connection: session settings and a check of the server."""
    longest = max(1, int(source.longest_read.total_seconds()))
    known = "'" + identity.replace("\\", "\\\\").replace("'", "''") + "'"
    # Each server executes the comment for its versions. With an empty SQL mode, a backslash escapes.
    return (
        "SET SESSION sql_mode = '',"
        f" time_zone = IF({identity_expression(identity)} = {known}, '+00:00', '{WRONG_SERVER_MARKER}'),"
        f" net_write_timeout = {longest}, sql_select_limit = {NO_SELECT_LIMIT},"
        # Spark wraps every statement: a server that materializes the subquery would copy each window.
        " optimizer_switch = 'derived_merge=on'"
        f" /*!50708 , max_execution_time = {longest * 1000} */ /*M!100101 , max_statement_time = {longest} */"
        # A server may default to READ UNCOMMITTED: an uncommitted row can disappear, with an older one below the mark.
        " /*!50720 , transaction_isolation = 'REPEATABLE-READ' */ /*M!100101 , tx_isolation = 'REPEATABLE-READ' */"
        f" {CURRENT_VERSION_SQL}"
    )


def mark_statement(statement: str, nonce: str) -> str:
    """Return a statement that the server's process list shows as one of this attempt."""
    return f"/* syncd {nonce} */ {statement}"


def as_subquery(statement: str) -> str:
    """Return a statement in the form of a table, for Spark, which first queries its column names and types.

    It is one SELECT without LIMIT, DISTINCT and GROUP BY, so both servers merge it and materialize nothing. A union
    of all statements would be one relation to Spark, but would copy every row once more.
    """
    return f"({statement}) AS q"


def prepare_trust_store(spark: "SparkSession", ca: Path | None, *, driver: str) -> str | None:
    """Return the path of the authorities in `ca`, in the format of the driver; None without `ca`.

    The MariaDB driver reads PEM. Connector/J needs a key store, which Java itself writes beside the session's other
    files.

    Raises:
        ConfigError: the file cannot be read, or holds no certificate.
    """
    if ca is None or driver == "mariadb":
        return str(ca.absolute()) if ca else None
    try:
        pem = ca.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"cannot read the authorities of the source: {error.strerror}: {ca}",
            hint="Fix `ca` of the source in the configuration.",
        ) from error
    return _write_key_store(spark, ca, pem)


def _write_key_store(spark: "SparkSession", ca: Path, pem: bytes) -> str:
    from py4j.protocol import Py4JJavaError

    java: Any = spark.sparkContext._jvm.java  # type: ignore[union-attr]  # noqa: SLF001  # there is no public way
    try:
        source = java.io.ByteArrayInputStream(bytearray(pem))
        certificates = java.security.cert.CertificateFactory.getInstance("X.509").generateCertificates(source).toArray()
        store = java.security.KeyStore.getInstance("PKCS12")
        # Py4J converts a Java String to a Python str, which lacks its methods.
        password = java.nio.CharBuffer.allocate(len(KEY_STORE_PHRASE)).put(KEY_STORE_PHRASE).array()
        store.load(None, password)
        for number, certificate in enumerate(certificates):
            store.setCertificateEntry(f"authority-{number}", certificate)
    except Py4JJavaError as error:
        raise ConfigError(f"{ca} contains no certificates that Java can read", hint="It must be a PEM file.") from error
    if not len(certificates):
        raise ConfigError(f"{ca} contains no certificate", hint="It must be a PEM file.")
    folder = Path(spark.conf.get("spark.local.dir") or tempfile.gettempdir())
    path = folder / f"authorities-{hashlib.sha256(pem).hexdigest()[:16]}.p12"
    # Another read may open the file of the same authorities meanwhile, so it is replaced atomically.
    draft = folder / f"{path.stem}-{secrets.token_hex(6)}"
    out = java.io.FileOutputStream(str(draft))
    try:
        store.store(out, password)
    finally:
        out.close()
    draft.replace(path)
    return str(path)
