"""Questions that only a live cluster can settle (facts, section 12): each prints the answer and never fails."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from redshift_connector.error import ProgrammingError

from tests.standin.clients import Bucket, Client, entry

DOUBTS: dict[str, tuple[str, pa.Array, dict[str, Any]]] = {
    "INT64 microseconds not adjusted to UTC": (
        "timestamp",
        pa.array([dt.datetime(2023, 9, 11, 1, 2, 3)], pa.timestamp("us")),  # noqa: DTZ001  # that is the question
        {},
    ),
    "INT32 into BIGINT": ("bigint", pa.array([1], pa.int32()), {}),
    "INT_16 into INTEGER": ("integer", pa.array([1], pa.int16()), {}),
    "UINT_16 into INTEGER": ("integer", pa.array([1], pa.uint16()), {}),
    "DECIMAL(17,2) into DECIMAL(18,2)": ("decimal(18,2)", pa.array([None], pa.decimal128(17, 2)), {}),
    "BOOLEAN from INT32": ("boolean", pa.array([1], pa.int32()), {}),
    "unannotated bytes into VARCHAR": ("varchar(9)", pa.array([b"a"], pa.binary()), {}),
    "NUL inside a string": ("varchar(9)", pa.array(["a\0b"]), {}),
    "INT96 before 1970": (
        "timestamp",
        pa.array([dt.datetime(1900, 1, 1)], pa.timestamp("us")),  # noqa: DTZ001  # INT96 has no zone
        {"use_deprecated_int96_timestamps": True},
    ),
    "LZ4": ("integer", pa.array([1], pa.int32()), {"compression": "lz4"}),
    "Brotli": ("integer", pa.array([1], pa.int32()), {"compression": "brotli"}),
    "data page version 2": ("integer", pa.array([1], pa.int32()), {"data_page_version": "2.0"}),
}


def told(action: Callable[[], object]) -> str:
    try:
        return f"accepted: {action()}"
    except ProgrammingError as error:
        return f"refused: {error.args[0].get('M')} {error.args[0].get('D', '')}"


@pytest.mark.parametrize("doubt", DOUBTS)
def test_what_a_load_makes_of(client: Client, bucket: Bucket, doubt: str, record_property: Any) -> None:
    kind, values, options = DOUBTS[doubt]
    table = client.table(f"c {kind}")
    manifest = bucket.manifest_of(pa.table({"c": values}), **options)

    answer = told(lambda: (client.copy(table, manifest), client.rows(f"select * from {table}")))

    record_property(doubt, answer)
    print(f"{doubt}: {answer}")  # noqa: T201  # the answer is the point


def test_what_a_wrong_length_does(client: Client, bucket: Bucket, record_property: Any) -> None:
    table = client.table("c integer")
    location, size = bucket.parquet(pa.table({"c": pa.array([1], pa.int32())}))

    answer = told(lambda: client.copy(table, bucket.manifest([entry(location, size + 1)])))

    record_property("wrong content_length", answer)
    print(f"wrong content_length: {answer}")  # noqa: T201  # as above


def test_what_remove_duplicates_makes_of_duplicates(client: Client, record_property: Any) -> None:
    target, source = client.table("k integer, v integer"), client.table("k integer, v integer")
    client.run(f"insert into {target} values (1, 0)")
    client.run(f"insert into {source} values (1, 1), (1, 2), (2, 3), (2, 4)")

    def merge() -> object:
        client.run(f"merge into {target} using {source} s on {target}.k = s.k remove duplicates")
        return client.rows(f"select k, v from {target} order by k, v")

    answer = told(merge)

    record_property("MERGE REMOVE DUPLICATES with duplicate source keys", answer)
    print(f"MERGE REMOVE DUPLICATES with duplicate source keys: {answer}")  # noqa: T201  # as above
