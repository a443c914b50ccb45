"""Split of a file into its accepted rows, and its refused rows with the reasons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from syncd.datatypes.columns import ColumnMapping
from syncd.lake.batch_number import BATCH_COLUMN
from syncd.lake.read_requests import Part
from syncd.parquet.batch_conversion import REASON_COLUMN
from syncd.parquet.part_writer import DigestingFile, PartWriter, WrittenPart
from syncd.s3.lake_client import ObjectUpload, S3Lake
from syncd.s3.parquet_reader import ParquetPart
from syncd.s3.parts_writer import make_part


@dataclass(frozen=True, slots=True)
class RefusedFileRow:
    """Refused row by its number in a file, with the reason."""

    row_number: int
    reason: str


@dataclass(frozen=True, slots=True)
class FileRefusals:
    """File with its refused rows."""

    part: Part
    rows: tuple[RefusedFileRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitFile:
    """The two files that replace a file."""

    accepted: Part | None
    """None where all rows are refused."""
    refused: Part


def split_file(
    lake: S3Lake, refusals: FileRefusals, mappings: Sequence[ColumnMapping], *, accepted_key: str, refused_key: str
) -> SplitFile:
    """Write the rows of a file to two new files, row group by row group."""
    reasons = {row.row_number: row.reason for row in refusals.rows}
    first = 0
    with (
        AcceptedRowsFile(lake.new_object(accepted_key), mappings) as accepted,
        RefusedRowsFile(lake.new_object(refused_key)) as refused,
    ):
        for rows in ParquetPart(lake, refusals.part).read_row_groups():
            in_group = {row - first: reasons[row] for row in reasons if first <= row < first + rows.num_rows}
            is_accepted = np.ones(rows.num_rows, bool)
            is_accepted[list(in_group)] = False
            accepted.write(rows.filter(pa.array(is_accepted)))
            refused.write(rows, in_group)
            first += rows.num_rows
        part = refusals.part
        accepted_part = accepted.close() if part.rows > len(reasons) else None
        return SplitFile(
            accepted=replace(accepted_part, low=part.low, high=part.high) if accepted_part else None,
            refused=replace(refused.close(), low=part.low, high=part.high),
        )


class AcceptedRowsFile:
    """New file with the columns of another; after an error, or without `close`, it does not exist."""

    def __init__(self, new_object: ObjectUpload, mappings: Sequence[ColumnMapping]) -> None:
        self._object = new_object
        self._mappings = mappings
        self._writer: PartWriter | None = None
        self._is_complete = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_complete:
            if self._writer is not None:
                self._writer.abandon()
            self._object.abort()

    def write(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        if self._writer is None:
            self._writer = PartWriter(self._object, self._mappings, batch=rows.column(BATCH_COLUMN)[0].as_py())
        for batch in rows.drop_columns([BATCH_COLUMN]).to_batches():
            self._writer.write(batch)

    def close(self) -> Part:
        assert self._writer is not None
        written = self._writer.close()
        stored = self._object.finish()
        self._is_complete = True
        return make_part(self._object.key, written, stored)


class RefusedRowsFile:
    """New file of refused rows, each with its reason; they are few, and may be long."""

    def __init__(self, new_object: ObjectUpload) -> None:
        self._object = new_object
        self._output = DigestingFile(new_object)
        self._file: pq.ParquetWriter | None = None
        self._rows = 0
        self._is_complete = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_complete:
            self._output.abandoned = True
            self._object.abort()

    def write(self, rows: pa.Table, reasons: Mapping[int, str]) -> None:
        """Write the rows that have a reason."""
        if not reasons:
            return
        numbers = sorted(reasons)
        texts = pa.array([reasons[number] for number in numbers], pa.string())
        table = rows.take(numbers).append_column(REASON_COLUMN, texts)
        if self._file is None:
            self._file = pq.ParquetWriter(pa.PythonFile(self._output, mode="w"), table.schema, store_schema=False)
        self._file.write_table(table)
        self._rows += table.num_rows

    def close(self) -> Part:
        assert self._file is not None
        self._file.close()
        stored = self._object.finish()
        self._is_complete = True
        written = WrittenPart(bytes=stored.bytes, rows=self._rows, sha256=self._output.digest.hexdigest())
        return make_part(self._object.key, written, stored)
