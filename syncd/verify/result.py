"""Result of a comparison: the differences by kind, the rows and columns left out, and the proof."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from syncd.verify.digest_forms import UncomparableColumn
from watermarks.batch import BatchId
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.errors import HintedError
from watermarks.progress import BEFORE_FIRST_BATCH


class DifferenceKind(StrEnum):
    """Kind of difference of a row."""

    LOST = "lost"
    """Only the source has the row."""
    STALE = "stale"
    """The warehouse has an older version."""
    DIFFERENT = "different"
    """Both have the same version by its stamp, with different values."""
    GHOST = "ghost"
    """Only the warehouse has the row."""
    DOUBLED = "doubled"
    """The warehouse has the row more than once."""


REPAIRED_BY_REREAD = frozenset(
    {DifferenceKind.LOST, DifferenceKind.STALE, DifferenceKind.DIFFERENT, DifferenceKind.DOUBLED}
)
"""Differences that are repaired by reading the row again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Row that differs between the sides."""

    kind: DifferenceKind
    key: Mapping[str, object]
    columns: tuple[str, ...] = ()
    """Columns with different values."""
    source_digest: str | None = None
    target_digest: str | None = None
    source_values: Mapping[str, object] = field(default_factory=dict[str, object])
    """Values of the columns that differ."""
    target_values: Mapping[str, object] = field(default_factory=dict[str, object])
    position: Cursor | None = None
    """The position of its key at the source."""
    file_key: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The key of a ghost in the form of files."""
    judged_mark: Cursor = START_CURSOR
    """The mark at the comparison of a ghost. A row that came back since has a later stamp."""
    judged_batch: BatchId = BEFORE_FIRST_BATCH
    """The last batch loaded at the comparison of a ghost. A later batch reads a row that came back since."""


class ComparisonState(StrEnum):
    """Outcome of a comparison."""

    EQUAL = "equal"
    DIFFERENT = "different"
    REPAIRED = "repaired"
    """It differed, and was equal after the different rows were read again."""
    NOT_COMPARED = "not compared"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutRows:
    """Counts of rows outside the promise, and of rows in quarantine."""

    above_mark: int = 0
    """Rows that changed at the source since the loaded batches were read; the next batches bring them."""
    before_start: int = 0
    without_stamp: int = 0
    """Rows that only the first pass reads."""
    marked_gone: int = 0
    earlier_versions: int = 0
    quarantined: int = 0
    """Rows that differ and are in quarantine."""

    @property
    def counts_by_reason(self) -> dict[str, int]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonResult:
    """Result of comparing one stream."""

    rows: int = 0
    """Compared rows of the source."""
    ranges: int = 0
    compared_ranges: int = 0
    """Fewer than `ranges` for a sample."""
    fetched_count: int = 0
    """Rows, sums and positions that were fetched."""
    counts: Counter[DifferenceKind] = field(default_factory=Counter[DifferenceKind])
    differences: tuple[Difference, ...] = ()
    """The first differences."""
    kept_ghosts: int = 0
    """Ghosts that stay in the target because deletes are ignored."""
    left_out: LeftOutRows = LeftOutRows()
    uncomparable: tuple[UncomparableColumn, ...] = ()
    """Columns that were compared only in fetched rows."""
    partly_compared: tuple[str, ...] = ()
    """Columns whose very long values were compared only by beginning and length."""
    seed: int | None = None
    not_compared_reason: str = ""
    """The reason why nothing was compared."""
    proven: bool = False
    unproven_reason: str = ""
    """The reason why it is not proven, as far as known."""
    provable_upto: datetime | None = None
    """The mark as an instant, where all is equal and only a replaced table prevents the proof."""
    mark: Cursor | None = None
    """The loaded mark at the start of the comparison; later ranges were compared up to a later mark."""
    repaired: bool = False
    """True if the stream differed before a repair."""
    seconds: float = 0.0
    error: HintedError | None = None

    @property
    def state(self) -> ComparisonState:
        if self.error is not None:
            return ComparisonState.FAILED
        if self.not_compared_reason:
            return ComparisonState.NOT_COMPARED
        if self.counts.total():
            return ComparisonState.DIFFERENT
        return ComparisonState.REPAIRED if self.repaired else ComparisonState.EQUAL
