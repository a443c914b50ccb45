"""What a reader is asked to do, and what it tells afterwards."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from syncd.datatypes.columns import ColumnMapping, Policies
from syncd.settings import NullCursor
from watermarks.cursor import Cursor, ValueKind
from watermarks.window import Window

PART_BYTES: Final = 128 << 20
"""Approximate size at which a part is full."""
NULL_CURSOR_COUNT: Final = f"null_cursor.{NullCursor.SNAPSHOT_ONLY}"
"""Under this name the rows are counted whose order column is NULL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderField:
    """One column of the stream's order, as it travels."""

    name: str
    """The field of the query that holds it; fields that no passage has are read, checked and not written."""
    kind: ValueKind


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowQuery:
    """One window and the statement that reads it, over one connection."""

    window: Window | None
    """None where the rows of a statement have no order to check (a whole table)."""
    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """One batch to read: windows in parallel, one task and one connection each."""

    queries: tuple[WindowQuery, ...]
    columns: tuple[ColumnMapping, ...]
    order: tuple[OrderField, ...]
    policies: Policies
    server_identity: str
    """The server that every connection must be at."""
    part_prefix: str
    """What the keys of all parts begin with: `data/<stream>/<yyyy>/<mm>/<dd>/<id>/`."""
    quarantine_prefix: str
    """What the keys of refused rows begin with: `quarantine/<stream>/<id>/`."""
    batch_number: int
    """The number of the batch, which every row of its files carries."""
    nonce: str
    """Of this attempt: in every key, so that no two attempts share one."""
    identity_columns: frozenset[str] = frozenset()
    """The columns that say what row it is, and which version of it: nothing is made NULL or cut in them."""
    cursor: str | None = None
    """The field that holds the order column, where rows have one: those in which it is NULL are counted."""
    is_small: bool = False
    """Whether few rows are to be read, as far as is known."""
    part_bytes: int = PART_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One Parquet file as it stands in the lake."""

    key: str
    etag: str
    bytes: int
    rows: int
    sha256: str
    low: Cursor
    """The lowest position among its rows; START where the order is the database's affair."""
    high: Cursor
    widths: Mapping[str, int] = field(default_factory=dict[str, int])
    """The widest value of each text and binary column, in bytes of UTF-8."""

    def to_fields(self) -> dict[str, Any]:
        return {**asdict(self), "low": self.low.to_texts(), "high": self.high.to_texts(), "widths": dict(self.widths)}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        typed: dict[str, Any] = {"low": Cursor.from_texts(fields["low"]), "high": Cursor.from_texts(fields["high"])}
        return cls(**{**fields, **typed})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """What came of a reading."""

    parts: tuple[Part, ...]
    quarantined_parts: tuple[Part, ...] = ()
    """Files of refused rows: their columns as they travelled, and why."""
    problem_counts: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many values, or rows without a position, met each policy, by `trouble.policy`."""
