"""Files in quarantine: read row by row, and turned into parts for the rows that pass now."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from syncd.datatypes.columns import Policies
from syncd.lake.batch_number import BATCH_COLUMN
from syncd.lake.manifest import Manifest
from syncd.lake.object_keys import part_key
from syncd.lake.quarantine import (
    WHOLE_ROW_LABEL,
    QuarantinedFile,
    QuarantinedRow,
    RestoreRequest,
    parse_quarantine_reasons,
    unchangeable_columns,
)
from syncd.lake.read_requests import PART_BYTES, Part, ReadResult
from syncd.parquet.batch_conversion import REASON_COLUMN, Conversion
from syncd.s3.lake_client import S3Lake
from syncd.s3.parquet_reader import ParquetPart
from syncd.s3.parts_writer import PartsWriter
from watermarks.document import Stage
from watermarks.errors import HintedError


class LakeQuarantineRestorer:
    """Reader of the quarantine of one lake; see the port `QuarantineRestorer`."""

    def __init__(self, lake: S3Lake) -> None:
        self._lake = lake

    def has_passing_row(self, file: QuarantinedFile, manifest: Manifest, policies: Policies) -> bool:
        conversion = Conversion(manifest.columns, policies, unchangeable_columns(manifest))
        return any(conversion.convert(rows).batch.num_rows for rows in self._rows(file.part))

    def restore(self, restoring: RestoreRequest) -> ReadResult:
        named = partial(part_key, window=0, attempt=restoring.nonce)
        parts = partial(
            PartsWriter,
            lake=lambda: self._lake,
            mappings=restoring.manifest.columns,
            batch=restoring.batch_number,
            part_bytes=PART_BYTES,
        )
        kept = parts(key=partial(named, restoring.part_prefix), refused=False)
        refused = parts(key=partial(named, restoring.quarantine_prefix), refused=True)
        problem_counts: Counter[str] = Counter()
        try:
            for file in restoring.files:
                self._restore(file, restoring, kept, refused, problem_counts)
            return ReadResult(
                parts=tuple(kept.finish()),
                quarantined_parts=tuple(refused.finish()),
                problem_counts=dict(problem_counts),
            )
        except BaseException:
            self._discard(kept, refused)
            raise

    def _restore(
        self,
        file: QuarantinedFile,
        restoring: RestoreRequest,
        kept: PartsWriter,
        refused: PartsWriter,
        problem_counts: Counter[str],
    ) -> None:
        manifest = restoring.manifest
        conversion = Conversion(manifest.columns, restoring.policies, unchangeable_columns(manifest))
        for rows in self._rows(file.part):
            if file.stage is Stage.LOAD:
                # Unchanged: the operator has corrected what the warehouse refused them for.
                kept.write(rows.drop_columns([BATCH_COLUMN, REASON_COLUMN]), None)
                continue
            done = conversion.convert(rows)
            problem_counts.update(done.troubles)
            kept.write(done.batch, None)
            if done.refused is not None:
                refused.write(done.refused, None)

    def _discard(self, *writers: PartsWriter) -> None:
        for writer in writers:
            with suppress(HintedError):
                writer.abort()
                self._lake.delete_objects([part.key for part in writer.done])

    def _rows(self, part: Part) -> Iterator[pa.RecordBatch]:
        for rows in ParquetPart(self._lake, part).read_row_groups():
            yield from rows.to_batches()

    def read_refused_rows(self, file: QuarantinedFile, manifest: Manifest) -> Iterator[QuarantinedRow]:
        """Yield the rows of a file, each with its reasons."""
        number = 0
        for rows in self._rows(file.part):
            for values in rows.to_pylist():
                yield _refused_row(file, manifest, number, values)
                number += 1


def _refused_row(file: QuarantinedFile, manifest: Manifest, row_number: int, values: dict[str, Any]) -> QuarantinedRow:
    text = str(values.pop(REASON_COLUMN))
    values.pop(BATCH_COLUMN, None)
    reasons = parse_quarantine_reasons(text, file.stage, manifest.columns)
    is_whole_row = text.startswith(WHOLE_ROW_LABEL) or f"; {WHOLE_ROW_LABEL}" in text
    return QuarantinedRow(
        file=file,
        row_number=row_number,
        reasons=tuple(
            replace(reason, size=_value_bytes(values, reason.column, whole=is_whole_row)) for reason in reasons
        ),
        key={name: values.get(name) for name in manifest.identity.key},
        values=values,
    )


def _value_bytes(values: dict[str, Any], column: str | None, *, whole: bool) -> int | None:
    """Return the bytes of a value, or of the whole row if that is too long."""
    if column is None:
        return sum(_text_bytes(value) or 0 for value in values.values()) if whole else None
    return _text_bytes(values.get(column))


def _text_bytes(value: object) -> int | None:
    if isinstance(value, bytes):
        return len(value)
    return len(value.encode()) if isinstance(value, str) else None
