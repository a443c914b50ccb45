"""What a comparison asks of each side: sums of ranges, and the keys and values of few rows."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from syncd.verify.compared_columns import Bounds
from syncd.verify.key_ranges import Range
from syncd.verify.result import Difference
from watermarks.cursor import Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """Some rows: how many, and the sum of their digests, in which their order does not count and a double does."""

    rows: int = 0
    total: int = 0


NOTHING = Digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class HereRow:
    """One row of the source."""

    key: bytes
    digest: int
    covered: bool
    """Whether the warehouse must hold it as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThereRow:
    """One row of the warehouse."""

    key: bytes
    digest: int


class Side(Protocol):
    """One side, in one snapshot."""

    fetched: int
    """Rows, sums and positions that came over the wire."""

    def digests(self, one: Range, ends: Sequence[Cursor]) -> Sequence[Digest]:
        """The sums of the ranges that these positions make of one."""
        ...

    def digests_by_digit(self, one: Range, digits: int) -> Mapping[str, Digest]:
        """The sums of rows whose key's digest begins alike; groups without rows are missing."""
        ...

    def positions(self, one: Range, *, step: int, most: int) -> Sequence[Cursor]:
        """The position of each so-manyth row of a range, in order; as many as are asked for at most."""
        ...


class Here(Side, Protocol):
    """The source."""

    def rows(self, one: Range) -> Iterator[HereRow]: ...
    def fresh(self, one: Range, *, most: int) -> Sequence[bytes]:
        """The keys of rows that stand above the mark."""
        ...


class There(Side, Protocol):
    """The warehouse."""

    def rows(self, one: Range) -> Iterator[ThereRow]: ...
    def leave_out(self, keys: Sequence[bytes]) -> None:
        """Count the rows of these keys in no sum from now on."""
        ...


class Judge(Protocol):
    """Looks at single rows, value by value."""

    def lost(self, one: Range, keys: Sequence[HereRow]) -> Iterator[Difference | None]:
        """Rows that the source alone has; None for one that lies in quarantine."""
        ...

    def ghosts(self, one: Range, keys: Sequence[ThereRow]) -> Iterator[Difference]:
        """Rows that the warehouse alone has."""
        ...

    def different(self, one: Range, pairs: Sequence[tuple[HereRow, Sequence[ThereRow]]]) -> Iterator[Difference | None]:
        """Rows whose digests differ, but those whose values do not; None for one that lies in quarantine."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Both sides, each in one snapshot; that of the source is the later one.

    So whatever the warehouse holds of a row was read from the source before it is compared, and where the source's
    version is covered by the mark, the warehouse can hold no other.
    """

    here: Here
    there: There
    judge: Judge


class Pairs(Protocol):
    """Opens both sides, again and again."""

    def opened(self, bounds: Bounds) -> AbstractContextManager[Pair]: ...
