"""Meaning of the error codes of MySQL, MariaDB and PyMySQL: transient, or for an operator to fix."""

from typing import Final

from pymysql.constants import CR, ER

_CLIENT_CODES: Final = range(CR.CR_ERROR_FIRST, CR.CR_ERROR_LAST + 1)

# Numbers without a name here are newer than the driver's lists.
_TRANSIENT_CODES: Final = frozenset(
    {
        *(ER.DISK_FULL, ER.ERROR_ON_READ, ER.ERROR_ON_WRITE, ER.OUTOFMEMORY, ER.OUT_OF_SORTMEMORY),
        *(ER.CON_COUNT_ERROR, ER.OUT_OF_RESOURCES, ER.BAD_HOST_ERROR, ER.HANDSHAKE_ERROR, ER.SERVER_SHUTDOWN),
        *(ER.NORMAL_SHUTDOWN, ER.GOT_SIGNAL, ER.SHUTDOWN_COMPLETE, ER.FORCING_CLOSE, ER.IPSOCK_ERROR),
        *(ER.UNKNOWN_ERROR, ER.RECORD_FILE_FULL, ER.CANT_CREATE_THREAD, ER.ABORTING_CONNECTION),
        *(ER.NET_READ_ERROR_FROM_PIPE, ER.NET_FCNTL_ERROR, ER.NET_PACKETS_OUT_OF_ORDER, ER.NET_UNCOMPRESS_ERROR),
        *(ER.NET_READ_ERROR, ER.NET_READ_INTERRUPTED, ER.NET_ERROR_ON_WRITE, ER.NET_WRITE_INTERRUPTED),
        *(ER.ERROR_DURING_COMMIT, ER.ERROR_DURING_ROLLBACK, ER.ERROR_DURING_CHECKPOINT),
        *(ER.NEW_ABORTING_CONNECTION, ER.MASTER_NET_READ, ER.MASTER_NET_WRITE, ER.TOO_MANY_USER_CONNECTIONS),
        *(ER.LOCK_WAIT_TIMEOUT, ER.LOCK_TABLE_FULL, ER.LOCK_DEADLOCK, ER.USER_LIMIT_REACHED),
        *(ER.QUERY_INTERRUPTED, ER.STATEMENT_TIMEOUT, ER.QUERY_TIMEOUT),
        ER.GET_ERRNO,  # of the storage engine: a full disk, a lost lock
        ER.CHECKREAD,  # MariaDB: the row changed after the snapshot was opened
        ER.OPTION_PREVENTS_STATEMENT,  # read_only during a failover
        ER.TABLE_DEF_CHANGED,  # after the snapshot; the next one sees the new table
        1613,  # ER_XA_RBTIMEOUT
        1614,  # ER_XA_RBDEADLOCK
        1615,  # ER_NEED_REPREPARE
        1637,  # ER_TOO_MANY_CONCURRENT_TRXS
        1836,  # ER_READ_ONLY_MODE
        1927,  # MariaDB: ER_CONNECTION_KILLED
        3032,  # ER_SERVER_OFFLINE_MODE
        3101,  # ER_TRANSACTION_ROLLBACK_DURING_COMMIT
        3168,  # ER_SERVER_ISNT_AVAILABLE
        3169,  # ER_SESSION_WAS_KILLED
        3572,  # ER_LOCK_NOWAIT
        3854,  # a running statement with a 4-byte character makes INNODB_TRX unreadable
        4031,  # ER_CLIENT_INTERACTION_TIMEOUT
    }
)

UNREACHABLE_CODES: Final = frozenset(
    {
        CR.CR_CONNECTION_ERROR,
        CR.CR_CONN_HOST_ERROR,
        CR.CR_UNKNOWN_HOST,
        CR.CR_SERVER_GONE_ERROR,
        CR.CR_SERVER_LOST,
    }
)
"""The server does not answer, or no longer answers."""

UNREACHABLE_HINT: Final = "Check that the server is running and reachable from this machine."
_LOGIN_HINT: Final = "Check the password, and that the user may connect from this host."
_AUTH_PLUGIN_HINT: Final = (
    "Give the user an authentication plugin that this client supports: caching_sha2_password or mysql_native_password."
)

HINT_BY_CODE: Final[dict[int, str]] = {
    ER.ACCESS_DENIED_ERROR: _LOGIN_HINT,
    1698: _LOGIN_HINT,  # ER_ACCESS_DENIED_NO_PASSWORD_ERROR
    ER.DBACCESS_DENIED_ERROR: "GRANT SELECT ON {database}.* TO {user}",
    ER.TABLEACCESS_DENIED_ERROR: "GRANT SELECT ON {database}.* TO {user}",
    ER.COLUMNACCESS_DENIED_ERROR: "GRANT SELECT ON {database}.* TO {user}",
    ER.SPECIFIC_ACCESS_DENIED_ERROR: "GRANT PROCESS ON *.* TO {user}",
    ER.BAD_DB_ERROR: "Check the database name in the configuration.",
    ER.NO_SUCH_TABLE: "Check the table name in the configuration.",
    ER.BAD_FIELD_ERROR: "Check the column name in the configuration.",
    ER.HOST_IS_BLOCKED: "Fix the cause, then run on the server: mysqladmin flush-hosts",
    ER.HOST_NOT_PRIVILEGED: "CREATE USER '{user}'@'<this host>', or let the server resolve this host's name.",
    ER.MUST_CHANGE_PASSWORD: "The password has expired: ALTER USER {user} IDENTIFIED BY ...",
    ER.MUST_CHANGE_PASSWORD_LOGIN: "The password has expired: ALTER USER {user} IDENTIFIED BY ...",
    3118: "ALTER USER {user} ACCOUNT UNLOCK",  # ER_ACCOUNT_HAS_BEEN_LOCKED
    4151: "ALTER USER {user} ACCOUNT UNLOCK",  # MariaDB: the same
    3159: "The server requires TLS: set `tls: require` or `tls: verify`.",  # ER_SECURE_TRANSPORT_REQUIRED
    CR.CR_SSL_CONNECTION_ERROR: "Enable TLS on the server, or set `tls: disable`.",
    CR.CR_AUTH_PLUGIN_CANNOT_LOAD: _AUTH_PLUGIN_HINT,
    CR.CR_AUTH_PLUGIN_ERR: _AUTH_PLUGIN_HINT,
    CR.CR_SECURE_AUTH: _AUTH_PLUGIN_HINT,
    CR.CR_VERSION_ERROR: "syncd supports MySQL 5.7 or newer and MariaDB 10.6 or newer.",
}
"""Hints for permanent errors, with names to fill in."""


def is_transient(code: int) -> bool:
    """Return whether an error with this code may pass by itself.

    Unknown server errors count as permanent: the server repeats such a refusal until its cause is fixed. Client
    errors report a bad connection, except those that have a hint.
    """
    if code <= 0 or code in _CLIENT_CODES:
        return code not in HINT_BY_CODE
    return code in _TRANSIENT_CODES
