"""Files in quarantine: shown row by row, and made parts again of those rows that pass by now."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa

from syncd.datatypes.columns import Policies
from syncd.lake.batch_number import BATCH_COLUMN
from syncd.lake.keys import part_key
from syncd.lake.manifest import Manifest
from syncd.lake.quarantine import (
    WHOLE_ROW_LABEL,
    QuarantinedFile,
    QuarantinedRow,
    QuarantineReason,
    parse_quarantine_reasons,
    unchangeable_columns,
)
from syncd.lake.restorer import RestoreRequest
from syncd.lake.window_reads import PART_BYTES, Part, ReadResult
from syncd.parquet.batch_conversion import REASON_COLUMN, Conversion
from syncd.s3.lake_client import S3Lake
from syncd.s3.parquet_reader import open_part
from syncd.s3.part_files import PartsWriter
from watermarks.document import Stage
from watermarks.errors import HintedError


class LakeQuarantineRestorer:
    """Reads and restores what lies in one lake; see the port."""

    def __init__(self, lake: S3Lake) -> None:
        self._lake = lake

    def has_passing_row(self, aside: QuarantinedFile, manifest: Manifest, policies: Policies) -> bool:
        conversion = Conversion(manifest.columns, policies, unchangeable_columns(manifest))
        return any(conversion.convert(rows).batch.num_rows for rows in self._rows(aside.part))

    def restore(self, restoring: RestoreRequest) -> ReadResult:
        named = partial(part_key, window=0, attempt=restoring.nonce)
        parts = partial(
            PartsWriter,
            lake=lambda: self._lake,
            passages=restoring.manifest.columns,
            batch=restoring.batch_number,
            part_bytes=PART_BYTES,
        )
        kept = parts(key=partial(named, restoring.part_prefix), refused=False)
        refused = parts(key=partial(named, restoring.quarantine_prefix), refused=True)
        troubles: Counter[str] = Counter()
        try:
            for aside in restoring.files:
                self._restore(aside, restoring, kept, refused, troubles)
            return ReadResult(
                parts=tuple(kept.finish()),
                quarantined_parts=tuple(refused.finish()),
                problem_counts=dict(troubles),
            )
        except BaseException:
            self._discard(kept, refused)
            raise

    def _restore(
        self,
        aside: QuarantinedFile,
        restoring: RestoreRequest,
        kept: PartsWriter,
        refused: PartsWriter,
        troubles: Counter[str],
    ) -> None:
        manifest = restoring.manifest
        conversion = Conversion(manifest.columns, restoring.policies, unchangeable_columns(manifest))
        for rows in self._rows(aside.part):
            if aside.stage is Stage.LOAD:
                kept.write(
                    rows.drop_columns([BATCH_COLUMN, REASON_COLUMN]), None
                )  # as they are: what was in their way was mended
                continue
            done = conversion.convert(rows)
            troubles.update(done.troubles)
            kept.write(done.batch, None)
            if done.refused is not None:
                refused.write(done.refused, None)

    def _discard(self, *writers: PartsWriter) -> None:
        for writer in writers:
            with suppress(HintedError):
                writer.abort()
                self._lake.delete_objects([part.key for part in writer.done])

    def _rows(self, part: Part) -> Iterator[pa.RecordBatch]:
        file = open_part(self._lake, part)
        for group in range(file.num_row_groups):
            yield from file.read_row_group(group).to_batches()

    def read_refused_rows(self, aside: QuarantinedFile, manifest: Manifest) -> Iterator[QuarantinedRow]:
        """The rows of a file, each with why it lies there."""
        place = 0
        for rows in self._rows(aside.part):
            for values in rows.to_pylist():
                yield _refused_row(aside, manifest, place, values)
                place += 1


def _refused_row(aside: QuarantinedFile, manifest: Manifest, place: int, values: dict[str, Any]) -> QuarantinedRow:
    reason = str(values.pop(REASON_COLUMN))
    values.pop(BATCH_COLUMN, None)
    troubles = parse_quarantine_reasons(reason, aside.stage, manifest.columns)
    whole = reason.startswith(WHOLE_ROW_LABEL) or f"; {WHOLE_ROW_LABEL}" in reason
    return QuarantinedRow(
        file=aside,
        row_number=place,
        reasons=tuple(
            QuarantineReason(column=one.column, reason=one.reason, size=_value_bytes(values, one.column, whole=whole))
            for one in troubles
        ),
        key={name: values.get(name) for name in manifest.identity.key},
        values=values,
    )


def _value_bytes(values: dict[str, Any], column: str | None, *, whole: bool) -> int | None:
    """The bytes of a value, or of all of them where it is the row that is too long."""
    if column is None:
        return sum(_text_bytes(value) or 0 for value in values.values()) if whole else None
    return _text_bytes(values.get(column))


def _text_bytes(value: object) -> int | None:
    if isinstance(value, bytes):
        return len(value)
    return len(value.encode()) if isinstance(value, str) else None
