"""Whether rows lie in their window, and where the first and the last of them stand; a whole batch at once."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import takewhile
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from syncd.datatypes.columns import Meaning, Passage, Travel
from syncd.datatypes.type_table import UNSIGNED_DIGITS
from syncd.errors import RowOutside
from syncd.lake.window_reads import OrderField
from syncd.parquet.column_values import Rows, make, shown, travelled
from watermarks.cursor import START, BadCursor, Cursor, Kind, Value
from watermarks.window import Window

_DIGITS: Final = 20
"""Characters before the fraction of a moment, its point included."""
_MOMENT: Final = 26


@dataclass(frozen=True, slots=True)
class Span:
    """The lowest and the highest position among rows; START where it cannot be known."""

    low: Cursor
    high: Cursor

    def joined(self, other: "Span") -> "Span":
        """The span of both; one end that is not known leaves it unknown."""
        low = min(self.low, other.low) if self.low and other.low else START
        high = max(self.high, other.high) if self.high and other.high else START
        return Span(low, high)


@dataclass(frozen=True, slots=True)
class WindowCheck:
    """Holds every batch of one window's query against the window.

    `passages` tell how a field of the order is to be read where a column of the file
    has its name: whether its 64 bits have a sign, and where the point of a decimal is.
    """

    window: Window | None
    order: tuple[OrderField, ...]
    passages: tuple[Passage, ...] = ()

    def check(self, batch: pa.RecordBatch) -> Span | None:
        """The span of a batch, as it travelled, that lies in the window; None of an empty one.

        From the first field on that only the database can order, nothing is judged.

        Raises:
            RowOutside: a row lies outside, or has NULL in its order.
        """
        if self.window is not None and batch.num_rows:
            self._hold(batch, self.window)
        return self.span(batch)

    def span(self, batch: pa.RecordBatch) -> Span | None:
        """The lowest and the highest position among the rows; None where there is no row."""
        if not batch.num_rows:
            return None
        if self.window is None or any(field.kind is Kind.COLLATED for field in self.order):
            return Span(START, START)
        columns = [self._column(batch, field) for field in self.order]
        return Span(self._end(columns, "min"), self._end(columns, "max"))

    def _column(self, batch: pa.RecordBatch, field: OrderField) -> pa.Array:
        passage = next((one for one in self.passages if one.name == field.name), None)
        return _comparable(batch.column(field.name), field.kind, passage)

    def _hold(self, batch: pa.RecordBatch, window: Window) -> None:
        judged = list(takewhile(lambda field: field.kind is not Kind.COLLATED, self.order))
        if not judged:
            return
        columns = [self._column(batch, field) for field in judged]
        if _well_inside(columns[0], judged[0].kind, window) and not any(column.null_count for column in columns):
            return
        inside = ~_after(columns, judged, window.high, len(self.order), at_end=False)
        if window.low:
            inside &= _after(columns, judged, window.low, len(self.order), at_end=True)
        for column in columns:
            inside &= column.is_valid().to_numpy(zero_copy_only=False)
        if not inside.all():
            raise self._outside(batch, inside, window)

    def _outside(self, batch: pa.RecordBatch, inside: Rows, window: Window) -> RowOutside:
        first = int(np.flatnonzero(~inside)[0])
        at = ", ".join(f"{f.name}={shown(batch.column(f.name)[first])}" for f in self.order)
        return RowOutside(
            f"{int((~inside).sum())} rows lie outside of the window {window}, the first at {at}",
            hint="Do the values of an order or key column change their order on the way, as with another collation?",
        )

    def _end(self, columns: list[pa.Array], which: str) -> Cursor:
        values = []
        for place, field in enumerate(self.order):
            extreme = pc.min_max(columns[place])[which]
            value = _value(extreme.as_py(), field.kind)
            if value is None:
                return START
            values.append(value)
            if place + 1 < len(columns):
                rows = pc.equal(columns[place], extreme)
                columns = [column.filter(rows) for column in columns]
        return Cursor(tuple(values))


def _comparable(array: pa.Array, kind: Kind, passage: Passage | None) -> pa.Array:
    """A column whose Arrow order is the order of its kind; of moments their text, in which zero dates come first."""
    if passage is not None:
        array = travelled(passage, array)
    elif kind is Kind.INT:
        # Of whatever width a driver thought enough; as text travel only those that have no sign, and up to 64 bits.
        number = pa.int64() if pa.types.is_integer(array.type) else pa.uint64()
        array = array.cast(pa.string()).cast(number) if pa.types.is_binary(array.type) else array.cast(number)
    match kind:
        case Kind.INSTANT | Kind.WALL:
            array = _six_digits(_plain_text(array))
        case Kind.DATE:
            array = _plain_text(array)
        case Kind.TEXT | Kind.BYTES:
            array = array if pa.types.is_binary(array.type) else array.cast(pa.binary())
        case Kind.TIME:
            array = pa.array([_microseconds(text) for text in _plain_text(array).to_pylist()], pa.int64())
        case Kind.DECIMAL if passage is None or passage.parquet.meaning is not Meaning.DECIMAL:
            array = _long_decimal(_plain_text(array))
        case Kind.DECIMAL if passage is not None:
            array = make(passage, array).array
        case Kind.INT if passage is not None and passage.parquet.meaning is Meaning.DECIMAL:
            array = array.view(pa.uint64()) if _without_sign(passage) else array
        case _:
            pass
    return array


def _without_sign(passage: Passage) -> bool:
    return passage.travel is Travel.INTEGER and passage.parquet.precision == UNSIGNED_DIGITS


def _plain_text(array: pa.Array) -> pa.Array:
    return array if pa.types.is_string(array.type) else array.cast(pa.string())


def _long_decimal(array: pa.Array) -> pa.Array:
    """Of text that has as many digits after the point in every row."""
    first = next((text for text in array.to_pylist() if text is not None), "0")
    return array.cast(pa.decimal256(76, len(first.partition(".")[2])))


def _six_digits(array: pa.Array) -> pa.Array:
    width = pc.min(pc.binary_length(array)).as_py()
    if width is None or width >= _MOMENT:
        return array
    pad = "." * (width < _DIGITS) + "0" * (_MOMENT - max(width, _DIGITS))
    return pc.binary_join_element_wise(array, pad, "")


def _microseconds(text: str | None) -> int | None:
    if text is None:
        return None
    hours, minutes, seconds = text.removeprefix("-").split(":")
    whole, _, fraction = seconds.partition(".")
    found = ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1_000_000 + int(fraction.ljust(6, "0"))
    return -found if text.startswith("-") else found


def _bound(value: Value, kind: pa.DataType) -> pa.Scalar:
    """A value of a cursor as the columns of its kind have it."""
    plain: Any = value.plain
    match value.kind:
        case Kind.INSTANT | Kind.WALL:
            plain = plain.replace(tzinfo=None).isoformat(" ", "microseconds")
        case Kind.DATE:
            plain = plain.isoformat()
        case Kind.TIME:
            plain = plain // timedelta(microseconds=1)
        case Kind.TEXT:
            plain = plain.encode()
        case _:
            pass
    return pa.scalar(plain) if isinstance(plain, Decimal) else pa.scalar(plain, kind)


def _well_inside(column: pa.Array, kind: Kind, window: Window) -> bool:
    """Whether the first field alone shows that every row is inside: so it is with most batches."""
    if not window.low or not window.high or window.low.values[0].kind is not kind:
        return False
    low, high = _bound(window.low.values[0], column.type), _bound(window.high.values[0], column.type)
    found = pc.min_max(column)
    return bool(pc.and_(pc.greater(found["min"], low), pc.less(found["max"], high)).as_py())


def _after(columns: list[pa.Array], fields: list[OrderField], cursor: Cursor, width: int, *, at_end: bool) -> Rows:
    """The rows that come after a position.

    A position shorter than the order stands before all rows that begin with it. Where
    only the database can tell, the answer is `at_end`.
    """
    known = min(len(cursor), len(columns))
    ending = at_end if known < len(cursor) else len(cursor) < width
    after: Rows = np.full(len(columns[0]), ending)
    for column, field, value in reversed(list(zip(columns[:known], fields, cursor.values, strict=False))):
        assert value.kind is field.kind, f"a bound of kind {value.kind} for {field.name}"
        bound = _bound(value, column.type)
        after = _rows(pc.greater, column, bound) | (_rows(pc.equal, column, bound) & after)
    return after


def _rows(compare: Callable[[pa.Array, pa.Scalar], pa.Array], column: pa.Array, bound: pa.Scalar) -> Rows:
    rows: Rows = pc.fill_null(compare(column, bound), fill_value=False).to_numpy(zero_copy_only=False)
    return rows


def _value(plain: Any, kind: Kind) -> Value | None:  # noqa: ANN401  # of Arrow
    """A value as cursors have it; none for what no cursor can say, such as a zero date."""
    try:
        match kind:
            case Kind.INSTANT:
                plain = datetime.fromisoformat(plain).replace(tzinfo=UTC)
            case Kind.WALL:
                plain = datetime.fromisoformat(plain)
            case Kind.DATE:
                plain = date.fromisoformat(plain)
            case Kind.TIME:
                plain = timedelta(microseconds=plain)
            case Kind.TEXT:
                plain = plain.decode()
            case _:
                pass
        return Value(kind, plain)
    except (ValueError, TypeError, AttributeError, BadCursor):
        return None
