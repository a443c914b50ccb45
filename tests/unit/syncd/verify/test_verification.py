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
from syncd.verify.compared_columns import Bounds
from syncd.verify.key_ranges import Range
from syncd.verify.result import Difference, Kind, State, Verdict
from syncd.verify.sides import Digest, HereRow, Pair, ThereRow
from syncd.verify.verification import Sample, Verification
from watermarks.cursor import Cursor

BOUNDS = Bounds(upto=Cursor.of(0))
Rows = Mapping[int, Sequence[int]]
"""The digests of the rows of a key: of the source, one each."""


def text(key: int) -> bytes:
    return f"{key},".encode()


def number(place: Cursor) -> int:
    plain = place.values[0].plain
    assert isinstance(plain, int)
    return plain


@dataclass
class Side:
    """One side in memory, with what both have in common."""

    rows_: Rows
    fresh_: frozenset[int] = frozenset()
    fetched: int = 0

    def __post_init__(self) -> None:
        self.ordered = sorted(self.rows_)

    def keys(self, one: Range) -> list[int]:
        first = bisect_right(self.ordered, number(one.low)) if one.low else 0
        last = bisect_right(self.ordered, number(one.high)) if one.high else len(self.ordered)
        return [key for key in self.ordered[first:last] if not one.digits or digits_of(key).startswith(one.digits)]

    def counted(self, one: Range) -> Iterator[tuple[int, int]]:
        return ((key, digest) for key in self.keys(one) if key not in self.fresh_ for digest in self.rows_[key])

    def digest(self, one: Range) -> Digest:
        found = list(self.counted(one))
        return Digest(rows=len(found), total=sum(digest for _, digest in found))

    def digests(self, one: Range, ends: Sequence[Cursor]) -> Sequence[Digest]:
        self.fetched += len(ends) + 1
        return [self.digest(part) for part in one.divided(ends)]

    def digests_by_digit(self, one: Range, digits: int) -> Mapping[str, Digest]:
        groups: dict[str, list[int]] = {}
        for key, digest in self.counted(one):
            groups.setdefault(digits_of(key)[:digits], []).append(digest)
        self.fetched += len(groups)
        return {group: Digest(rows=len(found), total=sum(found)) for group, found in groups.items()}

    def positions(self, one: Range, *, step: int, most: int) -> Sequence[Cursor]:
        keys = [key for key in self.keys(one) for _ in self.rows_[key]]
        return [Cursor.of(key) for key in keys[step - 1 :: step]][:most]


@dataclass
class HereSide(Side):
    def rows(self, one: Range) -> Iterator[HereRow]:
        for key in self.keys(one):
            self.fetched += 1
            yield HereRow(key=text(key), digest=self.rows_[key][0], covered=key not in self.fresh_)

    def fresh(self, one: Range, *, most: int) -> Sequence[bytes]:
        return [text(key) for key in self.keys(one) if key in self.fresh_][:most]


@dataclass
class ThereSide(Side):
    def rows(self, one: Range) -> Iterator[ThereRow]:
        for key, digest in self.counted(one):
            self.fetched += 1
            yield ThereRow(key=text(key), digest=digest)

    def leave_out(self, keys: Sequence[bytes]) -> None:
        self.fresh_ = frozenset(int(key.decode().rstrip(",")) for key in keys)


class Judge:
    def lost(self, one: Range, keys: Sequence[HereRow]) -> Iterator[Difference]:
        yield from (Difference(kind=Kind.LOST, key={"id": row.key}) for row in keys)

    def ghosts(self, one: Range, keys: Sequence[ThereRow]) -> Iterator[Difference]:
        yield from (Difference(kind=Kind.GHOST, key={"id": row.key}) for row in keys)

    def different(self, one: Range, pairs: Sequence[tuple[HereRow, Sequence[ThereRow]]]) -> Iterator[Difference]:
        for row, others in pairs:
            kind = Kind.DOUBLED if len(others) > 1 else Kind.DIFFERENT
            yield Difference(kind=kind, key={"id": row.key})


@dataclass
class Pairs:
    here: HereSide
    there: ThereSide
    opened_: list[Bounds] = field(default_factory=list)

    @contextmanager
    def opened(self, bounds: Bounds) -> Iterator[Pair]:
        self.opened_.append(bounds)
        self.here.fetched = self.there.fetched = 0
        yield Pair(here=self.here, there=self.there, judge=Judge())


@cache
def digits_of(key: int) -> str:
    return hashlib.md5(text(key), usedforsecurity=False).hexdigest()


def compare(here: Rows, there: Rows, *, fresh: frozenset[int] = frozenset(), **words: object) -> Verdict:
    pairs = Pairs(HereSide(here, fresh), ThereSide(there))
    given = {"deletes": Deletes.HARD, "by_range": True, "range_rows": 50, "leaf_rows": 4, "stride": 3, **words}
    given = {"bounds": lambda: BOUNDS, **given}
    return Verification(pairs=pairs, **given).run()  # type: ignore[arg-type]  # words of the test


def planted(here: Rows, there: Rows, fresh: frozenset[int]) -> set[tuple[Kind, bytes]]:
    found: set[tuple[Kind, bytes]] = set()
    for key in {*here, *there} - fresh:
        mine, yours = here.get(key, ()), there.get(key, ())
        if mine and not yours:
            found.add((Kind.LOST, text(key)))
        elif yours and not mine:
            found.add((Kind.GHOST, text(key)))
        elif len(yours) > 1:
            found.add((Kind.DOUBLED, text(key)))
        elif mine[0] != yours[0]:
            found.add((Kind.DIFFERENT, text(key)))
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
    assert verdict.state is (State.DIFFERENT if expected else State.EQUAL)
    assert verdict.rows == len(here.keys() - above)


@pytest.mark.parametrize("by_range", [True, False], ids=["by range", "by digest"])
def test_equal_tables_cost_a_sum_a_range(*, by_range: bool) -> None:
    rows = {key: [mixed(key)] for key in range(20_000)}

    verdict = compare(rows, rows, by_range=by_range, range_rows=1_024, leaf_rows=64, stride=64)

    assert (verdict.state, verdict.rows) == (State.EQUAL, 20_000)
    assert verdict.fetched < 100 if by_range else verdict.fetched <= 2 * 16**3


def test_many_ghosts_where_the_source_has_nothing_are_divided_by_their_own_keys() -> None:
    here = {key: [mixed(key)] for key in range(10)}
    there = here | {key: [mixed(key)] for key in range(1_000, 2_000)}

    verdict = compare(here, there, most=10_000)

    assert verdict.counts == Counter({Kind.GHOST: 1_000})


def test_rows_above_the_mark_are_left_out_on_both_sides_and_counted() -> None:
    here = {key: [mixed(key)] for key in range(100)}
    there = here | {7: [mixed(7, 1)], 8: [mixed(8, 1)]}
    del there[9]

    verdict = compare(here, there, fresh=frozenset({7, 8, 9}))

    assert (verdict.state, verdict.left_out.above_mark, verdict.rows) == (State.EQUAL, 3, 97)


def test_where_deletes_are_ignored_ghosts_are_counted_apart() -> None:
    here = {key: [mixed(key)] for key in range(100)}

    verdict = compare(here, here | {200: [1]}, deletes=Deletes.IGNORE)

    assert (verdict.state, verdict.kept, verdict.differences) == (State.EQUAL, 1, ())


def test_a_sample_picks_whole_ranges_and_the_same_ones_by_the_same_seed() -> None:
    here = {key: [mixed(key)] for key in range(2_000)}
    some = [compare(here, {}, sample=Sample(share=0.2, seed=seed), most=10_000) for seed in (1, 1, 2)]

    assert some[0].differences == some[1].differences != some[2].differences
    assert 0 < some[0].compared < some[0].ranges == 41
    assert some[0].seed == 1


def test_of_a_sample_one_range_is_picked_at_least() -> None:
    here = {key: [mixed(key)] for key in range(10)}

    assert compare(here, here, sample=Sample(share=0.000001, seed=4)).compared == 1


@pytest.mark.parametrize("by_range", [True, False], ids=["by range", "by digest"])
def test_a_ghost_says_the_mark_that_it_was_judged_by(*, by_range: bool) -> None:
    """Later marks cover rows that were read meanwhile, of which the earlier snapshots say nothing."""
    here = {key: [mixed(key)] for key in range(0, 1_000, 2)}
    there = here | {7: [mixed(7)], 501: [mixed(501)]}
    marks = (Bounds(upto=Cursor.of(number)) for number in range(1_000))

    verdict = compare(here, there, by_range=by_range, bounds=lambda: next(marks))

    judged = {one.key["id"]: one.upto for one in verdict.differences}
    assert judged == {text(7): Cursor.of(0), text(501): Cursor.of(1 if by_range else 0)}
    assert verdict.mark == Cursor.of(0)


def test_a_warehouse_that_is_far_behind_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "MOST_FRESH", 5)
    here = {key: [mixed(key)] for key in range(10)}

    with pytest.raises(WarehouseBehind):
        compare(here, {}, fresh=frozenset(range(6)))
