"""Any table, any cut: windows abut, and hold each row once."""

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syncd.mysql.sql import window_condition
from syncd.settings import StreamSettings
from syncd.tables.sort_order import resolve_order
from tests.integration.planner.servers import Server, rows_of
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.window import Window

pytestmark = pytest.mark.services

WORDS = ["", "a", "A", "b", "ä", "Ä", "c ", "z"]
rows = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.sampled_from(WORDS), st.decimals("-1", "1", places=1)),
    max_size=25,
)


@pytest.mark.parametrize("collation", ["latin1_swedish_ci", "utf8mb4_bin", "utf8mb4_general_ci"])
def test_windows_between_any_rows_hold_each_row_once(server: Server, collation: str) -> None:
    with server.admin() as connection:
        rows_of(connection, "DROP TABLE IF EXISTS cut")
        rows_of(
            connection,
            "CREATE TABLE cut (e ENUM('z','a','m','b') NOT NULL,"
            f" w VARCHAR(9) CHARACTER SET {collation.split('_', maxsplit=1)[0]} COLLATE {collation} NOT NULL,"
            " d DECIMAL(3,1) NOT NULL, n INT NOT NULL, update_at DATETIME(1) NULL,"
            " PRIMARY KEY (e, w, d, n), KEY (update_at))",
        )
        order = resolve_order(
            server.source().describe_table("lab", "cut"), StreamSettings(source="l", database="lab", table="cut")
        )
        selects = ", ".join(column.select for column in order.columns)

        @settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(rows, st.data())
        def proved(found: list[tuple[int, int, str, Decimal]], data: st.DataObject) -> None:
            rows_of(connection, "DELETE FROM cut")
            for n, (tenth, e, word, number) in enumerate(found):
                with connection.cursor() as cursor:
                    cursor.execute(
                        "INSERT INTO cut VALUES (%s, %s, %s, %s, %s)",
                        (e + 1, word, number, n, f"2026-01-01 00:00:00.{tenth}"),
                    )
            told = rows_of(connection, f"SELECT {selects} FROM cut ORDER BY update_at, e, w, d, n")
            there = [
                Cursor(tuple(column.parse_value(raw) for column, raw in zip(order.columns, row, strict=True)))
                for row in told
            ]
            places = sorted({0, len(there), *data.draw(st.lists(st.integers(0, len(there)), max_size=4))})

            for low, high in pairwise(places):
                window = Window(there[low - 1] if low else START_CURSOR, there[high - 1])
                got = rows_of(connection, f"SELECT n FROM cut WHERE {window_condition(order.columns, window)}")
                assert sorted(row[0] for row in got) == sorted(int(str(row[-1])) for row in told[low:high]), window

        proved()
