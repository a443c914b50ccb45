"""The table of types: every type of MySQL and MariaDB, how it is selected, stored and declared.

The first rule that fits a column is its way. Nothing else in the code knows a type of
the source by name, and `docs/types.md` is printed from these rules.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from syncd.datatypes.columns import (
    DOCUMENT,
    LONGEST_BYTES,
    LONGEST_TEXT,
    Meaning,
    ParquetType,
    Physical,
    Travel,
    Trouble,
)
from syncd.datatypes.source_table import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How the values of one type travel; `{c}` in the expression is the quoted column."""

    select: str
    travel: Travel
    parquet: ParquetType
    redshift: str
    limit: int | None = None
    befalls: tuple[Trouble, ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of the table."""

    of: str
    """The types it is for, as a reader of the docs knows them."""
    data_types: frozenset[str]
    way: Callable[[Column], Way]
    when: Callable[[Column], bool] = lambda _column: True
    note: str = ""


INT64_DIGITS: Final = 18
DECIMAL_DIGITS: Final = 38
DECIMAL_FRACTION: Final = 37
UNSIGNED_DIGITS: Final = 20
CUT_SHORT: Final = 19
BITS: Final = 64

RAW_CHARSETS: Final = frozenset({"utf8mb4", "utf8mb3", "utf8", "ascii"})
"""Their stored bytes are UTF-8 already: no conversion may come between."""
TOTAL_CHARSETS: Final = frozenset({"latin1"})
"""Every byte of theirs is a character, so that a conversion loses nothing."""
THREE_BYTES: Final = frozenset(
    """
    utf8mb3 utf8 ucs2 latin1 latin2 latin5 latin7 cp850 cp852 cp866 cp1250 cp1251 cp1256 cp1257 koi8r koi8u dec8 hp8
    swe7 hebrew greek tis620 macce macroman keybcs2 armscii8 geostd8 big5 gb2312 gbk sjis cp932 ujis eucjpms euckr
    """.split()
)
"""Character sets without a character that takes four bytes of UTF-8."""

_SIGNED: Final = "CAST({c} AS SIGNED)"
# The width is said, for both servers take that of DECIMAL(30,30) for too short by the zero before its point, and cut
# the last digit off wherever a statement is part of a union.
_PRINTED: Final = "CAST({c} AS CHAR(80))"
# What is all digits and signs is the same in bytes, which neither server nor driver has to convert: text costs both a
# tenth of all that they do.
_PLAIN: Final = "CAST({c} AS BINARY)"
_BYTES: Final = "CAST({c} AS BINARY)"
_CONVERTED: Final = "CAST(CONVERT({c} USING utf8mb4) AS BINARY)"


def _guarded(bytes_: str, converted: str) -> str:
    # A conversion turns what has no character into `?`, or drops it, and says nothing. Where the text
    # has another length or other question marks afterwards, its own bytes travel behind FF, which no
    # UTF-8 holds: so the value is seen as invalid, and can still be read.
    return (
        "CASE WHEN CHAR_LENGTH({c}) = CHAR_LENGTH(CONVERT({c} USING utf8mb4))"
        " AND CHAR_LENGTH(REPLACE({c}, '?', '')) = CHAR_LENGTH(REPLACE(CONVERT({c} USING utf8mb4), '?', ''))"
        f" THEN {converted} WHEN {{c}} IS NOT NULL THEN {bytes_} END"
    )


_GUARDED: Final = _guarded(f"CONCAT(X'FF', {_BYTES})", _CONVERTED)

# Of what is longer than the server's `max_allowed_packet`, CAST on MariaDB and CONCAT on both servers make NULL, with a
# warning that nobody reads. CONVERT does not, but tells MariaDB too short a width for whatever it keeps in a table.
_LONG_BYTES: Final = f"COALESCE({_BYTES}, CONVERT({{c}} USING binary))"
_LONG_CONVERTED: Final = f"COALESCE({_CONVERTED}, CONVERT(CONVERT({{c}} USING utf8mb4) USING binary))"
_LONG_GUARDED: Final = _guarded(f"COALESCE(CONCAT(X'FF', {_BYTES}), X'FF')", _LONG_CONVERTED)

_UTF8: Final = ParquetType(physical=Physical.BYTE_ARRAY, meaning=Meaning.UTF8)
_BLOB: Final = ParquetType(physical=Physical.BYTE_ARRAY)
_INT_16: Final = ParquetType(physical=Physical.INT32, meaning=Meaning.INT_16)


def _integer(parquet: ParquetType, redshift: str, *befalls: Trouble) -> Callable[[Column], Way]:
    return lambda _: Way(
        select=_SIGNED, travel=Travel.INTEGER, parquet=parquet, redshift=redshift, befalls=tuple(befalls)
    )


_SMALLINT: Final = _integer(_INT_16, "SMALLINT")
_INTEGER: Final = _integer(ParquetType(physical=Physical.INT32), "INTEGER")
_BIGINT: Final = _integer(ParquetType(physical=Physical.INT64), "BIGINT")
_BOOLEAN: Final = _integer(ParquetType(physical=Physical.BOOLEAN), "BOOLEAN")


def shortest_length(digits: int) -> int:
    """Bytes of the shortest two's complement number that holds so many decimal digits."""
    largest: int = 10**digits - 1
    return (largest.bit_length() + 8) // 8


def _decimal_type(precision: int, scale: int) -> ParquetType:
    # One layout for every precision: the one that Redshift's own UNLOAD writes.
    return ParquetType(
        physical=Physical.FIXED,
        meaning=Meaning.DECIMAL,
        precision=precision,
        scale=scale,
        length=shortest_length(precision),
    )


def _unsigned(_: Column) -> Way:
    parquet = _decimal_type(UNSIGNED_DIGITS, 0)
    return Way(select=_SIGNED, travel=Travel.INTEGER, parquet=parquet, redshift=f"DECIMAL({UNSIGNED_DIGITS},0)")


def _digits(column: Column) -> tuple[int, int]:
    return column.precision or 10, column.scale or 0


def _held_digits(precision: int) -> int:
    """Digits of a DECIMAL that holds them all: of 19, Redshift keeps those that eight bytes hold."""
    return precision + 1 if precision == CUT_SHORT else precision


def _fits_decimal(column: Column) -> bool:
    precision, scale = _digits(column)
    return precision <= DECIMAL_DIGITS and scale <= DECIMAL_FRACTION


def _decimal(column: Column) -> Way:
    precision, scale = _digits(column)
    held = _held_digits(precision)
    # A whole number travels as one, for a third of what text costs the reader. With a point it does not: to multiply
    # it away costs the server more.
    whole = not scale and precision <= INT64_DIGITS
    return Way(
        select=_SIGNED if whole else _PLAIN if scale < precision else _PRINTED,
        travel=Travel.INTEGER if whole else Travel.TEXT,
        parquet=_decimal_type(held, scale),
        redshift=f"DECIMAL({held},{scale})",
    )


def _printed(width: int, *, select: str = _PRINTED) -> Way:
    return Way(select=select, travel=Travel.TEXT, parquet=_UTF8, redshift=f"VARCHAR({width})", limit=width, whole=True)


def _long_decimal(column: Column) -> Way:
    return _printed(_digits(column)[0] + 3)


def _double(_: Column) -> Way:
    # The product is a double without a fixed number of decimals: the server prints it so that it reads back the same.
    return Way(
        select="{c} * 1e0",
        travel=Travel.DOUBLE,
        parquet=ParquetType(physical=Physical.DOUBLE),
        redshift="DOUBLE PRECISION",
        befalls=(Trouble.OUT_OF_RANGE,),
    )


def _calendar(parquet: ParquetType, redshift: str) -> Callable[[Column], Way]:
    return lambda _: Way(
        select=_PLAIN,
        travel=Travel.TEXT,
        parquet=parquet,
        redshift=redshift,
        befalls=(Trouble.ZERO_DATE, Trouble.OUT_OF_RANGE),
    )


def bytes_per_character(charset: str | None) -> int:
    """How many bytes of UTF-8 one character of a character set can take."""
    if charset == "ascii":
        return 1
    return 3 if charset in THREE_BYTES else 4


def _text_select(charset: str | None, *, long: bool) -> str:
    if charset in RAW_CHARSETS:
        return _LONG_BYTES if long else _BYTES
    if charset in TOTAL_CHARSETS:
        return _LONG_CONVERTED if long else _CONVERTED
    return _LONG_GUARDED if long else _GUARDED


def _text(column: Column, width: int, *, long: bool = False) -> Way:
    width = min(max(width, 1), LONGEST_TEXT)
    # Text travels as bytes, for a driver that decodes it would mend what is broken without a word.
    return Way(
        select=_text_select(column.charset, long=long),
        travel=Travel.BYTES,
        parquet=_UTF8,
        redshift=f"VARCHAR({width})",
        limit=width,
        befalls=(Trouble.INVALID_TEXT, Trouble.OVERSIZE),
    )


def _characters(column: Column) -> Way:
    return _text(column, (column.length or 0) * bytes_per_character(column.charset))


def _members(column: Column) -> Way:
    return _text(column, (column.length or 0) * 4)


def _json(_: Column) -> Way:
    return Way(
        select=_CONVERTED,
        travel=Travel.BYTES,
        parquet=_BLOB,
        redshift=DOCUMENT,
        limit=LONGEST_BYTES,
        befalls=(Trouble.OVERSIZE,),
        whole=True,
    )


def _bytes(width: Callable[[Column], int], *, select: str = _BYTES, whole: bool = False) -> Callable[[Column], Way]:
    def way(column: Column) -> Way:
        limit = min(max(width(column), 1), LONGEST_BYTES)
        return Way(
            select=select,
            travel=Travel.BYTES,
            parquet=_BLOB,
            redshift=f"VARBYTE({limit})",
            limit=limit,
            befalls=(Trouble.OVERSIZE,),
            whole=whole,
        )

    return way


def _vector_bytes(column: Column) -> int:
    found = re.search(r"\((\d+)\)", column.column_type)
    return 4 * int(found.group(1)) if found else LONGEST_TEXT


AS_BOOLEAN: Final = Rule(
    of="TINYINT(1) named under `boolean`",
    data_types=frozenset({"tinyint"}),
    way=_integer(ParquetType(physical=Physical.BOOLEAN), "BOOLEAN", Trouble.OUT_OF_RANGE),
    when=lambda column: column.column_type.lower().startswith("tinyint(1)"),
    note="Any value but 0 and 1 is out of range.",
)

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        of="TINYINT, BOOL, TINYINT UNSIGNED",
        data_types=frozenset({"tinyint"}),
        way=_SMALLINT,
        note="TINYINT(1) holds -128 to 127, so it is a number unless the configuration calls it boolean.",
    ),
    Rule(
        of="SMALLINT",
        data_types=frozenset({"smallint"}),
        way=_SMALLINT,
        when=lambda c: not c.unsigned,
    ),
    Rule(of="SMALLINT UNSIGNED", data_types=frozenset({"smallint"}), way=_INTEGER),
    Rule(of="MEDIUMINT, MEDIUMINT UNSIGNED", data_types=frozenset({"mediumint"}), way=_INTEGER),
    Rule(of="INT", data_types=frozenset({"int"}), way=_INTEGER, when=lambda c: not c.unsigned),
    Rule(of="INT UNSIGNED", data_types=frozenset({"int"}), way=_BIGINT),
    Rule(of="BIGINT", data_types=frozenset({"bigint"}), way=_BIGINT, when=lambda c: not c.unsigned),
    Rule(
        of="BIGINT UNSIGNED, SERIAL",
        data_types=frozenset({"bigint"}),
        way=_unsigned,
        note="Travels as the signed number of the same 64 bits.",
    ),
    Rule(of="BIT(1)", data_types=frozenset({"bit"}), way=_BOOLEAN, when=lambda c: c.precision == 1),
    Rule(
        of="BIT(2) to BIT(63)", data_types=frozenset({"bit"}), way=_BIGINT, when=lambda c: (c.precision or BITS) < BITS
    ),
    Rule(of="BIT(64)", data_types=frozenset({"bit"}), way=_unsigned),
    Rule(of="YEAR", data_types=frozenset({"year"}), way=_SMALLINT, note="The year 0000 is 0."),
    Rule(
        of="DECIMAL to 38 digits",
        data_types=frozenset({"decimal"}),
        way=_decimal,
        when=_fits_decimal,
        note="To 18 digits, none of them after the point, it travels as an integer; others as text. Of 19 digits"
        " Redshift does not hold the largest numbers: they are declared with 20.",
    ),
    Rule(
        of="DECIMAL of more digits, or 38 after the point",
        data_types=frozenset({"decimal"}),
        way=_long_decimal,
        note="More than Redshift counts with: the text that MySQL prints.",
    ),
    Rule(
        of="FLOAT, DOUBLE",
        data_types=frozenset({"float", "double"}),
        way=_double,
        note="A FLOAT is the double of exactly its value, -0 stays -0; a number so small that it is subnormal"
        " is out of range, for Redshift does not keep all of these.",
    ),
    Rule(
        of="DATE",
        data_types=frozenset({"date"}),
        way=_calendar(ParquetType(physical=Physical.INT32, meaning=Meaning.DATE), "DATE"),
        note="A month or day of zero makes a zero date; the year 0000 and days that no calendar has are out of range.",
    ),
    Rule(
        of="DATETIME, TIMESTAMP",
        data_types=frozenset({"datetime", "timestamp"}),
        way=_calendar(ParquetType(physical=Physical.INT64, meaning=Meaning.TIMESTAMP_MICROS), "TIMESTAMP"),
        note="A DATETIME keeps its wall clock, a TIMESTAMP is in UTC. Files mark both as UTC, since COPY reads"
        " unmarked ones wrong.",
    ),
    Rule(
        of="TIME",
        data_types=frozenset({"time"}),
        way=lambda _: _printed(18, select=_PLAIN),
        note="Reaches from -838:59:59 to 838:59:59, which no type of Redshift does; COPY fills no TIME.",
    ),
    Rule(
        of="CHAR, VARCHAR, NCHAR, NVARCHAR",
        data_types=frozenset({"char", "varchar"}),
        way=_characters,
        note="As many bytes as its characters can take in UTF-8: 1 (ascii), 4 (utf8mb4, utf16, utf32, gb18030), else 3."
        " Text with a NUL character is met by `invalid_text`.",
    ),
    Rule(of="TINYTEXT", data_types=frozenset({"tinytext"}), way=lambda c: _text(c, 4 * 255)),
    Rule(
        of="TEXT, MEDIUMTEXT, LONGTEXT",
        data_types=frozenset({"text", "mediumtext", "longtext"}),
        way=lambda c: _text(c, LONGEST_TEXT, long=True),
        note="MariaDB's JSON is a LONGTEXT.",
    ),
    Rule(
        of="ENUM",
        data_types=frozenset({"enum"}),
        way=_members,
        note="The member's name; index 0, which is what a wrong value became, is the empty text.",
    ),
    Rule(of="SET", data_types=frozenset({"set"}), way=_members, note="The members' names with commas between."),
    Rule(
        of="JSON",
        data_types=frozenset({"json"}),
        way=_json,
        note="The text that MySQL prints; where that is longer than the server's `max_allowed_packet`, MySQL gives"
        " nothing, which is met by `oversize`. COPY fills a VARBYTE of a scratch table, JSON_PARSE makes SUPER of it.",
    ),
    Rule(
        of="BINARY, VARBINARY",
        data_types=frozenset({"binary", "varbinary"}),
        way=_bytes(lambda c: c.length or c.octets or 0),
        note="BINARY with the zero bytes that fill it.",
    ),
    Rule(
        of="TINYBLOB, BLOB, MEDIUMBLOB, LONGBLOB",
        data_types=frozenset({"tinyblob", "blob", "mediumblob", "longblob"}),
        way=_bytes(lambda c: c.octets or c.length or LONGEST_BYTES, select=_LONG_BYTES),
    ),
    Rule(
        of="GEOMETRY and its kinds",
        data_types=frozenset(
            """
            geometry point linestring polygon multipoint multilinestring multipolygon
            geomcollection geometrycollection
            """.split()
        ),
        way=_bytes(lambda _: LONGEST_BYTES, select=f"SUBSTRING({_LONG_BYTES}, 5)", whole=True),
        note="WKB, x before y: for geographic systems longitude before latitude, whatever the order in MySQL's own"
        " functions. The number of the reference system is not kept.",
    ),
    Rule(
        of="VECTOR",
        data_types=frozenset({"vector"}),
        way=_bytes(_vector_bytes, whole=True),
        note="Its floats, four bytes each, lowest byte first.",
    ),
    Rule(of="INET4 (MariaDB)", data_types=frozenset({"inet4"}), way=lambda _: _printed(15)),
    Rule(of="INET6 (MariaDB)", data_types=frozenset({"inet6"}), way=lambda _: _printed(45)),
    Rule(of="UUID (MariaDB)", data_types=frozenset({"uuid"}), way=lambda _: _printed(36)),
)


def rule_of(column: Column) -> Rule | None:
    """The first rule that fits a column; none for a type that is not in the table."""
    return next((rule for rule in RULES if column.data_type in rule.data_types and rule.when(column)), None)
