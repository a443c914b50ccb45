"""The descent of a comparison: every planted difference is found, whatever the keys; equal ranges cost a sum each."""

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncd.errors import WarehouseBehind
from syncd.settings import Deletes
from syncd.verify import verification
from syncd.verify.compared_columns import ComparisonBounds, KeyRange
from syncd.verify.result import ComparisonResult, ComparisonState, Difference, DifferenceKind
from syncd.verify.sides import RangeDigest, SidePair, SourceRowDigest, TargetRowDigest
from syncd.verify.verification import Sample, Verification
from watermarks.cursor import Cursor

BOUNDS = ComparisonBounds(upto=Cursor.from_values(0))
Rows = Mapping[int, Sequence[int]]
"""The digests of the rows of a key: of the source, one each."""


def text(key: int) -> bytes:
    return f"{key},".encode()


def number(place: Cursor) -> int:
    plain = place.values[0].raw
    assert isinstance(plain, int)
    return plain


@dataclass
class Side:
    """One side in memory, with what both have in common."""

    rows_: Rows
    fresh_: frozenset[int] = frozenset()
    fetched_count: int = 0

    def __post_init__(self) -> None:
        self.ordered = sorted(self.rows_)

    def keys(self, one: KeyRange) -> list[int]:
        first = bisect_right(self.ordered, number(one.low)) if one.low else 0
        last = bisect_right(self.ordered, number(one.high)) if one.high else len(self.ordered)
        return [
            key
            for key in self.ordered[first:last]
            if not one.digest_prefix or digits_of(key).startswith(one.digest_prefix)
        ]

    def counted(self, one: KeyRange) -> Iterator[tuple[int, int]]:
        return ((key, digest) for key in self.keys(one) if key not in self.fresh_ for digest in self.rows_[key])

    def digest(self, one: KeyRange) -> RangeDigest:
        found = list(self.counted(one))
        return RangeDigest(rows=len(found), total=sum(digest for _, digest in found))

    def digests(self, key_range: KeyRange, ends: Sequence[Cursor]) -> Sequence[RangeDigest]:
        self.fetched_count += len(ends) + 1
        return [self.digest(part) for part in key_range.split(ends)]

    def digests_by_prefix(self, key_range: KeyRange, prefix_length: int) -> Mapping[str, RangeDigest]:
        groups: dict[str, list[int]] = {}
        for key, digest in self.counted(key_range):
            groups.setdefault(digits_of(key)[:prefix_length], []).append(digest)
        self.fetched_count += len(groups)
        return {group: RangeDigest(rows=len(found), total=sum(found)) for group, found in groups.items()}

    def positions(self, key_range: KeyRange, *, step: int, limit: int) -> Sequence[Cursor]:
        keys = [key for key in self.keys(key_range) for _ in self.rows_[key]]
        return [Cursor.from_values(key) for key in keys[step - 1 :: step]][:limit]


@dataclass
class HereSide(Side):
    def rows(self, key_range: KeyRange) -> Iterator[SourceRowDigest]:
        for key in self.keys(key_range):
            self.fetched_count += 1
            yield SourceRowDigest(key=text(key), digest=self.rows_[key][0], is_covered=key not in self.fresh_)

    def keys_above_mark(self, key_range: KeyRange, *, limit: int) -> Sequence[bytes]:
        return [text(key) for key in self.keys(key_range) if key in self.fresh_][:limit]


@dataclass
class ThereSide(Side):
    def rows(self, key_range: KeyRange) -> Iterator[TargetRowDigest]:
        for key, digest in self.counted(key_range):
            self.fetched_count += 1
            yield TargetRowDigest(key=text(key), digest=digest)

    def exclude_keys(self, keys: Sequence[bytes]) -> None:
        self.fresh_ = frozenset(int(key.decode().rstrip(",")) for key in keys)


class Judge:
    def find_lost(self, key_range: KeyRange, keys: Sequence[SourceRowDigest]) -> Iterator[Difference]:
        yield from (Difference(kind=DifferenceKind.LOST, key={"id": row.key}) for row in keys)

    def find_ghosts(self, key_range: KeyRange, keys: Sequence[TargetRowDigest]) -> Iterator[Difference]:
        yield from (Difference(kind=DifferenceKind.GHOST, key={"id": row.key}) for row in keys)

    def find_different(
        self, key_range: KeyRange, pairs: Sequence[tuple[SourceRowDigest, Sequence[TargetRowDigest]]]
    ) -> Iterator[Difference]:
        for row, others in pairs:
            kind = DifferenceKind.DOUBLED if len(others) > 1 else DifferenceKind.DIFFERENT
            yield Difference(kind=kind, key={"id": row.key})


@dataclass
class Pairs:
    here: HereSide
    there: ThereSide
    opened_: list[ComparisonBounds] = field(default_factory=list)

    @contextmanager
    def open_sides(self, bounds: ComparisonBounds) -> Iterator[SidePair]:
        self.opened_.append(bounds)
        self.here.fetched_count = self.there.fetched_count = 0
        yield SidePair(source=self.here, target=self.there, comparer=Judge())


@cache
def digits_of(key: int) -> str:
    return hashlib.md5(text(key), usedforsecurity=False).hexdigest()


def compare(here: Rows, there: Rows, *, fresh: frozenset[int] = frozenset(), **words: object) -> ComparisonResult:
    pairs = Pairs(HereSide(here, fresh), ThereSide(there))
    given = {
        "deletes": Deletes.HARD,
        "by_range": True,
        "range_rows": 50,
        "leaf_rows": 4,
        "ranges_per_snapshot": 3,
        **words,
    }
    given = {"bounds": lambda: BOUNDS, **given}
    return Verification(pairs=pairs, **given).run()  # type: ignore[arg-type]  # words of the test


def planted(here: Rows, there: Rows, fresh: frozenset[int]) -> set[tuple[DifferenceKind, bytes]]:
    found: set[tuple[DifferenceKind, bytes]] = set()
    for key in {*here, *there} - fresh:
        mine, yours = here.get(key, ()), there.get(key, ())
        if mine and not yours:
            found.add((DifferenceKind.LOST, text(key)))
        elif yours and not mine:
            found.add((DifferenceKind.GHOST, text(key)))
        elif len(yours) > 1:
            found.add((DifferenceKind.DOUBLED, text(key)))
        elif mine[0] != yours[0]:
            found.add((DifferenceKind.DIFFERENT, text(key)))
    return found


KEYS = st.integers(-(10**6), 10**6) | st.integers(0, 40)


@cache
def mixed(key: int, version: int = 0) -> int:
    return int(hashlib.md5(f"{key} {version}".encode(), usedforsecurity=False).hexdigest()[:15], 16)


@given(
    keys=st.frozensets(KEYS, min_size=1, max_size=400),
    lost=st.integers(0, 6),
    ghosts=st.frozensets(KEYS, max_size=30),
    changed=st.integers(0, 6),
    doubled=st.integers(0, 3),
    fresh=st.frozensets(st.integers(0, 399), max_size=20),
    by_range=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_every_difference_is_found_and_nothing_else(
    keys: frozenset[int],
    *,
    lost: int,
    ghosts: frozenset[int],
    changed: int,
    doubled: int,
    fresh: frozenset[int],
    by_range: bool,
) -> None:
    ordered = sorted(keys)
    here = {key: [mixed(key)] for key in ordered}
    there = dict(here)
    for key in ordered[:lost]:
        del there[key]
    for key in ordered[lost : lost + changed]:
        there[key] = [mixed(key, 1)]
    for key in ordered[lost + changed : lost + changed + doubled]:
        there[key] = [mixed(key), mixed(key)]
    there |= {key: [mixed(key)] for key in ghosts if key not in here}
    above = frozenset(ordered[place] for place in fresh if place < len(ordered))

    verdict = compare(here, there, fresh=above, by_range=by_range)

    expected = planted(here, there, above)
    assert {(one.kind, one.key["id"]) for one in verdict.differences} == expected
    assert verdict.state is (ComparisonState.DIFFERENT if expected else ComparisonState.EQUAL)
    assert verdict.rows == len(here.keys() - above)


@pytest.mark.parametrize("by_range", [True, False], ids=["by range", "by digest"])
def test_equal_tables_cost_a_sum_a_range(*, by_range: bool) -> None:
    rows = {key: [mixed(key)] for key in range(20_000)}

    verdict = compare(rows, rows, by_range=by_range, range_rows=1_024, leaf_rows=64, ranges_per_snapshot=64)

    assert (verdict.state, verdict.rows) == (ComparisonState.EQUAL, 20_000)
    assert verdict.fetched_count < 100 if by_range else verdict.fetched_count <= 2 * 16**3


def test_many_ghosts_where_the_source_has_nothing_are_divided_by_their_own_keys() -> None:
    here = {key: [mixed(key)] for key in range(10)}
    there = here | {key: [mixed(key)] for key in range(1_000, 2_000)}

    verdict = compare(here, there, max_differences=10_000)

    assert verdict.counts == Counter({DifferenceKind.GHOST: 1_000})


def test_rows_above_the_mark_are_left_out_on_both_sides_and_counted() -> None:
    here = {key: [mixed(key)] for key in range(100)}
    there = here | {7: [mixed(7, 1)], 8: [mixed(8, 1)]}
    del there[9]

    verdict = compare(here, there, fresh=frozenset({7, 8, 9}))

    assert (verdict.state, verdict.left_out.above_mark, verdict.rows) == (ComparisonState.EQUAL, 3, 97)


def test_where_deletes_are_ignored_ghosts_are_counted_apart() -> None:
    here = {key: [mixed(key)] for key in range(100)}

    verdict = compare(here, here | {200: [1]}, deletes=Deletes.IGNORE)

    assert (verdict.state, verdict.kept_ghosts, verdict.differences) == (ComparisonState.EQUAL, 1, ())


def test_a_sample_picks_whole_ranges_and_the_same_ones_by_the_same_seed() -> None:
    here = {key: [mixed(key)] for key in range(2_000)}
    some = [compare(here, {}, sample=Sample(share=0.2, seed=seed), max_differences=10_000) for seed in (1, 1, 2)]

    assert some[0].differences == some[1].differences != some[2].differences
    assert 0 < some[0].compared_ranges < some[0].ranges == 41
    assert some[0].seed == 1


def test_of_a_sample_one_range_is_picked_at_least() -> None:
    here = {key: [mixed(key)] for key in range(10)}

    assert compare(here, here, sample=Sample(share=0.000001, seed=4)).compared_ranges == 1


@pytest.mark.parametrize("by_range", [True, False], ids=["by range", "by digest"])
def test_a_ghost_says_the_mark_that_it_was_judged_by(*, by_range: bool) -> None:
    """Later marks cover rows that were read meanwhile, of which the earlier snapshots say nothing."""
    here = {key: [mixed(key)] for key in range(0, 1_000, 2)}
    there = here | {7: [mixed(7)], 501: [mixed(501)]}
    marks = (ComparisonBounds(upto=Cursor.from_values(number)) for number in range(1_000))

    verdict = compare(here, there, by_range=by_range, bounds=lambda: next(marks))

    judged = {one.key["id"]: one.judged_mark for one in verdict.differences}
    assert judged == {text(7): Cursor.from_values(0), text(501): Cursor.from_values(1 if by_range else 0)}
    assert verdict.mark == Cursor.from_values(0)


def test_a_warehouse_that_is_far_behind_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "MOST_FRESH", 5)
    here = {key: [mixed(key)] for key in range(10)}

    with pytest.raises(WarehouseBehind):
        compare(here, {}, fresh=frozenset(range(6)))
