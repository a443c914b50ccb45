"""Check that the rows of a batch lie in their window, and the positions of the first and the last."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import takewhile
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from syncd.datatypes.columns import ColumnMapping, LogicalType, TransferType
from syncd.datatypes.type_table import UNSIGNED_BIGINT_DIGITS
from syncd.errors import RowOutsideWindow
from syncd.lake.read_requests import OrderField
from syncd.parquet.column_values import RowMask, cast_to_source_type, format_value, make_typed_column
from watermarks.cursor import START_CURSOR, BadCursor, Cursor, CursorValue, ValueKind
from watermarks.window import Window

_CHARS_BEFORE_FRACTION: Final = 20
"""Characters before the fraction of a moment, including its point."""
_TIMESTAMP_CHARS: Final = 26


@dataclass(frozen=True, slots=True)
class PositionSpan:
    """The lowest and the highest position among rows; START if unknown."""

    low: Cursor
    high: Cursor

    def join(self, other: "PositionSpan") -> "PositionSpan":
        """Return the span of both; an unknown end of one makes it unknown."""
        low = min(self.low, other.low) if self.low and other.low else START_CURSOR
        high = max(self.high, other.high) if self.high and other.high else START_CURSOR
        return PositionSpan(low, high)


@dataclass(frozen=True, slots=True)
class WindowCheck:
    """Check of every batch of one window's query against the window.

    The `mappings` tell how to read a field of the order that has the name of a file column: whether its 64 bits have
    a sign, and the scale of a decimal.
    """

    window: Window | None
    order: tuple[OrderField, ...]
    mappings: tuple[ColumnMapping, ...] = ()

    def check(self, batch: pa.RecordBatch) -> PositionSpan | None:
        """Return the span of a transferred batch that lies in the window; None for an empty one.

        The check stops at the first field that only the database can order.

        Raises:
            RowOutsideWindow: a row lies outside, or has NULL in its order.
        """
        if self.window is not None and batch.num_rows:
            self._require_inside(batch, self.window)
        return self.span(batch)

    def span(self, batch: pa.RecordBatch) -> PositionSpan | None:
        """Return the lowest and the highest position among the rows; None without rows."""
        if not batch.num_rows:
            return None
        if self.window is None or any(field.kind is ValueKind.COLLATED for field in self.order):
            return PositionSpan(START_CURSOR, START_CURSOR)
        columns = [self._column(batch, field) for field in self.order]
        return PositionSpan(self._extreme_position(columns, "min"), self._extreme_position(columns, "max"))

    def _column(self, batch: pa.RecordBatch, field: OrderField) -> pa.Array:
        mapping = next((each for each in self.mappings if each.name == field.name), None)
        return _to_comparable(batch.column(field.name), field.kind, mapping)

    def _require_inside(self, batch: pa.RecordBatch, window: Window) -> None:
        fields = list(takewhile(lambda field: field.kind is not ValueKind.COLLATED, self.order))
        if not fields:
            return
        columns = [self._column(batch, field) for field in fields]
        if _is_well_inside(columns[0], fields[0].kind, window) and not any(column.null_count for column in columns):
            return
        inside = ~_rows_after(columns, fields, window.high, len(self.order), at_end=False)
        if window.low:
            inside &= _rows_after(columns, fields, window.low, len(self.order), at_end=True)
        for column in columns:
            inside &= column.is_valid().to_numpy(zero_copy_only=False)
        if not inside.all():
            raise self._row_outside(batch, inside, window)

    def _row_outside(self, batch: pa.RecordBatch, inside: RowMask, window: Window) -> RowOutsideWindow:
        first = int(np.flatnonzero(~inside)[0])
        at = ", ".join(f"{f.name}={format_value(batch.column(f.name)[first])}" for f in self.order)
        return RowOutsideWindow(
            f"{int((~inside).sum())} rows lie outside the window {window}, the first at {at}",
            hint="Check whether values of an order or key column sort differently, for example in another collation.",
        )

    def _extreme_position(self, columns: list[pa.Array], which: str) -> Cursor:
        values = []
        for place, field in enumerate(self.order):
            extreme = pc.min_max(columns[place])[which]
            value = _cursor_value(extreme.as_py(), field.kind)
            if value is None:
                return START_CURSOR
            values.append(value)
            if place + 1 < len(columns):
                rows = pc.equal(columns[place], extreme)
                columns = [column.filter(rows) for column in columns]
        return Cursor(tuple(values))


def _to_comparable(array: pa.Array, kind: ValueKind, mapping: ColumnMapping | None) -> pa.Array:
    """Return a column whose Arrow order is the order of its kind; of moments their text: zero dates sort first."""
    if mapping is not None:
        array = cast_to_source_type(mapping, array)
    elif kind is ValueKind.INT:
        # Drivers choose the width of integers; only unsigned ones of up to 64 bits are transferred as text.
        number = pa.int64() if pa.types.is_integer(array.type) else pa.uint64()
        array = array.cast(pa.string()).cast(number) if pa.types.is_binary(array.type) else array.cast(number)
    match kind:
        case ValueKind.INSTANT | ValueKind.WALL:
            array = _pad_fraction(_plain_text(array))
        case ValueKind.DATE:
            array = _plain_text(array)
        case ValueKind.TEXT | ValueKind.BYTES:
            array = array if pa.types.is_binary(array.type) else array.cast(pa.binary())
        case ValueKind.TIME:
            array = pa.array([_to_microseconds(text) for text in _plain_text(array).to_pylist()], pa.int64())
        case ValueKind.DECIMAL if mapping is None or mapping.parquet.meaning is not LogicalType.DECIMAL:
            array = _to_long_decimal(_plain_text(array))
        case ValueKind.DECIMAL if mapping is not None:
            array = make_typed_column(mapping, array).array
        case ValueKind.INT if mapping is not None and mapping.parquet.meaning is LogicalType.DECIMAL:
            array = array.view(pa.uint64()) if _is_unsigned(mapping) else array
        case _:
            pass
    return array


def _is_unsigned(mapping: ColumnMapping) -> bool:
    return mapping.travel is TransferType.INTEGER and mapping.parquet.precision == UNSIGNED_BIGINT_DIGITS


def _plain_text(array: pa.Array) -> pa.Array:
    return array if pa.types.is_string(array.type) else array.cast(pa.string())


def _to_long_decimal(array: pa.Array) -> pa.Array:
    """Return decimals from text with the same number of fractional digits in every row."""
    first = next((text for text in array.to_pylist() if text is not None), "0")
    return array.cast(pa.decimal256(76, len(first.partition(".")[2])))


def _pad_fraction(array: pa.Array) -> pa.Array:
    width = pc.min(pc.binary_length(array)).as_py()
    if width is None or width >= _TIMESTAMP_CHARS:
        return array
    pad = "." * (width < _CHARS_BEFORE_FRACTION) + "0" * (_TIMESTAMP_CHARS - max(width, _CHARS_BEFORE_FRACTION))
    return pc.binary_join_element_wise(array, pad, "")


def _to_microseconds(text: str | None) -> int | None:
    if text is None:
        return None
    hours, minutes, seconds = text.removeprefix("-").split(":")
    whole, _, fraction = seconds.partition(".")
    found = ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1_000_000 + int(fraction.ljust(6, "0"))
    return -found if text.startswith("-") else found


def _bound_scalar(value: CursorValue, kind: pa.DataType) -> pa.Scalar:
    """Return a cursor's value in the type of the columns of its kind."""
    plain: Any = value.raw
    match value.kind:
        case ValueKind.INSTANT | ValueKind.WALL:
            plain = plain.replace(tzinfo=None).isoformat(" ", "microseconds")
        case ValueKind.DATE:
            plain = plain.isoformat()
        case ValueKind.TIME:
            plain = plain // timedelta(microseconds=1)
        case ValueKind.TEXT:
            plain = plain.encode()
        case _:
            pass
    return pa.scalar(plain) if isinstance(plain, Decimal) else pa.scalar(plain, kind)


def _is_well_inside(column: pa.Array, kind: ValueKind, window: Window) -> bool:
    """Return whether the first field alone shows that every row is inside, as in most batches."""
    if not window.low or not window.high or window.low.values[0].kind is not kind:
        return False
    low, high = _bound_scalar(window.low.values[0], column.type), _bound_scalar(window.high.values[0], column.type)
    found = pc.min_max(column)
    return bool(pc.and_(pc.greater(found["min"], low), pc.less(found["max"], high)).as_py())


def _rows_after(
    columns: list[pa.Array], fields: list[OrderField], cursor: Cursor, width: int, *, at_end: bool
) -> RowMask:
    """Return the rows that come after a position.

    A position shorter than the order comes before all rows that begin with it. Where only the database can compare,
    the result is `at_end`.
    """
    known = min(len(cursor), len(columns))
    ending = at_end if known < len(cursor) else len(cursor) < width
    after: RowMask = np.full(len(columns[0]), ending)
    for column, field, value in reversed(list(zip(columns[:known], fields, cursor.values, strict=False))):
        assert value.kind is field.kind, f"a bound of kind {value.kind} for {field.name}"
        bound = _bound_scalar(value, column.type)
        after = _rows_where(pc.greater, column, bound) | (_rows_where(pc.equal, column, bound) & after)
    return after


def _rows_where(compare: Callable[[pa.Array, pa.Scalar], pa.Array], column: pa.Array, bound: pa.Scalar) -> RowMask:
    rows: RowMask = pc.fill_null(compare(column, bound), fill_value=False).to_numpy(zero_copy_only=False)
    return rows


def _cursor_value(plain: Any, kind: ValueKind) -> CursorValue | None:  # noqa: ANN401  # of Arrow
    """Return a value as a cursor's; None for one that no cursor can hold, such as a zero date."""
    try:
        match kind:
            case ValueKind.INSTANT:
                plain = datetime.fromisoformat(plain).replace(tzinfo=UTC)
            case ValueKind.WALL:
                plain = datetime.fromisoformat(plain)
            case ValueKind.DATE:
                plain = date.fromisoformat(plain)
            case ValueKind.TIME:
                plain = timedelta(microseconds=plain)
            case ValueKind.TEXT:
                plain = plain.decode()
            case _:
                pass
        return CursorValue(kind, plain)
    except (ValueError, TypeError, AttributeError, BadCursor):
        return None
