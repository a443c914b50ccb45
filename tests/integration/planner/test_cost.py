"""What each statement costs the server, on a table with deep ties: no entry is read that is not given."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from syncd.datatypes.columns import ColumnMapping, ParquetType, PhysicalType, TransferType
from syncd.extract.plan_body import build_queries, plan_chunk, plan_increment
from syncd.extract.plan_rules import PlanContext, WindowBounds
from syncd.mysql.query_plan import explain_sql
from syncd.mysql.sql import after_condition, custom_query_source, last_position_sql, probe_sql, window_condition
from syncd.settings import StreamSettings
from syncd.spark.jdbc import as_subquery, session_setup_statement
from syncd.tables.sort_order import StreamOrder, resolve_order
from tests.builders import make_plan
from tests.integration.planner.servers import Server, as_spark_wraps, examined, rows_of
from watermarks.batch import BatchDraft
from watermarks.cursor import START_CURSOR, Cursor, CursorValue, ValueKind
from watermarks.window import Window

pytestmark = pytest.mark.services

DIGITS = "(" + " UNION ALL ".join(f"SELECT {i} AS i" for i in range(10)) + ")"
NUMBERS = (
    "(SELECT a.i + 10 * b.i + 100 * c.i + 1000 * d.i + 10000 * e.i AS n FROM "
    + ", ".join(f"{DIGITS} {name}" for name in "abcde")
    + ") AS numbers"
)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
TIE = (0.25, 0.30)
"""Where, as parts of the table, one second holds a twentieth of all rows."""


@dataclass(frozen=True)
class Deep:
    """A table of so many rows, 40 a second but for one deep tie, with a composite key."""

    server: Server
    order: StreamOrder
    rows: int

    def at(self, part: float) -> int:
        return int(self.rows * part)

    def second(self, number: int) -> int:
        low, high = self.at(TIE[0]), self.at(TIE[1])
        return low // 40 if low <= number < high else number // 40

    def cursor(self, part: float) -> Cursor:
        """The position of a row so far into the table."""
        number = self.at(part)
        moment = (BEGIN + timedelta(seconds=self.second(number))).replace(tzinfo=None)
        return Cursor.from_values(CursorValue(ValueKind.WALL, moment), number // 1000, f"k{number:08d}")

    def window(self, low: float, high: float) -> Window:
        return Window(self.cursor(low) if low else START_CURSOR, self.cursor(high))


def build(server: Server, rows: int) -> Deep:
    name = f"deep_{rows}"
    with server.admin() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
        cursor.execute(f"DROP TABLE IF EXISTS {name}")
        cursor.execute(
            f"CREATE TABLE {name} (a INT NOT NULL, b VARCHAR(20) CHARACTER SET latin1 NOT NULL,"
            " update_at DATETIME NULL, amount DECIMAL(12,2), pad VARCHAR(40),"
            " PRIMARY KEY (a, b), KEY by_time (update_at))"
        )
        low, high = int(rows * TIE[0]), int(rows * TIE[1])
        for begin in range(0, rows, 100_000):
            n = f"({begin} + n)"
            cursor.execute(
                f"INSERT INTO {name} SELECT {n} DIV 1000, CONCAT('k', LPAD({n}, 8, '0')), '2026-01-01' + INTERVAL"
                f" IF({n} >= {low} AND {n} < {high}, {low} DIV 40, {n} DIV 40) SECOND, n / 7, 'some text beside it'"
                f" FROM {NUMBERS} WHERE {n} < {rows}"
            )
        cursor.execute(f"ANALYZE TABLE {name}")
    settings = StreamSettings(source="lab", database="lab", table=name)
    return Deep(server, resolve_order(server.source().describe_table("lab", name), settings), rows)


@pytest.fixture(scope="session", params=[200_000, pytest.param(2_000_000, marks=pytest.mark.long)])
def deep(request: pytest.FixtureRequest, server: Server) -> Deep:
    return build(server, request.param)


def passages(*names: str) -> tuple[ColumnMapping, ...]:
    parquet = ParquetType(physical=PhysicalType.BYTE_ARRAY)
    return tuple(
        ColumnMapping(
            column=name,
            name=name,
            select=f"CAST(`{name}` AS CHAR)",
            travel=TransferType.TEXT,
            parquet=parquet,
            redshift="x",
        )
        for name in names
    )


WINDOWS = {
    "the first batch": (0, 0.05),
    "the midst of the tie": (0.26, 0.29),
    "into the tie": (0.2, 0.27),
    "out of the tie": (0.29, 0.31),
    "one row in the tie": (0.28, 0.280005),
    "15 % of the table": (0.4, 0.55),
    "the last tenth": (0.9, 0.999),
    "nearly all": (0, 0.95),
}


def ground(mark: Cursor) -> PlanContext:
    return PlanContext(mark=mark, identity="server-1", fingerprint="s", created=None)


def sql_of(draft: BatchDraft) -> str:
    [query] = build_queries(make_plan(draft=draft), passages("a", "b", "update_at", "amount", "pad"))
    return query.sql


def require_cheap(deep: Deep, sql: str, *, read: int, given: int) -> None:
    with deep.server.admin() as connection:
        count, cost = examined(connection, sql)
        assert count == given, sql
        assert cost <= 1.2 * read + 8, sql


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("form", ["plain", "wrapped"])
def test_a_window_reads_only_what_it_gives(deep: Deep, name: str, form: str) -> None:
    window = deep.window(*WINDOWS[name])
    rows = deep.at(WINDOWS[name][1]) - deep.at(WINDOWS[name][0]) + (0 if WINDOWS[name][0] else 1)
    sql = sql_of(plan_increment(ground(window.low), deep.order, WindowBounds(low=window.low, ends=(window.high,))))

    require_cheap(deep, as_spark_wraps(sql) if form == "wrapped" else sql, read=rows, given=rows)


@pytest.mark.parametrize("name", WINDOWS)
def test_a_wrapped_window_merges_and_reads_by_its_index(deep: Deep, name: str) -> None:
    window = deep.window(*WINDOWS[name])
    sql = sql_of(plan_increment(ground(window.low), deep.order, WindowBounds(low=window.low, ends=(window.high,))))

    with deep.server.admin() as connection:
        lines = rows_of(connection, f"EXPLAIN FORMAT=TRADITIONAL {as_spark_wraps(sql)}")

    assert len(lines) == 1, "a table of its own would be made first"
    assert "by_time" in lines[0]
    assert not any(word in str(lines[0][-1]) for word in ("filesort", "temporary"))


@pytest.mark.parametrize("name", WINDOWS)
def test_a_probe_reads_as_far_as_it_counts(deep: Deep, name: str) -> None:
    window, order = deep.window(*WINDOWS[name]), deep.order
    rows = deep.at(WINDOWS[name][1]) - deep.at(WINDOWS[name][0])
    horizon = Cursor(deep.cursor(0.97).values[:1]) if WINDOWS[name][1] < 0.96 else window.high
    where = window_condition(order.columns, Window(window.low, horizon))

    require_cheap(deep, probe_sql(order, order.columns, order.index, where, rows=rows), read=rows, given=1)
    require_cheap(deep, last_position_sql(order, order.columns, order.index, where), read=1, given=1)


@pytest.mark.parametrize("part", [0.1, 0.3, 0.999])
def test_chunks_of_a_first_pass_read_their_keys_alone(deep: Deep, part: float) -> None:
    order = deep.order
    low, high = (Cursor(deep.cursor(at).values[1:]) for at in (part * 0.8, part))
    rows = deep.at(part) - deep.at(part * 0.8)
    h0 = Cursor(deep.cursor(0.9999).values[:1])
    draft = plan_chunk(
        ground(START_CURSOR),
        order,
        WindowBounds(low=low, ends=(high,), has_more=True),
        h0,
        proven=True,
        include_nulls=True,
    )

    require_cheap(deep, as_spark_wraps(sql_of(draft)), read=rows, given=rows)
    where = after_condition(order.key, low)
    require_cheap(deep, probe_sql(order, order.key, order.key_index, where, rows=rows), read=rows, given=1)
    require_cheap(deep, last_position_sql(order, order.key, order.key_index, where), read=1, given=1)


def test_the_measure_tells_a_costly_statement(deep: Deep) -> None:
    """Otherwise the tests above would prove nothing: the usual forms cost what is said of them."""
    moment = str(deep.cursor(0.29).values[0].raw)
    by_tie = (
        f"SELECT a FROM lab.{deep.order.table} FORCE INDEX (by_time) WHERE update_at >= '{moment}'"
        f" AND (update_at > '{moment}' OR b > 'k{deep.at(0.299):08d}') ORDER BY update_at, a, b LIMIT 100"
    )
    with deep.server.admin() as connection:
        _, cost = examined(connection, by_tie)
    assert cost > deep.at(0.04)


@pytest.fixture
def gathering(server: Server) -> Iterator[Server]:
    """A server whose administrator turned the merging of derived tables off."""
    with server.admin() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.optimizer_switch")
        [(before,)] = cursor.fetchall()
        cursor.execute("SET GLOBAL optimizer_switch = 'derived_merge=off'")
        try:
            yield server
        finally:
            cursor.execute(f"SET GLOBAL optimizer_switch = '{before}'")


def test_a_window_is_no_table_of_its_own_whatever_the_server_is_set_to(gathering: Server) -> None:
    small = build(gathering, 2_000)
    where = window_condition(small.order.columns, small.window(0.2, 0.3))
    sql = explain_sql(as_spark_wraps(f"SELECT amount AS `amount` FROM {small.order.table} WHERE {where}"))
    identity = gathering.source().get_server_info().identity
    with gathering.admin() as connection:
        plain = len(rows_of(connection, sql))
        rows_of(connection, session_setup_statement(gathering.settings, identity))
        ready = len(rows_of(connection, sql))

    assert (plain, ready) == (2, 1)


def test_spark_asking_for_names_and_types_has_nothing_evaluated(gathering: Server) -> None:
    """It asks before the session is made ready, and about SQL of one's own too, which may group and sort."""
    small = build(gathering, 2_000)
    own = custom_query_source(f"SELECT a, COUNT(*) AS n FROM {small.order.table} WHERE ${{window}} GROUP BY a", "TRUE")
    asked = as_subquery(f"SELECT a AS `a` FROM {own} WHERE TRUE")
    with gathering.admin() as connection:
        assert examined(connection, f"SELECT * FROM {asked} WHERE 1=0") == (0, 0)
        assert examined(connection, f"SELECT a FROM {asked}")[1] > 0
