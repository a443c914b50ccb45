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
from syncd.verify.compared_columns import Bounds
from syncd.verify.key_ranges import Range
from syncd.verify.result import Difference, Kind, Verdict
from syncd.verify.sides import NOTHING, Digest, HereRow, Pairs, ThereRow
from watermarks.cursor import START, Cursor

RANGE_ROWS: Final = 65_536
"""Rows of a range that is summed first."""
STRIDE: Final = 64
"""Ranges that are compared in one pair of snapshots."""
LEAF_ROWS: Final = 512
"""Of so many rows, keys and digests are fetched."""
MOST_PARTS: Final = 64
"""Ranges that are made of one which differs."""
AT_ONCE: Final = 100
"""Rows that are looked at value by value at once."""
MOST_FRESH: Final = 500_000
"""Rows above the mark that a comparison can leave out at once."""
FIRST_DIGITS: Final = 3
"""Where no range of the key means the same on both sides: so many digits of its digest make the first groups."""
MOST_DIGITS: Final = 12

One = TypeVar("One")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Which part of the ranges is compared."""

    share: float = 1.0
    seed: int = 0

    @property
    def whole(self) -> bool:
        return self.share >= 1


ALL: Final = Sample()


@dataclass(kw_only=True)
class Verification:
    """One comparison of one stream."""

    pairs: Pairs
    bounds: Callable[[], Bounds]
    """Asked before each pair of snapshots: the mark may have moved meanwhile."""
    by_range: bool
    """Whether ranges of the key mean the same on both sides."""
    deletes: Deletes = Deletes.IGNORE
    sample: Sample = ALL
    most: int = 1_000
    """Differences that are kept; all are counted."""
    range_rows: int = RANGE_ROWS
    leaf_rows: int = LEAF_ROWS
    stride: int = STRIDE
    tell: Callable[[int], None] = lambda _rows: None
    """Hears of rows that were compared."""
    verdict: Verdict = field(default_factory=Verdict, init=False)

    def run(self) -> Verdict:
        """Compare; both sides are only read.

        Raises:
            WarehouseBehind: so many rows are not loaded yet that the others cannot be told apart.
        """
        self._rng = random.Random(self.sample.seed)  # noqa: S311  # chooses ranges, and keeps no secret
        self._kept: list[Difference] = []
        self._counts: Counter[Kind] = Counter()
        self._aside = 0
        self._none_yet = True
        low: Cursor | None = START
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="verify") as self._beside:
            while low is not None:
                low = self._stride(low)
        ignored = self.deletes is Deletes.IGNORE
        kept = self._counts.pop(Kind.GHOST, 0) if ignored else 0
        shown = (one for one in self._kept if not (ignored and one.kind is Kind.GHOST))
        return replace(
            self.verdict,
            counts=self._counts,
            kept=kept,
            differences=tuple(shown),
            left_out=replace(self.verdict.left_out, quarantined=self._aside),
            seed=None if self.sample.whole else self.sample.seed,
        )

    def _stride(self, low: Cursor) -> Cursor | None:
        """Compare what one pair of snapshots is opened for; where to go on."""
        bounds = self.bounds()
        self._upto, self._seen = bounds.upto, bounds.seen
        if self.verdict.mark is None:
            self.verdict = replace(self.verdict, mark=bounds.upto)
        with self.pairs.opened(bounds) as pair:
            self._pair = pair
            ends: Sequence[Cursor] = ()
            if self.by_range:
                rest = Range(low=low)
                ends = pair.here.positions(rest, step=self.range_rows, most=self.stride)
            more = len(ends) == self.stride
            whole = Range(low=low, high=ends[-1] if more else None)
            self._leave_out(whole)
            for one, here, there in self._first(whole, ends[:-1] if more else ends):
                self._compare(one, here, there)
            fetched = self.verdict.fetched + pair.here.fetched + pair.there.fetched
            self.verdict = replace(self.verdict, fetched=fetched)
        return ends[-1] if more else None

    def _leave_out(self, whole: Range) -> None:
        fresh = self._pair.here.fresh(whole, most=MOST_FRESH + 1)
        if len(fresh) > MOST_FRESH:
            raise WarehouseBehind(
                f"more than {MOST_FRESH:,} rows have changed since what is loaded was read",
                hint="Load first: syncd run; then verify.",
            )
        if fresh:
            self._pair.there.leave_out(fresh)
        left_out = self.verdict.left_out
        self.verdict = replace(self.verdict, left_out=replace(left_out, above_mark=left_out.above_mark + len(fresh)))

    def _first(self, whole: Range, ends: Sequence[Cursor]) -> Iterable[tuple[Range, Digest, Digest]]:
        """The first ranges and their sums on both sides; of a sample, some of them."""
        if not self.by_range:
            return self._sampled_groups(whole)
        ranges = whole.divided(ends)
        if self.sample.whole:
            self._count(ranges=len(ranges), compared=len(ranges))
            return self._summed(whole, ends)
        chosen = self._chosen(ranges)
        self._count(ranges=len(ranges), compared=len(chosen))
        return (found for one in chosen for found in self._summed(one, ()))

    def _sampled_groups(self, whole: Range) -> Iterable[tuple[Range, Digest, Digest]]:
        groups = list(self._grouped(whole, FIRST_DIGITS))
        chosen = groups if self.sample.whole else self._chosen(groups)
        self._count(ranges=len(groups), compared=len(chosen))
        return chosen

    def _chosen(self, ranges: Sequence[One]) -> Sequence[One]:
        chosen = [one for one in ranges if self._rng.random() < self.sample.share]
        if not chosen and self._none_yet and ranges:
            chosen = [self._rng.choice(ranges)]
        self._none_yet = self._none_yet and not chosen
        return chosen

    def _count(self, *, ranges: int, compared: int) -> None:
        found = self.verdict
        self.verdict = replace(found, ranges=found.ranges + ranges, compared=found.compared + compared)

    def _compare(self, one: Range, here: Digest, there: Digest) -> None:
        self.verdict = replace(self.verdict, rows=self.verdict.rows + here.rows)
        waiting = [(one, here, there)] if here != there else []
        while waiting:
            one, mine, yours = waiting.pop()
            if max(mine.rows, yours.rows) <= self.leaf_rows:
                self._look(one)
                continue
            parts = self._parts(one, mine, yours)
            if parts is None:
                self._look(one)
            else:
                waiting += [part for part in parts if part[1] != part[2]]
        self.tell(here.rows)

    def _parts(self, one: Range, here: Digest, there: Digest) -> Sequence[tuple[Range, Digest, Digest]] | None:
        """Parts of a range that differs; None where it cannot be divided."""
        rows = max(here.rows, there.rows)
        if self.by_range and not one.digits:
            side = self._pair.here if here.rows >= there.rows else self._pair.there
            parts = min(MOST_PARTS, -(-rows // self.leaf_rows))
            ends = [
                end for end in side.positions(one, step=-(-rows // parts), most=parts) if end not in {one.low, one.high}
            ]
            if distinct := list(dict.fromkeys(ends)):
                return list(self._summed(one, distinct))
        digits = len(one.digits) + (1 if rows <= 16 * self.leaf_rows else 2)
        return list(self._grouped(one, digits)) if digits <= MOST_DIGITS else None

    def _summed(self, one: Range, ends: Sequence[Cursor]) -> Iterator[tuple[Range, Digest, Digest]]:
        there = self._beside.submit(self._pair.there.digests, one, ends)
        here = self._pair.here.digests(one, ends)
        yield from zip(one.divided(ends), here, there.result(), strict=True)

    def _grouped(self, one: Range, digits: int) -> Iterator[tuple[Range, Digest, Digest]]:
        later = self._beside.submit(self._pair.there.digests_by_digit, one, digits)
        here = self._pair.here.digests_by_digit(one, digits)
        there = later.result()
        for group in sorted({*here, *there}):
            yield one.with_digits(group), here.get(group, NOTHING), there.get(group, NOTHING)

    # Few rows.

    def _look(self, one: Range) -> None:
        """Compare the rows of a range by their keys."""
        later = self._beside.submit(lambda: _by_key(self._pair.there.rows(one)))
        here = {row.key: row for row in self._pair.here.rows(one)}
        there = later.result()
        lost = [row for key, row in here.items() if row.covered and key not in there]
        ghosts = [rows[0] for key, rows in there.items() if key not in here]
        pairs = [(row, there[key]) for key, row in here.items() if row.covered and _differ(row, there.get(key, []))]
        judge = self._pair.judge
        for rows in _some(lost):
            self._note(judge.lost(one, rows))
        for changed in _some(pairs):
            self._note(judge.different(one, changed))
        for strange in _some(ghosts):
            # By a later mark, what came back since would be taken for what was seen to be gone.
            self._note(replace(ghost, upto=self._upto, seen=self._seen) for ghost in judge.ghosts(one, strange))

    def _note(self, found: Iterable[Difference | None]) -> None:
        for one in found:
            if one is None:
                self._aside += 1
                continue
            self._counts[one.kind] += 1
            if len(self._kept) < self.most:
                self._kept.append(one)


def _by_key(rows: Iterable[ThereRow]) -> dict[bytes, list[ThereRow]]:
    found: dict[bytes, list[ThereRow]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row)
    return found


def _differ(row: HereRow, others: Sequence[ThereRow]) -> bool:
    return bool(others) and (len(others) > 1 or others[0].digest != row.digest)


def _some(rows: Sequence[One]) -> Iterator[list[One]]:
    left = iter(rows)
    while some := list(islice(left, AT_ONCE)):
        yield some
