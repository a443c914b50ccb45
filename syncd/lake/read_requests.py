"""Read requests, and their results: parts of one batch."""

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
"""Name under which rows are counted whose order column is NULL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderField:
    """One column of the stream's order in a query."""

    name: str
    """Field of the query; fields that are in no column mapping are read, checked and not written."""
    kind: ValueKind


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowQuery:
    """One window and the statement that reads it, over one connection."""

    window: Window | None
    """None if the rows of the statement have no order to check (a whole table)."""
    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """One batch to read: its windows in parallel, each by one task over one connection."""

    queries: tuple[WindowQuery, ...]
    columns: tuple[ColumnMapping, ...]
    order: tuple[OrderField, ...]
    policies: Policies
    server_identity: str
    """Identity of the server that every connection must reach."""
    part_prefix: str
    """Prefix of all parts: `data/<stream>/<yyyy>/<mm>/<dd>/<id>/`."""
    quarantine_prefix: str
    """Prefix of refused rows: `quarantine/<stream>/<id>/`."""
    batch_number: int
    """The number of the batch, which every row of its files carries."""
    nonce: str
    """Part of every key of this attempt, so that no two attempts share one."""
    identity_columns: frozenset[str] = frozenset()
    """The columns of key and version: no policy nulls or cuts a value in them."""
    cursor: str | None = None
    """Field of the order column, if there is one: rows in which it is NULL are counted."""
    is_small: bool = False
    """True if few rows are expected."""
    part_bytes: int = PART_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One Parquet file in the lake."""

    key: str
    etag: str
    bytes: int
    rows: int
    sha256: str
    low: Cursor
    """The lowest position among its rows; START if only the database can order them."""
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
    """Files of one read request."""

    parts: tuple[Part, ...]
    quarantined_parts: tuple[Part, ...] = ()
    """Files of refused rows: their columns as read, and the reasons."""
    problem_counts: Mapping[str, int] = field(default_factory=dict[str, int])
    """Counts of values, or rows without a position, that met a policy, by `problem.policy`."""
