"""A file whose refused rows are known becomes two: of the rows that land, and of those that do not, with the reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from syncd.datatypes.columns import Passage
from syncd.lake.batch_number import COLUMN
from syncd.lake.window_reads import Part
from syncd.parquet.batch_conversion import REASON
from syncd.parquet.part_writer import PartWriter, Tally
from syncd.s3.lake_client import Lake, NewObject
from syncd.s3.ranged_file import opened
from watermarks.cursor import START


@dataclass(frozen=True, slots=True)
class Refused:
    """One row by its place in a file, and why it cannot land."""

    place: int
    reason: str


@dataclass(frozen=True, slots=True)
class Sifted:
    """A file and the rows of it that do not land."""

    part: Part
    refused: tuple[Refused, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Divided:
    """What became of a file."""

    kept: Part | None
    """None where no row is left."""
    refused: Part


def divide(lake: Lake, sifted: Sifted, passages: Sequence[Passage], *, kept: str, refused: str) -> Divided:
    """Write the rows of a file to two others, row group by row group."""
    reasons = {one.place: one.reason for one in sifted.refused}
    file = opened(lake, sifted.part)
    first = 0
    with CleanFile(lake.new(kept), passages) as clean, AsideFile(lake.new(refused)) as aside:
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group)
            some = {place - first: reasons[place] for place in reasons if first <= place < first + rows.num_rows}
            lands = np.ones(rows.num_rows, bool)
            lands[list(some)] = False
            clean.write(rows.filter(pa.array(lands)))
            aside.write(rows, some)
            first += rows.num_rows
        left = clean.close() if sifted.part.rows > len(reasons) else None
        part = sifted.part
        return Divided(
            kept=replace(left, low=part.low, high=part.high) if left else None,
            refused=replace(aside.close(), low=part.low, high=part.high),
        )


class CleanFile:
    """Rows of a file as another file of the same columns; after an error, or without `close`, nothing stands."""

    def __init__(self, made: NewObject, passages: Sequence[Passage]) -> None:
        self._made = made
        self._passages = passages
        self._writer: PartWriter | None = None
        self._stands = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._stands:
            if self._writer is not None:
                self._writer.abandon()
            self._made.abort()

    def write(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        if self._writer is None:
            self._writer = PartWriter(self._made, self._passages, batch=rows.column(COLUMN)[0].as_py())
        for batch in rows.drop_columns([COLUMN]).to_batches():
            self._writer.write(batch)

    def close(self) -> Part:
        assert self._writer is not None
        written = self._writer.close()
        stood = self._made.finish()
        self._stands = True
        return Part(
            key=self._made.key,
            etag=stood.etag,
            bytes=written.bytes,
            rows=written.rows,
            sha256=written.sha256,
            low=written.low,
            high=written.high,
            widths=written.widths,
        )


class AsideFile:
    """Refused rows as files hold them, each with its reason; they are few, and may be long."""

    def __init__(self, made: NewObject) -> None:
        self._made = made
        self._tally = Tally(made)
        self._file: pq.ParquetWriter | None = None
        self._rows = 0
        self._stands = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._stands:
            self._tally.abandoned = True
            self._made.abort()

    def write(self, rows: pa.Table, reasons: Mapping[int, str]) -> None:
        """Take those of the rows that have a reason."""
        if not reasons:
            return
        places = sorted(reasons)
        told = pa.array([reasons[place] for place in places], pa.string())
        table = rows.take(places).append_column(REASON, told)
        if self._file is None:
            self._file = pq.ParquetWriter(pa.PythonFile(self._tally, mode="w"), table.schema, store_schema=False)
        self._file.write_table(table)
        self._rows += table.num_rows

    def close(self) -> Part:
        assert self._file is not None
        self._file.close()
        stood = self._made.finish()
        self._stands = True
        return Part(
            key=self._made.key,
            etag=stood.etag,
            bytes=stood.bytes,
            rows=self._rows,
            sha256=self._tally.digest.hexdigest(),
            low=START,
            high=START,
        )
