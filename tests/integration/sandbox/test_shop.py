from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from syncd.concurrency.thread_helpers import wait_until
from syncd.sandbox.mysql import MySqlAddress
from syncd.sandbox.running_sandbox import Sandbox
from syncd.sandbox.shop.schema import TABLES, count_rows, drop_tables
from syncd.sandbox.shop.seed import CHUNK_ROWS, ShopSize, seed_shop
from syncd.sandbox.shop.shop_setup import NOTE_FILE, ensure_shop
from syncd.sandbox.shop.writer import ShopWriter

pytestmark = pytest.mark.services


@pytest.fixture
def address(shared: Sandbox) -> Iterator[MySqlAddress]:
    """A MySQL whose shop is not set up."""
    with shared.mysql.connect() as connection:
        drop_tables(connection)
    yield shared.mysql
    with shared.mysql.connect() as connection:
        drop_tables(connection)


def content(address: MySqlAddress) -> dict[str, list[tuple[object, ...]]]:
    with address.connect() as connection, connection.cursor() as cursor:
        found = {}
        for table in TABLES:
            cursor.execute(f"SELECT * FROM {table} ORDER BY 1, 2")
            found[table] = list(cursor.fetchall())
        return found


def seeded(address: MySqlAddress, orders: int, seed: int) -> dict[str, list[tuple[object, ...]]]:
    with address.connect() as connection:
        drop_tables(connection)
        seed_shop(connection, ShopSize(orders=orders), seed=seed)
    return content(address)


def test_the_same_seed_gives_the_same_rows(address: MySqlAddress) -> None:
    assert seeded(address, 300, seed=7) == seeded(address, 300, seed=7)


def test_another_seed_gives_other_rows(address: MySqlAddress) -> None:
    assert seeded(address, 300, seed=7)["orders"] != seeded(address, 300, seed=8)["orders"]


def test_both_kinds_of_server_make_the_same_rows(address: MySqlAddress, own: Sandbox) -> None:
    def comparable(rows: dict[str, list[tuple[object, ...]]]) -> dict[str, list[tuple[object, ...]]]:
        # MySQL keeps JSON sorted by key, MariaDB as it was written; both in one order of ours.
        return {
            table: [tuple("".join(sorted(str(v))) if str(v).startswith("{") else v for v in row) for row in lines]
            for table, lines in rows.items()
        }

    assert comparable(seeded(own.mysql, 300, seed=7)) == comparable(seeded(address, 300, seed=7))


@pytest.mark.parametrize("orders", [0, 1, CHUNK_ROWS + 1])
def test_a_shop_of_any_size(address: MySqlAddress, orders: int) -> None:
    with address.connect() as connection:
        rows = seed_shop(connection, ShopSize(orders=orders)).rows

    assert rows["orders"] == orders
    assert rows["customers"] == max(1, orders // 10)
    assert rows["events"] == 2 * orders
    assert orders <= rows["order_lines"] <= 3 * orders


def test_the_orders_have_twelve_columns_of_mixed_types(address: MySqlAddress) -> None:
    with address.connect() as connection, connection.cursor() as cursor:
        seed_shop(connection, ShopSize(orders=1))
        cursor.execute(
            "SELECT data_type FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'orders'"
        )
        types = [row[0] for row in cursor.fetchall()]

    assert len(types) == 12
    assert {"bigint", "enum", "decimal", "char", "tinyint", "bit", "datetime", "time", "text"} <= set(types)


def test_a_change_stamps_the_row_by_the_servers_clock(address: MySqlAddress) -> None:
    with address.connect() as connection, connection.cursor() as cursor:
        seed_shop(connection, ShopSize(orders=10))
        cursor.execute("SELECT MAX(update_at), UTC_TIMESTAMP(6) FROM orders")
        newest, before = cursor.fetchone()
        assert newest < datetime(2026, 1, 1)  # noqa: DTZ001 - as the driver gives it

        cursor.execute("UPDATE orders SET total = total + 1 WHERE id = 3")

        cursor.execute("SELECT update_at FROM orders WHERE id = 3")
        assert cursor.fetchone()[0] >= before


def test_a_half_filled_shop_is_made_anew(address: MySqlAddress, tmp_path: Path) -> None:
    with address.connect() as connection:
        seed_shop(connection, ShopSize(orders=5))

    shop = ensure_shop(tmp_path, address, orders=20, seed=1, is_external=False)

    assert shop.seeded_now
    assert shop.rows["orders"] == 20
    assert not ensure_shop(tmp_path, address, orders=99, seed=1, is_external=False).seeded_now


def test_the_tables_of_a_given_server_stay_as_they_are(address: MySqlAddress, tmp_path: Path) -> None:
    with address.connect() as connection:
        seed_shop(connection, ShopSize(orders=5))

    shop = ensure_shop(tmp_path, address, orders=20, seed=1, is_external=True)

    assert (shop.seeded_now, shop.rows["orders"]) == (False, 5)
    assert not (tmp_path / NOTE_FILE).exists()


def test_a_writer_counts_what_it_did(address: MySqlAddress) -> None:
    with address.connect() as connection:
        before = seed_shop(connection, ShopSize(orders=200)).rows

    done = ShopWriter(address, rate=10_000, at_most=400).start().wait(timeout_seconds=300)

    with address.connect() as connection:
        after = count_rows(connection)
    assert (done.transactions, done.unknown, done.failed) == (400, 0, 0)
    for table in TABLES:
        assert after[table] - before[table] == done.inserted.get(table, 0) - done.deleted.get(table, 0)
    assert done.updated["orders"] > 0
    assert done.updated["customers"] > 0
    assert done.deleted["orders"] > 0


def test_the_same_seed_writes_the_same_load(address: MySqlAddress) -> None:
    loads = []
    for _ in range(2):
        with address.connect() as connection:
            drop_tables(connection)
            seed_shop(connection, ShopSize(orders=200))
        loads.append(ShopWriter(address, rate=10_000, at_most=100, seed=3).start().wait(timeout_seconds=300))

    assert [load.inserted for load in loads[:1]] == [load.inserted for load in loads[1:]]


def test_a_writer_keeps_its_rate_and_stops_when_told(address: MySqlAddress) -> None:
    with address.connect() as connection:
        seed_shop(connection, ShopSize(orders=50))
    with ShopWriter(address, rate=100) as writer:
        assert wait_until(lambda: writer.summary().transactions >= 100, timeout_seconds=120)
        done = writer.stop()

    assert done.transactions / done.seconds < 110
    with address.connect() as connection, connection.cursor() as cursor:

        def connections() -> int:
            cursor.execute("SELECT COUNT(*) FROM information_schema.processlist WHERE user = %s", (address.user,))
            return int(cursor.fetchone()[0])

        # A server hears a little later than its clients that they are gone.
        assert wait_until(lambda: connections() == 1, timeout_seconds=60)


def test_a_bug_in_a_writer_is_not_swallowed(address: MySqlAddress) -> None:
    """The tables are missing: no load can be written, and whoever waits must hear of it."""
    with pytest.raises(Exception, match="doesn't exist"):
        ShopWriter(address, rate=100).start().wait(timeout_seconds=120)
