"""Values longer than the server's `max_allowed_packet`: it makes NULL or nothing of them, and only warns."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from syncd.datatypes.columns import Policies, Policy
from syncd.mysql.connection import session_setup_statement
from syncd.parquet.batch_conversion import Conversion, Converted
from syncd.parquet.column_values import SOURCE_ARROW_TYPES
from syncd.sandbox.running_sandbox import Sandbox
from syncd.settings import StreamSettings
from syncd.tables.column_mapping import map_columns
from tests.services.type_table import described

pytestmark = pytest.mark.services

SHORT_PACKETS = 1 << 20
LONG = 1_200_000
"""Bytes: more than the packets of the reading session."""
POLICIES = Policies(invalid_text=Policy.QUARANTINE)


@pytest.fixture
def reader(server: tuple[str, Sandbox], cursor: Any) -> Iterator[Any]:
    """A session whose server allows shorter packets than it did when the values were written."""
    cursor.execute("SELECT @@GLOBAL.max_allowed_packet")
    [(before,)] = cursor.fetchall()
    cursor.execute(f"SET GLOBAL max_allowed_packet = {SHORT_PACKETS}")
    try:
        with server[1].mysql.connect() as connection, connection.cursor() as opened:
            opened.execute(session_setup_statement(60))
            yield opened
    finally:
        cursor.execute(f"SET GLOBAL max_allowed_packet = {before}")


def converted(cursor: Any, reader: Any, ddl: str, value: str, *, then: str = "") -> Converted:
    """What comes of one row with the value, which is written as the first type and may become another one then."""
    cursor.execute("DROP TABLE IF EXISTS longer")
    cursor.execute(f"CREATE TABLE longer (n BIGINT NOT NULL PRIMARY KEY, c {ddl})")
    cursor.execute(f"INSERT INTO longer VALUES (1, {value})")
    if then:
        cursor.execute(f"ALTER TABLE longer MODIFY c {then}")
    settings = StreamSettings(source="main", database="shop", table="longer")
    ways = map_columns(described(cursor, "longer"), settings)
    reader.execute(f"SELECT {', '.join(way.select for way in ways)} FROM longer")
    [row] = reader.fetchall()
    arrays = [pa.array([value], SOURCE_ARROW_TYPES[way.travel]) for value, way in zip(row, ways, strict=True)]
    return Conversion(ways, POLICIES).convert(pa.RecordBatch.from_arrays(arrays, names=[way.name for way in ways]))


def test_bytes_arrive_whole(cursor: Any, reader: Any) -> None:
    found = converted(cursor, reader, "longblob", f"REPEAT(X'FF', {LONG})")

    assert found.batch["c"].to_pylist() == [b"\xff" * LONG]


@pytest.mark.parametrize(
    "ddl", ["longtext character set utf8mb4", "longtext character set latin1", "longtext character set cp1251"]
)
def test_text_is_too_long_and_not_null(cursor: Any, reader: Any, ddl: str) -> None:
    found = converted(cursor, reader, ddl, f"REPEAT('x', {LONG})")

    assert found.troubles == {"oversize.quarantine": 1}


def test_text_that_is_no_longer_than_a_packet_before_it_is_converted_is_not_null(cursor: Any, reader: Any) -> None:
    found = converted(cursor, reader, "longtext character set latin1", f"REPEAT('é', {LONG // 2})")

    assert found.troubles == {"oversize.quarantine": 1}


def test_text_that_no_character_set_can_read_is_not_null(cursor: Any, reader: Any) -> None:
    broken = f"CONCAT(REPEAT('x', {LONG}), X'98')"
    found = converted(cursor, reader, "longblob", broken, then="longtext character set cp1251")

    assert found.troubles == {"invalid_text.quarantine": 1}


def test_a_document_is_too_long_and_not_empty(cursor: Any, reader: Any) -> None:
    found = converted(cursor, reader, "json", f"JSON_ARRAY(REPEAT('x', {LONG}))")

    assert found.troubles == {"oversize.quarantine": 1}
    assert found.batch.num_rows == 0
