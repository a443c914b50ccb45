"""How each MySQL type travels: from the server to Parquet to Redshift, and what may befall it on the way."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from syncd.errors import ConfigError

LONGEST_TEXT: Final = 65_535
"""Bytes that VARCHAR holds."""
LONGEST_BYTES: Final = 16_777_216
"""Bytes that VARBYTE holds."""
LONGEST_ROW: Final = 4 << 20
"""Bytes of one row that COPY takes."""
DOCUMENT: Final = "SUPER"
"""What JSON is declared as."""


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


POLICIES: Final[Mapping[Trouble, frozenset[Policy]]] = {
    Trouble.ZERO_DATE: frozenset({Policy.NULL, Policy.QUARANTINE, Policy.FAIL}),
    Trouble.OVERSIZE: frozenset(Policy),
    Trouble.OUT_OF_RANGE: frozenset({Policy.NULL, Policy.QUARANTINE, Policy.FAIL}),
    Trouble.INVALID_TEXT: frozenset({Policy.NULL, Policy.QUARANTINE, Policy.FAIL}),
}
"""What can be done about each; only what is too long can be cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The policies of one stream, by trouble."""

    zero_dates: Policy = Policy.NULL
    oversize: Policy = Policy.QUARANTINE
    out_of_range: Policy = Policy.QUARANTINE
    invalid_text: Policy = Policy.FAIL

    def __post_init__(self) -> None:
        for trouble, allowed in POLICIES.items():
            if self.of(trouble) not in allowed:
                words = ", ".join(sorted(allowed))
                raise ConfigError(
                    f"{trouble} cannot be met by {self.of(trouble)}", hint=f"Choose one of {words} for {trouble}."
                )

    def of(self, trouble: Trouble) -> Policy:
        """The policy for one trouble."""
        return {
            Trouble.ZERO_DATE: self.zero_dates,
            Trouble.OVERSIZE: self.oversize,
            Trouble.OUT_OF_RANGE: self.out_of_range,
            Trouble.INVALID_TEXT: self.invalid_text,
        }[trouble]


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
    limit: int | None = None
    """Bytes of one value that the target holds, where its length varies."""
    befalls: tuple[Trouble, ...] = ()
    """What its values can suffer from."""
    whole: bool = False
    """Whether a piece of a value is worth nothing, so that none is ever cut."""

    @property
    def whole_number(self) -> bool:
        """Whether its values are integers, with 64 bits at most."""
        return self.parquet.meaning in {Meaning.NONE, Meaning.INT_16, Meaning.DECIMAL} and not self.parquet.scale

    @property
    def scratch(self) -> str:
        """The type of the column that COPY fills, before rows are applied.

        Documents go through VARBYTE, which holds more than VARCHAR; JSON_PARSE makes SUPER of it.
        """
        return f"VARBYTE({LONGEST_BYTES})" if self.redshift == DOCUMENT else self.redshift
