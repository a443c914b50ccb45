"""How each MySQL type travels: from the server to Parquet to Redshift, and what may befall it on the way."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from syncd.errors import ConfigError

MAX_VARCHAR_BYTES: Final = 65_535
"""Bytes that VARCHAR holds."""
MAX_VARBYTE_BYTES: Final = 16_777_216
"""Bytes that VARBYTE holds."""
MAX_COPY_ROW_BYTES: Final = 4 << 20
"""Bytes of one row that COPY takes."""
REDSHIFT_JSON_TYPE: Final = "SUPER"
"""What JSON is declared as."""


class TransferType(StrEnum):
    """The four forms in which a value leaves the server, so that no driver has a say in what it means."""

    INTEGER = "integer"
    """64 bits, signed."""
    DOUBLE = "double"
    TEXT = "text"
    """Characters of utf8mb4."""
    BYTES = "bytes"


class PhysicalType(StrEnum):
    """Types that a Parquet file stores."""

    BOOLEAN = "BOOLEAN"
    INT32 = "INT32"
    INT64 = "INT64"
    DOUBLE = "DOUBLE"
    BYTE_ARRAY = "BYTE_ARRAY"
    FIXED = "FIXED_LEN_BYTE_ARRAY"


class LogicalType(StrEnum):
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

    physical: PhysicalType
    meaning: LogicalType = LogicalType.NONE
    precision: int | None = None
    scale: int | None = None
    length: int | None = None


class Policy(StrEnum):
    """What to do with a value that its target cannot hold."""

    NULL = "null"
    TRUNCATE = "truncate"
    QUARANTINE = "quarantine"
    FAIL = "fail"


class ValueProblem(StrEnum):
    """What a value can suffer from; each is counted in the manifest under this name."""

    ZERO_DATE = "zero_dates"
    OVERSIZE = "oversize"
    OUT_OF_RANGE = "out_of_range"
    INVALID_TEXT = "invalid_text"


ALLOWED_POLICIES: Final[Mapping[ValueProblem, frozenset[Policy]]] = {
    ValueProblem.ZERO_DATE: frozenset({Policy.NULL, Policy.QUARANTINE, Policy.FAIL}),
    ValueProblem.OVERSIZE: frozenset(Policy),
    ValueProblem.OUT_OF_RANGE: frozenset({Policy.NULL, Policy.QUARANTINE, Policy.FAIL}),
    ValueProblem.INVALID_TEXT: frozenset({Policy.NULL, Policy.QUARANTINE, Policy.FAIL}),
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
        for trouble, allowed in ALLOWED_POLICIES.items():
            if self.policy_for(trouble) not in allowed:
                words = ", ".join(sorted(allowed))
                raise ConfigError(
                    f"{trouble} cannot be met by {self.policy_for(trouble)}",
                    hint=f"Choose one of {words} for {trouble}.",
                )

    def policy_for(self, problem: ValueProblem) -> Policy:
        """The policy for one trouble."""
        return {
            ValueProblem.ZERO_DATE: self.zero_dates,
            ValueProblem.OVERSIZE: self.oversize,
            ValueProblem.OUT_OF_RANGE: self.out_of_range,
            ValueProblem.INVALID_TEXT: self.invalid_text,
        }[problem]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMapping:
    """The way of one column: what SQL selects, what the file stores, what Redshift declares."""

    column: str
    """Its name at the source."""
    name: str
    """Its name in files: lower case, and no other column's."""
    select: str
    """The SQL expression over the quoted column that makes it travel."""
    travel: TransferType
    parquet: ParquetType
    redshift: str
    """The type of the target's column."""
    limit: int | None = None
    """Bytes of one value that the target holds, where its length varies."""
    befalls: tuple[ValueProblem, ...] = ()
    """What its values can suffer from."""
    whole: bool = False
    """Whether a piece of a value is worth nothing, so that none is ever cut."""

    @property
    def is_integer(self) -> bool:
        """Whether its values are integers, with 64 bits at most."""
        return (
            self.parquet.meaning in {LogicalType.NONE, LogicalType.INT_16, LogicalType.DECIMAL}
            and not self.parquet.scale
        )

    @property
    def scratch_type(self) -> str:
        """The type of the column that COPY fills, before rows are applied.

        Documents go through VARBYTE, which holds more than VARCHAR; JSON_PARSE makes SUPER of it.
        """
        return f"VARBYTE({MAX_VARBYTE_BYTES})" if self.redshift == REDSHIFT_JSON_TYPE else self.redshift
