"""An object in the lake as a file that is read in pieces: what is not asked for is not fetched."""

import io
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from syncd.lake.window_reads import Part
from syncd.s3.lake_client import Lake

AHEAD: Final = 1 << 16
"""Bytes that a small question fetches at least: a footer is asked for in several."""


class RangedFile(io.RawIOBase):
    """A part, by ranges; as long as its manifest says."""

    def __init__(self, lake: Lake, part: Part) -> None:
        super().__init__()
        self._lake = lake
        self._part = part
        self._at = 0
        self._kept = (0, b"")
        """Where the piece begins that was fetched last, and what it holds."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._part.bytes}[whence]
        self._at = origin + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._part.bytes if size < 0 else min(self._at + size, self._part.bytes)
        if end <= self._at:
            return b""
        first, kept = self._kept
        if not first <= self._at <= end <= first + len(kept):
            upto = min(max(end, self._at + AHEAD), self._part.bytes)
            first, kept = self._kept = self._at, self._lake.piece(self._part.key, self._at, upto)
        found = kept[self._at - first : end - first]
        self._at = end
        return found


def opened(lake: Lake, part: Part) -> pq.ParquetFile:
    """A part for reading row group by row group: no more of it is held than one of them."""
    return pq.ParquetFile(pa.PythonFile(RangedFile(lake, part), mode="r"), pre_buffer=False)
