"""Writes the keys of rows that are gone to the files of a batch."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from syncd.datatypes.columns import ColumnMapping
from syncd.lake.batch_number import batch_to_number
from syncd.lake.keys import day_prefix, part_key
from syncd.lake.window_reads import Part
from syncd.parquet.batch_conversion import file_schema
from syncd.parquet.part_writer import PartWriter
from syncd.s3.lake_client import S3Lake
from watermarks.batch import BatchId
from watermarks.cursor import START_CURSOR
from watermarks.names import StreamName

KEYS_PER_RECORD_BATCH: Final = 50_000
"""Keys of one record batch: what is held in memory."""


def write_deleted_keys(
    lake: S3Lake,
    stream: StreamName,
    keys: Iterable[Mapping[str, Any]],
    *,
    at: datetime,
    nonce: str,
    batch: BatchId,
    mappings: Sequence[ColumnMapping],
) -> tuple[Part, ...]:
    """The keys, as files hold their values, in one file under the day of `at`; no key, no file."""
    rows = iter(keys)
    first = list(islice(rows, KEYS_PER_RECORD_BATCH))
    if not first:
        return ()
    key = part_key(day_prefix(stream, batch, at), window=0, number=0, attempt=nonce)
    made = lake.new_object(key)
    with PartWriter(made, mappings, batch=batch_to_number(batch)) as writer:
        some = first
        while some:
            for each in pa.Table.from_pylist([dict(one) for one in some], schema=file_schema(mappings)).to_batches():
                writer.write(each)
            some = list(islice(rows, KEYS_PER_RECORD_BATCH))
        written = writer.close()
    stood = made.finish()
    return (
        Part(
            key=key,
            etag=stood.etag,
            bytes=written.bytes,
            rows=written.rows,
            sha256=written.sha256,
            low=START_CURSOR,
            high=START_CURSOR,
            widths=written.widths,
        ),
    )
