"""The servers of a source, a lake and a warehouse that an older commit left, restored once for all tests."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from syncd.sandbox.running_sandbox import Sandbox
from tests.services.left_behind import (
    Answer,
    Command,
    environ_of,
    lake_objects,
    restore_lake,
    restore_source,
    restore_warehouse,
    sandbox_environ,
)
from tests.services.same_identity import SameIdentity

CHANGES = (
    "UPDATE orders SET total = total + 100, note = 'continued' WHERE id IN (1, 41)",
    "INSERT INTO orders (customer, total) VALUES ('continued', 1.01)",
    "DELETE FROM orders WHERE id = 9",
    "UPDATE order_lines SET amount = amount + 1000 WHERE order_id = 3",
    "INSERT INTO events (kind, happened) VALUES ('bought', '2026-12-01 00:00:00.5'), ('seen', NULL)",
    "UPDATE customers SET city = 'Montevideo' WHERE id IN (1, 12)",
    "INSERT INTO countries VALUES ('IS', 'Iceland')",
    *(
        f"INSERT INTO {table} (amount) VALUES (4711)"
        for table in ("readings", "payments", "invoices", "sessions", "shipments", "suppliers")
    ),
    "UPDATE tickets SET due = '2023-02-28' WHERE subject = 'odd'",
    "UPDATE tickets SET subject = 'named' WHERE subject IS NULL",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """The restored servers, and the command of this checkout."""

    box: Sandbox
    server: SameIdentity
    syncd: Command

    def at_source(self, *statements: str) -> list[tuple[Any, ...]]:
        with self.box.mysql.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def in_warehouse(self, query: str) -> list[tuple[Any, ...]]:
        with self.box.redshift.connect() as connection:
            cursor = connection.cursor()
            cursor.execute(query)
            return [tuple(row) for row in cursor.fetchall()]

    def objects(self) -> dict[str, bytes]:
        return {key: body for key, (body, _) in lake_objects(self.box).items()}

    def tables(self) -> list[tuple[Any, ...]]:
        """Every column of every table in the warehouse, in order."""
        return self.in_warehouse(
            'SELECT tablename, "column", type, "notnull", sortkey FROM pg_table_def'
            " WHERE schemaname = 'public' ORDER BY 1, 2"
        )


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Left]:
    directory = tmp_path_factory.mktemp("left")
    restore_source(directory)
    with Sandbox(directory, environ=sandbox_environ()) as box, SameIdentity(box.mysql.port) as server:
        restore_lake(box)
        restore_warehouse(box)
        program = Path(sys.executable).parent / "syncd"
        command = Command(program=program, environ=environ_of(box, mysql_port=server.port))
        yield Left(box=box, server=server, syncd=command)


@pytest.fixture(scope="module")
def looked(left: Left) -> dict[str, Answer]:
    """What the commands that only look print before anything is changed."""
    return left.syncd.look()


@dataclass(frozen=True, slots=True, kw_only=True)
class Continued:
    """What one run of all streams did with what was left, and with new rows."""

    left: Left
    ran: Answer
    before: dict[str, bytes]
    """The objects of the lake before the run."""
    after: dict[str, bytes]
    """The same after it."""
    tables: list[tuple[Any, ...]]
    """The columns of the warehouse before the run."""


@pytest.fixture(scope="module")
def continued(left: Left, looked: dict[str, Answer]) -> Continued:
    objects, tables = left.objects(), left.tables()
    left.at_source(*CHANGES)
    ran = left.syncd("run", "--all", "--json")
    assert left.server.replaced, "no statement asked for the identity of the server by a name that the proxy knows"
    return Continued(left=left, ran=ran, before=objects, after=left.objects(), tables=tables)
