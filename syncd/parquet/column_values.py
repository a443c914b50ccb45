"""Vectorized conversion of one transferred column to its exact type, with masks of the values that do not fit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from syncd.datatypes.columns import (
    REDSHIFT_JSON_TYPE,
    ColumnMapping,
    LogicalType,
    ParquetType,
    PhysicalType,
    TransferType,
    ValueProblem,
)

RowMask: TypeAlias = npt.NDArray[np.bool_]
"""One truth value per row."""

SOURCE_ARROW_TYPES: Final[dict[TransferType, pa.DataType]] = {
    TransferType.INTEGER: pa.int64(),
    TransferType.DOUBLE: pa.float64(),
    TransferType.TEXT: pa.string(),
    TransferType.BYTES: pa.binary(),
}
SMALLEST_DOUBLE: Final = 2.0**-1022
"""Smaller numbers are subnormal."""
_INTEGER_BOUNDS: Final = {pa.bool_(): (0, 1), pa.int16(): (-(2**15), 2**15 - 1), pa.int32(): (-(2**31), 2**31 - 1)}
_INT64_DIGITS: Final = 18
_ZERO_DATE_PATTERN: Final = "^[0-9]{4}-(00-[0-9]{2}|[0-9]{2}-00)"
_INTEGER_TYPES: Final = {pa.date32(): pa.int32(), pa.timestamp("us"): pa.int64()}
_FIRST_INSTANTS: Final = {pa.date32(): -719_162, pa.timestamp("us"): -62_135_596_800_000_000}
"""The beginning of the year 1; MySQL stores the year 0 too."""
_LAST_INSTANTS: Final = {pa.date32(): 2_932_896, pa.timestamp("us"): 253_402_300_799_999_999}


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """A typed column; values with problems are NULL in it."""

    array: pa.Array
    troubles: tuple[tuple[ValueProblem, RowMask], ...] = ()
    cut: pa.Array | None = None
    """The column with long values cut to their limit."""


def arrow_type(parquet: ParquetType) -> pa.DataType:
    """Return the Arrow type that pyarrow writes as this Parquet type."""
    match parquet.physical, parquet.meaning:
        case PhysicalType.FIXED, LogicalType.DECIMAL:
            return pa.decimal128(parquet.precision, parquet.scale)
        case physical, meaning if (physical, meaning) in _ARROW_TYPES:
            return _ARROW_TYPES[physical, meaning]
        case _:
            raise AssertionError(f"no column is stored as {parquet}")


_ARROW_TYPES: Final[dict[tuple[PhysicalType, LogicalType], pa.DataType]] = {
    (PhysicalType.BOOLEAN, LogicalType.NONE): pa.bool_(),
    (PhysicalType.INT32, LogicalType.INT_16): pa.int16(),
    (PhysicalType.INT32, LogicalType.NONE): pa.int32(),
    (PhysicalType.INT64, LogicalType.NONE): pa.int64(),
    (PhysicalType.INT32, LogicalType.DATE): pa.date32(),
    (PhysicalType.INT64, LogicalType.TIMESTAMP_MICROS): pa.timestamp("us", "UTC"),
    (PhysicalType.DOUBLE, LogicalType.NONE): pa.float64(),
    (PhysicalType.BYTE_ARRAY, LogicalType.UTF8): pa.string(),
    (PhysicalType.BYTE_ARRAY, LogicalType.NONE): pa.binary(),
}


def cast_to_source_type(mapping: ColumnMapping, array: pa.Array) -> pa.Array:
    """Return the column in the one Arrow type of its transfer form, whatever offset width a reader chose."""
    kind = SOURCE_ARROW_TYPES[mapping.travel]
    return array if array.type == kind else array.cast(kind)


def format_value(value: pa.Scalar) -> str:
    """Return the beginning of a transferred value, for a message."""
    plain = value.as_py()
    return (plain.decode(errors="backslashreplace") if isinstance(plain, bytes) else str(plain))[:60]


def make_typed_column(mapping: ColumnMapping, array: pa.Array) -> TypedColumn:
    """Return the typed column of a transferred one."""
    kind = arrow_type(mapping.parquet)
    array = cast_to_source_type(mapping, array)
    match mapping.travel:
        case TransferType.INTEGER if pa.types.is_decimal(kind):
            return _decimal_of_integer(array, kind)
        case TransferType.INTEGER:
            return _integer(array, kind)
        case TransferType.DOUBLE:
            return _double(array)
        case TransferType.BYTES:
            return _bytes(mapping, array, kind)
        case TransferType.TEXT:
            return _from_text(mapping, array, kind)


def _from_text(mapping: ColumnMapping, array: pa.Array, kind: pa.DataType) -> TypedColumn:
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        return _parse_moments(array, kind)
    if pa.types.is_decimal(kind):
        made, bad = _convert_where_possible(array, lambda some: some.cast(kind))
        return TypedColumn(made, () if bad is None else ((ValueProblem.OUT_OF_RANGE, bad),))
    return _apply_length_limit(mapping, array)


def _to_mask(array: pa.Array) -> RowMask:
    rows: RowMask = pc.fill_null(array, fill_value=False).to_numpy(zero_copy_only=False)
    return rows


def set_null(array: pa.Array, rows: RowMask) -> pa.Array:
    """Return the column with NULL in these rows."""
    return pc.if_else(pa.array(rows), pa.scalar(None, array.type), array)


def _rows_outside(array: pa.Array, low: int, high: int) -> RowMask | None:
    found = pc.min_max(array).as_py()
    if found["min"] is None or low <= found["min"] <= found["max"] <= high:
        return None
    return _to_mask(pc.or_(pc.less(array, low), pc.greater(array, high)))


def _integer(array: pa.Array, kind: pa.DataType) -> TypedColumn:
    if kind == pa.int64():
        return TypedColumn(array)
    outside = _rows_outside(array, *_INTEGER_BOUNDS[kind])
    if outside is None:
        return TypedColumn(array.cast(kind))
    return TypedColumn(set_null(array, outside).cast(kind), ((ValueProblem.OUT_OF_RANGE, outside),))


def _decimal_of_integer(array: pa.Array, kind: pa.DataType) -> TypedColumn:
    if kind.precision > _INT64_DIGITS:  # all 64 bits, as an unsigned number
        return TypedColumn(_widen_to_decimal(array, kind, signed=False))
    most = 10**kind.precision - 1
    outside = _rows_outside(array, -most, most)
    if outside is None:
        return TypedColumn(_widen_to_decimal(array, kind, signed=True))
    return TypedColumn(
        _widen_to_decimal(set_null(array, outside), kind, signed=True), ((ValueProblem.OUT_OF_RANGE, outside),)
    )


def _widen_to_decimal(array: pa.Array, kind: pa.DataType, *, signed: bool) -> pa.Array:
    """Return decimals with the 64 bits as their lower half, without going through text."""
    rows = len(array)
    halves = np.zeros((rows, 2), np.int64)
    # A batch may be a slice of a larger array: copy only its own rows.
    halves[:, 0] = np.frombuffer(array.buffers()[1], np.int64, count=array.offset + rows)[array.offset :]
    if signed:
        halves[:, 1] = halves[:, 0] >> 63
    validity = pa.array(array.is_valid().to_numpy(zero_copy_only=False)).buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(kind, rows, [validity, pa.py_buffer(halves)])


def _double(array: pa.Array) -> TypedColumn:
    tiny = pc.and_(pc.less(pc.abs(array), SMALLEST_DOUBLE), pc.not_equal(array, 0.0))
    if not pc.any(tiny).as_py():
        return TypedColumn(array)
    rows = _to_mask(tiny)
    return TypedColumn(set_null(array, rows), ((ValueProblem.OUT_OF_RANGE, rows),))


def _parse_moments(array: pa.Array, kind: pa.DataType) -> TypedColumn:
    """Return days or moments from MySQL's text; Arrow's parser knows the calendar."""
    plain = pa.timestamp("us") if pa.types.is_timestamp(kind) else kind
    try:
        parsed, troubles = array.cast(plain), []
    except pa.ArrowInvalid:
        zero = _to_mask(pc.match_substring_regex(array, _ZERO_DATE_PATTERN))
        parsed, bad = _convert_where_possible(set_null(array, zero), lambda some: some.cast(plain))
        troubles = [(ValueProblem.ZERO_DATE, zero)] if zero.any() else []
        troubles += [] if bad is None else [(ValueProblem.OUT_OF_RANGE, bad)]
    early = _rows_outside(parsed.cast(_INTEGER_TYPES[plain]), _FIRST_INSTANTS[plain], _LAST_INSTANTS[plain])
    if early is not None:
        parsed = set_null(parsed, early)
        troubles.append((ValueProblem.OUT_OF_RANGE, early))
    return TypedColumn(parsed.view(kind), tuple(troubles))


def _bytes(mapping: ColumnMapping, array: pa.Array, kind: pa.DataType) -> TypedColumn:
    if pa.types.is_binary(kind):
        return _apply_length_limit(mapping, array)
    text, bad = _convert_where_possible(array, lambda some: some.cast(pa.string()))
    if (nul := _rows_with_nul(text)) is not None:
        # COPY's handling of a NUL character is undocumented, so the policy for invalid text decides.
        text, bad = set_null(text, nul), nul if bad is None else bad | nul
    made = _apply_length_limit(mapping, text)
    if bad is None:
        return made
    return TypedColumn(made.array, ((ValueProblem.INVALID_TEXT, bad), *made.troubles), made.cut)


def _rows_with_nul(text: pa.Array) -> RowMask | None:
    """Return the values with a NUL character; all bytes are searched at once, because it is rare."""
    if not len(text):
        return None
    offsets = np.frombuffer(text.buffers()[1], np.int32)[text.offset : text.offset + len(text) + 1]
    values = text.buffers()[2]
    if values is None or offsets[0] == offsets[-1]:
        return None
    if np.frombuffer(values, np.uint8)[offsets[0] : offsets[-1]].all():
        return None
    rows = _to_mask(pc.match_substring(text, "\0"))
    return rows if rows.any() else None


def _apply_length_limit(mapping: ColumnMapping, array: pa.Array) -> TypedColumn:
    """Return the column without values that are too long for their target."""
    limit = mapping.limit
    lengths = pc.binary_length(array)
    found = pc.min_max(lengths).as_py()
    if limit is None or found["max"] is None:
        return TypedColumn(array)
    # No document is empty: MySQL returns nothing for one longer than its `max_allowed_packet`.
    least = 1 if mapping.redshift == REDSHIFT_JSON_TYPE else 0
    if least <= found["min"] and found["max"] <= limit:
        return TypedColumn(array)
    rows = _to_mask(pc.or_(pc.greater(lengths, limit), pc.less(lengths, least)))
    cut = shorten(array, rows, np.full(int(rows.sum()), limit))
    return TypedColumn(set_null(array, rows), ((ValueProblem.OVERSIZE, rows),), cut)


def shorten(array: pa.Array, rows: RowMask, limits: Any) -> pa.Array:  # noqa: ANN401  # integers
    """Return the column with the values of these rows cut to their limits in bytes, between characters."""
    values = array.filter(pa.array(rows)).cast(pa.binary()).to_pylist()
    pieces = [value[:limit] for value, limit in zip(values, limits, strict=True)]
    if pa.types.is_string(array.type):
        pieces = [piece.decode(errors="ignore").encode() for piece in pieces]
    return pc.replace_with_mask(array, pa.array(rows), pa.array(pieces, pa.binary()).cast(array.type))


def _convert_where_possible(array: pa.Array, change: Callable[[pa.Array], pa.Array]) -> tuple[pa.Array, RowMask | None]:
    """Return the converted column, NULL where a value cannot be converted, and the mask of those rows."""
    try:
        return change(array), None
    except pa.ArrowInvalid:
        bad = np.zeros(len(array), bool)
        _mark_failures(array, change, bad)
        return change(set_null(array, bad)), bad


def _mark_failures(array: pa.Array, change: Callable[[pa.Array], pa.Array], bad: RowMask) -> None:
    """Bisect until every value that cannot be converted stands alone: they are few."""
    try:
        change(array)
    except pa.ArrowInvalid:
        if len(array) == 1:
            bad[0] = True
            return
        middle = len(array) // 2
        _mark_failures(array.slice(0, middle), change, bad[:middle])
        _mark_failures(array.slice(middle), change, bad[middle:])
