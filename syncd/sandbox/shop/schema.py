"""Tables of the shop, with every column type that a copy can get wrong."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from syncd.sandbox.mysql import Connection, Cursor

_STAMP: Final = "update_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)"

CUSTOMERS: Final = f"""
CREATE TABLE IF NOT EXISTS customers (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  email VARCHAR(190) CHARACTER SET ascii NOT NULL,
  name VARCHAR(120) NOT NULL,
  country CHAR(2) NOT NULL,
  tier ENUM('basic', 'silver', 'gold') NOT NULL,
  interests SET('books', 'garden', 'music', 'tools') NOT NULL,
  is_active TINYINT(1) NOT NULL,
  credit DECIMAL(12,2) NULL,
  born DATE NULL,
  picture BLOB NULL,
  settings JSON NOT NULL,
  created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  {_STAMP},
  KEY by_update (update_at, id)
) CHARACTER SET utf8mb4"""

ORDERS: Final = f"""
CREATE TABLE IF NOT EXISTS orders (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id BIGINT UNSIGNED NOT NULL,
  status ENUM('new', 'paid', 'packed', 'sent', 'returned') NOT NULL,
  total DECIMAL(18,4) NOT NULL,
  currency CHAR(3) NOT NULL,
  is_gift TINYINT(1) NOT NULL,
  flags BIT(8) NOT NULL,
  placed_at DATETIME(6) NOT NULL,
  deliver_by TIME NULL,
  note TEXT NULL,
  details JSON NOT NULL,
  {_STAMP},
  KEY by_update (update_at, id)
) CHARACTER SET utf8mb4"""

ORDER_LINES: Final = f"""
CREATE TABLE IF NOT EXISTS order_lines (
  order_id BIGINT UNSIGNED NOT NULL,
  line_no SMALLINT UNSIGNED NOT NULL,
  sku VARCHAR(32) NOT NULL,
  quantity INT NOT NULL,
  price DECIMAL(10,2) NOT NULL,
  discount DOUBLE NOT NULL,
  weight FLOAT NULL,
  {_STAMP},
  PRIMARY KEY (order_id, line_no),
  KEY by_update (update_at, order_id, line_no)
) CHARACTER SET utf8mb4"""

EVENTS: Final = f"""
CREATE TABLE IF NOT EXISTS events (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id BIGINT UNSIGNED NULL,
  kind ENUM('visit', 'search', 'basket', 'order') NOT NULL,
  fingerprint BIGINT UNSIGNED NOT NULL,
  took TIME(3) NULL,
  body BLOB NULL,
  payload JSON NULL,
  occurred_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  {_STAMP},
  KEY by_update (update_at, id)
) CHARACTER SET utf8mb4"""

COUNTRIES: Final = """
CREATE TABLE IF NOT EXISTS countries (
  code CHAR(2) CHARACTER SET ascii NOT NULL PRIMARY KEY,
  name VARCHAR(60) NOT NULL,
  vat DECIMAL(4,2) NOT NULL
) CHARACTER SET utf8mb4"""
"""A table without a stamp, like many small tables: nothing shows which of its rows changed."""

TABLES: Final[Mapping[str, str]] = {
    "customers": CUSTOMERS,
    "orders": ORDERS,
    "order_lines": ORDER_LINES,
    "events": EVENTS,
    "countries": COUNTRIES,
}


def create_tables(connection: "Connection") -> None:
    """Create the missing tables in the connection's database."""
    with connection.cursor() as cursor:
        for statement in TABLES.values():
            cursor.execute(statement)


def drop_tables(connection: "Connection") -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {', '.join(TABLES)}")


def count_rows(connection: "Connection") -> dict[str, int]:
    with connection.cursor() as cursor:
        return {table: _count(cursor, table) for table in TABLES}


def _count(cursor: "Cursor", table: str) -> int:
    cursor.execute(f"SELECT COUNT(*) FROM {table}")
    return int(cursor.fetchone()[0])
