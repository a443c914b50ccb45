"""Rows of a Parquet file, checked value by value and written as CSV for PostgreSQL's COPY."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from syncd.sandbox.redshift.copy.target_columns import TargetColumn
from syncd.sandbox.redshift.refusal import (
    DATA_ERROR,
    INVALID_TEXT_ERROR,
    TOO_LARGE_ERROR,
    CopyRefused,
    not_in_stand_in,
    null_value_error,
    scan_error,
)

BATCH_ROWS: Final = 16384
READ_BUFFER_BYTES: Final = 8 << 20
MAX_WHOLE_GROUP_BYTES: Final = 64 << 20
MAX_ROW_BYTES: Final = 4 << 20
MAX_STRING_BYTES: Final = 65535
EIGHT_BYTE_DIGITS: Final = 19
MAX_EIGHT_BYTE_NUMBER: Final = 2**63 - 1
FIRST_INSTANT_MICROSECONDS: Final = -62_135_596_800_000_000  # 0001-01-01 in microseconds
LAST_INSTANT_MICROSECONDS: Final = 253_402_300_799_999_999  # the end of 9999
FIRST_EPOCH_DAY: Final = -719_162
LAST_EPOCH_DAY: Final = 2_932_896
CSV_OPTIONS: Final = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWriteOptions:
    """Settings for writing the rows of one file."""

    columns: Sequence[TargetColumn]
    defaults: dict[str, str]
    invalid_character: str
    file: str


class ParquetReader:
    """A Parquet file on S3, read row group by row group.

    A group is fetched in one piece, which saves requests, unless it is so large that memory would grow with it.
    """

    def __init__(self, stream: Any) -> None:  # pyarrow gives no types
        self._stream = stream
        self.file = pq.ParquetFile(stream, pre_buffer=True, coerce_int96_timestamp_unit="us")

    def read_batches(self) -> Iterator[Any]:
        pieces = None
        for group in range(self.file.num_row_groups):
            file = self.file
            if self._group_bytes(group) > MAX_WHOLE_GROUP_BYTES:
                pieces = pieces or self._open_buffered()
                file = pieces
            yield from file.iter_batches(batch_size=BATCH_ROWS, row_groups=[group])

    def _group_bytes(self, group: int) -> int:
        metadata = self.file.metadata.row_group(group)
        return sum(metadata.column(index).total_compressed_size for index in range(metadata.num_columns))

    def _open_buffered(self) -> Any:
        return pq.ParquetFile(
            self._stream,
            metadata=self.file.metadata,
            buffer_size=READ_BUFFER_BYTES,
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",
        )


def read_csv_pieces(file: ParquetReader, options: RowWriteOptions) -> Iterator[tuple[int, memoryview]]:
    """Yield the file's rows in pieces, as a count and their CSV; memory does not grow with the file."""
    for batch in file.read_batches():
        arrays = [
            _write_column(_physical_values(array), column, options)
            for array, column in zip(batch.columns, options.columns, strict=False)
        ]
        arrays += [pa.nulls(batch.num_rows)] * (len(options.columns) - len(arrays))
        _check_row_size([_array_to_measure(*pair) for pair in zip(batch.columns, arrays, strict=False)], options.file)
        sink = pa.BufferOutputStream()
        table = pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])
        pyarrow.csv.write_csv(table, sink, CSV_OPTIONS)
        yield batch.num_rows, memoryview(sink.getvalue())


def _physical_values(array: Any) -> Any:
    """Return the values by the file's own schema; pyarrow interprets more from the note that Arrow leaves in the file.

    An instant is in UTC, whatever zone the note names; INT96 has no zone; a string is a string.
    """
    kind = array.type
    if pa.types.is_timestamp(kind):
        return array.cast(pa.int64()).cast(pa.timestamp("us", "UTC"))
    if pa.types.is_dictionary(kind):
        return _physical_values(array.cast(kind.value_type))
    if pa.types.is_large_string(kind) or kind == pa.string_view():
        return array.cast(pa.string())
    if pa.types.is_large_binary(kind) or kind == pa.binary_view():
        return array.cast(pa.binary())
    return array.cast(pa.int64()) if pa.types.is_duration(kind) else array


def _write_column(array: Any, column: TargetColumn, options: RowWriteOptions) -> Any:
    if column.not_null and array.null_count:
        if column.name not in options.defaults:
            raise null_value_error(column.name, options.file)
        array = pc.fill_null(array, _default_scalar(options.defaults[column.name], array.type))
    write = WRITERS.get(column.type.name)
    return array if write is None else write(array, column, options)


def _default_scalar(text: str, kind: Any) -> Any:
    if pa.types.is_timestamp(kind):
        return pa.scalar(int(text)).cast(kind)
    if pa.types.is_binary(kind):
        raise not_in_stand_in("a NULL that becomes the DEFAULT of a VARBYTE column")
    return pa.scalar(text).cast(kind)


def _write_text(array: Any, column: TargetColumn, options: RowWriteOptions) -> Any:
    array = _require_valid_text(array, column, options)
    _check_width(array, column, options)
    return array


def _write_char(array: Any, column: TargetColumn, options: RowWriteOptions) -> Any:
    array = _require_valid_text(array, column, options)
    wide = pc.not_equal(pc.binary_length(array), pc.utf8_length(array))
    if pc.any(wide).as_py():
        value = array.filter(wide)[0].as_py()
        first = next(c for c in value if not c.isascii())
        bad = first.encode().hex(" ")
        sentence = f"Multibyte character not supported for CHAR (Hint: Try using VARCHAR). Invalid char: {bad}"
        raise _value_error(INVALID_TEXT_ERROR, sentence, column, options)
    _check_width(array, column, options)
    return array


def _require_valid_text(array: Any, column: TargetColumn, options: RowWriteOptions) -> Any:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        array = _replace_invalid(array, column, options)
    if pc.any(pc.match_substring(array, "\0")).as_py():
        raise _value_error(
            INVALID_TEXT_ERROR, "a NUL byte in a string: what Redshift makes of it is not known", column, options
        )
    return array


def _replace_invalid(array: Any, column: TargetColumn, options: RowWriteOptions) -> Any:
    values = [v.as_py() for v in array.cast(pa.binary())]
    if not options.invalid_character or column.type.name != "VARCHAR":
        raise _invalid_text_error(values, column, options)
    mended = [None if v is None else _replace_invalid_bytes(v, options.invalid_character) for v in values]
    return pa.array(mended, pa.string())


def _replace_invalid_bytes(value: bytes, mark: str) -> str:
    out, at = [], 0
    while True:
        try:
            out.append(value[at:].decode())
        except UnicodeDecodeError as error:
            out.append(value[at : at + error.start].decode() + mark * (error.end - error.start))
            at += error.end
        else:
            return "".join(out)


def _invalid_text_error(values: Sequence[bytes | None], column: TargetColumn, options: RowWriteOptions) -> CopyRefused:
    for value in values:
        try:
            (value or b"").decode()
        except UnicodeDecodeError as error:
            bad = (value or b"")[error.start : error.end].hex(" ")
            sentence = (
                f"String contains invalid or unsupported UTF-8 codepoints. Bad UTF-8 hex sequence: {bad} (error 3)"
            )
            return _value_error(INVALID_TEXT_ERROR, sentence, column, options)
    raise AssertionError("pyarrow found invalid UTF-8 and Python did not")


def _check_width(array: Any, column: TargetColumn, options: RowWriteOptions) -> None:
    longest = pc.max(pc.binary_length(array)).as_py()
    if longest is not None and longest > column.type.width:
        sentence = (
            f"The length of the data column {column.name} is longer than the length defined in the table."
            f" Table: {column.type.width}, Data: {longest}, File name: {options.file}"
        )
        raise _value_error(DATA_ERROR, sentence, column, options)


def _value_error(number: int, sentence: str, column: TargetColumn, options: RowWriteOptions) -> CopyRefused:
    refused = scan_error(number, sentence, file=options.file, column=column.name)
    return refused.set_column_type(column.type.name.lower(), str(column.type.width or ""))


def _write_bytes(array: Any, column: TargetColumn, options: RowWriteOptions) -> Any:
    _check_width(array, column, options)
    return pa.array([None if v is None else "\\x" + v.hex() for v in array.to_pylist()], pa.string())


def _write_instants(array: Any, column: TargetColumn, options: RowWriteOptions) -> Any:
    _check_range(array.cast(pa.int64()), (FIRST_INSTANT_MICROSECONDS, LAST_INSTANT_MICROSECONDS), column, options)
    return array


def _write_days(array: Any, column: TargetColumn, options: RowWriteOptions) -> Any:
    _check_range(array.cast(pa.int32()), (FIRST_EPOCH_DAY, LAST_EPOCH_DAY), column, options)
    return array


def _check_range(numbers: Any, bounds: tuple[int, int], column: TargetColumn, options: RowWriteOptions) -> None:
    found = pc.min_max(numbers).as_py()
    if found["min"] is not None and not bounds[0] <= found["min"] <= found["max"] <= bounds[1]:
        sentence = (
            f"a value of column {column.name} lies outside the years 1 to 9999, where the behaviour of Redshift"
            " is unknown"
        )
        raise _value_error(DATA_ERROR, sentence, column, options)


def _write_decimals(array: Any, column: TargetColumn, options: RowWriteOptions) -> Any:
    """Check decimals of 19 digits: they are stored in 8 bytes, which not all of them fit (facts, section 3)."""
    if column.type.width == EIGHT_BYTE_DIGITS:
        found = pc.min_max(array).as_py()
        most = Decimal(MAX_EIGHT_BYTE_NUMBER).scaleb(-column.type.scale)
        if found["min"] is not None and not -most <= found["min"] <= found["max"] <= most:
            raise _value_error(
                DATA_ERROR, f"a value of column {column.name} is out of range: at most {most}", column, options
            )
    return array


def _write_documents(array: Any, column: TargetColumn, options: RowWriteOptions) -> Any:
    """Write values of a SUPER column: a string becomes a string scalar, a nested value its JSON (fact 11.6)."""
    if pa.types.is_string(array.type):
        _require_valid_text(array, column, options)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        sentence = f"String contains invalid or unsupported UTF-8 codepoints inside a nested value: {error}"
        raise _value_error(INVALID_TEXT_ERROR, sentence, column, options) from error
    documents = [None if v is None else _document_to_json(v, array.type, column, options) for v in array.to_pylist()]
    return pa.array(documents, pa.string())


def _document_to_json(value: Any, kind: Any, column: TargetColumn, options: RowWriteOptions) -> str:
    for text in _find_strings(value):
        if len(text.encode()) > MAX_STRING_BYTES:
            sentence = f"String value exceeds the max size of {MAX_STRING_BYTES} bytes"
            raise _value_error(TOO_LARGE_ERROR, sentence, column, options)
        if "\0" in text:
            raise _value_error(
                INVALID_TEXT_ERROR, "a NUL inside a SUPER value: its effect is not known", column, options
            )
    return json.dumps(_value_to_json(value, kind), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _find_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _find_strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _find_strings(inner)


def _value_to_json(value: Any, kind: Any) -> Any:
    """Return a nested value in its JSON form, by its type in the file."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not isfinite(value):
            raise not_in_stand_in(f"{value} inside a SUPER value")
        return value
    if pa.types.is_map(kind):
        if not pa.types.is_string(kind.key_type):
            raise not_in_stand_in("a map whose keys are not strings, in a SUPER value,")
        return {key: _value_to_json(inner, kind.item_type) for key, inner in value}
    if pa.types.is_struct(kind):
        return {inner.name: _value_to_json(value[inner.name], inner.type) for inner in kind}
    if isinstance(value, list):
        return [_value_to_json(inner, kind.value_type) for inner in value]
    raise not_in_stand_in(f"a {type(value).__name__} inside a SUPER value")


def _check_row_size(arrays: Sequence[Any], file: str) -> None:
    """Check row sizes by the bytes as read, before hexadecimal digits or JSON change their length."""
    wide = [a for a in arrays if pa.types.is_string(a.type) or pa.types.is_binary(a.type)]
    narrow = sum(_fixed_width_bytes(a.type) for a in arrays)
    lengths = [pc.fill_null(pc.binary_length(a), 0) for a in wide]
    if not lengths or narrow + sum(pc.max(length).as_py() or 0 for length in lengths) <= MAX_ROW_BYTES:
        return
    total = lengths[0]
    for length in lengths[1:]:
        total = pc.add(total, length)
    if narrow + pc.max(total).as_py() > MAX_ROW_BYTES:
        raise scan_error(DATA_ERROR, f"a row is longer than {MAX_ROW_BYTES} bytes in file {file}", file=file)


def _array_to_measure(read: Any, written: Any) -> Any:
    """Return the array whose bytes count: the values as read, or the document of a nested value."""
    plain = _physical_values(read)
    return written if pa.types.is_nested(plain.type) else plain


def _fixed_width_bytes(kind: Any) -> int:
    """Return the bytes of a number or an instant; 0 for a type of variable length."""
    if pa.types.is_boolean(kind):
        return 1
    return int(kind.bit_width) // 8 if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) else 0


WRITERS: Final[dict[str, Callable[[Any, TargetColumn, RowWriteOptions], Any]]] = {
    "VARCHAR": _write_text,
    "CHAR": _write_char,
    "VARBYTE": _write_bytes,
    "TIMESTAMP": _write_instants,
    "TIMESTAMPTZ": _write_instants,
    "DATE": _write_days,
    "NUMERIC": _write_decimals,
    "SUPER": _write_documents,
}
