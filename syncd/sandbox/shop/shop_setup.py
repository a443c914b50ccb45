"""Whether the shop already stands in a sandbox's MySQL, and setting it up where it does not."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncd.errors import SourceDown
from syncd.sandbox.mysql import MySqlAddress, driver_errors
from syncd.sandbox.shop.schema import TABLES, count_rows, drop_tables
from syncd.sandbox.shop.seed import ShopSize, seed_shop

if TYPE_CHECKING:
    from syncd.sandbox.mysql import Connection

NOTE_FILE: Final = "shop.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """What the shop holds, and whether it was set up just now."""

    rows: Mapping[str, int]
    seeded_now: bool


def ensure_shop(
    directory: Path,
    address: MySqlAddress,
    *,
    orders: int,
    seed: int,
    is_external: bool,
    report: Callable[[str], None] = lambda _line: None,
) -> Shop:
    """The shop of this sandbox: the one that stands, else a new one of this size.

    A note in the directory is written after the last row. Without it, the tables of
    a server of our own were left half filled by a kill, and are made anew; those of
    a given server are somebody's, and stay as they are.
    """
    try:
        with address.connect(database="") as connection:
            _make_database(connection, address.database)
        with address.connect() as connection:
            return _reuse_or_fill(
                connection,
                directory / NOTE_FILE,
                address,
                orders=orders,
                seed=seed,
                is_external=is_external,
                report=report,
            )
    except driver_errors() as error:
        raise SourceDown(
            f"mysql refused the shop: {error.args[-1]}", hint="Ask as a user who may make databases and tables."
        ) from error


def _reuse_or_fill(
    connection: "Connection",
    note: Path,
    address: MySqlAddress,
    *,
    orders: int,
    seed: int,
    is_external: bool,
    report: Callable[[str], None],
) -> Shop:
    theirs = is_external and bool(_existing_tables(connection))
    if _is_noted(note, address) or theirs:
        return Shop(rows=_count_if_complete(connection), seeded_now=False)
    drop_tables(connection)
    report(f"filling the shop: {orders} orders and what belongs to them")
    seeded = seed_shop(connection, ShopSize(orders=orders), seed=seed)
    note.write_text(json.dumps({"database": address.database, "orders": orders, "seed": seed}))
    return Shop(rows=seeded.rows, seeded_now=True)


def _is_noted(note: Path, address: MySqlAddress) -> bool:
    try:
        return bool(json.loads(note.read_text())["database"] == address.database)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _count_if_complete(connection: "Connection") -> dict[str, int]:
    return count_rows(connection) if _existing_tables(connection) == set(TABLES) else {}


def _existing_tables(connection: "Connection") -> set[str]:
    """Which of the shop's tables there are."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW TABLES")
        return {row[0] for row in cursor.fetchall()} & set(TABLES)


def _make_database(connection: "Connection", name: str) -> None:
    """Make the database if it is missing; a given account may see it and not be allowed to make one."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW DATABASES")
        if name not in {row[0] for row in cursor.fetchall()}:
            quoted = name.replace("`", "``")
            cursor.execute(f"CREATE DATABASE `{quoted}` CHARACTER SET utf8mb4")
