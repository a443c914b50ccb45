"""Parts of one kind, one after the other: files of rows that pass, or of refused ones; none without rows."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pyarrow as pa

from syncd.datatypes.columns import ColumnMapping
from syncd.parquet.part_writer import PartWriter
from syncd.parquet.window_check import PositionSpan
from syncd.s3.lake_client import ObjectUpload, S3Lake

COMPRESSION_FACTOR: Final = 4
"""How much smaller Arrow's bytes become in a file, about: what waits for its row group counts for so much."""


@dataclass(slots=True, kw_only=True)
class PartsWriter:
    """Writes batches to as many parts as they fill; a lake is asked for with the first row."""

    lake: Callable[[], S3Lake]
    key: Callable[..., str]
    """The key of the part of a `number`."""
    passages: Sequence[ColumnMapping]
    batch: int
    part_bytes: int
    refused: bool
    done: list[dict[str, Any]] = field(default_factory=list)
    """The parts that stand, as a manifest tells them."""
    _object: ObjectUpload | None = None
    _writer: PartWriter | None = None

    def write(self, batch: pa.RecordBatch, span: PositionSpan | None) -> None:
        if not batch.num_rows:
            return
        if self._writer is None:
            self._object = self.lake().new_object(self.key(number=len(self.done)))
            self._writer = PartWriter(self._object, self.passages, batch=self.batch, refused=self.refused)
        self._writer.write(batch, span)
        if self._writer.bytes_written + self._writer.bytes_waiting // COMPRESSION_FACTOR >= self.part_bytes:
            self._close()

    def finish(self) -> list[dict[str, Any]]:
        """End the last part; all that stand."""
        if self._writer is not None:
            self._close()
        return self.done

    def _close(self) -> None:
        assert self._writer is not None
        assert self._object is not None
        written, stood = self._writer.close(), self._object.finish()
        assert stood.bytes == written.bytes
        told = {**asdict(written), "low": written.low.to_texts(), "high": written.high.to_texts()}
        self.done.append({**told, "key": self._object.key, "etag": stood.etag})
        self._object = self._writer = None

    def abort(self) -> None:
        """Leave what was begun; parts that stand already are the caller's to drop."""
        if self._writer is not None:
            self._writer.abandon()
        if self._object is not None:
            self._object.abort()
