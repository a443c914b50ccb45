"""Rules for which Parquet column may fill which table column (facts, section 2.1); doubtful pairs are refused."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from syncd.sandbox.redshift.copy.target_columns import TargetColumn
from syncd.sandbox.redshift.refusal import DATA_ERROR, OLDER_DATA_ERROR, CopyRefused, scan_error

MAX_INT32_DIGITS: Final = 9
MAX_INT64_DIGITS: Final = 18
SUPPORTED_CODECS: Final = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"})
SUPPORTED_ENCODINGS: Final = frozenset({"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"})
SERIALIZE_REQUIRED_MESSAGE: Final = "SUPER column in COPY query requires SERIALIZETOJSON option"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumn:
    """One top-level column of a Parquet file; `physical` is empty for a struct, a list or a map."""

    name: str
    index: int
    physical: str = ""
    annotation: str = "NONE"
    bits: int = 0
    signed: bool = True
    unit: str = ""
    utc: bool = False
    digits: int = 0
    scale: int = 0
    length: int = 0
    required: bool = False

    @property
    def description(self) -> str:
        """The column as Redshift prints it, after Impala."""
        how = "required" if self.required else "optional"
        definition = 0 if self.required else 1
        return f"{how} {self.physical.lower() or 'group'} {self.name} [i:{self.index} d:{definition} r:0]"


ColumnRule = Callable[[TargetColumn, FileColumn], bool]


def file_columns(schema: Any, arrow_schema: Any) -> list[FileColumn]:  # noqa: ANN401  # pyarrow gives no types
    """Return the columns of a file, from pyarrow's two views of its schema."""
    leaves = {schema.column(i).path: schema.column(i) for i in range(len(schema))}
    found = []
    for index, name in enumerate(arrow_schema.names):
        leaf = leaves.get(name)
        flat = leaf is not None and leaf.max_repetition_level == 0 and leaf.max_definition_level <= 1
        found.append(_file_column(name, index, leaf) if flat else FileColumn(name=name, index=index))
    return found


def _file_column(name: str, index: int, leaf: Any) -> FileColumn:  # noqa: ANN401  # as above
    kind = json.loads(leaf.logical_type.to_json())
    return FileColumn(
        name=name,
        index=index,
        physical=leaf.physical_type,
        annotation=str(leaf.logical_type.type),
        bits=kind.get("bitWidth", 0),
        signed=kind.get("isSigned", True),
        unit=kind.get("timeUnit", ""),
        utc=kind.get("isAdjustedToUTC", False),
        digits=kind.get("precision", 0),
        scale=kind.get("scale", 0),
        length=leaf.length,
        required=leaf.max_definition_level == 0,
    )


def check_column(target: TargetColumn, column: FileColumn, *, serialize: bool, file: str, location: str) -> None:
    """Refuse a pair that does not match.

    Raises:
        CopyRefused: with the message of the real server.
    """
    if target.type.name == "SUPER" and not serialize:
        raise scan_error(DATA_ERROR, SERIALIZE_REQUIRED_MESSAGE, file=file, column=target.name).set_column_type(
            "SUPER", ""
        )
    if target.type.name == "NUMERIC" and column.annotation == "DECIMAL" and column.physical == "FIXED_LEN_BYTE_ARRAY":
        _check_length(target, column, file)
    if not _fits(target, column):
        raise _incompatible_error(target, column, file, location)


def _check_length(target: TargetColumn, column: FileColumn, file: str) -> None:
    expected = shortest_length_bytes(target.type.width)
    if column.length != expected:
        sentence = (
            f"File '{file}' column '{target.name}' has an invalid type length."
            f" Expecting: {expected} len in file: {column.length}"
        )
        raise scan_error(OLDER_DATA_ERROR, sentence, file=file, column=target.name).set_column_type(
            "NUMERIC", str(target.type.width)
        )


def shortest_length_bytes(digits: int) -> int:
    """Return the bytes of the smallest two's complement number that holds so many digits."""
    return (int(10**digits - 1).bit_length() + 8) // 8


def _incompatible_error(target: TargetColumn, column: FileColumn, file: str, location: str) -> CopyRefused:
    sentence = (
        f"File '{file}' has an incompatible Parquet schema for column '{location}.{target.name}'."
        f" Column type: {target.type}, Parquet schema:\n{column.description}"
    )
    return scan_error(DATA_ERROR, sentence, file=file, column=target.name).set_column_type(
        target.type.name, str(target.type.width)
    )


def _fits(target: TargetColumn, column: FileColumn) -> bool:
    fits = COLUMN_RULES.get(target.type.name)
    return fits is not None and fits(target, column)


def _is_integer(column: FileColumn, bits: set[int]) -> bool:
    return column.annotation == "INT" and column.signed and column.bits in bits


def _fits_decimal(target: TargetColumn, column: FileColumn) -> bool:
    if column.annotation != "DECIMAL" or (column.digits, column.scale) != (target.type.width, target.type.scale):
        return False
    most = {"INT32": MAX_INT32_DIGITS, "INT64": MAX_INT64_DIGITS, "FIXED_LEN_BYTE_ARRAY": 38}
    return target.type.width <= most.get(column.physical, 0)


def _is_instant(column: FileColumn) -> bool:
    """Accept INT96 and microseconds adjusted to UTC; without that mark the real server silently stores wrong values."""
    if column.physical == "INT96":
        return True
    return (
        column.physical == "INT64" and column.annotation == "TIMESTAMP" and column.unit == "microseconds" and column.utc
    )


def _match_physical(physical: str, *, annotation: str = "NONE") -> ColumnRule:
    return lambda _, column: (column.physical, column.annotation) == (physical, annotation)


# TIME and TIMETZ are absent: COPY from Parquet cannot fill them.
COLUMN_RULES: Final[dict[str, ColumnRule]] = {
    "SMALLINT": lambda _, c: c.physical == "INT32" and _is_integer(c, {8, 16}),
    "INTEGER": lambda _, c: c.physical == "INT32" and (c.annotation == "NONE" or _is_integer(c, {32})),
    "BIGINT": lambda _, c: c.physical == "INT64" and (c.annotation == "NONE" or _is_integer(c, {64})),
    "REAL": _match_physical("FLOAT"),
    "DOUBLE PRECISION": _match_physical("DOUBLE"),
    "NUMERIC": _fits_decimal,
    "VARCHAR": _match_physical("BYTE_ARRAY", annotation="STRING"),
    "CHAR": _match_physical("BYTE_ARRAY", annotation="STRING"),
    "VARBYTE": _match_physical("BYTE_ARRAY"),
    "BOOLEAN": _match_physical("BOOLEAN"),
    "DATE": _match_physical("INT32", annotation="DATE"),
    "TIMESTAMP": lambda _, c: _is_instant(c),
    "TIMESTAMPTZ": lambda _, c: _is_instant(c),
    "SUPER": lambda _, c: not c.physical or (c.physical, c.annotation) == ("BYTE_ARRAY", "STRING"),
}


def check_pages(codec: str, encodings: tuple[str, ...], first_page: bytes, file: str) -> None:
    """Refuse codecs, encodings and pages that no source shows the server reading (facts, 1.4)."""
    if codec not in SUPPORTED_CODECS:
        raise scan_error(DATA_ERROR, f"Unsupported compression codec {codec} in file {file}", file=file)
    if unknown := set(encodings) - SUPPORTED_ENCODINGS:
        raise scan_error(DATA_ERROR, f"Unsupported encoding {min(unknown)} in file {file}", file=file)
    if first_page[:2] == b"\x15\x06":  # a Thrift header whose page type is DATA_PAGE_V2
        raise scan_error(DATA_ERROR, f"Unsupported data page version 2 in file {file}", file=file)
