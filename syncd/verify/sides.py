"""Ports of a comparison: two sides, each in one snapshot, and the comparer of single rows."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from syncd.verify.compared_columns import ComparisonBounds, KeyRange
from syncd.verify.result import Difference
from watermarks.cursor import Cursor

Row = tuple[Any, ...]
"""Values of one row in the form of a driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeDigest:
    """Number of rows, and the sum of their digests; their order does not count, and a duplicate does."""

    rows: int = 0
    total: int = 0


EMPTY_DIGEST = RangeDigest()


def to_range_digest(rows: Any, total: Any) -> RangeDigest:  # noqa: ANN401  # a driver's numbers
    return RangeDigest(rows=int(rows), total=int(total or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRowDigest:
    key: bytes
    digest: int
    is_covered: bool
    """True if the warehouse must hold the row unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRowDigest:
    key: bytes
    digest: int


class TargetSession(Protocol):
    """Session with a warehouse, inside a transaction."""

    def run(self, sql: str, args: Sequence[object] = (), *, within: timedelta | None = None) -> int: ...
    def rows(self, sql: str, args: Sequence[object] = (), *, within: timedelta | None = None) -> Sequence[Row]: ...


class ComparedSide(Protocol):
    """One side, in one snapshot."""

    fetched_count: int
    """Rows, sums and positions that were fetched."""

    def digests(self, key_range: KeyRange, ends: Sequence[Cursor]) -> Sequence[RangeDigest]:
        """Return the digests of the ranges into which these positions divide a range."""
        ...

    def digests_by_prefix(self, key_range: KeyRange, prefix_length: int) -> Mapping[str, RangeDigest]:
        """Return the digests of rows grouped by the first digits of their key's digest."""
        ...

    def positions(self, key_range: KeyRange, *, step: int, limit: int) -> Sequence[Cursor]:
        """Return the position of every `step`-th row of a range in order, at most `limit` of them."""
        ...


class ComparedSource(ComparedSide, Protocol):
    def rows(self, key_range: KeyRange) -> Iterator[SourceRowDigest]: ...
    def keys_above_mark(self, key_range: KeyRange, *, limit: int) -> Sequence[bytes]:
        """Return the keys of rows above the mark; the warehouse may hold older versions of them."""
        ...


class ComparedTarget(ComparedSide, Protocol):
    def rows(self, key_range: KeyRange) -> Iterator[TargetRowDigest]: ...
    def exclude_keys(self, keys: Sequence[bytes]) -> None:
        """Exclude the rows of these keys from all later digests."""
        ...


class ValueComparer(Protocol):
    """Comparer of single rows by their values; None stands for a quarantined row."""

    def find_lost(self, key_range: KeyRange, keys: Sequence[SourceRowDigest]) -> Iterator[Difference | None]:
        """Yield the rows that only the source has."""
        ...

    def find_ghosts(self, key_range: KeyRange, keys: Sequence[TargetRowDigest]) -> Iterator[Difference]:
        """Yield the rows that only the warehouse has."""
        ...

    def find_different(
        self, key_range: KeyRange, pairs: Sequence[tuple[SourceRowDigest, Sequence[TargetRowDigest]]]
    ) -> Iterator[Difference | None]:
        """Yield those of these rows with different digests whose values differ as well."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SidePair:
    """Both sides, each in one snapshot; that of the source is the later one.

    So every version in the warehouse was read from the source before the comparison. Where the mark covers the
    source's version, the warehouse can hold no other.
    """

    source: ComparedSource
    target: ComparedTarget
    comparer: ValueComparer


class SidePairFactory(Protocol):
    def open_sides(self, bounds: ComparisonBounds) -> AbstractContextManager[SidePair]:
        """Open both sides; it may be called many times."""
        ...
