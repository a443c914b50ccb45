"""Redshift's column types: how they are spelled, what limits them, what stands for them in PostgreSQL."""

from dataclasses import dataclass
from typing import Final

from syncd.sandbox.redshift.refusal import Refusal, not_in_stand_in, not_supported
from syncd.sandbox.redshift.sql.tokens import Kind, Reader

LONGEST_VARCHAR: Final = 65535
LONGEST_CHAR: Final = 4096
LONGEST_VARBYTE: Final = 16777216
DEFAULT_VARBYTE: Final = 64000
DEFAULT_WIDTH: Final = 256
MOST_DIGITS: Final = 38
MOST_FRACTION: Final = 37
DEFAULT_DIGITS: Final = 18

SIMPLE: Final = {
    "SMALLINT": "SMALLINT",
    "INT2": "SMALLINT",
    "INTEGER": "INTEGER",
    "INT": "INTEGER",
    "INT4": "INTEGER",
    "BIGINT": "BIGINT",
    "INT8": "BIGINT",
    "REAL": "REAL",
    "FLOAT4": "REAL",
    "FLOAT8": "DOUBLE PRECISION",
    "FLOAT": "DOUBLE PRECISION",
    "BOOLEAN": "BOOLEAN",
    "BOOL": "BOOLEAN",
    "DATE": "DATE",
    "TIMESTAMPTZ": "TIMESTAMPTZ",
    "TIMETZ": "TIMETZ",
    "SUPER": "SUPER",
}
TEXTS: Final = frozenset({"VARCHAR", "NVARCHAR", "TEXT"})
CHARS: Final = frozenset({"CHAR", "CHARACTER", "NCHAR", "BPCHAR"})
NOT_HERE: Final = frozenset({"GEOMETRY", "GEOGRAPHY", "HLLSKETCH"})
FOREIGN: Final = frozenset(
    """
    BIT BYTEA JSON JSONB SERIAL SERIAL2 SERIAL4 SERIAL8 BIGSERIAL SMALLSERIAL MONEY UUID XML HSTORE INET CIDR
    MACADDR INT4RANGE INT8RANGE NUMRANGE TSRANGE TSTZRANGE DATERANGE TSVECTOR TSQUERY POINT LINE LSEG BOX PATH
    POLYGON CIRCLE TINYINT MEDIUMINT DATETIME LONGTEXT MEDIUMTEXT TINYTEXT BLOB ENUM UNSIGNED STRING CLOB NUMBER
    """.split()
)


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type; `name` is Redshift's canonical word, `width` and `scale` its numbers."""

    name: str
    width: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.name == "NUMERIC":
            return f"NUMERIC({self.width},{self.scale})"
        return f"{self.name}({self.width})" if self.width else self.name


def read_type(reader: Reader) -> SqlType:
    """A type as a column definition or a cast spells it."""
    token = reader.next()
    if token.kind is not Kind.WORD:
        raise Refusal("42704", f'type "{token.raw}" does not exist')
    found = _read(token.text, reader)
    if reader.sees_mark("[") or reader.sees("ARRAY"):
        raise not_supported(f'Column type "{token.raw.lower()}[]" is not supported.')
    return found


def _read(word: str, reader: Reader) -> SqlType:
    if word in SIMPLE:
        return SqlType(SIMPLE[word])
    if word in {"DECIMAL", "NUMERIC"}:
        return _numeric(reader)
    if word in {"TIMESTAMP", "TIME"}:
        return _time(word, reader)
    if word == "DOUBLE":
        reader.expect("PRECISION")
        return SqlType("DOUBLE PRECISION")
    return _string(word, reader)


def _string(word: str, reader: Reader) -> SqlType:
    if word in TEXTS or (word in {"CHARACTER", "CHAR", "NCHAR"} and reader.takes("VARYING")):
        return _text(word, reader)
    if word in CHARS:
        return _sized("CHAR", reader, DEFAULT_WIDTH if word == "BPCHAR" else 1, LONGEST_CHAR)
    if word in {"VARBYTE", "VARBINARY"} or (word == "BINARY" and reader.takes("VARYING")):
        return _sized("VARBYTE", reader, DEFAULT_VARBYTE, LONGEST_VARBYTE)
    if word in NOT_HERE:
        raise not_in_stand_in(f"the type {word}")
    if word in FOREIGN:
        raise not_supported(f'Column type "{word.lower()}" is not supported.')
    raise Refusal("42704", f'type "{word.lower()}" does not exist')


def _numeric(reader: Reader) -> SqlType:
    if not reader.takes_mark("("):
        return SqlType("NUMERIC", DEFAULT_DIGITS, 0)
    digits = reader.number()
    scale = reader.number() if reader.takes_mark(",") else 0
    reader.expect_mark(")")
    if not 1 <= digits <= MOST_DIGITS:
        raise Refusal("22023", f"DECIMAL precision {digits} must be between 1 and {MOST_DIGITS}")
    if scale > min(MOST_FRACTION, digits):
        raise Refusal("22023", f"DECIMAL scale {scale} must be between 0 and {min(MOST_FRACTION, digits)}")
    return SqlType("NUMERIC", digits, scale)


def _text(word: str, reader: Reader) -> SqlType:
    if word == "TEXT":  # a width written after TEXT is read and forgotten
        if reader.takes_mark("("):
            reader.number()
            reader.expect_mark(")")
        return SqlType("VARCHAR", DEFAULT_WIDTH)
    return _sized("VARCHAR", reader, DEFAULT_WIDTH, LONGEST_VARCHAR)


def _sized(name: str, reader: Reader, default: int, most: int) -> SqlType:
    if not reader.takes_mark("("):
        return SqlType(name, default)
    width = most if name == "VARCHAR" and reader.takes("MAX") else reader.number()
    reader.expect_mark(")")
    if not 1 <= width <= most:
        raise Refusal("22023", f"length for type {name.lower()} cannot exceed {most}")
    return SqlType(name, width)


def _time(word: str, reader: Reader) -> SqlType:
    if reader.takes("WITH", "TIME", "ZONE"):
        return SqlType(f"{word}TZ")
    if reader.sees("WITHOUT"):
        reader.expect("WITHOUT", "TIME", "ZONE")
    return SqlType(word)
