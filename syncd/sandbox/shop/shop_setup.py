"""Setup of the shop in a sandbox's MySQL, unless it exists."""

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
    """Rows of the shop; `seeded_now` is True if this call filled it."""

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
    """Return the existing shop of this sandbox, or fill a new one of this size.

    A note in the directory is written after the last row. Without the note, the tables
    of the sandbox's own server were left half filled by a kill, and are made anew; tables
    of an external server belong to its owner, and stay.
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
            f"mysql refused to create the shop: {error.args[-1]}",
            hint="Use an account that may create databases and tables.",
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
    belongs_to_others = is_external and bool(_existing_tables(connection))
    if _is_noted(note, address) or belongs_to_others:
        return Shop(rows=_count_if_complete(connection), seeded_now=False)
    drop_tables(connection)
    report(f"filling the shop: {orders} orders with their customers, lines and events")
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
    """Return the names of the shop's tables that exist."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW TABLES")
        return {row[0] for row in cursor.fetchall()} & set(TABLES)


def _make_database(connection: "Connection", name: str) -> None:
    """Create the database if it is missing; the account of an external server may lack the right to create it."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW DATABASES")
        if name not in {row[0] for row in cursor.fetchall()}:
            quoted = name.replace("`", "``")
            cursor.execute(f"CREATE DATABASE `{quoted}` CHARACTER SET utf8mb4")
