"""Writing of parts: rows that pass, refused rows, and keys of deleted rows; a file without rows is never written."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from syncd.datatypes.columns import ColumnMapping
from syncd.lake.batch_number import batch_to_number
from syncd.lake.object_keys import day_prefix, part_key
from syncd.lake.read_requests import Part
from syncd.parquet.batch_conversion import file_schema
from syncd.parquet.part_writer import PartWriter, WrittenPart
from syncd.parquet.window_check import PositionSpan
from syncd.s3.lake_client import ObjectUpload, S3Lake, WrittenObject
from watermarks.batch import BatchId
from watermarks.names import StreamName

COMPRESSION_FACTOR: Final = 4
"""Approximate ratio of Arrow's bytes to a file's, for rows that wait for their row group."""
KEYS_PER_RECORD_BATCH: Final = 50_000
"""Keys in memory while keys of deleted rows are written."""


def make_part(key: str, written: WrittenPart, stored: WrittenObject) -> Part:
    """Return the part of a Parquet file that is stored at a key."""
    return Part(
        key=key,
        etag=stored.etag,
        bytes=stored.bytes,
        rows=written.rows,
        sha256=written.sha256,
        low=written.low,
        high=written.high,
        widths=written.widths,
    )


@dataclass(slots=True, kw_only=True)
class PartsWriter:
    """Writes batches to as many parts as they fill; opens the lake with the first row."""

    lake: Callable[[], S3Lake]
    key: Callable[..., str]
    """Returns the key of the part with a `number`."""
    mappings: Sequence[ColumnMapping]
    batch: int
    part_bytes: int
    refused: bool
    done: list[Part] = field(default_factory=list[Part])
    """The parts that are stored."""
    _object: ObjectUpload | None = None
    _writer: PartWriter | None = None

    def write(self, batch: pa.RecordBatch, span: PositionSpan | None) -> None:
        if not batch.num_rows:
            return
        if self._writer is None:
            self._object = self.lake().new_object(self.key(number=len(self.done)))
            self._writer = PartWriter(self._object, self.mappings, batch=self.batch, refused=self.refused)
        self._writer.write(batch, span)
        if self._writer.bytes_written + self._writer.bytes_waiting // COMPRESSION_FACTOR >= self.part_bytes:
            self.finish()

    def finish(self) -> list[Part]:
        """Store the part that is being written, if there is one; return all that are stored."""
        if self._writer is not None and self._object is not None:
            written, stored = self._writer.close(), self._object.finish()
            assert stored.bytes == written.bytes
            self.done.append(make_part(self._object.key, written, stored))
            self._object = self._writer = None
        return self.done

    def abort(self) -> None:
        """Abandon the part that is not finished; the caller deletes those that are stored."""
        if self._writer is not None:
            self._writer.abandon()
        if self._object is not None:
            self._object.abort()


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
    """Write the keys of deleted rows, as files hold their values, to one file under the day of `at`."""
    rows = iter(keys)
    chunk = list(islice(rows, KEYS_PER_RECORD_BATCH))
    if not chunk:
        return ()
    upload = lake.new_object(part_key(day_prefix(stream, batch, at), window=0, number=0, attempt=nonce))
    with PartWriter(upload, mappings, batch=batch_to_number(batch)) as writer:
        while chunk:
            for each in pa.Table.from_pylist([dict(row) for row in chunk], schema=file_schema(mappings)).to_batches():
                writer.write(each)
            chunk = list(islice(rows, KEYS_PER_RECORD_BATCH))
        written = writer.close()
    return (make_part(upload.key, written, upload.finish()),)
