"""Every type with its edge values, as tables on a server; and what must arrive, as the server itself prints it.

One table a case: `n` numbers the rows from 1, `c` is the column that the case is about.
Nothing here is shared with the product: expected texts come from SQL of their own, and
what was read back is put into words by plain Python.
"""

import datetime as dt
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from syncd.datatypes.source_table import SourceColumn, SourceTable

INT = "CAST(c AS CHAR)"
NUMBER = "CAST(c + 0 AS CHAR)"
DATE = "DATE_FORMAT(c, '%Y-%m-%d')"
MOMENT = "DATE_FORMAT(c, '%Y-%m-%d %H:%i:%s.%f')"
TEXT = "HEX(CONVERT(c USING utf8mb4))"
PRINTED = "HEX(CAST(c AS CHAR))"
BYTES = "HEX(c)"
MARIADB, MYSQL = "mariadb", "mysql"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One type, its edge values as SQL, and how the server prints them."""

    name: str
    ddl: str
    values: tuple[str, ...]
    printed: str
    on: tuple[str, ...] = (MARIADB, MYSQL)
    mode: str = ""
    """The mode in which the rows are inserted."""
    boolean: bool = False
    expected: Mapping[int, str | None] = field(default_factory=dict[int, str | None])
    """By number of row, where the server's own words are not the answer."""
    refused: frozenset[int] = frozenset()
    """Rows that go to quarantine."""
    troubles: Mapping[str, int] = field(default_factory=dict[str, int])

    def __str__(self) -> str:
        return self.name

    @property
    def table(self) -> str:
        return f"type_{self.name}"


def _double(*values: float) -> dict[int, str | None]:
    return {n: value.hex() for n, value in enumerate(values, 1)}


def _float(*values: float) -> dict[int, str | None]:
    return _double(*(struct.unpack("f", struct.pack("f", value))[0] for value in values))


def _ones(bits: int) -> str:
    return f"b'{'1' * bits}'"


def _integers(name: str, bits: int) -> list[Case]:
    low, high, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 2**bits - 1
    signed = Case(name=name, ddl=name, values=(str(low), "-1", "0", str(high), "NULL"), printed=INT)
    above = high + 1
    values = ("0", str(high), str(above), str(most), "NULL")
    unsigned = Case(name=f"{name}_unsigned", ddl=f"{name} unsigned", values=values, printed=INT)
    return [signed, unsigned]


def _decimals(digits: int, scale: int) -> Case:
    nines = "9" * (digits - scale) + ("." + "9" * scale if scale else "")
    smallest = "0." + "0" * (scale - 1) + "1" if scale else "1"
    values = (nines, f"-{nines}", smallest, f"-{smallest}", "0", "NULL")
    return Case(name=f"decimal_{digits}_{scale}", ddl=f"decimal({digits},{scale})", values=values, printed=INT)


def _text_decimals(digits: int, scale: int, *on: str) -> Case:
    case = _decimals(digits, scale)
    return Case(name=case.name, ddl=case.ddl, values=case.values, printed=PRINTED, on=on or (MARIADB, MYSQL))


_WORDS = (
    "''",
    "'null'",
    "'nan'",
    "'NULL'",
    "NULL",
    "'a b'",
    "' both '",
    r"'tab\t quote\' back\\ line\n'",
)
_WIDE = (*_WORDS, "'é€😀'", "X'6100623000'", "X'00'", "X'F48FBFBF'", "X'EFBFBF'", "X'EFBFBD'")


def _in_charset(charset: str, *values: str, on: tuple[str, ...] = (MARIADB, MYSQL)) -> Case:
    ddl = f"varchar(40) character set {charset}"
    return Case(name=f"varchar_{charset}", ddl=ddl, values=("''", "NULL", "'a?b'", *values), printed=TEXT, on=on)


def _geometry(name: str, *texts: str) -> Case:
    values = (*(f"ST_GeomFromText('{text}')" for text in texts), "NULL")
    return Case(name=name, ddl=name, values=values, printed="HEX(ST_AsBinary(c))")


NUMBERS = (
    *(case for name, bits in (("tinyint", 8), ("smallint", 16), ("mediumint", 24)) for case in _integers(name, bits)),
    *(case for name, bits in (("int", 32), ("bigint", 64)) for case in _integers(name, bits)),
    Case(name="int_zerofill", ddl="int(10) zerofill", values=("7", "4294967295"), printed=NUMBER),
    Case(name="tinyint_1", ddl="tinyint(1)", values=("0", "1", "2", "127", "-128", "NULL"), printed=INT),
    Case(
        name="boolean",
        ddl="boolean",
        values=("0", "1", "2", "NULL", "-1"),
        printed=INT,
        boolean=True,
        refused=frozenset({3, 5}),
        troubles={"out_of_range.quarantine": 2},
    ),
    Case(name="bit_1", ddl="bit(1)", values=("b'0'", "b'1'", "NULL"), printed=NUMBER),
    Case(name="bit_7", ddl="bit(7)", values=("b'0'", _ones(7), "NULL"), printed=NUMBER),
    Case(name="bit_63", ddl="bit(63)", values=("b'0'", _ones(63), "NULL"), printed="CAST(CAST(c AS UNSIGNED) AS CHAR)"),
    Case(
        name="bit_64",
        ddl="bit(64)",
        values=("b'0'", _ones(64), f"b'1{'0' * 63}'", _ones(63), "NULL"),
        printed="CAST(CAST(c AS UNSIGNED) AS CHAR)",
    ),
    Case(name="year", ddl="year", values=("1901", "2155", "'0000'", "NULL"), printed=NUMBER),
    *(_decimals(digits, scale) for digits, scale in ((1, 0), (9, 2), (10, 0), (18, 4), (18, 18), (19, 4), (20, 0))),
    *(_decimals(digits, scale) for digits, scale in ((30, 30), (38, 0), (38, 10), (38, 30))),
    *(_text_decimals(digits, scale) for digits, scale in ((39, 0), (65, 0), (65, 30))),
    _text_decimals(38, 38, MARIADB),
    Case(
        name="decimal_zerofill",
        ddl="decimal(20,2) zerofill",
        values=("1.5", "0"),
        printed=NUMBER,
    ),
    Case(
        name="float",
        ddl="float",
        values=("0.1", "-0e0", "3.4028234663852886e38", "1.401298464324817e-45", "16777217", "NULL"),
        printed=INT,
        expected=_float(0.1, -0.0, 3.4028234663852886e38, 1.401298464324817e-45, 16777217),
    ),
    Case(
        name="float_10_2",
        ddl="float(10,2)",
        values=("0.1", "1234567.89"),
        printed=INT,
        expected=_float(0.1, 1234567.89),
    ),
    Case(
        name="double",
        ddl="double",
        values=("0.1", "-0e0", "1.7976931348623157e308", "2.2250738585072014e-308", "5e-324", "1e15", "NULL"),
        printed=INT,
        expected=_double(0.1, -0.0, 1.7976931348623157e308, 2.2250738585072014e-308),
        refused=frozenset({5}),
        troubles={"out_of_range.quarantine": 1},
    ),
    Case(
        name="double_20_3",
        ddl="double(20,3)",
        values=("0.1", "12345678901234567.891"),
        printed=INT,
        expected=_double(0.1, 12345678901234567.891),
    ),
)

MOMENTS = (
    Case(
        name="date",
        ddl="date",
        values=("'0001-01-01'", "'1582-10-10'", "'1969-12-31'", "'2024-02-29'", "'9999-12-31'", "NULL"),
        printed=DATE,
    ),
    Case(
        name="date_zero",
        ddl="date",
        values=("'0000-00-00'", "'2023-00-10'", "'2023-10-00'", "'2023-10-10'", "NULL"),
        printed=DATE,
        expected={1: None, 2: None, 3: None},
        troubles={"zero_dates.null": 3},
    ),
    *(
        Case(
            name=f"datetime_{digits}",
            ddl=f"datetime({digits})",
            values=(
                "'0001-01-01 00:00:00'",
                "'9999-12-31 23:59:59'",
                "'1969-12-31 23:59:59.5'",
                "'2024-03-31 02:30:00.123456'",
                "NULL",
            ),
            printed=MOMENT,
        )
        for digits in range(7)
    ),
    Case(
        name="datetime_last",
        ddl="datetime(6)",
        values=("'9999-12-31 23:59:59.999999'", "'0001-01-01 00:00:00.000001'"),
        printed=MOMENT,
    ),
    Case(
        name="datetime_zero",
        ddl="datetime(6)",
        values=("'0000-00-00 00:00:00'", "'2023-00-10 01:02:03.5'", "'2023-01-00 00:00:00'", "'2023-01-01 00:00:00'"),
        printed=MOMENT,
        expected={1: None, 2: None, 3: None},
        troubles={"zero_dates.null": 3},
    ),
    Case(
        name="datetime_impossible",
        ddl="datetime",
        mode="ALLOW_INVALID_DATES",
        values=("'2023-02-31 10:00:00'", "'0000-01-01 00:00:00'", "'2023-02-28 10:00:00'"),
        printed=MOMENT,
        refused=frozenset({1, 2}),
        troubles={"out_of_range.quarantine": 2},
    ),
    Case(
        name="timestamp_6",
        ddl="timestamp(6) null",
        values=(
            "'1970-01-01 00:00:01'",
            "'2038-01-19 03:14:07.999999'",
            "'2024-03-31 01:30:00.000001'",
            "'2024-10-27 00:30:00'",
            "NULL",
        ),
        printed=MOMENT,
    ),
    Case(
        name="timestamp_zero",
        ddl="timestamp null",
        values=("'0000-00-00 00:00:00'", "'2024-01-01 00:00:00'"),
        printed=MOMENT,
        expected={1: None},
        troubles={"zero_dates.null": 1},
    ),
    Case(
        name="time_6",
        ddl="time(6)",
        values=("'-838:59:59'", "'838:59:59'", "'-00:00:00.000001'", "'00:00:00'", "'24:00:00.5'", "NULL"),
        printed=PRINTED,
    ),
    Case(name="time_0", ddl="time", values=("'-838:59:59'", "'838:59:59'", "'00:00:00'"), printed=PRINTED),
)

NULS = frozenset({"X'6100623000'", "X'00'", "X'610062'", "X'0000'"})
"""Texts with a NUL character, in whatever character set they stand here."""


def _without_nul(case: Case) -> Case:
    """The case, its texts with a NUL character refused: nobody knows what COPY makes of these."""
    rows = frozenset(number for number, value in enumerate(case.values, 1) if value in NULS)
    if not rows:
        return case
    told = {"invalid_text.quarantine": case.troubles.get("invalid_text.quarantine", 0) + len(rows)}
    return replace(case, refused=case.refused | rows, troubles={**case.troubles, **told})


TEXTS = tuple(
    map(
        _without_nul,
        (
            Case(name="char", ddl="char(40) character set utf8mb4", values=_WIDE, printed=TEXT),
            Case(name="varchar", ddl="varchar(40) character set utf8mb4", values=_WIDE, printed=TEXT),
            Case(name="tinytext", ddl="tinytext character set utf8mb4", values=_WIDE, printed=TEXT),
            Case(name="text", ddl="text character set utf8mb4", values=(*_WIDE, "REPEAT('é', 32767)"), printed=TEXT),
            Case(
                name="mediumtext",
                ddl="mediumtext character set utf8mb4",
                values=("REPEAT('x', 65535)", "REPEAT('x', 65536)", "REPEAT('é', 32768)", "''"),
                printed=TEXT,
                refused=frozenset({2, 3}),
                troubles={"oversize.quarantine": 2},
            ),
            Case(name="longtext", ddl="longtext character set utf8mb4", values=_WIDE, printed=TEXT),
            Case(name="varchar_empty_width", ddl="varchar(0)", values=("''", "NULL"), printed=TEXT),
            _in_charset("utf8mb3", "X'E282AC'", "X'610062'"),
            _in_charset("latin1", "X'80'", "X'81'", "X'E9FF'", "X'610062'"),
            _in_charset("ascii", "'plain'", "X'610062'"),
            _in_charset("latin2", "X'A3B1'"),
            _in_charset("cp1251", "X'DFFF'"),
            _in_charset("koi8r", "X'C1D1'"),
            _in_charset("greek", "X'E1F9'"),
            _in_charset("ucs2", "X'20AC00E9'", "X'0000'"),
            _in_charset("utf16", "X'D83DDE0020AC'", "X'0000'"),
            _in_charset("utf16le", "X'3DD800DEAC20'"),
            _in_charset("utf32", "X'0001F60000000061'"),
            _in_charset("sjis", "X'82A0'"),
            _in_charset("cp932", "X'82A0'", "X'ED40'", "X'FA5C'", "X'F040'"),
            _in_charset("ujis", "X'A4A2'", "X'8FB0A1'"),
            _in_charset("eucjpms", "X'A4A2'"),
            _in_charset("big5", "X'A440'"),
            _in_charset("gbk", "X'8140'"),
            _in_charset("gb2312", "X'B0A1'"),
            _in_charset("gb18030", "'é😀'", on=(MYSQL,)),
            _in_charset("euckr", "X'B0A1'"),
            Case(
                name="charset_without_character",
                ddl="varchar(9) character set cp1251",
                values=("X'98'", "X'3F98'", "'?'", "X'FF'"),
                printed=TEXT,
                refused=frozenset({1, 2}),
                troubles={"invalid_text.quarantine": 2},
            ),
            Case(
                name="lone_surrogate",
                ddl="varchar(9) character set ucs2",
                values=("X'D800'", "X'D83DDE00'", "X'0061DC00'", "X'0061'"),
                printed=TEXT,
                refused=frozenset({1, 2, 3}),
                troubles={"invalid_text.quarantine": 3},
            ),
            Case(
                name="bytes_that_are_no_text",
                ddl="varchar(9) character set utf8mb4",
                values=("X'EDA080'", "'a'"),
                printed=TEXT,
                on=(MARIADB,),
                refused=frozenset({1}),
                troubles={"invalid_text.quarantine": 1},
            ),
            Case(
                name="enum",
                ddl="enum('a','é😀','') character set utf8mb4",
                values=("'a'", "'é😀'", "''", "0", "'x'", "NULL"),
                printed=TEXT,
            ),
            Case(
                name="enum_latin1", ddl="enum('a','é') character set latin1", values=("'a'", "'é'", "0"), printed=TEXT
            ),
            Case(
                name="set",
                ddl="set('x','y z','é') character set utf8mb4",
                values=("''", "'x'", "'x,é'", "'x,y z,é'", "NULL"),
                printed=TEXT,
            ),
            Case(
                name="inet6",
                ddl="inet6",
                values=("'::1'", "'::ffff:255.255.255.255'", "NULL"),
                printed=PRINTED,
                on=(MARIADB,),
            ),
            Case(name="inet4", ddl="inet4", values=("'255.255.255.255'", "NULL"), printed=PRINTED, on=(MARIADB,)),
            Case(
                name="uuid",
                ddl="uuid",
                values=("'123e4567-e89b-12d3-a456-426655440000'", "NULL"),
                printed=PRINTED,
                on=(MARIADB,),
            ),
        ),
    )
)

_BINARY = ("X''", "X'00'", "X'00FF10'", "X'61'", "NULL")
BINARIES = (
    Case(
        name="json",
        ddl="json",
        values=(
            """'{"a": [1, 2.5, -1e10, null, true], "é😀": "\\\\u0000"}'""",
            "'null'",
            "'18446744073709551615'",
            """'""'""",
            "NULL",
        ),
        printed="HEX(CONVERT(c USING utf8mb4))",
    ),
    Case(name="binary_4", ddl="binary(4)", values=_BINARY, printed=BYTES),
    Case(name="binary_16", ddl="binary(16)", values=("X'00112233445566778899AABBCCDDEEFF'",), printed=BYTES),
    Case(name="varbinary", ddl="varbinary(9)", values=_BINARY, printed=BYTES),
    *(Case(name=name, ddl=name, values=_BINARY, printed=BYTES) for name in ("tinyblob", "blob", "mediumblob")),
    Case(
        name="longblob",
        ddl="longblob",
        values=(*_BINARY, "REPEAT(X'FF', 70000)", "REPEAT(X'FF', 4194305)"),
        printed=BYTES,
        refused=frozenset({7}),
        troubles={"oversize.quarantine": 1},
    ),
    _geometry("geometry", "POINT(1 2)", "GEOMETRYCOLLECTION(POINT(1 2),LINESTRING(0 0,1 1))"),
    _geometry("point", "POINT(-1.5 2)"),
    _geometry("linestring", "LINESTRING(0 0,1 1,2 2)"),
    _geometry("polygon", "POLYGON((0 0,1 0,1 1,0 0))"),
    _geometry("multipoint", "MULTIPOINT(0 0,1 1)"),
    _geometry("multilinestring", "MULTILINESTRING((0 0,1 1),(2 2,3 3))"),
    _geometry("multipolygon", "MULTIPOLYGON(((0 0,1 0,1 1,0 0)))"),
    _geometry("geometrycollection", "GEOMETRYCOLLECTION EMPTY"),
    Case(
        name="geometry_4326",
        ddl="geometry",
        values=("ST_GeomFromText('POINT(10 20)', 4326)",),
        printed="HEX(ST_AsBinary(c, 'axis-order=long-lat'))",
        on=(MYSQL,),
    ),
    Case(
        name="vector",
        ddl="vector(3)",
        values=("STRING_TO_VECTOR('[1, -2, 3.1]')", "NULL"),
        printed=BYTES,
        on=(MYSQL,),
    ),
)

COLUMNS = (
    Case(name="generated", ddl="varchar(9) as (concat('x', n)) virtual", values=("DEFAULT", "DEFAULT"), printed=TEXT),
    Case(name="stored", ddl="bigint as (n * 2) stored", values=("DEFAULT",), printed=INT),
    Case(name="invisible", ddl="int invisible", values=("7", "NULL"), printed=INT),
)

CASES = (*NUMBERS, *MOMENTS, *TEXTS, *BINARIES, *COLUMNS)


def create(cursor: Any, case: Case) -> None:
    """Make the case's table anew, with its rows."""
    cursor.execute(f"DROP TABLE IF EXISTS {case.table}")
    cursor.execute("SET SESSION time_zone = '+00:00', sql_mode = %s", (case.mode,))
    cursor.execute(f"CREATE TABLE {case.table} (n BIGINT NOT NULL PRIMARY KEY, c {case.ddl})")
    for n, value in enumerate(case.values, 1):
        cursor.execute(f"INSERT INTO {case.table} (n, c) VALUES ({n}, {value})")
    cursor.execute("SET SESSION sql_mode = ''")


def described(cursor: Any, name: str) -> SourceTable:
    """A table as `information_schema` has it."""
    cursor.execute(
        "SELECT column_name, data_type, column_type, is_nullable, character_maximum_length, character_octet_length,"
        " numeric_precision, numeric_scale, datetime_precision, character_set_name, extra, table_schema"
        " FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = %s"
        " ORDER BY ordinal_position",
        (name,),
    )
    rows = cursor.fetchall()
    columns = tuple(
        SourceColumn(
            name=row[0],
            data_type=row[1].lower(),
            column_type=row[2],
            nullable=row[3] == "YES",
            length=row[4],
            octets=row[5],
            precision=row[6],
            scale=row[7],
            fraction=row[8] or 0,
            charset=row[9],
            extra=row[10].lower(),
        )
        for row in rows
    )
    return SourceTable(database=rows[0][11], name=name, kind="BASE TABLE", engine="InnoDB", columns=columns, indexes=())


def expected(cursor: Any, case: Case) -> dict[int, str | None]:
    """What must arrive, by number of row, in words."""
    cursor.execute(f"SELECT n, {case.printed} FROM {case.table} ORDER BY n")
    told: dict[int, str | None] = dict(cursor.fetchall())
    if case.name.startswith(("float", "double")):
        told = {n: None if text is None else float(text).hex() for n, text in told.items()}
    return {n: text for n, text in (told | dict(case.expected)).items() if n not in case.refused}


def canonical(numbers: Sequence[int], column: pa.ChunkedArray | pa.Array) -> dict[int, str | None]:
    """What arrived, in the same words."""
    return dict(zip(numbers, map(word, column.to_pylist()), strict=True))


def word(value: Any) -> str | None:  # noqa: PLR0911  # one answer a type
    """A value as Python has it, in the words of this table."""
    match value:
        case None:
            return None
        case bool() | int():
            return str(int(value))
        case float():
            return value.hex()
        case Decimal():
            return format(value, "f")
        case dt.datetime():
            return value.replace(tzinfo=None).isoformat(" ", "microseconds")
        case dt.date():
            return value.isoformat()
        case str():
            return value.encode().hex().upper()
        case bytes():
            return value.hex().upper()
        case _:
            raise AssertionError(f"no words for {type(value)}")


def loadable(redshift: str, leaf: Any) -> bool:
    """Whether COPY fills a column of this type from that of a file, by the facts of Redshift (section 2) alone."""
    name, _, digits = redshift.rstrip(")").partition("(")
    found = (leaf.physical_type, leaf.converted_type)
    match name:
        case "DECIMAL":
            precision, scale = map(int, digits.split(","))
            return _decimal(leaf) == (precision, scale, _shortest(precision))
        case "TIMESTAMP":
            marked = "isAdjustedToUTC=true" in str(leaf.logical_type)
            return found == ("INT96", "NONE") or (found == ("INT64", "TIMESTAMP_MICROS") and marked)
        case _:
            return found in _LOADABLE[name]


_LOADABLE: Mapping[str, frozenset[tuple[str, str]]] = {
    "BOOLEAN": frozenset({("BOOLEAN", "NONE")}),
    "SMALLINT": frozenset({("INT32", "INT_16"), ("INT32", "INT_8")}),
    "INTEGER": frozenset({("INT32", "NONE"), ("INT32", "INT_32")}),
    "BIGINT": frozenset({("INT64", "NONE"), ("INT64", "INT_64")}),
    "DOUBLE PRECISION": frozenset({("DOUBLE", "NONE")}),
    "DATE": frozenset({("INT32", "DATE")}),
    "VARCHAR": frozenset({("BYTE_ARRAY", "UTF8")}),
    "VARBYTE": frozenset({("BYTE_ARRAY", "NONE")}),
    # Its text comes by way of a VARBYTE: of a string COPY would make a SUPER that holds a string.
    "SUPER": frozenset({("BYTE_ARRAY", "NONE")}),
}


def _decimal(leaf: Any) -> tuple[int, int, int | None]:
    """Precision, scale and bytes; integers may hold what fits in them."""
    assert leaf.converted_type == "DECIMAL"
    match leaf.physical_type:
        case "INT32" if leaf.precision <= 9:
            return leaf.precision, leaf.scale, _shortest(leaf.precision)
        case "INT64" if leaf.precision <= 18:
            return leaf.precision, leaf.scale, _shortest(leaf.precision)
        case "FIXED_LEN_BYTE_ARRAY":
            return leaf.precision, leaf.scale, leaf.length
        case _:
            return leaf.precision, leaf.scale, None


def _shortest(precision: int) -> int:
    """The fewest bytes that hold so many digits with a sign."""
    return next(size for size in range(1, 17) if 10**precision - 1 <= 2 ** (8 * size - 1) - 1)
