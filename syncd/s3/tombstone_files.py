"""Writes the keys of rows that are gone to the files of a batch."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from syncd.datatypes.columns import Passage
from syncd.lake.batch_number import number_of
from syncd.lake.keys import day_prefix, part_key
from syncd.lake.window_reads import Part
from syncd.parquet.batch_conversion import file_schema
from syncd.parquet.part_writer import PartWriter
from syncd.s3.lake_client import Lake
from watermarks.batch import BatchId
from watermarks.cursor import START
from watermarks.names import StreamName

AT_ONCE: Final = 50_000
"""Keys of one record batch: what is held in memory."""


def write_keys(
    lake: Lake,
    stream: StreamName,
    keys: Iterable[Mapping[str, Any]],
    *,
    at: datetime,
    nonce: str,
    batch: BatchId,
    passages: Sequence[Passage],
) -> tuple[Part, ...]:
    """The keys, as files hold their values, in one file under the day of `at`; no key, no file."""
    rows = iter(keys)
    first = list(islice(rows, AT_ONCE))
    if not first:
        return ()
    key = part_key(day_prefix(stream, batch, at), window=0, number=0, attempt=nonce)
    made = lake.new(key)
    with PartWriter(made, passages, batch=number_of(batch)) as writer:
        some = first
        while some:
            for each in pa.Table.from_pylist([dict(one) for one in some], schema=file_schema(passages)).to_batches():
                writer.write(each)
            some = list(islice(rows, AT_ONCE))
        written = writer.close()
    stood = made.finish()
    return (
        Part(
            key=key,
            etag=stood.etag,
            bytes=written.bytes,
            rows=written.rows,
            sha256=written.sha256,
            low=START,
            high=START,
            widths=written.widths,
        ),
    )
