"""How each MySQL type travels: from the server to Parquet to Redshift, and what may befall it on the way."""

from dataclasses import dataclass
from enum import StrEnum


class Travel(StrEnum):
    """The four forms in which a value leaves the server, so that no driver has a say in what it means."""

    INTEGER = "integer"
    """64 bits, signed."""
    DOUBLE = "double"
    TEXT = "text"
    """Characters of utf8mb4."""
    BYTES = "bytes"


class Physical(StrEnum):
    """Types that a Parquet file stores."""

    BOOLEAN = "BOOLEAN"
    INT32 = "INT32"
    INT64 = "INT64"
    DOUBLE = "DOUBLE"
    BYTE_ARRAY = "BYTE_ARRAY"
    FIXED = "FIXED_LEN_BYTE_ARRAY"


class Meaning(StrEnum):
    """What the stored bytes are: Parquet's annotations, as far as Redshift knows them."""

    NONE = "NONE"
    INT_16 = "INT_16"
    DECIMAL = "DECIMAL"
    DATE = "DATE"
    TIMESTAMP_MICROS = "TIMESTAMP_MICROS"
    UTF8 = "UTF8"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetType:
    """One column of a file, exactly as COPY will meet it."""

    physical: Physical
    meaning: Meaning = Meaning.NONE
    precision: int | None = None
    scale: int | None = None
    length: int | None = None


class Policy(StrEnum):
    """What to do with a value that its target cannot hold."""

    NULL = "null"
    TRUNCATE = "truncate"
    QUARANTINE = "quarantine"
    FAIL = "fail"


class Trouble(StrEnum):
    """What a value can suffer from; each is counted in the manifest under this name."""

    ZERO_DATE = "zero_dates"
    OVERSIZE = "oversize"
    OUT_OF_RANGE = "out_of_range"
    INVALID_TEXT = "invalid_text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The policies of one stream, by trouble."""

    zero_dates: Policy = Policy.NULL
    oversize: Policy = Policy.QUARANTINE
    out_of_range: Policy = Policy.QUARANTINE
    invalid_text: Policy = Policy.FAIL


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """The way of one column: what SQL selects, what the file stores, what Redshift declares."""

    column: str
    """Its name at the source."""
    name: str
    """Its name in files: lower case, and no other column's."""
    select: str
    """The SQL expression over the quoted column that makes it travel."""
    travel: Travel
    parquet: ParquetType
    redshift: str
    """The type of the target's column."""
