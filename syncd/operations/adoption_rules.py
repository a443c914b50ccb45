"""Adoption: up to which position a table that somebody else loaded can be taken over, and what was found on the way."""

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
from syncd.verify.compared_columns import ComparisonSubject
from syncd.verify.key_ranges import TargetKeyColumn
from syncd.verify.result import REPAIRED_BY_REREAD, ComparisonResult
from watermarks.cursor import Cursor, CursorValue, ValueKind
from watermarks.errors import DataInDoubt, Misuse
from watermarks.legacy import LegacyWatermark

_MICROSECOND: Final = timedelta(microseconds=1)


class TargetDiffers(DataInDoubt):
    """The target is not what the source is, below the mark that would be taken."""


class NothingToImport(Misuse):
    """There is no row that could be taken over."""


class MarkBasis(StrEnum):
    """What decided where the mark can stand."""

    TARGET = "target"
    """The last row that the target has."""
    DOCUMENT = "document"
    """How far the earlier tool says that it read."""
    ASKED = "asked"
    """Whoever asked named the place."""
    HORIZON = "horizon"
    """What lies above it can still be committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkLimit:
    """A position that the mark must not pass."""

    cursor: Cursor
    basis: MarkBasis


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyDocument:
    """A document of the earlier tool, and where it lies."""

    location: str
    legacy: LegacyWatermark


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCheck:
    """What was found of one table: where its marks can stand, and how the target compares up to there."""

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
    """Columns of the target that the source has not, and that new rows will leave NULL."""
    earliest_difference: datetime | None = None
    """The earliest stamp at the source of a row that differs; None where none does, or it is not known."""

    @property
    def is_equal(self) -> bool:
        return self.comparison.counts.total() == 0

    @property
    def proven(self) -> bool:
        """Whether nothing at or below the mark is in doubt, or can still come."""
        return self.is_equal and self.source_bound.proven and self.since is None

    @property
    def proof_fields(self) -> Mapping[str, Any]:
        """What history keeps of it."""
        verdict, closed = self.comparison, self.source_bound
        return {
            "run": self.run,
            "at": self.checked_at.isoformat(),
            "target": self.target,
            "mark": self.mark.to_texts(),
            "limited_by": self.basis,
            "since": self.since.to_texts() if self.since else None,
            "closed_up_to": closed.cursor.to_texts(),
            "closed_is_proven": closed.proven,
            "source_identity": closed.source_identity,
            "rows": verdict.rows,
            "ranges": verdict.ranges,
            "differences": {str(kind): count for kind, count in verdict.counts.items() if count},
            "kept": verdict.kept_ghosts,
            "left_out": verdict.left_out.counts_by_reason,
            "fetched_only": [one.name for one in verdict.uncomparable],
            "document_at": self.legacy_document.location if self.legacy_document else None,
        }


def require_importable(settings: StreamSettings) -> None:
    """Make sure that a stream goes on from a mark, and tells versions apart by what any table has.

    Raises:
        ConfigError: it has no target, is read whole each time, or keeps history.
    """
    name = settings.name
    if settings.target is None:
        raise ConfigError(f"{name} has no warehouse", hint="Add `warehouse:` to the configuration.")
    if settings.cursor == CURSOR_NONE or settings.mode is Mode.REPLACE:
        raise ConfigError(
            f"{name} is read whole each time: it has no mark to take over", hint=f"Just run it: syncd run -t {name}"
        )
    if settings.mode is Mode.HISTORY:
        raise ConfigError(
            f"{name} keeps history, and which rows of a strange table are versions of which, only columns of ours tell",
            hint="Take it over with `mode: upsert`, or let syncd make a table of its own: name another `target`.",
        )


def limit_from_document(order: StreamOrder, document: LegacyDocument) -> MarkLimit:
    """The position behind all that the earlier tool says it read.

    Its times are the readings of the column, whatever zone they were labelled with.

    Raises:
        Misuse: it says nothing of the order of this stream.
    """
    legacy, clock = document.legacy, order.clock
    table = order.table_name
    alone = f"Without it the target's own last row decides: syncd watermark import -t {table}"
    if clock is None:
        if legacy.last_id is None or [column.kind for column in order.columns] != [ValueKind.INT]:
            raise Misuse(f"{document.location} says no key, and {table} is read by its key", hint=alone)
        return MarkLimit(cursor=Cursor.from_values(legacy.last_id), basis=MarkBasis.DOCUMENT)
    if legacy.timestamp is None:
        raise Misuse(f"{document.location} says no time up to which {table} was read", hint=alone)
    return MarkLimit(cursor=Cursor((_column_value(clock, legacy.timestamp + _MICROSECOND),)), basis=MarkBasis.DOCUMENT)


def _column_value(clock: OrderClock, instant: datetime) -> CursorValue:
    return replace(clock, zone=instant.tzinfo or clock.zone).ceil_value(instant)


def lowest_limit(limits: Sequence[MarkLimit]) -> MarkLimit:
    """The one that comes first."""
    found = limits[0]
    for limit in limits[1:]:
        found = limit if limit.cursor < found.cursor else found
    return found


def comparable_order_columns(compared: ComparisonSubject) -> tuple[TargetKeyColumn, ...]:
    """The columns of the order in the target, as far as positions in them mean the same there."""
    time = compared.order.time_column
    by_name = dict(
        zip((column.name for column in compared.source_columns), compared.target_columns, strict=True),
    )
    found: list[TargetKeyColumn] = []
    for column in compared.order.columns:
        there = compared.cursor_column if column is time else by_name.get(column.name)
        if there is None:
            break
        found.append(there)
    return tuple(found)


def mark_after(order: StreamOrder, last: Cursor) -> Cursor:
    """The mark behind the target's last row; where its key says nothing there, behind all rows of its instant."""
    if len(last) == len(order.columns):
        return last
    assert order.clock
    plain = last.values[0].raw
    if isinstance(plain, datetime):
        return Cursor((CursorValue(last.values[0].kind, plain + timedelta(seconds=1) / order.clock.steps_per_second),))
    assert isinstance(plain, int)
    return Cursor((CursorValue(ValueKind.INT, plain + 1),))


def require_equal(check: ImportCheck, settings: StreamSettings) -> None:
    """Make sure that the target is what the source is, up to the mark.

    Raises:
        Differs: it is not; the hint is what can be done, of which each is compared again before it counts.
    """
    if check.is_equal:
        return
    counts = check.comparison.counts
    told = ", ".join(f"{counts[kind]:,} {kind}" for kind in sorted(counts) if counts[kind])
    name = settings.name
    mend = (
        f"Take it over and mend these rows: syncd watermark import -t {name} --with-differences,"
        f" then syncd verify -t {name} --repair --yes."
    )
    lower = ""
    if check.earliest_difference is not None and settings.cursor != CURSOR_BY_KEY:
        at = f"{check.earliest_difference:%Y-%m-%d %H:%M:%S.%f}".removesuffix(".000000")
        lower = f" Or stand below them all, and read on from there: syncd watermark import -t {name} --timestamp '{at}'"
    raise TargetDiffers(
        f"{check.target} is not what {name} is at the source: {told}, among {check.comparison.rows:,} rows",
        hint=mend + lower,
    )


def can_lower_mark(comparison: ComparisonResult) -> bool:
    """Whether a lower mark would leave all differences to the next run: each is known, and comes of being read."""
    kinds = {kind for kind, count in comparison.counts.items() if count}
    known = all(one.position is not None for one in comparison.differences)
    return (
        bool(kinds)
        and kinds <= REPAIRED_BY_REREAD
        and known
        and len(comparison.differences) == comparison.counts.total()
    )
