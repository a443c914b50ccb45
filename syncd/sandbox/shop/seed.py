"""Seeding of the shop: as many rows as requested, the same rows for the same seed.

The server itself makes the rows from their number and the seed, by one statement for
each chunk. No clock and no random function is used.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from syncd.sandbox.shop.schema import count_rows, create_tables

if TYPE_CHECKING:
    from syncd.sandbox.mysql import Connection

CHUNK_ROWS: Final = 50_000
FIRST_YEAR_MICROSECONDS: Final = 365 * 86_400 * 1_000_000
MAX_LINES_PER_ORDER: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopSize:
    """Size of the shop in orders; the other tables follow."""

    orders: int

    @property
    def customers(self) -> int:
        return max(1, self.orders // 10)

    @property
    def events(self) -> int:
        return 2 * self.orders


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedResult:
    """Rows in the shop, and the seconds that seeding took."""

    rows: Mapping[str, int]
    seconds: float

    @property
    def rows_per_second(self) -> float:
        return sum(self.rows.values()) / self.seconds


def seed_shop(
    connection: "Connection",
    size: ShopSize,
    *,
    seed: int = 1,
    report: Callable[[str], None] = lambda _line: None,
) -> SeedResult:
    """Fill empty tables, after creating them if they are missing."""
    began = time.monotonic()
    create_tables(connection)
    for table, statement, numbers in (
        ("customers", _CUSTOMERS, size.customers),
        ("orders", _ORDERS, size.orders),
        ("order_lines", _ORDER_LINES, size.orders),
        ("events", _EVENTS, size.events),
    ):
        for low, high in _chunks(numbers):
            with connection.cursor() as cursor:
                cursor.execute(_render_statement(statement, low=low, high=high, size=size, seed=seed))
            report(f"{table}: {high} of {numbers}")
    with connection.cursor() as cursor:
        cursor.execute(_COUNTRIES)
    return SeedResult(rows=count_rows(connection), seconds=time.monotonic() - began)


def seed_orders(connection: "Connection", orders: int, *, seed: int = 1, step: int | None = None) -> None:
    """Fill the table of orders alone; `step` is the number of microseconds from one order to the next."""
    create_tables(connection)
    statement = _ORDERS if step is None else _ORDERS.replace("{STEP}", str(step))
    for low, high in _chunks(orders):
        with connection.cursor() as cursor:
            cursor.execute(_render_statement(statement, low=low, high=high, size=ShopSize(orders=orders), seed=seed))


def _chunks(numbers: int) -> Iterator[tuple[int, int]]:
    for low in range(0, numbers, CHUNK_ROWS):
        yield low, min(low + CHUNK_ROWS, numbers)


def _render_statement(statement: str, *, low: int, high: int, size: ShopSize, seed: int) -> str:
    numbers = max(size.orders, 1)
    # Rows are spread evenly over 2025, in the order of their numbers.
    return (
        statement.replace("{NUMBERS}", _NUMBERS.format(low=low, count=high - low))
        .replace("{SEED}", str(seed))
        .replace("{CUSTOMERS}", str(size.customers))
        .replace("{STEP}", str(FIRST_YEAR_MICROSECONDS // numbers))
        .replace("{STEP/10}", str(FIRST_YEAR_MICROSECONDS // max(size.customers, 1)))
        .replace("{STEP/2}", str(FIRST_YEAR_MICROSECONDS // max(size.events, 1)))
    )


# Ten digits joined with themselves count further than any chunk, on every server.
_DIGITS: Final = " UNION ALL ".join(f"SELECT {digit} AS i" for digit in range(10))
_NUMBERS: Final = (
    "(SELECT {low} + n AS n FROM (SELECT a.i + 10 * b.i + 100 * c.i + 1000 * d.i + 10000 * e.i AS n FROM "
    + " CROSS JOIN ".join(f"({_DIGITS}) AS {name}" for name in "abcde")
    + ") AS counted WHERE n < {count} ORDER BY n) AS numbers"
)
_DICE: Final = ", ".join(f"CRC32(CONCAT('{{SEED}}{name}', n)) AS {name}" for name in ("r", "s", "t"))
_FROM: Final = f"FROM (SELECT n, {_DICE} FROM {{NUMBERS}}) AS dice"


def _stamp_expression(step: str) -> str:
    return f"'2025-01-01 00:00:00' + INTERVAL n * {step} MICROSECOND"


_COUNTRIES: Final = """
INSERT INTO countries (code, name, vat) VALUES
  ('BR', 'Brasil', 17), ('DE', 'Deutschland', 19), ('JP', '日本', 10), ('PL', 'Polska', 23), ('SE', 'Sverige', 25)"""

_CUSTOMERS: Final = f"""
INSERT INTO customers
  (id, email, name, country, tier, interests, is_active, credit, born, picture, settings, created_at, update_at)
SELECT n + 1,
  CONCAT('c', n + 1, '@shop.example'),
  CONCAT(
    ELT(1 + r % 6, 'Åsa', 'Bjørn', 'Chloé', '陽子', 'Дарья', 'José'), ' ',
    ELT(1 + s % 4, 'O''Hara', 'Müller', 'Łuczak', '王')),
  ELT(1 + r % 5, 'DE', 'SE', 'JP', 'PL', 'BR'),
  ELT(1 + s % 3, 'basic', 'silver', 'gold'),
  t % 16,
  r % 8 <> 0,
  IF(s % 5 = 0, NULL, CAST(t / 1000 AS DECIMAL(12,2)) - 500000),
  IF(t % 7 = 0, NULL, DATE '1930-01-01' + INTERVAL r % 27000 DAY),
  IF(r % 3 = 0, NULL, UNHEX(SHA2(CONCAT('{{SEED}}', n), 224))),
  JSON_OBJECT('mail', r % 2, 'theme', ELT(1 + s % 2, 'hell', 'dunkel'), 'limit', t % 1000),
  {_stamp_expression("{STEP/10}")},
  {_stamp_expression("{STEP/10}")}
{_FROM}"""

_ORDERS: Final = f"""
INSERT INTO orders
  (id, customer_id, status, total, currency, is_gift, flags, placed_at, deliver_by, note, details, update_at)
SELECT n + 1,
  1 + r % {{CUSTOMERS}},
  ELT(1 + s % 5, 'new', 'paid', 'packed', 'sent', 'returned'),
  CAST(t / 10000 AS DECIMAL(18,4)),
  ELT(1 + t % 3, 'EUR', 'USD', 'JPY'),
  r % 9 = 0,
  s % 256,
  {_stamp_expression("{STEP}")},
  IF(r % 6 = 0, NULL, SEC_TO_TIME(s % 86400)),
  ELT(1 + s % 5, NULL, '', 'please ring twice', 'à déposer chez le voisin, 3e étage', 'お届け先は二階です 🎁'),
  JSON_OBJECT(
    'channel', ELT(1 + r % 3, 'web', 'app', 'phone'),
    'coupon', IF(s % 4 = 0, CONCAT('C', s % 1000), NULL),
    'points', t % 500),
  {_stamp_expression("{STEP}")}
{_FROM}"""

_ORDER_LINES: Final = f"""
INSERT INTO order_lines (order_id, line_no, sku, quantity, price, discount, weight, update_at)
SELECT n + 1,
  line_no,
  CONCAT('SKU-', LPAD((r + 7919 * line_no) % 100000, 5, '0')),
  1 + (s + line_no) % 9,
  CAST(((t + 104729 * line_no) % 10000000) / 100 AS DECIMAL(10,2)),
  ((r + line_no) % 30) / 100,
  IF((s + line_no) % 10 = 0, NULL, ((t + line_no) % 50000) / 1000),
  {_stamp_expression("{STEP}")}
{_FROM} JOIN ({" UNION ALL ".join(f"SELECT {no} AS line_no" for no in range(1, MAX_LINES_PER_ORDER + 1))}) AS line
WHERE line_no <= 1 + r % {MAX_LINES_PER_ORDER}"""

_EVENTS: Final = f"""
INSERT INTO events (id, customer_id, kind, fingerprint, took, body, payload, occurred_at, update_at)
SELECT n + 1,
  IF(s % 4 = 0, NULL, 1 + r % {{CUSTOMERS}}),
  ELT(1 + s % 4, 'visit', 'search', 'basket', 'order'),
  CAST(r AS UNSIGNED) * 4294967296 + s,
  IF(t % 5 = 0, NULL, SEC_TO_TIME((t % 3600000) / 1000)),
  IF(r % 4 = 0, NULL, UNHEX(SHA2(CONCAT('{{SEED}}', n), 256))),
  IF(t % 6 = 0, NULL, JSON_OBJECT('page', r % 400, 'from', ELT(1 + t % 3, 'mail', 'search', 'friend'))),
  {_stamp_expression("{STEP/2}")},
  {_stamp_expression("{STEP/2}")}
{_FROM}"""
