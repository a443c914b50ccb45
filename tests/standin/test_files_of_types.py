"""A file with every type of the table loads into the types that the table declares, and arrives as it was written."""

import datetime as dt
import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from docs.generate.type_tables import EXAMPLES
from syncd.datatypes.columns import ColumnMapping, LogicalType, PhysicalType
from syncd.datatypes.source_table import SourceColumn, SourceTable
from syncd.parquet.batch_conversion import file_schema
from syncd.parquet.part_writer import PartWriter
from syncd.settings import StreamSettings
from syncd.tables.column_mapping import map_columns
from tests.standin.clients import Bucket, Client, entry, numbers

pytestmark = [pytest.mark.services, pytest.mark.fact("2.1")]


def way_of(column: SourceColumn, *, boolean: bool = False) -> ColumnMapping:
    table = SourceTable(database="shop", name="t", kind="BASE TABLE", engine="InnoDB", columns=(column,), indexes=())
    settings = StreamSettings(source="main", database="shop", table="t", boolean=("c",) if boolean else ())
    (way,) = map_columns(table, settings)
    return way


def edges(way: ColumnMapping) -> list[Any]:
    """The lowest and the highest that a file can hold of this type."""
    precision, scale = way.parquet.precision or 1, way.parquet.scale or 0
    digits = Decimal("9" * (precision - scale) + "." + "9" * scale)
    found: dict[tuple[PhysicalType, LogicalType], list[Any]] = {
        (PhysicalType.BOOLEAN, LogicalType.NONE): [False, True],
        (PhysicalType.INT32, LogicalType.INT_16): [-(2**15), 2**15 - 1],
        (PhysicalType.INT32, LogicalType.NONE): [-(2**31), 2**31 - 1],
        (PhysicalType.INT64, LogicalType.NONE): [-(2**63), 2**63 - 1],
        (PhysicalType.FIXED, LogicalType.DECIMAL): [digits.copy_negate(), digits],
        (PhysicalType.DOUBLE, LogicalType.NONE): [-1.7976931348623157e308, 2.2250738585072014e-308],
        (PhysicalType.INT32, LogicalType.DATE): [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
        (PhysicalType.INT64, LogicalType.TIMESTAMP_MICROS): [
            dt.datetime(1, 1, 1, tzinfo=dt.UTC),
            dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC),
        ],
        (PhysicalType.BYTE_ARRAY, LogicalType.UTF8): ["", "x" * (way.limit or 1)],
        (PhysicalType.BYTE_ARRAY, LogicalType.NONE): [b'{"a": "\xc3\xa9"}'[: way.limit]] * 2,
    }
    return [None, *found[way.parquet.physical, way.parquet.meaning]]


def put(bucket: Bucket, way: ColumnMapping, values: list[Any]) -> str:
    sink = io.BytesIO()
    writer = PartWriter(sink, [way], batch=1_000000000042)
    writer.write(pa.RecordBatch.from_pydict({way.name: values}, schema=file_schema([way])))
    writer.close()
    location = bucket.put(f"data/{next(numbers)}/part.parquet", sink.getvalue())
    return bucket.manifest([entry(location, len(sink.getvalue()))])


@pytest.mark.parametrize("column", EXAMPLES, ids=lambda column: column.column_type)
def test_file_of_the_type_loads_and_arrives(client: Client, bucket: Bucket, column: SourceColumn) -> None:
    way = way_of(column)
    values = edges(way)
    table = client.table(f"c {way.scratch_type}, b bigint")

    assert client.copy(table, put(bucket, way, values)) == len(values)

    shown = "to_hex(c)" if "VARBYTE" in way.scratch_type else "c"
    arrived = [row[0] for row in client.rows(f"select {shown} from {table}")]
    plain = [v.replace(tzinfo=None) if isinstance(v, dt.datetime) else v for v in values]
    wanted = [v.hex() if isinstance(v, bytes) else v for v in plain]
    assert sorted(arrived, key=repr) == sorted(wanted, key=repr)


def test_tinyint_called_boolean_loads_as_boolean(client: Client, bucket: Bucket) -> None:
    way = way_of(SourceColumn(name="c", data_type="tinyint", column_type="tinyint(1)"), boolean=True)
    table = client.table(f"c {way.redshift}, b bigint")

    assert client.copy(table, put(bucket, way, [True, False, None])) == 3


def test_document_reaches_super_through_the_scratch_column(client: Client, bucket: Bucket) -> None:
    way = way_of(SourceColumn(name="c", data_type="json", column_type="json"))
    scratch, target = client.table(f"c {way.scratch_type}, b bigint"), client.table(f"c {way.redshift}")
    client.copy(scratch, put(bucket, way, [b'{"a": [1, "\xc3\xa9"]}', None]))

    client.run(f"insert into {target} select json_parse(c) from {scratch}")

    assert client.rows(f"select c from {target} where c is not null") == [['{"a":[1,"é"]}']]
