"""Column types of Redshift: spelling, limits, and their types in PostgreSQL."""

from dataclasses import dataclass
from typing import Final

from syncd.sandbox.redshift.refusal import Refusal, not_in_stand_in, not_supported
from syncd.sandbox.redshift.sql.tokens import TokenKind, TokenReader

MAX_VARCHAR_BYTES: Final = 65535
MAX_CHAR_BYTES: Final = 4096
MAX_VARBYTE_BYTES: Final = 16777216
DEFAULT_VARBYTE_BYTES: Final = 64000
DEFAULT_TEXT_BYTES: Final = 256
MAX_DIGITS: Final = 38
MAX_SCALE: Final = 37
DEFAULT_DIGITS: Final = 18

SIMPLE_TYPES: Final = {
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
TEXT_TYPES: Final = frozenset({"VARCHAR", "NVARCHAR", "TEXT"})
CHAR_TYPES: Final = frozenset({"CHAR", "CHARACTER", "NCHAR", "BPCHAR"})
NOT_IMPLEMENTED_TYPES: Final = frozenset({"GEOMETRY", "GEOGRAPHY", "HLLSKETCH"})
UNSUPPORTED_TYPES: Final = frozenset(
    """
    BIT BYTEA JSON JSONB SERIAL SERIAL2 SERIAL4 SERIAL8 BIGSERIAL SMALLSERIAL MONEY UUID XML HSTORE INET CIDR
    MACADDR INT4RANGE INT8RANGE NUMRANGE TSRANGE TSTZRANGE DATERANGE TSVECTOR TSQUERY POINT LINE LSEG BOX PATH
    POLYGON CIRCLE TINYINT MEDIUMINT DATETIME LONGTEXT MEDIUMTEXT TINYTEXT BLOB ENUM UNSIGNED STRING CLOB NUMBER
    """.split()
)


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type; `name` is Redshift's canonical name, `width` and `scale` are its numbers."""

    name: str
    width: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.name == "NUMERIC":
            return f"NUMERIC({self.width},{self.scale})"
        return f"{self.name}({self.width})" if self.width else self.name


def read_type(reader: TokenReader) -> SqlType:
    """Read a type as a column definition or a cast spells it."""
    token = reader.next()
    if token.kind is not TokenKind.WORD:
        raise Refusal("42704", f'type "{token.raw}" does not exist')
    found = _read_named_type(token.text, reader)
    if reader.is_mark_next("[") or reader.is_next("ARRAY"):
        raise not_supported(f'Column type "{token.raw.lower()}[]" is not supported.')
    return found


def _read_named_type(word: str, reader: TokenReader) -> SqlType:
    if word in SIMPLE_TYPES:
        return SqlType(SIMPLE_TYPES[word])
    if word in {"DECIMAL", "NUMERIC"}:
        return _read_numeric(reader)
    if word in {"TIMESTAMP", "TIME"}:
        return _read_time(word, reader)
    if word == "DOUBLE":
        reader.expect("PRECISION")
        return SqlType("DOUBLE PRECISION")
    return _read_string_type(word, reader)


def _read_string_type(word: str, reader: TokenReader) -> SqlType:
    if word in TEXT_TYPES or (word in {"CHARACTER", "CHAR", "NCHAR"} and reader.accept("VARYING")):
        return _read_text(word, reader)
    if word in CHAR_TYPES:
        return _read_sized("CHAR", reader, DEFAULT_TEXT_BYTES if word == "BPCHAR" else 1, MAX_CHAR_BYTES)
    if word in {"VARBYTE", "VARBINARY"} or (word == "BINARY" and reader.accept("VARYING")):
        return _read_sized("VARBYTE", reader, DEFAULT_VARBYTE_BYTES, MAX_VARBYTE_BYTES)
    if word in NOT_IMPLEMENTED_TYPES:
        raise not_in_stand_in(f"the type {word}")
    if word in UNSUPPORTED_TYPES:
        raise not_supported(f'Column type "{word.lower()}" is not supported.')
    raise Refusal("42704", f'type "{word.lower()}" does not exist')


def _read_numeric(reader: TokenReader) -> SqlType:
    if not reader.accept_mark("("):
        return SqlType("NUMERIC", DEFAULT_DIGITS, 0)
    digits = reader.read_number()
    scale = reader.read_number() if reader.accept_mark(",") else 0
    reader.expect_mark(")")
    if not 1 <= digits <= MAX_DIGITS:
        raise Refusal("22023", f"DECIMAL precision {digits} must be between 1 and {MAX_DIGITS}")
    if scale > min(MAX_SCALE, digits):
        raise Refusal("22023", f"DECIMAL scale {scale} must be between 0 and {min(MAX_SCALE, digits)}")
    return SqlType("NUMERIC", digits, scale)


def _read_text(word: str, reader: TokenReader) -> SqlType:
    if word == "TEXT":  # a width after TEXT is ignored
        if reader.accept_mark("("):
            reader.read_number()
            reader.expect_mark(")")
        return SqlType("VARCHAR", DEFAULT_TEXT_BYTES)
    return _read_sized("VARCHAR", reader, DEFAULT_TEXT_BYTES, MAX_VARCHAR_BYTES)


def _read_sized(name: str, reader: TokenReader, default: int, most: int) -> SqlType:
    if not reader.accept_mark("("):
        return SqlType(name, default)
    width = most if name == "VARCHAR" and reader.accept("MAX") else reader.read_number()
    reader.expect_mark(")")
    if not 1 <= width <= most:
        raise Refusal("22023", f"length for type {name.lower()} cannot exceed {most}")
    return SqlType(name, width)


def _read_time(word: str, reader: TokenReader) -> SqlType:
    if reader.accept("WITH", "TIME", "ZONE"):
        return SqlType(f"{word}TZ")
    if reader.is_next("WITHOUT"):
        reader.expect("WITHOUT", "TIME", "ZONE")
    return SqlType(word)
