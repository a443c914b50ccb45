"""Reading of Parquet files of the lake: by row groups, by key, and whole."""

import contextlib
import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from syncd.lake.read_requests import Part
from syncd.s3.lake_client import PIECE_BYTES, S3Lake
from watermarks.errors import Misuse, StateUnreadable

READ_AHEAD_BYTES: Final = 1 << 16
"""Least size of a request: a footer is read in several small steps."""


class RangedFile(io.RawIOBase):
    """A part as a file whose bytes are fetched by ranges; its length is the one of its manifest."""

    def __init__(self, lake: S3Lake, part: Part) -> None:
        super().__init__()
        self._lake = lake
        self._part = part
        self._position = 0
        self._buffer = (0, b"")
        """Position and bytes of the range that was fetched last."""

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


class ParquetPart:
    """A part that is read row group by row group; memory holds at most one of them.

    Arrow's own threads never read it: they would release the bytes of a Python file after the last row is returned,
    and a process that ends at that moment is aborted.
    """

    def __init__(self, lake: S3Lake, part: Part) -> None:
        self._file = pq.ParquetFile(pa.PythonFile(RangedFile(lake, part), mode="r"), pre_buffer=False)

    @property
    def metadata(self) -> pq.FileMetaData:
        return self._file.metadata

    @property
    def schema(self) -> pa.Schema:
        return self._file.schema_arrow

    def read_row_group(self, number: int, *, columns: Sequence[str] | None = None) -> pa.Table:
        return self._file.read_row_group(number, columns=columns, use_threads=False)

    def read_row_groups(self) -> Iterator[pa.Table]:
        """Yield all rows, one row group after another."""
        return map(self.read_row_group, range(self.metadata.num_row_groups))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """Digest and row count of a file that was read whole."""

    sha256: str
    rows: int


def read_content(lake: S3Lake, part: Part) -> FileContent:
    """Read a file whole, a piece at a time.

    Raises:
        StateUnreadable: it is no Parquet file.
    """
    digest = hashlib.sha256()
    for first in range(0, part.bytes, PIECE_BYTES):
        digest.update(lake.read_range(part.key, first, min(first + PIECE_BYTES, part.bytes)))
    try:
        rows = ParquetPart(lake, part).metadata.num_rows
    except (pa.ArrowInvalid, OSError) as error:
        raise StateUnreadable(f"{part.key} is not a Parquet file: {error}") from error
    return FileContent(sha256=digest.hexdigest(), rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHit:
    """One row of a file."""

    row_number: int
    """Its number in the file, from 0."""
    values: Mapping[str, object] = field(default_factory=dict[str, object])


def find_key(
    lake: S3Lake, part: Part, key: Mapping[str, str], *, extra_columns: tuple[str, ...] = ()
) -> Iterator[KeyHit]:
    """Yield the rows of a file that have this key, with the values of the extra columns.

    Only row groups whose statistics allow the key are read, and of them only these columns.

    Raises:
        Misuse: a value of the key is not of its column's type.
    """
    file = ParquetPart(lake, part)
    schema = file.schema
    if not set(key) <= set(schema.names):
        return
    wanted = {name: _to_scalar(name, text, schema.field(name).type) for name, text in key.items()}
    columns = [name for name in (*key, *extra_columns) if name in schema.names]
    before = 0
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        if _may_hold(group, wanted):
            yield from _matching_rows(file.read_row_group(number, columns=columns), wanted, before)
        before += group.num_rows


def _to_scalar(name: str, text: str, kind: pa.DataType) -> Any:  # noqa: ANN401  # a scalar of Arrow
    try:
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return pa.scalar(text.encode(), kind)
        return pa.scalar(text).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Misuse(f"{text!r} is not a value of {name}, which is of type {kind}") from error


def _may_hold(group: pq.RowGroupMetaData, wanted: Mapping[str, Any]) -> bool:
    """Return whether the statistics of a row group allow the key; without statistics, or of other types, they do."""
    for number in range(group.num_columns):
        column = group.column(number)
        value = wanted.get(column.path_in_schema)
        statistics = column.statistics if value is not None else None
        if value is None or statistics is None or not statistics.has_min_max:
            continue
        with contextlib.suppress(TypeError):
            if not statistics.min <= value.as_py() <= statistics.max:
                return False
    return True


def _matching_rows(rows: pa.Table, wanted: Mapping[str, Any], before: int) -> Iterator[KeyHit]:
    mask = None
    for name, value in wanted.items():
        same = pc.equal(rows[name], value)
        mask = same if mask is None else pc.and_(mask, same)
    for number in pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist():  # noqa: FBT003  # Arrow's own form
        [values] = rows.slice(number, 1).to_pylist()
        yield KeyHit(row_number=before + number, values=values)
