"""Verification: both sides of a stream compared by sums of ranges of the key, and row by row where these differ."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, TypeVar

from syncd.errors import WarehouseBehind
from syncd.settings import Deletes
from syncd.verify.compared_columns import ComparisonBounds
from syncd.verify.key_ranges import KeyRange
from syncd.verify.result import ComparisonResult, Difference, DifferenceKind
from syncd.verify.sides import EMPTY_DIGEST, RangeDigest, SidePairFactory, SourceRowDigest, TargetRowDigest
from watermarks.cursor import START_CURSOR, Cursor

RANGE_ROWS: Final = 65_536
"""Rows of a range that is summed first."""
RANGES_PER_SNAPSHOT: Final = 64
"""Ranges that are compared in one pair of snapshots."""
LEAF_ROWS: Final = 512
"""Of so many rows, keys and digests are fetched."""
MAX_RANGE_PARTS: Final = 64
"""Ranges that are made of one which differs."""
COMPARED_ROWS_PER_QUERY: Final = 100
"""Rows that are looked at value by value at once."""
MOST_FRESH: Final = 500_000
"""Rows above the mark that a comparison can leave out at once."""
FIRST_GROUP_DIGITS: Final = 3
"""Where no range of the key means the same on both sides: so many digits of its digest make the first groups."""
MAX_GROUP_DIGITS: Final = 12

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Which part of the ranges is compared."""

    share: float = 1.0
    seed: int = 0

    @property
    def is_whole(self) -> bool:
        return self.share >= 1


ALL_RANGES: Final = Sample()


@dataclass(kw_only=True)
class Verification:
    """One comparison of one stream."""

    pairs: SidePairFactory
    bounds: Callable[[], ComparisonBounds]
    """Asked before each pair of snapshots: the mark may have moved meanwhile."""
    by_range: bool
    """Whether ranges of the key mean the same on both sides."""
    deletes: Deletes = Deletes.IGNORE
    sample: Sample = ALL_RANGES
    max_differences: int = 1_000
    """Differences that are kept; all are counted."""
    range_rows: int = RANGE_ROWS
    leaf_rows: int = LEAF_ROWS
    ranges_per_snapshot: int = RANGES_PER_SNAPSHOT
    on_rows_compared: Callable[[int], None] = lambda _rows: None
    """Hears of rows that were compared."""
    result: ComparisonResult = field(default_factory=ComparisonResult, init=False)

    def run(self) -> ComparisonResult:
        """Compare; both sides are only read.

        Raises:
            WarehouseBehind: so many rows are not loaded yet that the others cannot be told apart.
        """
        self._rng = random.Random(self.sample.seed)  # noqa: S311  # chooses ranges, and keeps no secret
        self._kept: list[Difference] = []
        self._counts: Counter[DifferenceKind] = Counter()
        self._quarantined_count = 0
        self._none_yet = True
        low: Cursor | None = START_CURSOR
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="verify") as self._beside:
            while low is not None:
                low = self._compare_stride(low)
        ignored = self.deletes is Deletes.IGNORE
        kept = self._counts.pop(DifferenceKind.GHOST, 0) if ignored else 0
        shown = (one for one in self._kept if not (ignored and one.kind is DifferenceKind.GHOST))
        return replace(
            self.result,
            counts=self._counts,
            kept_ghosts=kept,
            differences=tuple(shown),
            left_out=replace(self.result.left_out, quarantined=self._quarantined_count),
            seed=None if self.sample.is_whole else self.sample.seed,
        )

    def _compare_stride(self, low: Cursor) -> Cursor | None:
        """Compare what one pair of snapshots is opened for; where to go on."""
        bounds = self.bounds()
        self._upto, self._seen = bounds.upto, bounds.last_batch
        if self.result.mark is None:
            self.result = replace(self.result, mark=bounds.upto)
        with self.pairs.open_sides(bounds) as pair:
            self._pair = pair
            ends: Sequence[Cursor] = ()
            if self.by_range:
                rest = KeyRange(low=low)
                ends = pair.source.positions(rest, step=self.range_rows, limit=self.ranges_per_snapshot)
            more = len(ends) == self.ranges_per_snapshot
            whole = KeyRange(low=low, high=ends[-1] if more else None)
            self._leave_out_fresh_rows(whole)
            for one, here, there in self._first_digests(whole, ends[:-1] if more else ends):
                self._compare(one, here, there)
            fetched = self.result.fetched_count + pair.source.fetched_count + pair.target.fetched_count
            self.result = replace(self.result, fetched_count=fetched)
        return ends[-1] if more else None

    def _leave_out_fresh_rows(self, whole: KeyRange) -> None:
        fresh = self._pair.source.keys_above_mark(whole, limit=MOST_FRESH + 1)
        if len(fresh) > MOST_FRESH:
            raise WarehouseBehind(
                f"more than {MOST_FRESH:,} rows have changed since what is loaded was read",
                hint="Load first: syncd run; then verify.",
            )
        if fresh:
            self._pair.target.exclude_keys(fresh)
        left_out = self.result.left_out
        self.result = replace(self.result, left_out=replace(left_out, above_mark=left_out.above_mark + len(fresh)))

    def _first_digests(
        self, whole: KeyRange, ends: Sequence[Cursor]
    ) -> Iterable[tuple[KeyRange, RangeDigest, RangeDigest]]:
        """The first ranges and their sums on both sides; of a sample, some of them."""
        if not self.by_range:
            return self._first_groups(whole)
        ranges = whole.split(ends)
        if self.sample.is_whole:
            self._count_ranges(ranges=len(ranges), compared=len(ranges))
            return self._digest_ranges(whole, ends)
        chosen = self._choose_sample(ranges)
        self._count_ranges(ranges=len(ranges), compared=len(chosen))
        return (found for one in chosen for found in self._digest_ranges(one, ()))

    def _first_groups(self, whole: KeyRange) -> Iterable[tuple[KeyRange, RangeDigest, RangeDigest]]:
        groups = list(self._digest_groups(whole, FIRST_GROUP_DIGITS))
        chosen = groups if self.sample.is_whole else self._choose_sample(groups)
        self._count_ranges(ranges=len(groups), compared=len(chosen))
        return chosen

    def _choose_sample(self, ranges: Sequence[Item]) -> Sequence[Item]:
        chosen = [one for one in ranges if self._rng.random() < self.sample.share]
        if not chosen and self._none_yet and ranges:
            chosen = [self._rng.choice(ranges)]
        self._none_yet = self._none_yet and not chosen
        return chosen

    def _count_ranges(self, *, ranges: int, compared: int) -> None:
        found = self.result
        self.result = replace(found, ranges=found.ranges + ranges, compared_ranges=found.compared_ranges + compared)

    def _compare(self, one: KeyRange, source: RangeDigest, target: RangeDigest) -> None:
        self.result = replace(self.result, rows=self.result.rows + source.rows)
        waiting = [(one, source, target)] if source != target else []
        while waiting:
            one, mine, yours = waiting.pop()
            if max(mine.rows, yours.rows) <= self.leaf_rows:
                self._compare_rows(one)
                continue
            parts = self._divide(one, mine, yours)
            if parts is None:
                self._compare_rows(one)
            else:
                waiting += [part for part in parts if part[1] != part[2]]
        self.on_rows_compared(source.rows)

    def _divide(
        self, one: KeyRange, source: RangeDigest, target: RangeDigest
    ) -> Sequence[tuple[KeyRange, RangeDigest, RangeDigest]] | None:
        """Parts of a range that differs; None where it cannot be divided."""
        rows = max(source.rows, target.rows)
        if self.by_range and not one.digest_prefix:
            side = self._pair.source if source.rows >= target.rows else self._pair.target
            parts = min(MAX_RANGE_PARTS, -(-rows // self.leaf_rows))
            ends = [
                end
                for end in side.positions(one, step=-(-rows // parts), limit=parts)
                if end not in {one.low, one.high}
            ]
            if distinct := list(dict.fromkeys(ends)):
                return list(self._digest_ranges(one, distinct))
        digits = len(one.digest_prefix) + (1 if rows <= 16 * self.leaf_rows else 2)
        return list(self._digest_groups(one, digits)) if digits <= MAX_GROUP_DIGITS else None

    def _digest_ranges(
        self, one: KeyRange, ends: Sequence[Cursor]
    ) -> Iterator[tuple[KeyRange, RangeDigest, RangeDigest]]:
        there = self._beside.submit(self._pair.target.digests, one, ends)
        here = self._pair.source.digests(one, ends)
        yield from zip(one.split(ends), here, there.result(), strict=True)

    def _digest_groups(self, one: KeyRange, digits: int) -> Iterator[tuple[KeyRange, RangeDigest, RangeDigest]]:
        later = self._beside.submit(self._pair.target.digests_by_prefix, one, digits)
        here = self._pair.source.digests_by_prefix(one, digits)
        there = later.result()
        for group in sorted({*here, *there}):
            yield one.with_digest_prefix(group), here.get(group, EMPTY_DIGEST), there.get(group, EMPTY_DIGEST)

    # Few rows.

    def _compare_rows(self, one: KeyRange) -> None:
        """Compare the rows of a range by their keys."""
        later = self._beside.submit(lambda: _group_by_key(self._pair.target.rows(one)))
        here = {row.key: row for row in self._pair.source.rows(one)}
        there = later.result()
        lost = [row for key, row in here.items() if row.is_covered and key not in there]
        ghosts = [rows[0] for key, rows in there.items() if key not in here]
        pairs = [
            (row, there[key]) for key, row in here.items() if row.is_covered and _is_different(row, there.get(key, []))
        ]
        judge = self._pair.comparer
        for rows in _chunks(lost):
            self._record_differences(judge.find_lost(one, rows))
        for changed in _chunks(pairs):
            self._record_differences(judge.find_different(one, changed))
        for strange in _chunks(ghosts):
            # By a later mark, what came back since would be taken for what was seen to be gone.
            self._record_differences(
                replace(ghost, judged_mark=self._upto, judged_batch=self._seen)
                for ghost in judge.find_ghosts(one, strange)
            )

    def _record_differences(self, found: Iterable[Difference | None]) -> None:
        for one in found:
            if one is None:
                self._quarantined_count += 1
                continue
            self._counts[one.kind] += 1
            if len(self._kept) < self.max_differences:
                self._kept.append(one)


def _group_by_key(rows: Iterable[TargetRowDigest]) -> dict[bytes, list[TargetRowDigest]]:
    found: dict[bytes, list[TargetRowDigest]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row)
    return found


def _is_different(row: SourceRowDigest, others: Sequence[TargetRowDigest]) -> bool:
    return bool(others) and (len(others) > 1 or others[0].digest != row.digest)


def _chunks(rows: Sequence[Item]) -> Iterator[list[Item]]:
    left = iter(rows)
    while some := list(islice(left, COMPARED_ROWS_PER_QUERY)):
        yield some
