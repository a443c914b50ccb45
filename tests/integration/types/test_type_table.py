"""Each type and edge value: from a real server to Parquet by the product, against what the server itself prints."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from syncd.datatypes.columns import ColumnMapping, Policies, Policy
from syncd.parquet.batch_conversion import Conversion, Converted
from syncd.parquet.column_values import SOURCE_ARROW_TYPES
from syncd.parquet.part_writer import PartWriter
from syncd.sandbox.running_sandbox import Sandbox
from syncd.settings import StreamSettings
from syncd.tables.column_mapping import map_columns
from tests.services.type_table import CASES, Case, canonical, create, described, expected

pytestmark = pytest.mark.services
POLICIES = Policies(invalid_text=Policy.QUARANTINE)


def ways(cursor: Any, case: Case) -> tuple[ColumnMapping, ...]:
    boolean = ("c",) if case.boolean else ()
    settings = StreamSettings(source="main", database="shop", table=case.table, boolean=boolean)
    return map_columns(described(cursor, case.table), settings)


def read(cursor: Any, table: str, ways: tuple[ColumnMapping, ...]) -> pa.RecordBatch:
    """What a driver without opinions gets."""
    fields = ", ".join(f"{way.select} AS `{way.name}`" for way in ways)
    cursor.execute(f"SELECT {fields} FROM {table} ORDER BY n")
    columns = zip(*cursor.fetchall(), strict=True)
    arrays = [pa.array(column, SOURCE_ARROW_TYPES[way.travel]) for way, column in zip(ways, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[way.name for way in ways])


def through_parquet(converted: Converted, ways: tuple[ColumnMapping, ...]) -> pa.Table:
    sink = io.BytesIO()
    writer = PartWriter(sink, ways, batch=1_000000000042)
    writer.write(converted.batch)
    writer.close()
    return pq.read_table(io.BytesIO(sink.getvalue()))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_value_arrives_as_the_server_prints_it(server: tuple[str, Sandbox], cursor: Any, case: Case) -> None:
    if server[0] not in case.on:
        pytest.skip(f"{server[0]} has no such type or value")
    create(cursor, case)
    found = ways(cursor, case)

    converted = Conversion(found, POLICIES).convert(read(cursor, case.table, found))

    arrived = through_parquet(converted, found)
    assert canonical(arrived["n"].to_pylist(), arrived["c"]) == expected(cursor, case)
    assert converted.troubles == case.troubles
    refused = set() if converted.refused is None else set(converted.refused["n"].to_pylist())
    assert refused == case.refused
