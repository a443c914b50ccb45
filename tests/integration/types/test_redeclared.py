"""What an ALTER does to values, on a real server: nothing where it is said to change none, else something."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from syncd.datatypes.columns import Policies
from syncd.parquet.batch_conversion import Conversion
from syncd.parquet.column_values import SOURCE_ARROW_TYPES
from syncd.settings import StreamSettings
from syncd.tables.column_changes import describe_columns, may_change_values
from syncd.tables.column_mapping import map_columns
from tests.services.type_table import described

pytestmark = pytest.mark.services

UTF8, LATIN = "CHARACTER SET utf8mb4", "CHARACTER SET latin1"
SETTINGS = StreamSettings(source="shop", database="shop", table="bent")

KEEPS = [
    ("INT", "BIGINT", "-2147483648", "2147483647"),
    ("MEDIUMINT UNSIGNED", "INT", "0", "16777215"),
    ("TINYINT UNSIGNED ZEROFILL", "SMALLINT", "0", "255"),
    ("BIT(3)", "BIT(9)", "b'101'"),
    ("DECIMAL(5,2)", "DECIMAL(7,2)", "-999.99", "0.01"),
    ("DECIMAL(40,2)", "DECIMAL(41,2)", "0.01"),
    ("DECIMAL(5,2) UNSIGNED", "DECIMAL(5,2)", "999.99"),
    ("FLOAT", "DOUBLE", "0.1", "-3.4e38", "1.17549e-38"),
    ("FLOAT(7,2)", "FLOAT", "12345.67"),
    ("FLOAT(7,2)", "DOUBLE", "12345.67"),
    ("DATETIME", "DATETIME(6)", "'2026-01-02 03:04:05'"),
    ("TIMESTAMP(3) NULL", "TIMESTAMP(6) NULL", "'2026-01-02 03:04:05.678'"),
    ("YEAR", "YEAR", "2155"),
    (f"CHAR(3) {UTF8}", f"CHAR(9) {UTF8}", "'a '", "'äöü'"),
    (f"CHAR(3) {UTF8}", f"VARCHAR(3) {UTF8}", "'a '", "'äöü'"),
    (f"CHAR(3) {UTF8}", f"TINYTEXT {UTF8}", "'a '", "'äöü'"),
    (f"VARCHAR(3) {UTF8}", f"VARCHAR(9) {UTF8}", "'a '", "'äöü'"),
    (f"VARCHAR(63) {UTF8}", f"TINYTEXT {UTF8}", "REPEAT('😀', 63)"),
    (f"TINYTEXT {UTF8}", f"VARCHAR(255) {UTF8}", "REPEAT('a', 255)"),
    (f"TINYTEXT {LATIN}", f"TEXT {UTF8}", "REPEAT('€', 255)"),
    (f"TEXT {LATIN}", f"MEDIUMTEXT {UTF8}", "REPEAT('€', 65535)"),
    (f"VARCHAR(9) {LATIN}", f"VARCHAR(9) {UTF8}", "REPEAT('€', 9)", "'a '"),
    ("VARCHAR(9) CHARACTER SET utf8mb3", f"VARCHAR(9) {UTF8}", "REPEAT('€', 9)"),
    ("VARCHAR(9) CHARACTER SET ascii", f"VARCHAR(9) {LATIN}", "'abc'"),
    (f"VARCHAR(9) {UTF8} COLLATE utf8mb4_bin", f"VARCHAR(9) {UTF8} COLLATE utf8mb4_general_ci", "'Ab'"),
    ("VARBINARY(3)", "VARBINARY(9)", "X'00FF00'"),
    ("VARBINARY(255)", "TINYBLOB", "REPEAT(X'00', 255)"),
    ("TINYBLOB", "VARBINARY(255)", "REPEAT(X'00', 255)"),
    ("BLOB", "LONGBLOB", "X'00FF00'"),
    (f"ENUM('a','it''s') {UTF8}", f"ENUM('a','it''s','b') {UTF8}", "'a'", "'it''s'"),
    (f"ENUM('a','c') {UTF8}", f"ENUM('a','b','c') {UTF8}", "'a'", "'c'", "''"),
    (f"SET('a','c') {UTF8}", f"SET('b','a','c') {UTF8}", "'c,a'", "''"),
    (f"SET('a','b') {UTF8}", f"SET('a','b','c') {UTF8}", "'b,a'"),
    ("INT NOT NULL", "INT NULL DEFAULT 7", "0"),
    ("INT", "INT DEFAULT 7", "NULL"),
]
BENDS = [
    ("INT", "MEDIUMINT", "2147483647"),
    ("BIGINT", "INT UNSIGNED", "-1"),
    ("SMALLINT", "YEAR", "70"),
    ("BIT(9)", "BIT(8)", "b'111111111'"),
    ("DECIMAL(20,0)", "DECIMAL(19,0)", "99999999999999999999"),
    ("DECIMAL(5,2)", "DECIMAL(5,2) UNSIGNED", "-1.00"),
    ("DECIMAL(5,2)", "DECIMAL(5,3)", "999.99"),
    ("DOUBLE", "FLOAT", "0.1"),
    ("DATETIME(6)", "DATETIME", "'2026-01-02 03:04:05.678901'"),
    ("TIME", "TIME(3)", "'-838:59:59'"),
    ("DECIMAL(40,2)", "DECIMAL(41,3)", "0.01"),
    ("TIME(6)", "TIME(3)", "'03:04:05.678901'"),
    ("VARCHAR(18)", "TIME", "'something'"),
    (f"VARCHAR(9) {UTF8}", f"VARCHAR(3) {UTF8}", "'abcdef'"),
    (f"VARCHAR(9) {UTF8}", f"CHAR(9) {UTF8}", "'a '"),
    (f"TEXT {UTF8}", f"TINYTEXT {UTF8}", "REPEAT('a', 300)"),
    (f"TEXT {LATIN}", f"TEXT {UTF8}", "REPEAT('€', 65535)"),
    (f"VARCHAR(64) {UTF8}", f"TINYTEXT {UTF8}", "REPEAT('😀', 64)"),
    (f"VARCHAR(9) {UTF8}", "VARCHAR(9) CHARACTER SET utf8mb3", "'😀'"),
    (f"VARCHAR(9) {UTF8}", f"VARCHAR(9) {LATIN}", "'ł'"),
    ("BINARY(3)", "BINARY(5)", "X'010203'"),
    ("VARBINARY(3)", "BINARY(3)", "X'01'"),
    ("VARBINARY(9)", "VARBINARY(3)", "X'010203040506'"),
    (f"ENUM('a','b') {UTF8}", f"ENUM('a','c') {UTF8}", "'b'"),
    (f"ENUM('a','b') {UTF8}", f"ENUM('a') {UTF8}", "'b'"),
    (f"SET('a','b') {UTF8}", f"SET('b','a') {UTF8}", "'a,b'"),
    ("INT NULL", "INT NOT NULL", "NULL"),
    (f"VARCHAR(9) {UTF8} NULL", f"VARCHAR(9) {UTF8} NOT NULL", "NULL"),
    ("INT", "INT AS (n + 7) STORED", "1"),
]


class Bent:
    """A table of one column, before and after it is altered as nobody's strict mode forbids."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def make(self, definition: str, values: tuple[str, ...]) -> None:
        self._cursor.execute("DROP TABLE IF EXISTS bent")
        self._cursor.execute(f"CREATE TABLE bent (n INT PRIMARY KEY, c {definition})")
        rows = ", ".join(f"({n}, {value})" for n, value in enumerate(values))
        self._cursor.execute(f"INSERT INTO bent VALUES {rows}")

    def alter(self, definition: str) -> None:
        self._cursor.execute(f"ALTER TABLE bent MODIFY c {definition}")

    def seen(self) -> tuple[str, list[Any]]:
        """The declaration, and the values as files hold them."""
        table = described(self._cursor, "bent")
        ways = map_columns(table, SETTINGS)
        self._cursor.execute(f"SELECT {', '.join(way.select for way in ways)} FROM bent ORDER BY n")
        columns = zip(*self._cursor.fetchall(), strict=True)
        arrays = [pa.array(column, SOURCE_ARROW_TYPES[way.travel]) for way, column in zip(ways, columns, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, names=[way.name for way in ways])
        return describe_columns(table, ways)["c"], Conversion(ways, Policies()).convert(batch).batch["c"].to_pylist()


@pytest.fixture
def bent(cursor: Any) -> Iterator[Bent]:
    cursor.execute("SET @was = @@sql_mode, sql_mode = ''")
    yield Bent(cursor)
    cursor.execute("SET sql_mode = @was")


@pytest.mark.parametrize("case", KEEPS, ids=lambda case: f"{case[0]} to {case[1]}")
def test_what_is_told_nobody_changes_no_value(bent: Bent, case: tuple[str, ...]) -> None:
    was, now, *values = case
    bent.make(was, tuple(values))
    declared, held = bent.seen()

    bent.alter(now)

    became, found = bent.seen()
    assert not may_change_values(declared, became)
    assert found == held


@pytest.mark.parametrize("case", BENDS, ids=lambda case: f"{case[0]} to {case[1]}")
def test_what_changes_values_is_told(bent: Bent, case: tuple[str, ...]) -> None:
    was, now, *values = case
    bent.make(was, tuple(values))
    declared, held = bent.seen()

    bent.alter(now)

    became, found = bent.seen()
    assert may_change_values(declared, became)
    assert found != held
