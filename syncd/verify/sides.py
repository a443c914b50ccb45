"""What a comparison asks of each side: sums of ranges, and the keys and values of few rows."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from syncd.verify.compared_columns import ComparisonBounds
from syncd.verify.key_ranges import KeyRange
from syncd.verify.result import Difference
from watermarks.cursor import Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeDigest:
    """Some rows: how many, and the sum of their digests, in which their order does not count and a double does."""

    rows: int = 0
    total: int = 0


EMPTY_DIGEST = RangeDigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRowDigest:
    """One row of the source."""

    key: bytes
    digest: int
    is_covered: bool
    """Whether the warehouse must hold it as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRowDigest:
    """One row of the warehouse."""

    key: bytes
    digest: int


class ComparedSide(Protocol):
    """One side, in one snapshot."""

    fetched_count: int
    """Rows, sums and positions that came over the wire."""

    def digests(self, key_range: KeyRange, ends: Sequence[Cursor]) -> Sequence[RangeDigest]:
        """The sums of the ranges that these positions make of one."""
        ...

    def digests_by_prefix(self, key_range: KeyRange, prefix_length: int) -> Mapping[str, RangeDigest]:
        """The sums of rows whose key's digest begins alike; groups without rows are missing."""
        ...

    def positions(self, key_range: KeyRange, *, step: int, limit: int) -> Sequence[Cursor]:
        """The position of each so-manyth row of a range, in order; as many as are asked for at most."""
        ...


class ComparedSource(ComparedSide, Protocol):
    """The source."""

    def rows(self, key_range: KeyRange) -> Iterator[SourceRowDigest]: ...
    def keys_above_mark(self, key_range: KeyRange, *, limit: int) -> Sequence[bytes]:
        """The keys of rows that stand above the mark."""
        ...


class ComparedTarget(ComparedSide, Protocol):
    """The warehouse."""

    def rows(self, key_range: KeyRange) -> Iterator[TargetRowDigest]: ...
    def exclude_keys(self, keys: Sequence[bytes]) -> None:
        """Count the rows of these keys in no sum from now on."""
        ...


class ValueComparer(Protocol):
    """Looks at single rows, value by value."""

    def find_lost(self, key_range: KeyRange, keys: Sequence[SourceRowDigest]) -> Iterator[Difference | None]:
        """Rows that the source alone has; None for one that lies in quarantine."""
        ...

    def find_ghosts(self, key_range: KeyRange, keys: Sequence[TargetRowDigest]) -> Iterator[Difference]:
        """Rows that the warehouse alone has."""
        ...

    def find_different(
        self, key_range: KeyRange, pairs: Sequence[tuple[SourceRowDigest, Sequence[TargetRowDigest]]]
    ) -> Iterator[Difference | None]:
        """Rows whose digests differ, but those whose values do not; None for one that lies in quarantine."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SidePair:
    """Both sides, each in one snapshot; that of the source is the later one.

    So whatever the warehouse holds of a row was read from the source before it is compared, and where the source's
    version is covered by the mark, the warehouse can hold no other.
    """

    source: ComparedSource
    target: ComparedTarget
    comparer: ValueComparer


class SidePairFactory(Protocol):
    """Opens both sides, again and again."""

    def open_sides(self, bounds: ComparisonBounds) -> AbstractContextManager[SidePair]: ...
