"""One server that follows another."""

import re

from syncd.datatypes.source_table import ServerInfo
from syncd.mysql.connection import Connection
from syncd.mysql.replica import read_log_position
from syncd.settings import SourceSettings


def follow(
    settings: SourceSettings,
    at_primary: Connection,
    at_replica: Connection,
    server: ServerInfo,
    *,
    by_gtid: bool,
    channel: str = "",
) -> None:
    """Let a server follow another from where its binary log ends; `settings` are those of the other.

    A server may follow several, each by a `channel` of its own.
    """
    position = read_log_position(at_primary, server, settings)
    name = "MASTER" if server.mariadb else "SOURCE"
    options: dict[str, str | int] = {"HOST": settings.host, "PORT": settings.port, "USER": settings.user}
    options |= {"PASSWORD": settings.password.value, "CONNECT_RETRY": 1}
    if by_gtid:
        run(at_replica, f"SET GLOBAL gtid_slave_pos = '{position.gtid}'")
    else:
        options |= {"LOG_FILE": position.file, "LOG_POS": position.offset}
    told = [f"{name}_{key} = {value!r}" for key, value in options.items()]
    if server.mariadb:
        told += [f"MASTER_USE_GTID = {'slave_pos' if by_gtid else 'no'}", "MASTER_SSL = 0"]
        told += ["MASTER_SSL_VERIFY_SERVER_CERT = 0"]
    else:
        told += ["GET_SOURCE_PUBLIC_KEY = 1"]
    options_of = ", ".join(told)
    if server.mariadb:
        name = f"'{channel}'" if channel else ""
        run(at_replica, f"CHANGE MASTER {name} TO {options_of}", f"START REPLICA {name}")
    else:
        name = f"FOR CHANNEL '{channel}'" if channel else ""
        run(at_replica, f"CHANGE REPLICATION SOURCE TO {options_of} {name}", f"START REPLICA {name}")


def server_of(connection: Connection) -> ServerInfo:
    version = str(rows(connection, "SELECT VERSION()")[0][0])
    major, minor, patch = (int(part) for part in re.findall(r"\d+", version)[:3])
    return ServerInfo(identity="", version=(major, minor, patch), mariadb="MariaDB" in version)


def run(connection: Connection, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def rows(connection: Connection, sql: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())
