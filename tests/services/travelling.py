"""Prepared streams whose rows come as they travel, and pass what they pass in a task of Spark: all but the JVM."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from syncd.datatypes.columns import ColumnMapping, TransferType
from syncd.lake.batch_number import batch_to_number
from syncd.lake.object_keys import batch_prefix, batch_quarantine_prefix
from syncd.lake.read_requests import Part, ReadResult
from syncd.parquet.column_values import SOURCE_ARROW_TYPES
from syncd.spark.window_task import RESULT_COLUMN, ReadTaskSpec, WindowWriter
from tests.services.prepared import Prepared, Row, numbers
from watermarks.batch import Plan

PART_BYTES = 128 << 20


@dataclass
class Travelling(Prepared):
    """One stream whose values meet its policies."""

    arriving: Iterable[pa.RecordBatch] | None = None
    """What comes instead of the rows of the next batch, where these are too many to write down."""
    part_bytes: int = PART_BYTES

    def read(self, plan: Plan, rows: Sequence[Row], parts: int) -> ReadResult:
        work = ReadTaskSpec(
            windows=(None,),
            first_window=0,
            columns=self.passages(),
            order=(),
            keys=frozenset(),
            cursor_field=None,
            policies=self.policies,
            prefix=batch_prefix(plan),
            quarantine_prefix=batch_quarantine_prefix(plan.stream, plan.id),
            batch=batch_to_number(plan.id),
            nonce=f"a{next(numbers)}",
            part_bytes=self.part_bytes,
            lake=self.lake.settings,
        )
        arriving = self.arriving if self.arriving is not None else [self.travelled(rows)] if rows else []
        self.arriving = None
        [answer] = WindowWriter(work).write(arriving)
        told = json.loads(answer.column(RESULT_COLUMN)[0].as_py())
        assert "error" not in told, told
        return ReadResult(
            parts=tuple(map(Part.from_fields, told["parts"])),
            quarantined_parts=tuple(map(Part.from_fields, told["quarantined"])),
            problem_counts=told["troubles"],
        )

    def travelled(self, rows: Sequence[Row]) -> pa.RecordBatch:
        """Rows as the server would send them."""
        return pa.RecordBatch.from_pydict(
            {
                way.name: pa.array([_sent(way, row[way.name]) for row in rows], SOURCE_ARROW_TYPES[way.travel])
                for way in self.passages()
            }
        )


def _sent(passage: ColumnMapping, value: Any) -> Any:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S.%f}"
    return value.encode() if passage.travel is TransferType.BYTES and isinstance(value, str) else value
