"""An object in the lake as a file that is read in pieces: what is not asked for is not fetched."""

import io
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from syncd.lake.window_reads import Part
from syncd.s3.lake_client import S3Lake

READ_AHEAD_BYTES: Final = 1 << 16
"""Bytes that a small question fetches at least: a footer is asked for in several."""


class RangedFile(io.RawIOBase):
    """A part, by ranges; as long as its manifest says."""

    def __init__(self, lake: S3Lake, part: Part) -> None:
        super().__init__()
        self._lake = lake
        self._part = part
        self._position = 0
        self._buffer = (0, b"")
        """Where the piece begins that was fetched last, and what it holds."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._part.bytes}[whence]
        self._position = origin + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        end = self._part.bytes if size < 0 else min(self._position + size, self._part.bytes)
        if end <= self._position:
            return b""
        first, kept = self._buffer
        if not first <= self._position <= end <= first + len(kept):
            upto = min(max(end, self._position + READ_AHEAD_BYTES), self._part.bytes)
            first, kept = self._buffer = self._position, self._lake.read_range(self._part.key, self._position, upto)
        found = kept[self._position - first : end - first]
        self._position = end
        return found


def open_part(lake: S3Lake, part: Part) -> pq.ParquetFile:
    """A part for reading row group by row group: no more of it is held than one of them."""
    return pq.ParquetFile(pa.PythonFile(RangedFile(lake, part), mode="r"), pre_buffer=False)
