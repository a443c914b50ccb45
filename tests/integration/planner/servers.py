"""A running server, ways to it, and what a statement cost it."""

from dataclasses import dataclass
from typing import Any

from syncd.mysql.connection import Connection, connect
from syncd.mysql.source import MySqlSource
from syncd.sandbox.running_sandbox import Sandbox
from syncd.settings import Secret, SourceSettings, Tls


@dataclass
class Server:
    """A running server and ways to it."""

    sandbox: Sandbox
    name: str

    @property
    def settings(self) -> SourceSettings:
        at = self.sandbox.mysql
        return SourceSettings(
            name="lab", host=at.host, port=at.port, user=at.user, password=Secret(at.password), tls=Tls.DISABLE
        )

    def source(self, settings: SourceSettings | None = None) -> MySqlSource:
        used = settings or self.settings
        return MySqlSource(used, lambda: connect(used))

    def admin(self, database: str = "lab") -> Connection:
        return self.sandbox.mysql.connect(database=database)


def rows_of(connection: Connection, sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def as_spark_wraps(sql: str) -> str:
    return f"SELECT * FROM ({sql}) SPARK_GEN_SUBQ_0"


def examined(connection: Connection, sql: str) -> tuple[int, int]:
    """How many rows a statement gave, and how many entries of tables and indexes the server read for it."""
    with connection.cursor() as cursor:
        cursor.execute("FLUSH STATUS")
        given = cursor.execute(sql)
        cursor.fetchall()
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return given, sum(int(count) for _, count in cursor.fetchall())
