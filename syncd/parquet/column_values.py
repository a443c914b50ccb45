"""One travelled column to the exact typed one, vectorised; and which of its values cannot be."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from syncd.datatypes.columns import DOCUMENT, Meaning, ParquetType, Passage, Physical, Travel, Trouble

Rows: TypeAlias = npt.NDArray[np.bool_]
"""One truth a row."""

TRAVELS: Final[dict[Travel, pa.DataType]] = {
    Travel.INTEGER: pa.int64(),
    Travel.DOUBLE: pa.float64(),
    Travel.TEXT: pa.string(),
    Travel.BYTES: pa.binary(),
}
SMALLEST_DOUBLE: Final = 2.0**-1022
"""Below it numbers are subnormal."""
_BOUNDS: Final = {pa.bool_(): (0, 1), pa.int16(): (-(2**15), 2**15 - 1), pa.int32(): (-(2**31), 2**31 - 1)}
_INT64_DIGITS: Final = 18
_ZERO_DATE: Final = "^[0-9]{4}-(00-[0-9]{2}|[0-9]{2}-00)"
_NUMBERS: Final = {pa.date32(): pa.int32(), pa.timestamp("us"): pa.int64()}
_FIRST: Final = {pa.date32(): -719_162, pa.timestamp("us"): -62_135_596_800_000_000}
"""The beginning of the year 1; MySQL stores the year 0 too."""
_LAST: Final = {pa.date32(): 2_932_896, pa.timestamp("us"): 253_402_300_799_999_999}


@dataclass(frozen=True, slots=True)
class Made:
    """A typed column; values in trouble are NULL in it."""

    array: pa.Array
    troubles: tuple[tuple[Trouble, Rows], ...] = ()
    cut: pa.Array | None = None
    """The column with what was too long cut to what fits."""


def arrow_type(parquet: ParquetType) -> pa.DataType:
    """The Arrow type that pyarrow writes as this Parquet type."""
    match parquet.physical, parquet.meaning:
        case Physical.FIXED, Meaning.DECIMAL:
            return pa.decimal128(parquet.precision, parquet.scale)
        case physical, meaning if (physical, meaning) in _ARROW:
            return _ARROW[physical, meaning]
        case _:
            raise AssertionError(f"no column is stored as {parquet}")


_ARROW: Final[dict[tuple[Physical, Meaning], pa.DataType]] = {
    (Physical.BOOLEAN, Meaning.NONE): pa.bool_(),
    (Physical.INT32, Meaning.INT_16): pa.int16(),
    (Physical.INT32, Meaning.NONE): pa.int32(),
    (Physical.INT64, Meaning.NONE): pa.int64(),
    (Physical.INT32, Meaning.DATE): pa.date32(),
    (Physical.INT64, Meaning.TIMESTAMP_MICROS): pa.timestamp("us", "UTC"),
    (Physical.DOUBLE, Meaning.NONE): pa.float64(),
    (Physical.BYTE_ARRAY, Meaning.UTF8): pa.string(),
    (Physical.BYTE_ARRAY, Meaning.NONE): pa.binary(),
}


def travelled(passage: Passage, array: pa.Array) -> pa.Array:
    """The column in the one Arrow type of its travel, whatever width of offsets a reader chose."""
    kind = TRAVELS[passage.travel]
    return array if array.type == kind else array.cast(kind)


def shown(value: pa.Scalar) -> str:
    """The beginning of a value that travelled, for a message."""
    plain = value.as_py()
    return (plain.decode(errors="backslashreplace") if isinstance(plain, bytes) else str(plain))[:60]


def make(passage: Passage, array: pa.Array) -> Made:
    """The typed column of one that has travelled."""
    kind = arrow_type(passage.parquet)
    array = travelled(passage, array)
    match passage.travel:
        case Travel.INTEGER if pa.types.is_decimal(kind):
            return _decimal_of_integer(array, kind)
        case Travel.INTEGER:
            return _integer(array, kind)
        case Travel.DOUBLE:
            return _double(array)
        case Travel.BYTES:
            return _bytes(passage, array, kind)
        case Travel.TEXT:
            return _of_text(passage, array, kind)


def _of_text(passage: Passage, array: pa.Array, kind: pa.DataType) -> Made:
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        return _moments(array, kind)
    if pa.types.is_decimal(kind):
        made, bad = _attempt(array, lambda some: some.cast(kind))
        return Made(made, () if bad is None else ((Trouble.OUT_OF_RANGE, bad),))
    return _fitting(passage, array)


def _truth(array: pa.Array) -> Rows:
    rows: Rows = pc.fill_null(array, fill_value=False).to_numpy(zero_copy_only=False)
    return rows


def without(array: pa.Array, rows: Rows) -> pa.Array:
    """The column with NULL in these rows."""
    return pc.if_else(pa.array(rows), pa.scalar(None, array.type), array)


def _outside(array: pa.Array, low: int, high: int) -> Rows | None:
    found = pc.min_max(array).as_py()
    if found["min"] is None or low <= found["min"] <= found["max"] <= high:
        return None
    return _truth(pc.or_(pc.less(array, low), pc.greater(array, high)))


def _integer(array: pa.Array, kind: pa.DataType) -> Made:
    if kind == pa.int64():
        return Made(array)
    outside = _outside(array, *_BOUNDS[kind])
    if outside is None:
        return Made(array.cast(kind))
    return Made(without(array, outside).cast(kind), ((Trouble.OUT_OF_RANGE, outside),))


def _decimal_of_integer(array: pa.Array, kind: pa.DataType) -> Made:
    if kind.precision > _INT64_DIGITS:  # all of the 64 bits: their number without a sign
        return Made(_widened(array, kind, signed=False))
    most = 10**kind.precision - 1
    outside = _outside(array, -most, most)
    if outside is None:
        return Made(_widened(array, kind, signed=True))
    return Made(_widened(without(array, outside), kind, signed=True), ((Trouble.OUT_OF_RANGE, outside),))


def _widened(array: pa.Array, kind: pa.DataType, *, signed: bool) -> pa.Array:
    """The 64 bits as the lower half of decimals, without going through text."""
    rows = len(array)
    halves = np.zeros((rows, 2), np.int64)
    # A batch may be a slice of a larger array: only its own rows are copied.
    halves[:, 0] = np.frombuffer(array.buffers()[1], np.int64, count=array.offset + rows)[array.offset :]
    if signed:
        halves[:, 1] = halves[:, 0] >> 63
    validity = pa.array(array.is_valid().to_numpy(zero_copy_only=False)).buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(kind, rows, [validity, pa.py_buffer(halves)])


def _double(array: pa.Array) -> Made:
    tiny = pc.and_(pc.less(pc.abs(array), SMALLEST_DOUBLE), pc.not_equal(array, 0.0))
    if not pc.any(tiny).as_py():
        return Made(array)
    rows = _truth(tiny)
    return Made(without(array, rows), ((Trouble.OUT_OF_RANGE, rows),))


def _moments(array: pa.Array, kind: pa.DataType) -> Made:
    """Days or moments of what MySQL printed; Arrow's own parser knows the calendar."""
    plain = pa.timestamp("us") if pa.types.is_timestamp(kind) else kind
    try:
        parsed, troubles = array.cast(plain), []
    except pa.ArrowInvalid:
        zero = _truth(pc.match_substring_regex(array, _ZERO_DATE))
        parsed, bad = _attempt(without(array, zero), lambda some: some.cast(plain))
        troubles = [(Trouble.ZERO_DATE, zero)] if zero.any() else []
        troubles += [] if bad is None else [(Trouble.OUT_OF_RANGE, bad)]
    early = _outside(parsed.cast(_NUMBERS[plain]), _FIRST[plain], _LAST[plain])
    if early is not None:
        parsed = without(parsed, early)
        troubles.append((Trouble.OUT_OF_RANGE, early))
    return Made(parsed.view(kind), tuple(troubles))


def _bytes(passage: Passage, array: pa.Array, kind: pa.DataType) -> Made:
    if pa.types.is_binary(kind):
        return _fitting(passage, array)
    text, bad = _attempt(array, lambda some: some.cast(pa.string()))
    if (nul := _with_nul(text)) is not None:
        # Nobody knows what COPY makes of one: whoever writes such text decides by name what becomes of it.
        text, bad = without(text, nul), nul if bad is None else bad | nul
    made = _fitting(passage, text)
    if bad is None:
        return made
    return Made(made.array, ((Trouble.INVALID_TEXT, bad), *made.troubles), made.cut)


def _with_nul(text: pa.Array) -> Rows | None:
    """The values with a NUL character; all bytes are looked at at once, for it is hardly ever there."""
    if not len(text):
        return None
    offsets = np.frombuffer(text.buffers()[1], np.int32)[text.offset : text.offset + len(text) + 1]
    values = text.buffers()[2]
    if values is None or offsets[0] == offsets[-1]:
        return None
    if np.frombuffer(values, np.uint8)[offsets[0] : offsets[-1]].all():
        return None
    rows = _truth(pc.match_substring(text, "\0"))
    return rows if rows.any() else None


def _fitting(passage: Passage, array: pa.Array) -> Made:
    """The column but for values that are too long for their target."""
    limit = passage.limit
    lengths = pc.binary_length(array)
    found = pc.min_max(lengths).as_py()
    if limit is None or found["max"] is None:
        return Made(array)
    # No document is empty: MySQL gives nothing of one whose text is longer than its `max_allowed_packet`.
    least = 1 if passage.redshift == DOCUMENT else 0
    if least <= found["min"] and found["max"] <= limit:
        return Made(array)
    rows = _truth(pc.or_(pc.greater(lengths, limit), pc.less(lengths, least)))
    cut = shortened(array, rows, np.full(int(rows.sum()), limit))
    return Made(without(array, rows), ((Trouble.OVERSIZE, rows),), cut)


def shortened(array: pa.Array, rows: Rows, limits: Any) -> pa.Array:  # noqa: ANN401  # integers
    """The column with the values of these rows cut, each to its limit in bytes, and between characters."""
    values = array.filter(pa.array(rows)).cast(pa.binary()).to_pylist()
    pieces = [value[:limit] for value, limit in zip(values, limits, strict=True)]
    if pa.types.is_string(array.type):
        pieces = [piece.decode(errors="ignore").encode() for piece in pieces]
    return pc.replace_with_mask(array, pa.array(rows), pa.array(pieces, pa.binary()).cast(array.type))


def _attempt(array: pa.Array, change: Callable[[pa.Array], pa.Array]) -> tuple[pa.Array, Rows | None]:
    """What a change makes of a column, NULL where it cannot, and the rows where it could not."""
    try:
        return change(array), None
    except pa.ArrowInvalid:
        bad = np.zeros(len(array), bool)
        _mark(array, change, bad)
        return change(without(array, bad)), bad


def _mark(array: pa.Array, change: Callable[[pa.Array], pa.Array], bad: Rows) -> None:
    """Halve until every value that cannot be changed stands alone: they are few."""
    try:
        change(array)
    except pa.ArrowInvalid:
        if len(array) == 1:
            bad[0] = True
            return
        middle = len(array) // 2
        _mark(array.slice(0, middle), change, bad[:middle])
        _mark(array.slice(middle), change, bad[middle:])
