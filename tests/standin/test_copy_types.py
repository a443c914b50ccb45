"""Physical type and annotation of a Parquet column against the type of the table's column."""

from typing import Any

import pyarrow as pa
import pytest

from syncd.sandbox.redshift.copy import csv_rows
from tests.standin.clients import Bucket, Client

pytestmark = [pytest.mark.services, pytest.mark.fact("11.4")]


def one(kind: pa.DataType) -> pa.Table:
    return pa.table({"c": pa.array([None], kind)})


@pytest.mark.parametrize(
    ("column", "kind", "options"),
    [
        ("smallint", pa.int16(), {}),
        ("smallint", pa.int8(), {}),
        ("integer", pa.int32(), {}),
        ("bigint", pa.int64(), {}),
        ("real", pa.float32(), {}),
        ("double precision", pa.float64(), {}),
        ("decimal(9,2)", pa.decimal128(9, 2), {}),
        ("decimal(9,2)", pa.decimal128(9, 2), {"store_decimal_as_integer": True}),
        ("decimal(18,2)", pa.decimal128(18, 2), {}),
        ("decimal(18,2)", pa.decimal128(18, 2), {"store_decimal_as_integer": True}),
        ("decimal(20,0)", pa.decimal128(20, 0), {}),
        ("decimal(38,10)", pa.decimal128(38, 10), {}),
        ("varchar(10)", pa.string(), {}),
        ("char(10)", pa.string(), {}),
        ("varbyte(10)", pa.binary(), {}),
        ("boolean", pa.bool_(), {}),
        ("date", pa.date32(), {}),
        ("timestamp", pa.timestamp("us", "UTC"), {}),
        ("timestamptz", pa.timestamp("us", "UTC"), {}),
        ("timestamp", pa.timestamp("us"), {"use_deprecated_int96_timestamps": True}),
        ("timestamptz", pa.timestamp("us"), {"use_deprecated_int96_timestamps": True}),
    ],
)
def test_pair_that_is_known_to_load(
    client: Client, bucket: Bucket, column: str, kind: pa.DataType, options: dict[str, Any]
) -> None:
    assert client.copy(client.table(f"c {column}"), bucket.manifest_of(one(kind), **options)) == 1


@pytest.mark.stricter
@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("smallint", pa.int32()),
        ("smallint", pa.uint8()),
        ("smallint", pa.int64()),
        ("integer", pa.int16()),
        ("integer", pa.int64()),
        ("integer", pa.uint16()),
        ("integer", pa.string()),
        ("bigint", pa.int32()),
        ("bigint", pa.uint32()),
        ("bigint", pa.uint64()),
        ("bigint", pa.timestamp("us", "UTC")),
        ("real", pa.float64()),
        ("double precision", pa.float32()),
        ("double precision", pa.decimal128(9, 2)),
        ("decimal(9,2)", pa.float64()),
        ("decimal(9,2)", pa.int32()),
        ("decimal(9,2)", pa.decimal128(9, 3)),
        ("decimal(18,2)", pa.decimal128(17, 2)),
        ("varchar(10)", pa.int32()),
        ("varchar(10)", pa.binary()),
        ("varbyte(10)", pa.string()),
        ("varbyte(10)", pa.binary(4)),
        ("boolean", pa.int8()),
        ("boolean", pa.int32()),
        ("date", pa.timestamp("us", "UTC")),
        ("date", pa.int32()),
        ("timestamp", pa.date32()),
        ("timestamp", pa.int64()),
        ("timestamp", pa.timestamp("us")),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("timestamp", pa.timestamp("ns", "UTC")),
        ("timestamptz", pa.timestamp("us")),
        ("time", pa.time64("us")),
        ("varchar(10)", pa.list_(pa.int32())),
        ("integer", pa.struct([("x", pa.int32())])),
    ],
)
def test_pair_that_differs_or_is_in_doubt_is_refused(
    client: Client, bucket: Bucket, column: str, kind: pa.DataType
) -> None:
    table = client.table(f"c {column}")

    refused = client.copy_refused(table, bucket.manifest_of(one(kind)))

    assert refused["M"] == "Spectrum Scan Error"
    assert client.value(f"select count(*) from {table}") == 0


def test_refusal_says_the_exact_sentence_and_cuts_it_in_the_message(client: Client, bucket: Bucket) -> None:
    table = client.table("first integer, c smallint")
    file = pa.table({"x": pa.array([1], pa.int32()), "c": pa.array([1], pa.int32())})

    refused = client.copy_refused(table, bucket.manifest_of(file))

    sentence = client.load_error()
    assert f"' has an incompatible Parquet schema for column '{bucket.at('data/')}" in sentence
    assert sentence.endswith("part.parquet.c'. Column type: SMALLINT, Parquet schema:\noptional int32 c [i:1 d:1 r:0]")
    assert "has an incompatible Parquet schema" in refused["D"]
    assert client.rows(
        "select column_name, column_type, error_code from sys_load_error_detail order by query_id desc limit 1"
    ) == [["c", "SMALLINT", 15007]]


def test_required_and_optional_make_no_difference(client: Client, bucket: Bucket) -> None:
    schema = pa.schema([pa.field("c", pa.int32(), nullable=False)])
    file = pa.table({"c": pa.array([1], pa.int32())}, schema=schema)

    assert client.copy(client.table("c integer"), bucket.manifest_of(file)) == 1


def test_decimal_length_must_be_that_of_the_columns_precision(client: Client, bucket: Bucket) -> None:
    table = client.table("num decimal(18,9)")
    file = pa.table({"num": pa.array([None], pa.decimal128(29, 9))})

    refused = client.copy_refused(table, bucket.manifest_of(file))

    assert "15001" in refused["D"]
    assert "column 'num' has an invalid type length. Expecting: 8 len in file: 13" in client.load_error()


def test_dictionary_and_many_row_groups_load(client: Client, bucket: Bucket) -> None:
    file = pa.table({"c": pa.array([f"v{i % 7}" for i in range(1000)])})
    table = client.table("c varchar(2)")

    assert client.copy(table, bucket.manifest_of(file, row_group_size=100)) == 1000
    assert client.value(f"select count(distinct c) from {table}") == 7


def test_empty_file_loads_no_row(client: Client, bucket: Bucket) -> None:
    assert client.copy(client.table("c integer"), bucket.manifest_of(one(pa.int32()).slice(0, 0))) == 0


def test_row_group_too_large_for_one_piece_is_read_in_several(
    client: Client, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_rows, "MAX_WHOLE_GROUP_BYTES", 0)
    file = pa.table({"c": pa.array(range(50_000), pa.int64())})
    table = client.table("c bigint")

    assert client.copy(table, bucket.manifest_of(file, row_group_size=20_000)) == 50_000
    assert client.rows(f"select sum(c), count(distinct c) from {table}") == [[sum(range(50_000)), 50_000]]
