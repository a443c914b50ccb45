"""Which Parquet column may fill which column of a table (facts, section 2.1); what is in doubt may not."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from syncd.sandbox.redshift.copy.scan_errors import DATA, OLDER_DATA, LoadRefused, scan_error
from syncd.sandbox.redshift.copy.target_columns import TargetColumn

MOST_INT32_DIGITS: Final = 9
MOST_INT64_DIGITS: Final = 18
CODECS: Final = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"})
ENCODINGS: Final = frozenset({"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"})
SERIALIZE: Final = "SUPER column in COPY query requires SERIALIZETOJSON option"


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
    def described(self) -> str:
        """As Redshift prints it, after Impala."""
        how = "required" if self.required else "optional"
        definition = 0 if self.required else 1
        return f"{how} {self.physical.lower() or 'group'} {self.name} [i:{self.index} d:{definition} r:0]"


Fitting = Callable[[TargetColumn, FileColumn], bool]


def file_columns(schema: Any, arrow_schema: Any) -> list[FileColumn]:  # noqa: ANN401  # pyarrow gives no types
    """The columns of a file, from pyarrow's two views of its schema."""
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
        LoadRefused: with the sentence of the real server.
    """
    if target.type.name == "SUPER" and not serialize:
        raise scan_error(DATA, SERIALIZE, file=file, column=target.name).about("SUPER", "")
    if target.type.name == "NUMERIC" and column.annotation == "DECIMAL" and column.physical == "FIXED_LEN_BYTE_ARRAY":
        _check_length(target, column, file)
    if not _fits(target, column):
        raise _incompatible(target, column, file, location)


def _check_length(target: TargetColumn, column: FileColumn, file: str) -> None:
    expected = shortest_length(target.type.width)
    if column.length != expected:
        sentence = (
            f"File '{file}' column '{target.name}' has an invalid type length."
            f" Expecting: {expected} len in file: {column.length}"
        )
        raise scan_error(OLDER_DATA, sentence, file=file, column=target.name).about("NUMERIC", str(target.type.width))


def shortest_length(digits: int) -> int:
    """Bytes of the smallest two's complement number that holds so many digits."""
    return (int(10**digits - 1).bit_length() + 8) // 8


def _incompatible(target: TargetColumn, column: FileColumn, file: str, location: str) -> LoadRefused:
    sentence = (
        f"File '{file}' has an incompatible Parquet schema for column '{location}.{target.name}'."
        f" Column type: {target.type}, Parquet schema:\n{column.described}"
    )
    return scan_error(DATA, sentence, file=file, column=target.name).about(target.type.name, str(target.type.width))


def _fits(target: TargetColumn, column: FileColumn) -> bool:
    fits = FITTING.get(target.type.name)
    return fits is not None and fits(target, column)


def _integer(column: FileColumn, bits: set[int]) -> bool:
    return column.annotation == "INT" and column.signed and column.bits in bits


def _decimal(target: TargetColumn, column: FileColumn) -> bool:
    if column.annotation != "DECIMAL" or (column.digits, column.scale) != (target.type.width, target.type.scale):
        return False
    most = {"INT32": MOST_INT32_DIGITS, "INT64": MOST_INT64_DIGITS, "FIXED_LEN_BYTE_ARRAY": 38}
    return target.type.width <= most.get(column.physical, 0)


def _instant(column: FileColumn) -> bool:
    """INT96, or microseconds adjusted to UTC; without that mark the real server stores wrong values in silence."""
    if column.physical == "INT96":
        return True
    return (
        column.physical == "INT64" and column.annotation == "TIMESTAMP" and column.unit == "microseconds" and column.utc
    )


def _plain(physical: str, *, annotation: str = "NONE") -> Fitting:
    return lambda _, column: (column.physical, column.annotation) == (physical, annotation)


# TIME and TIMETZ are absent: COPY from Parquet cannot fill them.
FITTING: Final[dict[str, Fitting]] = {
    "SMALLINT": lambda _, c: c.physical == "INT32" and _integer(c, {8, 16}),
    "INTEGER": lambda _, c: c.physical == "INT32" and (c.annotation == "NONE" or _integer(c, {32})),
    "BIGINT": lambda _, c: c.physical == "INT64" and (c.annotation == "NONE" or _integer(c, {64})),
    "REAL": _plain("FLOAT"),
    "DOUBLE PRECISION": _plain("DOUBLE"),
    "NUMERIC": _decimal,
    "VARCHAR": _plain("BYTE_ARRAY", annotation="STRING"),
    "CHAR": _plain("BYTE_ARRAY", annotation="STRING"),
    "VARBYTE": _plain("BYTE_ARRAY"),
    "BOOLEAN": _plain("BOOLEAN"),
    "DATE": _plain("INT32", annotation="DATE"),
    "TIMESTAMP": lambda _, c: _instant(c),
    "TIMESTAMPTZ": lambda _, c: _instant(c),
    "SUPER": lambda _, c: not c.physical or (c.physical, c.annotation) == ("BYTE_ARRAY", "STRING"),
}


def check_pages(codec: str, encodings: tuple[str, ...], first_page: bytes, file: str) -> None:
    """Refuse what no source shows the server reading (facts, 1.4)."""
    if codec not in CODECS:
        raise scan_error(DATA, f"Unsupported compression codec {codec} in file {file}", file=file)
    if unknown := set(encodings) - ENCODINGS:
        raise scan_error(DATA, f"Unsupported encoding {min(unknown)} in file {file}", file=file)
    if first_page[:2] == b"\x15\x06":  # a Thrift header whose page type is DATA_PAGE_V2
        raise scan_error(DATA, f"Unsupported data page version 2 in file {file}", file=file)
