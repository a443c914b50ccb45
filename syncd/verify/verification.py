"""Verification of one stream: both sides are compared by digests of key ranges, and by row where these differ."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, TypeAlias, TypeVar

from syncd.errors import WarehouseBehind
from syncd.settings import Deletes
from syncd.verify.compared_columns import ComparisonBounds, KeyRange
from syncd.verify.result import ComparisonResult, Difference, DifferenceKind
from syncd.verify.sides import EMPTY_DIGEST, RangeDigest, SidePairFactory, SourceRowDigest, TargetRowDigest
from watermarks.cursor import START_CURSOR, Cursor

RANGE_ROWS: Final = 65_536
"""Rows of a range in the first step."""
RANGES_PER_SNAPSHOT: Final = 64
"""Ranges compared in one pair of snapshots."""
LEAF_ROWS: Final = 512
"""Ranges of at most this many rows are compared row by row."""
MAX_RANGE_PARTS: Final = 64
"""Parts of a range that differs."""
COMPARED_ROWS_PER_QUERY: Final = 100
"""Rows compared by value at once."""
MOST_FRESH: Final = 500_000
"""Rows above the mark that one comparison can exclude."""
FIRST_GROUP_DIGITS: Final = 3
"""Digits of the key digest that make the first groups, where the sides order keys differently."""
MAX_GROUP_DIGITS: Final = 12

Item = TypeVar("Item")
DigestPair: TypeAlias = tuple[KeyRange, RangeDigest, RangeDigest]
"""A range with its digests in source and target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Share of the ranges to compare."""

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
    """Called before each pair of snapshots, because the mark may have moved."""
    by_range: bool
    """True if both sides order keys alike."""
    deletes: Deletes = Deletes.IGNORE
    sample: Sample = ALL_RANGES
    max_differences: int = 1_000
    """Number of differences to keep; all are counted."""
    range_rows: int = RANGE_ROWS
    leaf_rows: int = LEAF_ROWS
    ranges_per_snapshot: int = RANGES_PER_SNAPSHOT
    on_rows_compared: Callable[[int], None] = lambda _rows: None
    """Called with the number of compared rows."""
    result: ComparisonResult = field(default_factory=ComparisonResult, init=False)

    def run(self) -> ComparisonResult:
        """Compare both sides, without a write.

        Raises:
            WarehouseBehind: too many rows at the source are above the mark.
        """
        self._rng = random.Random(self.sample.seed)  # noqa: S311  # a sample is no secret
        self._kept: list[Difference] = []
        self._counts: Counter[DifferenceKind] = Counter()
        self._quarantined_count = 0
        self._has_sample = False
        low: Cursor | None = START_CURSOR
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="verify") as self._target_thread:
            while low is not None:
                low = self._compare_snapshot(low)
        kept, kept_ghosts = self._kept, 0
        if self.deletes is Deletes.IGNORE:
            kept_ghosts = self._counts.pop(DifferenceKind.GHOST, 0)
            kept = [difference for difference in kept if difference.kind is not DifferenceKind.GHOST]
        return replace(
            self.result,
            counts=self._counts,
            kept_ghosts=kept_ghosts,
            differences=tuple(kept),
            left_out=replace(self.result.left_out, quarantined=self._quarantined_count),
            seed=None if self.sample.is_whole else self.sample.seed,
        )

    def _compare_snapshot(self, low: Cursor) -> Cursor | None:
        """Compare the next ranges in one pair of snapshots; return where to continue."""
        bounds = self.bounds()
        self._judged_mark, self._judged_batch = bounds.upto, bounds.last_batch
        if self.result.mark is None:
            self.result = replace(self.result, mark=bounds.upto)
        with self.pairs.open_sides(bounds) as pair:
            self._pair = pair
            ends: Sequence[Cursor] = ()
            if self.by_range:
                step, limit = self.range_rows, self.ranges_per_snapshot
                ends = pair.source.positions(KeyRange(low=low), step=step, limit=limit)
            has_more = len(ends) == self.ranges_per_snapshot
            whole = KeyRange(low=low, high=ends[-1] if has_more else None)
            self._exclude_fresh_rows(whole)
            for key_range, source, target in self._first_digests(whole, ends[:-1] if has_more else ends):
                self._compare(key_range, source, target)
            fetched = self.result.fetched_count + pair.source.fetched_count + pair.target.fetched_count
            self.result = replace(self.result, fetched_count=fetched)
        return ends[-1] if has_more else None

    def _exclude_fresh_rows(self, whole: KeyRange) -> None:
        fresh = self._pair.source.keys_above_mark(whole, limit=MOST_FRESH + 1)
        if len(fresh) > MOST_FRESH:
            raise WarehouseBehind(
                f"more than {MOST_FRESH:,} rows have changed since the loaded batches were read",
                hint="Load these changes: syncd run. Then run the command again.",
            )
        if fresh:
            self._pair.target.exclude_keys(fresh)
        left_out = self.result.left_out
        self.result = replace(self.result, left_out=replace(left_out, above_mark=left_out.above_mark + len(fresh)))

    def _first_digests(self, whole: KeyRange, ends: Sequence[Cursor]) -> Iterable[DigestPair]:
        """Return the first ranges with the digests of both sides, or a sample of them."""
        if not self.by_range:
            return self._first_groups(whole)
        ranges = whole.split(ends)
        if self.sample.is_whole:
            self._count_ranges(ranges=len(ranges), compared=len(ranges))
            return self._digest_ranges(whole, ends)
        chosen = self._choose_sample(ranges)
        self._count_ranges(ranges=len(ranges), compared=len(chosen))
        return (digests for key_range in chosen for digests in self._digest_ranges(key_range, ()))

    def _first_groups(self, whole: KeyRange) -> Iterable[DigestPair]:
        groups = list(self._digest_groups(whole, FIRST_GROUP_DIGITS))
        chosen = groups if self.sample.is_whole else self._choose_sample(groups)
        self._count_ranges(ranges=len(groups), compared=len(chosen))
        return chosen

    def _choose_sample(self, ranges: Sequence[Item]) -> Sequence[Item]:
        chosen = [each for each in ranges if self._rng.random() < self.sample.share]
        if not chosen and not self._has_sample and ranges:
            chosen = [self._rng.choice(ranges)]
        self._has_sample = self._has_sample or bool(chosen)
        return chosen

    def _count_ranges(self, *, ranges: int, compared: int) -> None:
        result = self.result
        self.result = replace(result, ranges=result.ranges + ranges, compared_ranges=result.compared_ranges + compared)

    def _compare(self, key_range: KeyRange, source: RangeDigest, target: RangeDigest) -> None:
        """Compare a range, and divide it until the differences are found."""
        self.result = replace(self.result, rows=self.result.rows + source.rows)
        waiting = [(key_range, source, target)] if source != target else []
        while waiting:
            part, source_digest, target_digest = waiting.pop()
            divided = self._divide(part, source_digest, target_digest)
            if divided is None:
                self._compare_rows(part)
            else:
                waiting += [smaller for smaller in divided if smaller[1] != smaller[2]]
        self.on_rows_compared(source.rows)

    def _divide(self, key_range: KeyRange, source: RangeDigest, target: RangeDigest) -> Sequence[DigestPair] | None:
        """Divide a range that differs; None where it is small enough, or cannot be divided."""
        rows = max(source.rows, target.rows)
        if rows <= self.leaf_rows:
            return None
        if self.by_range and not key_range.digest_prefix:
            side = self._pair.source if source.rows >= target.rows else self._pair.target
            parts = min(MAX_RANGE_PARTS, -(-rows // self.leaf_rows))
            positions = side.positions(key_range, step=-(-rows // parts), limit=parts)
            if ends := [end for end in dict.fromkeys(positions) if end not in {key_range.low, key_range.high}]:
                return list(self._digest_ranges(key_range, ends))
        digits = len(key_range.digest_prefix) + (1 if rows <= 16 * self.leaf_rows else 2)
        return list(self._digest_groups(key_range, digits)) if digits <= MAX_GROUP_DIGITS else None

    def _digest_ranges(self, key_range: KeyRange, ends: Sequence[Cursor]) -> Iterator[DigestPair]:
        target = self._target_thread.submit(self._pair.target.digests, key_range, ends)
        source = self._pair.source.digests(key_range, ends)
        yield from zip(key_range.split(ends), source, target.result(), strict=True)

    def _digest_groups(self, key_range: KeyRange, digits: int) -> Iterator[DigestPair]:
        future = self._target_thread.submit(self._pair.target.digests_by_prefix, key_range, digits)
        source = self._pair.source.digests_by_prefix(key_range, digits)
        target = future.result()
        for prefix in sorted({*source, *target}):
            group = replace(key_range, digest_prefix=prefix)
            yield group, source.get(prefix, EMPTY_DIGEST), target.get(prefix, EMPTY_DIGEST)

    def _compare_rows(self, key_range: KeyRange) -> None:
        """Compare the rows of a small range by key."""
        future = self._target_thread.submit(lambda: _group_by_key(self._pair.target.rows(key_range)))
        source = {row.key: row for row in self._pair.source.rows(key_range)}
        target = future.result()
        covered = {key: row for key, row in source.items() if row.is_covered}
        lost = [row for key, row in covered.items() if key not in target]
        ghosts = [rows[0] for key, rows in target.items() if key not in source]
        pairs = [(row, target[key]) for key, row in covered.items() if _is_different(row, target.get(key, []))]
        comparer = self._pair.comparer
        for some in _chunks(lost):
            self._record_differences(comparer.find_lost(key_range, some))
        for changed in _chunks(pairs):
            self._record_differences(comparer.find_different(key_range, changed))
        for unknown in _chunks(ghosts):
            # With a later mark, a row that came back since would be taken for a deleted one.
            self._record_differences(
                replace(ghost, judged_mark=self._judged_mark, judged_batch=self._judged_batch)
                for ghost in comparer.find_ghosts(key_range, unknown)
            )

    def _record_differences(self, differences: Iterable[Difference | None]) -> None:
        for difference in differences:
            if difference is None:
                self._quarantined_count += 1
                continue
            self._counts[difference.kind] += 1
            if len(self._kept) < self.max_differences:
                self._kept.append(difference)


def _group_by_key(rows: Iterable[TargetRowDigest]) -> dict[bytes, list[TargetRowDigest]]:
    by_key: dict[bytes, list[TargetRowDigest]] = {}
    for row in rows:
        by_key.setdefault(row.key, []).append(row)
    return by_key


def _is_different(row: SourceRowDigest, others: Sequence[TargetRowDigest]) -> bool:
    return bool(others) and (len(others) > 1 or others[0].digest != row.digest)


def _chunks(rows: Sequence[Item]) -> Iterator[list[Item]]:
    remaining = iter(rows)
    while some := list(islice(remaining, COMPARED_ROWS_PER_QUERY)):
        yield some
