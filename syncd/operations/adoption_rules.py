"""Rules for the import of tables that another tool loaded: where the marks can stand, and what the check found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from syncd.errors import ConfigError
from syncd.ports.source import SourceBound
from syncd.settings import Mode, StreamSettings
from syncd.tables.order_clock import OrderClock
from syncd.tables.sort_order import CURSOR_BY_KEY, CURSOR_NONE, StreamOrder
from syncd.verify.compared_columns import ComparisonSubject, TargetKeyColumn
from syncd.verify.result import REPAIRED_BY_REREAD, ComparisonResult
from watermarks.cursor import Cursor, CursorValue, ValueKind
from watermarks.errors import DataInDoubt, Misuse
from watermarks.legacy import LegacyWatermark

_MICROSECOND: Final = timedelta(microseconds=1)


class TargetDiffers(DataInDoubt):
    """The target differs from the source below the mark."""


class NothingToImport(Misuse):
    """There is no row to import."""


class MarkBasis(StrEnum):
    """Reason for the position of the mark."""

    TARGET = "target"
    """The last row of the target."""
    DOCUMENT = "document"
    """The position in the earlier tool's document."""
    ASKED = "asked"
    """The position that the operator asked for."""
    HORIZON = "horizon"
    """Rows above it can still be committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkLimit:
    """Upper bound for the mark."""

    cursor: Cursor
    basis: MarkBasis


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyDocument:
    """A document of the earlier tool, and its address."""

    location: str
    legacy: LegacyWatermark


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCheck:
    """Result of the check of one table: where its marks can stand, and how the target compares up to there."""

    run: str
    checked_at: datetime
    target: str
    mark: Cursor
    basis: MarkBasis
    since: Cursor | None
    source_bound: SourceBound
    comparison: ComparisonResult
    legacy_document: LegacyDocument | None = None
    extra_columns: tuple[str, ...] = ()
    """Columns that only the target has; new rows leave them NULL."""
    earliest_difference: datetime | None = None
    """Earliest stamp of a row that differs; None if none does, or it is not known."""

    @property
    def is_equal(self) -> bool:
        return self.comparison.counts.total() == 0

    @property
    def proven(self) -> bool:
        """Return whether no row at or below the mark is in doubt, or can still be committed."""
        return self.is_equal and self.source_bound.proven and self.since is None

    @property
    def proof_fields(self) -> Mapping[str, Any]:
        """The fields that history keeps."""
        result, bound = self.comparison, self.source_bound
        return {
            "run": self.run,
            "at": self.checked_at.isoformat(),
            "target": self.target,
            "mark": self.mark.to_texts(),
            "limited_by": self.basis,
            "since": self.since.to_texts() if self.since else None,
            "closed_up_to": bound.cursor.to_texts(),
            "closed_is_proven": bound.proven,
            "source_identity": bound.source_identity,
            "rows": result.rows,
            "ranges": result.ranges,
            "differences": {str(kind): count for kind, count in result.counts.items() if count},
            "kept": result.kept_ghosts,
            "left_out": result.left_out.counts_by_reason,
            "fetched_only": [column.name for column in result.uncomparable],
            "document_at": self.legacy_document.location if self.legacy_document else None,
        }


def require_importable(settings: StreamSettings) -> None:
    """Check that a stream has a mark, and tells versions apart by columns that any table has.

    Raises:
        ConfigError: it has no target, is read whole each time, or keeps history.
    """
    name = settings.name
    if settings.target is None:
        raise ConfigError(f"{name} has no warehouse", hint="Add `warehouse:` to the configuration.")
    if settings.cursor == CURSOR_NONE or settings.mode is Mode.REPLACE:
        raise ConfigError(
            f"{name} is read whole each time: it has no mark to import", hint=f"It needs no import: syncd run -t {name}"
        )
    if settings.mode is Mode.HISTORY:
        raise ConfigError(
            f"{name} keeps history, which cannot be imported: only columns of syncd identify the versions of a row",
            hint="Import it with `mode: upsert`, or let syncd create a table of its own: configure another `target`.",
        )


def limit_from_document(order: StreamOrder, document: LegacyDocument) -> MarkLimit:
    """Return the position after all rows that the earlier tool read, according to its document.

    Its times are values of the column, whatever zone they are labelled with.

    Raises:
        Misuse: the document has no position in the order of this stream.
    """
    legacy, clock = document.legacy, order.clock
    table = order.table_name
    hint = f"To take the mark from the target's last row instead: syncd watermark import -t {table}"
    if clock is None:
        if legacy.last_id is None or [column.kind for column in order.columns] != [ValueKind.INT]:
            raise Misuse(f"{document.location} contains no key, but {table} is read by its key", hint=hint)
        return MarkLimit(cursor=Cursor.from_values(legacy.last_id), basis=MarkBasis.DOCUMENT)
    if legacy.timestamp is None:
        raise Misuse(f"{document.location} contains no time up to which {table} was read", hint=hint)
    return MarkLimit(cursor=Cursor((_column_value(clock, legacy.timestamp + _MICROSECOND),)), basis=MarkBasis.DOCUMENT)


def _column_value(clock: OrderClock, instant: datetime) -> CursorValue:
    return replace(clock, zone=instant.tzinfo or clock.zone).ceil_value(instant)


def lowest_limit(limits: Sequence[MarkLimit]) -> MarkLimit:
    lowest = limits[0]
    for limit in limits[1:]:
        lowest = limit if limit.cursor < lowest.cursor else lowest
    return lowest


def comparable_order_columns(compared: ComparisonSubject) -> tuple[TargetKeyColumn, ...]:
    """Return the order columns in the target, as far as the target orders their values like the source."""
    time = compared.order.time_column
    by_name = dict(
        zip((column.name for column in compared.source_columns), compared.target_columns, strict=True),
    )
    columns: list[TargetKeyColumn] = []
    for column in compared.order.columns:
        target_column = compared.cursor_column if column is time else by_name.get(column.name)
        if target_column is None:
            break
        columns.append(target_column)
    return tuple(columns)


def mark_after(order: StreamOrder, last: Cursor) -> Cursor:
    """Return the mark at the target's last row; if its key is not comparable, after all rows of its instant."""
    if len(last) == len(order.columns):
        return last
    assert order.clock
    plain = last.values[0].raw
    if isinstance(plain, datetime):
        return Cursor((CursorValue(last.values[0].kind, plain + timedelta(seconds=1) / order.clock.steps_per_second),))
    assert isinstance(plain, int)
    return Cursor((CursorValue(ValueKind.INT, plain + 1),))


def require_equal(check: ImportCheck, settings: StreamSettings) -> None:
    """Check that the target equals the source up to the mark.

    Raises:
        TargetDiffers: it does not; each way that the hint names compares again before it counts.
    """
    if check.is_equal:
        return
    counts = check.comparison.counts
    summary = ", ".join(f"{counts[kind]:,} {kind}" for kind in sorted(counts) if counts[kind])
    name = settings.name
    mend = (
        f"Import it and repair these rows: syncd watermark import -t {name} --with-differences,"
        f" then syncd verify -t {name} --repair --yes."
    )
    lower = ""
    if check.earliest_difference is not None and settings.cursor != CURSOR_BY_KEY:
        at = f"{check.earliest_difference:%Y-%m-%d %H:%M:%S.%f}".removesuffix(".000000")
        lower = f" Or set the mark below all of them: syncd watermark import -t {name} --timestamp '{at}'"
    raise TargetDiffers(
        f"{check.target} differs from {name} at the source: {summary}, among {check.comparison.rows:,} rows",
        hint=mend + lower,
    )


def can_lower_mark(comparison: ComparisonResult) -> bool:
    """Return whether a lower mark leaves all differences to the next run: each is known, and a reread repairs it."""
    kinds = {kind for kind, count in comparison.counts.items() if count}
    is_known = all(difference.position is not None for difference in comparison.differences)
    return (
        bool(kinds)
        and kinds <= REPAIRED_BY_REREAD
        and is_known
        and len(comparison.differences) == comparison.counts.total()
    )
