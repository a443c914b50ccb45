import gc
import hashlib
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from docs.generate.type_tables import EXAMPLES
from syncd.datatypes.columns import ColumnMapping, LogicalType, PhysicalType
from syncd.datatypes.source_table import SourceColumn, SourceTable
from syncd.parquet.batch_conversion import REASON_COLUMN, Conversion, file_schema, refused_schema
from syncd.parquet.part_writer import PartWriter
from syncd.parquet.window_check import PositionSpan
from syncd.settings import StreamSettings
from syncd.tables.column_mapping import map_columns
from watermarks.cursor import START_CURSOR, Cursor


def ways(*columns: SourceColumn) -> tuple[ColumnMapping, ...]:
    table = SourceTable(database="shop", name="t", kind="BASE TABLE", engine="InnoDB", columns=columns, indexes=())
    return map_columns(table, StreamSettings(source="main", database="shop", table="t"))


ID = SourceColumn(name="id", data_type="bigint", column_type="bigint(20)")
NAME = SourceColumn(name="Name", data_type="varchar", column_type="varchar(99)", length=99, charset="utf8mb4")
BLOB = SourceColumn(name="raw", data_type="blob", column_type="blob", octets=65_535)


def people(first: int, count: int) -> pa.RecordBatch:
    rows = {
        "id": range(first, first + count),
        "name": ["é" * (i % 5) for i in range(count)],
        "raw": [None] * count,
    }
    return pa.RecordBatch.from_pydict(rows, schema=file_schema(ways(ID, NAME, BLOB)))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda column: column.column_type)
def test_file_has_the_physical_type_of_the_table(example: SourceColumn) -> None:
    (way,) = ways(example)
    sink = io.BytesIO()
    writer = PartWriter(sink, (way,), batch=1_000000000042)
    writer.write(pa.RecordBatch.from_pydict({"c": [None]}, schema=file_schema((way,))))
    writer.close()

    file = pq.ParquetFile(io.BytesIO(sink.getvalue()))
    leaf = file.schema.column(0)
    assert leaf.physical_type == way.parquet.physical
    assert leaf.converted_type == way.parquet.meaning
    assert leaf.max_definition_level == 1
    if way.parquet.physical is PhysicalType.FIXED:
        assert (leaf.precision, leaf.scale, leaf.length) == (
            way.parquet.precision,
            way.parquet.scale,
            way.parquet.length,
        )
    if way.parquet.meaning is LogicalType.TIMESTAMP_MICROS:
        assert "isAdjustedToUTC=true" in str(leaf.logical_type)


def test_file_is_of_the_oldest_format_with_encodings_that_every_reader_knows() -> None:
    sink = io.BytesIO()
    writer = PartWriter(sink, ways(ID, NAME, BLOB), batch=1_000000000042)
    writer.write(people(0, 10))
    writer.close()

    told = pq.ParquetFile(io.BytesIO(sink.getvalue())).metadata
    chunks = [told.row_group(0).column(i) for i in range(told.num_columns)]
    assert told.format_version == "1.0"
    assert {chunk.compression for chunk in chunks} == {"ZSTD"}
    assert {e for chunk in chunks for e in chunk.encodings} <= {"PLAIN", "PLAIN_DICTIONARY", "RLE"}
    assert told.metadata is None


def test_writer_tells_all_that_a_manifest_wants() -> None:
    sink = io.BytesIO()
    writer = PartWriter(sink, ways(ID, NAME, BLOB), batch=1_000000000042)
    writer.write(people(0, 5), PositionSpan(Cursor.from_values(0), Cursor.from_values(4)))
    writer.write(people(5, 3), PositionSpan(Cursor.from_values(5), Cursor.from_values(7)))

    written = writer.close()

    assert (written.rows, written.bytes) == (8, len(sink.getvalue()))
    assert written.sha256 == hashlib.sha256(sink.getvalue()).hexdigest()
    assert (written.low, written.high) == (Cursor.from_values(0), Cursor.from_values(7))
    assert written.widths == {"name": 8}


def test_rows_come_back_in_order_from_groups_of_bounded_size() -> None:
    sink = io.BytesIO()
    writer = PartWriter(sink, ways(ID, NAME, BLOB), batch=1_000000000042, group_rows=100)
    for first in range(0, 1_000, 60):
        writer.write(people(first, min(60, 1_000 - first)))
    writer.close()

    file = pq.ParquetFile(io.BytesIO(sink.getvalue()))
    assert file.read()["id"].to_pylist() == list(range(1_000))
    assert max(file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)) < 160


def test_bytes_leave_as_groups_fill_so_that_memory_is_bounded() -> None:
    sink = io.BytesIO()
    writer = PartWriter(sink, ways(ID, NAME, BLOB), batch=1_000000000042, group_bytes=10_000)
    most = 0
    for first in range(0, 10_000, 100):
        writer.write(people(first, 100))
        most = max(most, writer.bytes_waiting)

    assert most <= 10_000
    assert writer.bytes_written > 0
    assert (writer.rows, writer.close().rows) == (10_000, 10_000)


def test_part_without_rows_is_a_file_without_rows() -> None:
    sink = io.BytesIO()

    written = PartWriter(sink, ways(ID), batch=1_000000000042).close()

    assert (written.rows, written.low, written.high) == (0, START_CURSOR, START_CURSOR)
    assert pq.read_table(io.BytesIO(sink.getvalue())).num_rows == 0


def test_refused_rows_have_a_file_of_their_own() -> None:
    (way,) = ways(NAME)
    travelled = pa.RecordBatch.from_pydict({"name": [b"x" * 500, b"fits"]}, schema=pa.schema([("name", pa.binary())]))
    refused = Conversion((way,)).convert(travelled).refused
    sink = io.BytesIO()
    writer = PartWriter(sink, (way,), batch=1_000000000042, refused=True)

    writer.write(refused)
    writer.close()

    read = pq.read_table(io.BytesIO(sink.getvalue()))
    assert read.schema == refused_schema((way,))
    assert read.to_pylist() == [{"name": b"x" * 500, REASON_COLUMN: "Name: oversize"}]


class Fragile:
    """A sink that breaks at a certain write, and counts what comes after."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.after = 0

    def write(self, data: bytes, /) -> object:
        self.left -= 1
        self.after += self.left < 0
        if self.left == 0:
            raise OSError("no room")
        return len(data)


@pytest.mark.parametrize("at", range(1, 6))
def test_sink_that_breaks_is_heard_and_left_alone(at: int) -> None:
    sink = Fragile(at)

    def write() -> None:
        writer = PartWriter(sink, ways(ID, NAME, BLOB), batch=1_000000000042, group_rows=1)
        writer.write(people(0, 10))
        writer.close()

    with pytest.raises(OSError, match="no room"):
        write()
    gc.collect()

    assert sink.after == 0


def test_part_that_is_left_by_an_error_sends_nothing_more() -> None:
    sink = io.BytesIO()

    def write() -> None:
        with PartWriter(sink, ways(ID, NAME, BLOB), batch=1_000000000042) as writer:
            writer.write(people(0, 10))
            raise ValueError("elsewhere")

    with pytest.raises(ValueError, match="elsewhere"):
        write()
    gc.collect()

    assert sink.getvalue() == b"PAR1"
