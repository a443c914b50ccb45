"""Writer of Parquet parts in the form that COPY needs, with bounded memory."""

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from syncd.datatypes.columns import ColumnMapping
from syncd.lake.batch_number import BATCH_COLUMN
from syncd.parquet.batch_conversion import file_schema, refused_schema
from syncd.parquet.window_check import PositionSpan
from watermarks.cursor import START_CURSOR, Cursor

ROW_GROUP_BYTES: Final = 64 << 20
"""Bytes of Arrow that wait for a row group; a writer holds at most about twice as much."""
ROW_GROUP_ROWS: Final = 500_000
CODEC: Final = "zstd"
CODEC_LEVEL: Final = 1


class ByteSink(Protocol):
    """Destination of bytes, in order."""

    def write(self, data: bytes, /) -> object:
        """Write all of the next bytes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPart:
    """One part after its writer was closed: all of a `Part` except its place in the lake."""

    bytes: int
    rows: int
    sha256: str
    low: Cursor = START_CURSOR
    high: Cursor = START_CURSOR
    widths: Mapping[str, int] = field(default_factory=dict[str, int])
    """The widest value of each text and binary column, in bytes; absent if all are NULL."""


class PartWriter:
    """Writer of batches of one schema to a sink as one Parquet file.

    A last column holds the number of the batch that reads the row. With `refused` it writes rows for quarantine:
    their columns in transfer form, and the reason. The caller decides by `bytes_written` when a part is large enough,
    and closes it. The sink is not closed. After an error the file is worthless: call `abandon`, or leave the `with`
    by the error, so that nothing more reaches the sink.
    """

    def __init__(
        self,
        sink: ByteSink,
        mappings: Sequence[ColumnMapping],
        *,
        batch: int,
        refused: bool = False,
        group_bytes: int = ROW_GROUP_BYTES,
        group_rows: int = ROW_GROUP_ROWS,
        codec: str = CODEC,
    ) -> None:
        self._output = DigestingFile(sink)
        self._batch = None if refused else batch
        self._schema = refused_schema(mappings) if refused else file_schema(mappings)
        self._group_bytes, self._group_rows = group_bytes, group_rows
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = self._waiting_rows = 0
        self._rows = 0
        self._span: PositionSpan | None = None
        self._widths: dict[str, int] = {}
        self._file = pq.ParquetWriter(
            pa.PythonFile(self._output, mode="w"),
            self._schema if refused else self._schema.append(pa.field(BATCH_COLUMN, pa.int64())),
            version="1.0",  # and so the dictionary encoding that every reader knows
            data_page_version="1.0",
            compression=codec,
            compression_level=CODEC_LEVEL if codec == CODEC else None,
            use_dictionary=False if refused else [*_dictionary_columns(mappings), BATCH_COLUMN],
            store_schema=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.abandon()

    def abandon(self) -> None:
        """Let nothing more reach the sink: pyarrow would write a footer when its writer is collected."""
        self._output.abandoned = True
        self._waiting.clear()

    @property
    def rows(self) -> int:
        return self._rows

    @property
    def bytes_written(self) -> int:
        """Bytes that the sink has received; rows that wait for their row group do not count."""
        return self._output.bytes

    @property
    def bytes_waiting(self) -> int:
        """Bytes of Arrow that wait for their row group; they take fewer in the file."""
        return self._waiting_bytes

    def write(self, batch: pa.RecordBatch, span: PositionSpan | None = None) -> None:
        """Add the rows of a batch, with the positions of the first and the last of them."""
        if not batch.num_rows:
            return
        self._measure(batch, span)
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        self._waiting_rows += batch.num_rows
        if self._waiting_bytes >= self._group_bytes or self._waiting_rows >= self._group_rows:
            self._flush()

    def _measure(self, batch: pa.RecordBatch, span: PositionSpan | None) -> None:
        self._rows += batch.num_rows
        if span is not None:
            self._span = span if self._span is None else self._span.join(span)
        for name, array in zip(self._schema.names, batch.columns, strict=True):
            if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
                widest = pc.max(pc.binary_length(array)).as_py()
                if widest is not None:
                    self._widths[name] = max(widest, self._widths.get(name, 0))

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting, schema=self._schema)
        if self._batch is not None:
            table = table.append_column(BATCH_COLUMN, pa.array(np.full(table.num_rows, self._batch)))
        self._waiting.clear()
        self._waiting_bytes = self._waiting_rows = 0
        self._file.write_table(table, row_group_size=table.num_rows)

    def close(self) -> WrittenPart:
        """Write the waiting rows and the footer; return the finished part."""
        self._flush()
        self._file.close()
        span = self._span or PositionSpan(START_CURSOR, START_CURSOR)
        return WrittenPart(
            bytes=self._output.bytes,
            rows=self._rows,
            sha256=self._output.digest.hexdigest(),
            low=span.low,
            high=span.high,
            widths=dict(self._widths),
        )


def _dictionary_columns(mappings: Sequence[ColumnMapping]) -> list[str]:
    """Return the columns whose values are likely to repeat: short text, small numbers, days.

    For other columns a dictionary would be built and discarded, which costs more than all other work.
    """
    kinds = zip(mappings, file_schema(mappings).types, strict=True)
    return [
        one.name for one, kind in kinds if kind in _REPEATING_TYPES or (kind == pa.string() and _is_short_text(one))
    ]


_REPEATING_TYPES: Final = frozenset({pa.int16(), pa.int32(), pa.date32()})
_SHORT_TEXT_BYTES: Final = 1_020


def _is_short_text(mapping: ColumnMapping) -> bool:
    return mapping.limit is not None and mapping.limit <= _SHORT_TEXT_BYTES


class DigestingFile:
    """File for pyarrow that counts and digests the bytes on their way to the sink."""

    closed = False

    def __init__(self, sink: ByteSink) -> None:
        self._sink = sink
        self.bytes = 0
        self.digest = hashlib.sha256()
        self.abandoned = False

    def write(self, data: Any) -> int:  # noqa: ANN401  # pyarrow hands over buffers
        piece = bytes(data)
        if self.abandoned:
            return len(piece)
        # An error of the sink ends the file: only a write that returned permits the next one.
        self.abandoned = True
        self._sink.write(piece)
        self.abandoned = False
        self.digest.update(piece)
        self.bytes += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        """Do nothing: no bytes are buffered."""

    def close(self) -> None:
        """Do nothing: the owner closes the sink."""


def tiny_parquet() -> bytes:
    """Return the smallest file for a test of COPY: one row with a number and a word."""
    columns = {"id": pa.array([1], pa.int64()), "word": pa.array(["syncd"], pa.string())}
    body = io.BytesIO()
    pq.write_table(pa.table(columns), body)
    return body.getvalue()
