"""Work of one Spark task: the rows of one window become parts in the lake."""

import functools
import gc
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from syncd.datatypes.columns import ColumnMapping, Policies
from syncd.lake.object_keys import part_key
from syncd.lake.read_requests import NULL_CURSOR_COUNT, OrderField
from syncd.parquet.batch_conversion import Conversion
from syncd.parquet.window_check import WindowCheck
from syncd.s3.lake_client import S3Lake
from syncd.s3.parts_writer import PartsWriter
from syncd.settings import LakeSettings
from watermarks.errors import HintedError
from watermarks.window import Window

MERGED_BATCH_ROWS: Final = 16_384
MERGED_BATCH_BYTES: Final = 16 << 20
"""Batches of this size amortize the work per batch."""
RESULT_COLUMN: Final = "result"
"""The one column of a task's result, with one row of JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTaskSpec:
    """Parameters of the tasks of one read; the SQL statements go to the JVM only."""

    windows: tuple[Window | None, ...]
    first_window: int
    """Number of the first of these windows in its batch."""
    columns: tuple[ColumnMapping, ...]
    order: tuple[OrderField, ...]
    keys: frozenset[str]
    cursor_field: str | None
    """The field of the order column, in which NULLs are counted."""
    policies: Policies
    prefix: str
    quarantine_prefix: str
    batch: int
    nonce: str
    part_bytes: int
    lake: LakeSettings


def rename_fields(batches: Iterable[pa.RecordBatch], names: list[str]) -> Iterator[pa.RecordBatch]:
    """Return the same batches with these field names, in their order."""
    return (batch if batch.schema.names == names else batch.rename_columns(names) for batch in batches)


def merge_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in larger batches: work per batch costs as much for a small one."""
    waiting, rows, size = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= MERGED_BATCH_ROWS or size >= MERGED_BATCH_BYTES:
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


@functools.cache
def _cached_lake(settings: LakeSettings) -> S3Lake:
    """Return one client for all tasks of a worker: making one takes longer than a small window."""
    lake = S3Lake.from_settings(settings)
    # PySpark runs a garbage collection after each task. The objects of now stay, so exempt them.
    gc.freeze()
    return lake


class WindowWriter:
    """Writer of the parts of this task's window, one after the other, and of its refused rows."""

    def __init__(self, work: ReadTaskSpec) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition, attempt = (context.partitionId(), context.taskAttemptId()) if context else (0, 0)
        number = work.first_window + partition
        keys = work.keys | {field.name for field in work.order}
        self._conversion = Conversion(work.columns, work.policies, keys)
        self._check = WindowCheck(work.windows[partition], work.order, work.columns)
        attempted = f"{work.nonce}-{attempt}"
        parts = functools.partial(
            PartsWriter,
            lake=lambda: _cached_lake(work.lake),
            mappings=work.columns,
            batch=work.batch,
            part_bytes=work.part_bytes,
        )
        named = functools.partial(part_key, window=number, attempt=attempted)
        self._parts = parts(key=functools.partial(named, work.prefix), refused=False)
        self._refused_parts = parts(key=functools.partial(named, work.quarantine_prefix), refused=True)
        self._cursor = work.cursor_field
        self._troubles: Counter[str] = Counter()

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of the window and yield the result.

        Errors are returned as data: through Spark they would arrive as text.
        """
        result: dict[str, Any]
        try:
            for batch in merge_batches(batches):
                self._write_batch(batch)
            result = {
                "parts": [part.to_fields() for part in self._parts.finish()],
                "quarantined": [part.to_fields() for part in self._refused_parts.finish()],
                "troubles": dict(self._troubles),
            }
        except HintedError as error:
            self._abort()
            result = {"error": type(error).__name__, "message": error.message, "hint": error.hint}
        except Exception:
            # The stream from the JVM broke, or this is a bug: Spark reports both.
            self._abort()
            raise
        yield pa.record_batch({RESULT_COLUMN: pa.array([json.dumps(result)])})

    def _write_batch(self, batch: pa.RecordBatch) -> None:
        span = self._check.check(batch)
        done = self._conversion.convert(batch)
        self._troubles.update(done.troubles)
        if self._cursor is not None and (nulls := batch.column(self._cursor).null_count):
            self._troubles[NULL_CURSOR_COUNT] += nulls
        self._parts.write(done.batch, span if done.refused is None else self._check.span(done.source_batch))
        if done.refused is not None:
            self._refused_parts.write(done.refused, None)

    def _abort(self) -> None:
        self._parts.abort()
        self._refused_parts.abort()
