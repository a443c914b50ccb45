"""What a comparison came to: every difference by its kind, and what was not compared, and why."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from syncd.verify.digest_forms import UncomparableColumn
from watermarks.batch import BatchId
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.errors import HintedError
from watermarks.progress import BEFORE_FIRST_BATCH


class DifferenceKind(StrEnum):
    """What is wrong with a row."""

    LOST = "lost"
    """The source has it, the warehouse has not."""
    STALE = "stale"
    """The warehouse has an older version."""
    DIFFERENT = "different"
    """Both have the same version by its stamp, and other values."""
    GHOST = "ghost"
    """The warehouse has it, the source has not."""
    DOUBLED = "doubled"
    """The warehouse has it more than once."""


REPAIRED_BY_REREAD = frozenset(
    {DifferenceKind.LOST, DifferenceKind.STALE, DifferenceKind.DIFFERENT, DifferenceKind.DOUBLED}
)
"""What is mended by reading the row again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One row that is not the same on both sides."""

    kind: DifferenceKind
    key: Mapping[str, object]
    columns: tuple[str, ...] = ()
    """In which its values differ."""
    source_digest: str | None = None
    """The digest of the source's row."""
    target_digest: str | None = None
    source_values: Mapping[str, object] = field(default_factory=dict[str, object])
    """Of the columns that differ."""
    target_values: Mapping[str, object] = field(default_factory=dict[str, object])
    position: Cursor | None = None
    """Its key at the source, where it has one."""
    file_key: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Its key as files hold it; of a ghost."""
    judged_mark: Cursor = START_CURSOR
    """The mark that it was judged by; of a ghost. What came back since has a later stamp."""
    judged_batch: BatchId = BEFORE_FIRST_BATCH
    """The last batch that was loaded then; of a ghost. What came back since was read by a later one."""


class ComparisonState(StrEnum):
    """How a comparison ended, in one word."""

    EQUAL = "equal"
    DIFFERENT = "different"
    REPAIRED = "repaired"
    """It differed, and after what differed was read again it does not."""
    NOT_COMPARED = "not compared"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutRows:
    """Rows that nothing was promised of, or that are known to be elsewhere."""

    above_mark: int = 0
    """Changed at the source since what is loaded was read: they come with the next batches."""
    before_start: int = 0
    without_stamp: int = 0
    """Read by the first pass only."""
    marked_gone: int = 0
    earlier_versions: int = 0
    quarantined: int = 0
    """Of those that differ: they lie in quarantine."""

    @property
    def counts_by_reason(self) -> dict[str, int]:
        return {
            "above_mark": self.above_mark,
            "before_start": self.before_start,
            "without_stamp": self.without_stamp,
            "marked_gone": self.marked_gone,
            "earlier_versions": self.earlier_versions,
            "quarantined": self.quarantined,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonResult:
    """One stream, compared."""

    rows: int = 0
    """Of the source, that were compared."""
    ranges: int = 0
    compared_ranges: int = 0
    """Of these ranges; fewer where a sample was asked for."""
    fetched_count: int = 0
    """Rows, sums and positions that came over the wire."""
    counts: Counter[DifferenceKind] = field(default_factory=Counter[DifferenceKind])
    differences: tuple[Difference, ...] = ()
    """The first of them."""
    kept_ghosts: int = 0
    """Ghosts that are left where they are, for deletes are ignored."""
    left_out: LeftOutRows = LeftOutRows()
    uncomparable: tuple[UncomparableColumn, ...] = ()
    """Columns that were compared only in rows that were fetched."""
    partly_compared: tuple[str, ...] = ()
    """Columns of which the beginning and the length of very long values was compared."""
    seed: int | None = None
    not_compared_reason: str = ""
    """Why nothing was compared."""
    proven: bool = False
    unproven_reason: str = ""
    """Why it is not, as far as that is known."""
    provable_upto: datetime | None = None
    """The mark as an instant, where nothing but that the table was another one stands in the way, and all is equal."""
    mark: Cursor | None = None
    """The loaded one when the comparison began; what was compared later may have been covered further."""
    repaired: bool = False
    """Whether it differed before a repair."""
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
