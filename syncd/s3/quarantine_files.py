"""Files in quarantine: shown row by row, and made parts again of those rows that pass by now."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

import pyarrow as pa

from syncd.datatypes.columns import Policies
from syncd.lake.batch_number import COLUMN
from syncd.lake.keys import part_key
from syncd.lake.manifest import Manifest, part_of
from syncd.lake.quarantine import THE_ROW, Aside, RefusedRow, Trouble, keys_of, troubles_of
from syncd.lake.restorer import Restoring
from syncd.lake.window_reads import Part, Read
from syncd.parquet.batch_conversion import REASON, Conversion
from syncd.s3.lake_client import Lake
from syncd.s3.part_files import PartsWriter
from syncd.s3.ranged_file import opened
from watermarks.document import Stage
from watermarks.errors import HintedError

PART_BYTES: Final = 128 << 20


class LakeRestorer:
    """Reads and restores what lies in one lake; see the port."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def passing(self, aside: Aside, manifest: Manifest, policies: Policies) -> bool:
        conversion = Conversion(manifest.passages, policies, keys_of(manifest))
        return any(conversion.convert(rows).batch.num_rows for rows in self._rows(aside.part))

    def restore(self, restoring: Restoring) -> Read:
        named = partial(part_key, window=0, attempt=restoring.nonce)
        parts = partial(
            PartsWriter,
            lake=lambda: self._lake,
            passages=restoring.manifest.passages,
            batch=restoring.batch,
            part_bytes=PART_BYTES,
        )
        kept = parts(key=partial(named, restoring.prefix), refused=False)
        refused = parts(key=partial(named, restoring.quarantine), refused=True)
        troubles: Counter[str] = Counter()
        try:
            for aside in restoring.asides:
                self._restore(aside, restoring, kept, refused, troubles)
            return Read(
                parts=tuple(map(part_of, kept.finish())),
                quarantined=tuple(map(part_of, refused.finish())),
                troubles=dict(troubles),
            )
        except BaseException:
            self._give_up(kept, refused)
            raise

    def _restore(
        self, aside: Aside, restoring: Restoring, kept: PartsWriter, refused: PartsWriter, troubles: Counter[str]
    ) -> None:
        manifest = restoring.manifest
        conversion = Conversion(manifest.passages, restoring.policies, keys_of(manifest))
        for rows in self._rows(aside.part):
            if aside.stage is Stage.LOAD:
                kept.write(rows.drop_columns([COLUMN, REASON]), None)  # as they are: what was in their way was mended
                continue
            done = conversion.convert(rows)
            troubles.update(done.troubles)
            kept.write(done.batch, None)
            if done.refused is not None:
                refused.write(done.refused, None)

    def _give_up(self, *writers: PartsWriter) -> None:
        for writer in writers:
            with suppress(HintedError):
                writer.abort()
                self._lake.drop([part["key"] for part in writer.done])

    def _rows(self, part: Part) -> Iterator[pa.RecordBatch]:
        file = opened(self._lake, part)
        for group in range(file.num_row_groups):
            yield from file.read_row_group(group).to_batches()

    def shown(self, aside: Aside, manifest: Manifest) -> Iterator[RefusedRow]:
        """The rows of a file, each with why it lies there."""
        place = 0
        for rows in self._rows(aside.part):
            for values in rows.to_pylist():
                yield _shown(aside, manifest, place, values)
                place += 1


def _shown(aside: Aside, manifest: Manifest, place: int, values: dict[str, Any]) -> RefusedRow:
    reason = str(values.pop(REASON))
    values.pop(COLUMN, None)
    troubles = troubles_of(reason, aside.stage, manifest.passages)
    whole = reason.startswith(THE_ROW) or f"; {THE_ROW}" in reason
    return RefusedRow(
        aside=aside,
        place=place,
        troubles=tuple(
            Trouble(column=one.column, reason=one.reason, size=_size(values, one.column, whole=whole))
            for one in troubles
        ),
        key={name: values.get(name) for name in manifest.identity.key},
        values=values,
    )


def _size(values: dict[str, Any], column: str | None, *, whole: bool) -> int | None:
    """The bytes of a value, or of all of them where it is the row that is too long."""
    if column is None:
        return sum(_length(value) or 0 for value in values.values()) if whole else None
    return _length(values.get(column))


def _length(value: object) -> int | None:
    if isinstance(value, bytes):
        return len(value)
    return len(value.encode()) if isinstance(value, str) else None
