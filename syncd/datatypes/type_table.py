"""The table of types: SQL expression, Parquet type and Redshift type for every type of MySQL and MariaDB.

The first rule that matches a column maps it. No other code names a type of the source, and `docs/reference/types.md`
is generated from these rules.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from syncd.datatypes.columns import (
    MAX_VARBYTE_BYTES,
    MAX_VARCHAR_BYTES,
    REDSHIFT_JSON_TYPE,
    LogicalType,
    ParquetType,
    PhysicalType,
    TransferType,
    ValueProblem,
)
from syncd.datatypes.source_table import SourceColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeMapping:
    """Mapping of one type; `{c}` in the expression is the quoted column."""

    select: str
    travel: TransferType
    parquet: ParquetType
    redshift: str
    limit: int | None = None
    befalls: tuple[ValueProblem, ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRule:
    """One row of the table."""

    title: str
    """Its types, as the documentation names them."""
    data_types: frozenset[str]
    map_type: Callable[[SourceColumn], TypeMapping]
    applies_to: Callable[[SourceColumn], bool]
    note: str


MAX_INT64_DIGITS: Final = 18
MAX_DECIMAL_PRECISION: Final = 38
MAX_DECIMAL_SCALE: Final = 37
UNSIGNED_BIGINT_DIGITS: Final = 20
TRUNCATED_PRECISION: Final = 19
MAX_BIT_LENGTH: Final = 64

UTF8_CHARSETS: Final = frozenset({"utf8mb4", "utf8mb3", "utf8", "ascii"})
"""Character sets whose stored bytes are UTF-8: they must not be converted."""
LOSSLESS_CHARSETS: Final = frozenset({"latin1"})
"""Character sets in which every byte is a character, so that a conversion loses nothing."""
THREE_BYTE_CHARSETS: Final = frozenset(
    """
    utf8mb3 utf8 ucs2 latin1 latin2 latin5 latin7 cp850 cp852 cp866 cp1250 cp1251 cp1256 cp1257 koi8r koi8u dec8 hp8
    swe7 hebrew greek tis620 macce macroman keybcs2 armscii8 geostd8 big5 gb2312 gbk sjis cp932 ujis eucjpms euckr
    """.split()
)
"""Character sets without a character that takes four bytes of UTF-8."""

_SIGNED: Final = "CAST({c} AS SIGNED)"
# With a width: both servers underestimate that of DECIMAL(30,30) by the zero before its point, and cut off the last
# digit if the statement is part of a union.
_PRINTED: Final = "CAST({c} AS CHAR(80))"
# Digits and signs are the same in bytes, which neither server nor driver has to convert: converting text costs both a
# tenth of their time.
_PLAIN: Final = "CAST({c} AS BINARY)"
_BYTES: Final = "CAST({c} AS BINARY)"
_CONVERTED: Final = "CAST(CONVERT({c} USING utf8mb4) AS BINARY)"


def _guard_conversion(bytes_: str, converted: str) -> str:
    # A conversion silently replaces an unknown character by `?`, or drops it. If the length or the
    # question marks of the text differ afterwards, the original bytes are transferred after FF, which
    # no UTF-8 contains: so the value is detected as invalid, and can still be read.
    return (
        "CASE WHEN CHAR_LENGTH({c}) = CHAR_LENGTH(CONVERT({c} USING utf8mb4))"
        " AND CHAR_LENGTH(REPLACE({c}, '?', '')) = CHAR_LENGTH(REPLACE(CONVERT({c} USING utf8mb4), '?', ''))"
        f" THEN {converted} WHEN {{c}} IS NOT NULL THEN {bytes_} END"
    )


_GUARDED: Final = _guard_conversion(f"CONCAT(X'FF', {_BYTES})", _CONVERTED)

# For a value longer than `max_allowed_packet`, CAST on MariaDB and CONCAT on both servers return NULL with a mere
# warning. CONVERT does not, but makes MariaDB assume too short a width for temporary tables.
_LONG_BYTES: Final = f"COALESCE({_BYTES}, CONVERT({{c}} USING binary))"
_LONG_CONVERTED: Final = f"COALESCE({_CONVERTED}, CONVERT(CONVERT({{c}} USING utf8mb4) USING binary))"
_LONG_GUARDED: Final = _guard_conversion(f"COALESCE(CONCAT(X'FF', {_BYTES}), X'FF')", _LONG_CONVERTED)

_UTF8: Final = ParquetType(physical=PhysicalType.BYTE_ARRAY, meaning=LogicalType.UTF8)
_BLOB: Final = ParquetType(physical=PhysicalType.BYTE_ARRAY)
_INT_16: Final = ParquetType(physical=PhysicalType.INT32, meaning=LogicalType.INT_16)


def _integer_mapper(
    parquet: ParquetType, redshift: str, *befalls: ValueProblem
) -> Callable[[SourceColumn], TypeMapping]:
    return lambda _: TypeMapping(
        select=_SIGNED, travel=TransferType.INTEGER, parquet=parquet, redshift=redshift, befalls=tuple(befalls)
    )


_SMALLINT: Final = _integer_mapper(_INT_16, "SMALLINT")
_INTEGER: Final = _integer_mapper(ParquetType(physical=PhysicalType.INT32), "INTEGER")
_BIGINT: Final = _integer_mapper(ParquetType(physical=PhysicalType.INT64), "BIGINT")
_BOOLEAN: Final = _integer_mapper(ParquetType(physical=PhysicalType.BOOLEAN), "BOOLEAN")


def decimal_byte_length(digits: int) -> int:
    """Return the bytes of the shortest two's complement number that holds so many decimal digits."""
    largest: int = 10**digits - 1
    return (largest.bit_length() + 8) // 8


def _decimal_type(precision: int, scale: int) -> ParquetType:
    # One layout for every precision: the one that Redshift's own UNLOAD writes.
    return ParquetType(
        physical=PhysicalType.FIXED,
        meaning=LogicalType.DECIMAL,
        precision=precision,
        scale=scale,
        length=decimal_byte_length(precision),
    )


def _map_unsigned_bigint(_: SourceColumn) -> TypeMapping:
    parquet = _decimal_type(UNSIGNED_BIGINT_DIGITS, 0)
    return TypeMapping(
        select=_SIGNED, travel=TransferType.INTEGER, parquet=parquet, redshift=f"DECIMAL({UNSIGNED_BIGINT_DIGITS},0)"
    )


def _precision_and_scale(column: SourceColumn) -> tuple[int, int]:
    return column.precision or 10, column.scale or 0


def _redshift_precision(precision: int) -> int:
    """Return the digits of a DECIMAL that holds them all: 19 digits do not fit the eight bytes of Redshift."""
    return precision + 1 if precision == TRUNCATED_PRECISION else precision


def _fits_decimal(column: SourceColumn) -> bool:
    precision, scale = _precision_and_scale(column)
    return precision <= MAX_DECIMAL_PRECISION and scale <= MAX_DECIMAL_SCALE


def _map_decimal(column: SourceColumn) -> TypeMapping:
    precision, scale = _precision_and_scale(column)
    held = _redshift_precision(precision)
    # A whole number is transferred as an integer, which costs the reader a third of what text costs. With a decimal
    # point the multiplication would cost the server more.
    whole = not scale and precision <= MAX_INT64_DIGITS
    return TypeMapping(
        select=_SIGNED if whole else _PLAIN if scale < precision else _PRINTED,
        travel=TransferType.INTEGER if whole else TransferType.TEXT,
        parquet=_decimal_type(held, scale),
        redshift=f"DECIMAL({held},{scale})",
    )


def _map_printed(width: int, *, select: str = _PRINTED) -> TypeMapping:
    return TypeMapping(
        select=select, travel=TransferType.TEXT, parquet=_UTF8, redshift=f"VARCHAR({width})", limit=width, whole=True
    )


def _map_long_decimal(column: SourceColumn) -> TypeMapping:
    return _map_printed(_precision_and_scale(column)[0] + 3)


def _map_double(_: SourceColumn) -> TypeMapping:
    # The product is a double without fixed decimals, which the server prints so that it reads back the same.
    return TypeMapping(
        select="{c} * 1e0",
        travel=TransferType.DOUBLE,
        parquet=ParquetType(physical=PhysicalType.DOUBLE),
        redshift="DOUBLE PRECISION",
        befalls=(ValueProblem.OUT_OF_RANGE,),
    )


def _calendar_mapper(parquet: ParquetType, redshift: str) -> Callable[[SourceColumn], TypeMapping]:
    return lambda _: TypeMapping(
        select=_PLAIN,
        travel=TransferType.TEXT,
        parquet=parquet,
        redshift=redshift,
        befalls=(ValueProblem.ZERO_DATE, ValueProblem.OUT_OF_RANGE),
    )


def bytes_per_character(charset: str | None) -> int:
    """Return the most bytes of UTF-8 that one character of a character set takes."""
    if charset == "ascii":
        return 1
    return 3 if charset in THREE_BYTE_CHARSETS else 4


def _select_text(charset: str | None, *, long: bool) -> str:
    if charset in UTF8_CHARSETS:
        return _LONG_BYTES if long else _BYTES
    if charset in LOSSLESS_CHARSETS:
        return _LONG_CONVERTED if long else _CONVERTED
    return _LONG_GUARDED if long else _GUARDED


def _map_text(column: SourceColumn, width: int, *, long: bool = False) -> TypeMapping:
    width = min(max(width, 1), MAX_VARCHAR_BYTES)
    # Text is transferred as bytes, because a driver that decodes it would silently repair broken text.
    return TypeMapping(
        select=_select_text(column.charset, long=long),
        travel=TransferType.BYTES,
        parquet=_UTF8,
        redshift=f"VARCHAR({width})",
        limit=width,
        befalls=(ValueProblem.INVALID_TEXT, ValueProblem.OVERSIZE),
    )


def _map_characters(column: SourceColumn) -> TypeMapping:
    return _map_text(column, (column.length or 0) * bytes_per_character(column.charset))


def _map_members(column: SourceColumn) -> TypeMapping:
    return _map_text(column, (column.length or 0) * 4)


def _map_json(_: SourceColumn) -> TypeMapping:
    return TypeMapping(
        select=_CONVERTED,
        travel=TransferType.BYTES,
        parquet=_BLOB,
        redshift=REDSHIFT_JSON_TYPE,
        limit=MAX_VARBYTE_BYTES,
        befalls=(ValueProblem.OVERSIZE,),
        whole=True,
    )


def _bytes_mapper(
    width: Callable[[SourceColumn], int], *, select: str = _BYTES, whole: bool = False
) -> Callable[[SourceColumn], TypeMapping]:
    def map_bytes(column: SourceColumn) -> TypeMapping:
        limit = min(max(width(column), 1), MAX_VARBYTE_BYTES)
        return TypeMapping(
            select=select,
            travel=TransferType.BYTES,
            parquet=_BLOB,
            redshift=f"VARBYTE({limit})",
            limit=limit,
            befalls=(ValueProblem.OVERSIZE,),
            whole=whole,
        )

    return map_bytes


def _vector_byte_length(column: SourceColumn) -> int:
    found = re.search(r"\((\d+)\)", column.column_type)
    return 4 * int(found.group(1)) if found else MAX_VARCHAR_BYTES


def _rule(
    title: str,
    data_types: str,
    map_type: Callable[[SourceColumn], TypeMapping],
    *,
    applies_to: Callable[[SourceColumn], bool] = lambda _column: True,
    note: str = "",
) -> TypeRule:
    types = frozenset(data_types.split())
    return TypeRule(title=title, data_types=types, map_type=map_type, applies_to=applies_to, note=note)


BOOLEAN_RULE: Final = _rule(
    "TINYINT(1) named under `boolean`",
    "tinyint",
    _integer_mapper(ParquetType(physical=PhysicalType.BOOLEAN), "BOOLEAN", ValueProblem.OUT_OF_RANGE),
    applies_to=lambda column: column.column_type.lower().startswith("tinyint(1)"),
    note="Any value but 0 and 1 is out of range.",
)

TYPE_RULES: Final[tuple[TypeRule, ...]] = (
    _rule(
        "TINYINT, BOOL, TINYINT UNSIGNED",
        "tinyint",
        _SMALLINT,
        note="TINYINT(1) has the range -128 to 127, so it is a number unless the configuration lists it under"
        " `boolean`.",
    ),
    _rule("SMALLINT", "smallint", _SMALLINT, applies_to=lambda c: not c.is_unsigned),
    _rule("SMALLINT UNSIGNED", "smallint", _INTEGER),
    _rule("MEDIUMINT, MEDIUMINT UNSIGNED", "mediumint", _INTEGER),
    _rule("INT", "int", _INTEGER, applies_to=lambda c: not c.is_unsigned),
    _rule("INT UNSIGNED", "int", _BIGINT),
    _rule("BIGINT", "bigint", _BIGINT, applies_to=lambda c: not c.is_unsigned),
    _rule(
        "BIGINT UNSIGNED, SERIAL",
        "bigint",
        _map_unsigned_bigint,
        note="Transferred as the signed number with the same 64 bits.",
    ),
    _rule("BIT(1)", "bit", _BOOLEAN, applies_to=lambda c: c.precision == 1),
    _rule("BIT(2) to BIT(63)", "bit", _BIGINT, applies_to=lambda c: (c.precision or MAX_BIT_LENGTH) < MAX_BIT_LENGTH),
    _rule("BIT(64)", "bit", _map_unsigned_bigint),
    _rule("YEAR", "year", _SMALLINT, note="The year 0000 is stored as 0."),
    _rule(
        "DECIMAL of up to 38 digits",
        "decimal",
        _map_decimal,
        applies_to=_fits_decimal,
        note="Up to 18 digits without a fraction are transferred as an integer, others as text. A DECIMAL(19)"
        " of Redshift"
        " cannot contain the largest numbers of 19 digits, so these columns are declared with 20.",
    ),
    _rule(
        "DECIMAL of more than 38 digits, or with 38 after the point",
        "decimal",
        _map_long_decimal,
        note="Too large for Redshift's DECIMAL: stored as the text that MySQL prints.",
    ),
    _rule(
        "FLOAT, DOUBLE",
        "float double",
        _map_double,
        note="A FLOAT becomes the double of exactly its value, and -0 stays -0. A subnormal number is out of range,"
        " because Redshift does not store all of these.",
    ),
    _rule(
        "DATE",
        "date",
        _calendar_mapper(ParquetType(physical=PhysicalType.INT32, meaning=LogicalType.DATE), "DATE"),
        note="A month or day of zero makes a zero date; the year 0000 and invalid days are out of range.",
    ),
    _rule(
        "DATETIME, TIMESTAMP",
        "datetime timestamp",
        _calendar_mapper(ParquetType(physical=PhysicalType.INT64, meaning=LogicalType.TIMESTAMP_MICROS), "TIMESTAMP"),
        note="A DATETIME keeps its wall clock, a TIMESTAMP is in UTC. Files mark both as UTC, since COPY reads"
        " unmarked values incorrectly.",
    ),
    _rule(
        "TIME",
        "time",
        lambda _: _map_printed(18, select=_PLAIN),
        note="No type of Redshift has its range, -838:59:59 to 838:59:59, and COPY cannot fill a TIME column.",
    ),
    _rule(
        "CHAR, VARCHAR, NCHAR, NVARCHAR",
        "char varchar",
        _map_characters,
        note="Each character counts as the most bytes it can take in UTF-8: 1 (ascii), 4 (utf8mb4, utf16, utf32,"
        " gb18030), else 3. Text with a NUL character falls under `invalid_text`.",
    ),
    _rule("TINYTEXT", "tinytext", lambda c: _map_text(c, 4 * 255)),
    _rule(
        "TEXT, MEDIUMTEXT, LONGTEXT",
        "text mediumtext longtext",
        lambda c: _map_text(c, MAX_VARCHAR_BYTES, long=True),
        note="MariaDB's JSON is a LONGTEXT.",
    ),
    _rule(
        "ENUM",
        "enum",
        _map_members,
        note="The member's name; index 0, which MySQL stores for an invalid value, becomes the empty text.",
    ),
    _rule("SET", "set", _map_members, note="The names of its members, separated by commas."),
    _rule(
        "JSON",
        "json",
        _map_json,
        note="The text that MySQL prints. If it is longer than the server's `max_allowed_packet`, MySQL returns"
        " NULL, and `oversize` applies. COPY fills a VARBYTE column of a scratch table, and JSON_PARSE"
        " converts it to SUPER.",
    ),
    _rule(
        "BINARY, VARBINARY",
        "binary varbinary",
        _bytes_mapper(lambda c: c.length or c.octets or 0),
        note="A BINARY value keeps the zero bytes at its end.",
    ),
    _rule(
        "TINYBLOB, BLOB, MEDIUMBLOB, LONGBLOB",
        "tinyblob blob mediumblob longblob",
        _bytes_mapper(lambda c: c.octets or c.length or MAX_VARBYTE_BYTES, select=_LONG_BYTES),
    ),
    _rule(
        "GEOMETRY and its kinds",
        "geometry point linestring polygon multipoint multilinestring multipolygon geomcollection geometrycollection",
        _bytes_mapper(lambda _: MAX_VARBYTE_BYTES, select=f"SUBSTRING({_LONG_BYTES}, 5)", whole=True),
        note="WKB, x before y: for geographic systems longitude before latitude, whatever the order in MySQL's own"
        " functions. The number of the reference system is not kept.",
    ),
    _rule(
        "VECTOR",
        "vector",
        _bytes_mapper(_vector_byte_length, whole=True),
        note="Its FLOAT values, four bytes each, lowest byte first.",
    ),
    _rule("INET4 (MariaDB)", "inet4", lambda _: _map_printed(15)),
    _rule("INET6 (MariaDB)", "inet6", lambda _: _map_printed(45)),
    _rule("UUID (MariaDB)", "uuid", lambda _: _map_printed(36)),
)


def find_type_rule(column: SourceColumn) -> TypeRule | None:
    """Return the first rule that matches a column; None for an unknown type."""
    return next((rule for rule in TYPE_RULES if column.data_type in rule.data_types and rule.applies_to(column)), None)
