"""Keys of every type: walked row by row along the index, and cut anywhere."""

import random
from dataclasses import dataclass
from itertools import combinations, pairwise

import pytest

from syncd.errors import SourceUnfit, ValueRefused
from syncd.mysql.sql import (
    after_condition,
    force_index,
    last_position_sql,
    probe_sql,
    select_rows_sql,
    window_condition,
)
from syncd.settings import StreamSettings
from syncd.tables.sort_order import StreamOrder, resolve_order
from tests.integration.planner.servers import Server, as_spark_wraps, examined, rows_of
from watermarks.cursor import START_CURSOR, Cursor, ValueKind
from watermarks.window import Window

pytestmark = pytest.mark.services

TEXTS = "'', 'a', 'A', 'á', 'b', 'B1', 'zz', 'o''x', 'a\\\\b', 'Straße', 'c c', 'tab\\t'"


@dataclass(frozen=True)
class KeyType:
    sql: str
    values: str
    kind: ValueKind
    only: str = ""


TYPES = {
    "tinyint": KeyType("TINYINT", "-128, -1, 0, 1, 127", ValueKind.INT),
    "int": KeyType("INT", "-2147483648, -5, 0, 7, 2147483647", ValueKind.INT),
    "int unsigned": KeyType("INT UNSIGNED ZEROFILL", "0, 7, 2147483648, 4294967295", ValueKind.INT),
    "bigint": KeyType("BIGINT", "-9223372036854775808, -1, 0, 9223372036854775807", ValueKind.INT),
    "bigint unsigned": KeyType(
        "BIGINT UNSIGNED", "0, 9223372036854775807, 9223372036854775808, 18446744073709551615", ValueKind.INT
    ),
    "decimal": KeyType(
        "DECIMAL(20,4)", "-1234567890123456.7891, -0.0001, 0, 0.5, 1234567890123456.7891", ValueKind.DECIMAL
    ),
    "decimal 65": KeyType(
        "DECIMAL(65,30)", f"-{'9' * 35}.{'9' * 30}, 0, 0.{'0' * 29}1, {'9' * 35}.{'9' * 30}", ValueKind.DECIMAL
    ),
    "double": KeyType(
        "DOUBLE", "-1.7976931348623157e308, -0.1, 0, 0.1, 0.3, 1e22, 2.2250738585072014e-308", ValueKind.DOUBLE
    ),
    "float": KeyType("FLOAT", "-3.4e38, -0.1, 0, 0.1, 1.2345679, 16777216, 3.4e38", ValueKind.DOUBLE),
    "date": KeyType("DATE", "'1000-01-01', '2026-01-31', '2026-02-01', '9999-12-31'", ValueKind.DATE),
    "datetime": KeyType(
        "DATETIME", "'1000-01-01 00:00:00', '2026-01-31 23:59:59', '9999-12-31 23:59:59'", ValueKind.WALL
    ),
    "datetime(6)": KeyType(
        "DATETIME(6)",
        "'1000-01-01 00:00:00.000001', '2026-01-31 23:59:59.999999', '2026-02-01 00:00:00'",
        ValueKind.WALL,
    ),
    "timestamp(3)": KeyType(
        "TIMESTAMP(3)", "'1970-01-01 00:00:01', '2026-01-31 23:59:59.999', '2038-01-19 03:14:07.999'", ValueKind.INSTANT
    ),
    "time": KeyType("TIME", "'-838:59:59', '-00:00:01', '00:00:00', '23:00:00', '838:59:59'", ValueKind.TIME),
    "time(6)": KeyType("TIME(6)", "'-838:59:58.999999', '-00:00:00.000001', '0', '838:59:58.999999'", ValueKind.TIME),
    "year": KeyType("YEAR", "0, 1901, 1999, 2026, 2155", ValueKind.INT),
    "bit(1)": KeyType("BIT(1)", "0, 1", ValueKind.INT),
    "bit(64)": KeyType("BIT(64)", "0, 1, 9223372036854775808, 18446744073709551615", ValueKind.INT),
    "binary": KeyType("BINARY(4)", "'', 'a', X'6100000A', X'00FF', X'FFFFFFFF', 'ab'", ValueKind.BYTES),
    "varbinary": KeyType("VARBINARY(20)", "'', 'a', X'6100', X'00', X'0000', X'FF', 'ab', X'61FF'", ValueKind.BYTES),
    "enum": KeyType("ENUM('z','a','m')", "'z', 'a', 'm'", ValueKind.INT),
    "set": KeyType("SET('z','a','m')", "'', 'z', 'a', 'z,m', 'z,a,m'", ValueKind.INT),
    "char latin1": KeyType("CHAR(20) CHARACTER SET latin1 COLLATE latin1_bin", TEXTS, ValueKind.COLLATED),
    "varchar latin1": KeyType(
        "VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german1_ci", "'', 'a', 'b', 'c ', 'ü', '€'", ValueKind.COLLATED
    ),
    "varchar utf8mb4 bin": KeyType("VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", TEXTS, ValueKind.COLLATED),
    "varchar folded": KeyType(
        "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        "'', 'a', 'b', 'C', 'd d', '🎁', 'é'",
        ValueKind.COLLATED,
    ),
    "varchar 0900_bin": KeyType(
        "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin",
        TEXTS + ", 'a ', '🎁', 'ﬁ'",
        ValueKind.TEXT,
        only="mysql",
    ),
    "varchar 0900_ai_ci": KeyType(
        "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci",
        "'', 'a', 'b', 'b ', '🎁'",
        ValueKind.COLLATED,
        only="mysql",
    ),
    "varchar nopad_bin": KeyType(
        "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin",
        TEXTS + ", 'a ', '🎁', 'ﬁ'",
        ValueKind.TEXT,
        only="mariadb",
    ),
    "uca1400": KeyType(
        "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_ai_ci",
        "'', 'a', 'b', '🎁'",
        ValueKind.COLLATED,
        only="mariadb",
    ),
    "sjis": KeyType("VARCHAR(20) CHARACTER SET sjis", "'', 'a', '表', 'ソ', 'ﾃ'", ValueKind.COLLATED),
    "utf16": KeyType("VARCHAR(20) CHARACTER SET utf16", "'', 'a', '🎁', 'ﬁ'", ValueKind.COLLATED),
    "uuid": KeyType(
        "UUID",
        "'123e4567-e89b-12d3-a456-426655440000', '00000000-0000-0000-0000-000000000001'",
        ValueKind.COLLATED,
        only="mariadb",
    ),
    "inet6": KeyType(
        "INET6", "'::1', '2001:db8::ff00:42:8329', '::ffff:192.0.2.1'", ValueKind.COLLATED, only="mariadb"
    ),
}


def made(server: Server, kind: KeyType) -> StreamOrder:
    """A table with two keys columns and many ties."""
    with server.admin() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
        cursor.execute("DROP TABLE IF EXISTS typed")
        cursor.execute(
            f"CREATE TABLE typed (k {kind.sql} NOT NULL, n SMALLINT NOT NULL, `update at` DATETIME(3) NOT NULL,"
            " pad CHAR(40) NOT NULL, PRIMARY KEY (k, n), KEY by_time (`update at`)) ENGINE=InnoDB"
        )
        values = " UNION ALL ".join(f"SELECT {value} AS k" for value in split(kind.values))
        for n in range(8):
            cursor.execute(f"INSERT INTO typed SELECT k, {n}, '2026-01-01 10:00:00.{n % 3}', 'x' FROM ({values}) AS v")
        cursor.execute("ANALYZE TABLE typed")
    table = server.source().describe_table("lab", "typed")
    return resolve_order(table, StreamSettings(source="lab", database="lab", table="typed", cursor="update at"))


def split(values: str) -> list[str]:
    return (
        [value.strip() for value in values.replace(", '", "\0'").replace(", X", "\0X").split("\0")]
        if ("'" in values)
        else values.split(", ")
    )


def walked(server: Server, order: StreamOrder) -> list[Cursor]:
    """Every position, each found by a probe from the one before."""
    source, found = server.source(), [START_CURSOR]
    while rows := source.fetch_rows(
        probe_sql(order, order.columns, order.index, after_condition(order.columns, found[-1]), rows=1)
    ):
        found.append(Cursor(tuple(column.parse_value(raw) for column, raw in zip(order.columns, rows[0], strict=True))))
        assert len(found) < 1000
    return found[1:]


@pytest.fixture(params=list(TYPES))
def typed(request: pytest.FixtureRequest, server: Server) -> tuple[Server, KeyType, StreamOrder]:
    kind = TYPES[request.param]
    if kind.only not in {"", server.name}:
        pytest.skip(f"a type of {kind.only} alone")
    return server, kind, made(server, kind)


def test_a_key_of_any_type_is_walked_and_cut_along_its_index(typed: tuple[Server, KeyType, StreamOrder]) -> None:
    server, kind, order = typed
    connection = server.admin()
    selects = ", ".join(column.select for column in order.columns)
    sorted_by_server = rows_of(connection, f"SELECT {selects} FROM typed ORDER BY `update at`, k, n")

    positions = walked(server, order)

    assert [column.kind for column in order.columns] == [ValueKind.WALL, kind.kind, ValueKind.INT]
    assert positions == [
        Cursor(tuple(column.parse_value(raw) for column, raw in zip(order.columns, row, strict=True)))
        for row in sorted_by_server
    ]
    if kind.kind is not ValueKind.COLLATED:
        assert all(one < other for one, other in pairwise(positions)), "Python orders as the server does"
    dice = random.Random(7)
    source = force_index("lab", "typed", order.index)
    for _ in range(25):
        low, high = sorted(dice.sample(range(len(positions) + 1), 2))
        window = Window(START_CURSOR if low == 0 else positions[low - 1], positions[high - 1])
        sql = as_spark_wraps(
            select_rows_sql([("pad", "pad"), ("n", "n")], source, window_condition(order.columns, window))
        )
        given, cost = examined(connection, sql)
        assert given == high - low, sql
        # One entry more than it gives for each range, and one to find where each begins.
        assert cost <= given + 2 * sql.count(" OR ") + 3, sql
    connection.close()


def test_texts_that_a_collation_holds_for_one_are_read_once(server: Server) -> None:
    """Both ends of a window can be one text to the collation, and two texts to Python."""
    kind = KeyType("VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", "'a', 'b'", ValueKind.COLLATED)
    order = made(server, kind)
    connection = server.admin()
    rows_of(connection, "UPDATE typed SET k = UPPER(k) WHERE n % 2 = 0")
    positions = walked(server, order)

    for low, high in combinations(range(17), 2):
        window = Window(START_CURSOR if low == 0 else positions[low - 1], positions[high - 1])
        given = rows_of(connection, f"SELECT n FROM typed WHERE {window_condition(order.columns, window)}")
        assert len(given) == high - low, window
    connection.close()


@pytest.mark.parametrize(
    ("charset", "raw"),
    [
        ("sjis", "F040"),  # of one's own making, and so are the next two
        ("gbk", "AAA1"),
        ("big5", "C8FE"),
        ("cp1251", "98"),
        ("cp932", "879A"),  # a character, which cp932 writes in two ways
    ],
)
def test_a_row_that_no_literal_can_name_ends_no_batch(server: Server, charset: str, raw: str) -> None:
    order = made(server, KeyType(f"VARCHAR(20) CHARACTER SET {charset}", "'a', 'b'", ValueKind.COLLATED))
    connection = server.admin()
    rows_of(connection, f"UPDATE typed SET k = _{charset} X'{raw}' WHERE k = 'b'")
    stands = rows_of(connection, f"SELECT COUNT(*) FROM typed WHERE HEX(k) = '{raw}'")
    assert stands == [(8,)], "the server keeps the bytes"

    source, by_key = server.source(), order.key
    sql = last_position_sql(order, by_key, order.key_index, "TRUE")
    [row] = source.fetch_rows(sql)
    text = by_key[0].select
    [(where_its_literal_stands,)] = rows_of(
        connection, f"SELECT COUNT(*) FROM typed WHERE HEX(k) = '{raw}' AND k = CONVERT({text} USING {charset})"
    )

    assert where_its_literal_stands == 0
    with pytest.raises(ValueRefused, match=f"whose k has the bytes {raw} in {charset}"):
        by_key[0].parse_value(row[0])
    connection.close()


_MEMBERS = ", ".join(f"'m{n}'" for n in range(1, 65))


@pytest.mark.parametrize(
    ("kind", "low"),
    [
        (KeyType("CHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin", r"'a', 'a\t'", ValueKind.COLLATED), "'a'"),
        (
            KeyType("CHAR(9) CHARACTER SET latin1 COLLATE latin1_swedish_nopad_ci", r"'a', 'a\t'", ValueKind.COLLATED),
            "'a'",
        ),
        (KeyType(f"SET({_MEMBERS})", "'m1', 'm64'", ValueKind.INT), "1"),
    ],
    ids=["char nopad", "char nopad latin1", "set of 64"],
)
def test_a_key_whose_rows_no_condition_finds_is_refused(server: Server, kind: KeyType, low: str) -> None:
    """They are sorted in one order and compared in another: whoever goes on from the one row never meets the other."""
    if server.name == "mysql" and "nopad" in kind.sql:
        pytest.skip("a collation of MariaDB alone")

    with pytest.raises(SourceUnfit, match=r"column k of type .* cannot be part of an order: .*"):
        made(server, kind)

    with server.admin() as connection:
        there = rows_of(connection, "SELECT COUNT(*) FROM typed")
        behind = rows_of(connection, f"SELECT n FROM typed FORCE INDEX (PRIMARY) WHERE k > {low}")
    assert (there, behind) == ([(16,)], [])


@pytest.mark.parametrize("charset", ["utf8mb4", "ucs2"])
def test_a_key_with_half_a_character_is_told_and_the_next_question_is_answered(server: Server, charset: str) -> None:
    if server.name == "mysql":
        pytest.skip("only MariaDB writes half a character as UTF-8")
    half = {"utf8mb4": "EDA080", "ucs2": "D800"}[charset]
    order = made(server, KeyType(f"VARCHAR(9) CHARACTER SET {charset}", "'a', 'b'", ValueKind.COLLATED))
    with server.admin() as connection:
        rows_of(connection, f"UPDATE typed SET k = _{charset} X'{half}' WHERE k = 'b'")
    source = server.source()

    with pytest.raises(ValueRefused, match="EDA080"):
        source.fetch_rows(f"SELECT {order.key[0].select} FROM lab.typed")

    assert source.fetch_rows("SELECT 1") == ((1,),)
