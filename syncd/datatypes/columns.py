"""Transfer of each MySQL type to Parquet and to Redshift, and the policies for values that do not fit."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from syncd.errors import ConfigError

MAX_VARCHAR_BYTES: Final = 65_535
MAX_VARBYTE_BYTES: Final = 16_777_216
MAX_COPY_ROW_BYTES: Final = 4 << 20
"""Longest row that COPY accepts."""
REDSHIFT_JSON_TYPE: Final = "SUPER"
"""Type of a JSON column in Redshift."""


class TransferType(StrEnum):
    """The four forms in which a value leaves the server, so that no driver interprets it."""

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
    """Annotations of Parquet, as far as Redshift supports them."""

    NONE = "NONE"
    INT_16 = "INT_16"
    DECIMAL = "DECIMAL"
    DATE = "DATE"
    TIMESTAMP_MICROS = "TIMESTAMP_MICROS"
    UTF8 = "UTF8"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetType:
    """One column of a file, exactly as COPY reads it."""

    physical: PhysicalType
    meaning: LogicalType = LogicalType.NONE
    precision: int | None = None
    scale: int | None = None
    length: int | None = None


class Policy(StrEnum):
    """Action for a value that the target cannot hold."""

    NULL = "null"
    TRUNCATE = "truncate"
    QUARANTINE = "quarantine"
    FAIL = "fail"


class ValueProblem(StrEnum):
    """Problems of a value; the manifest counts each under this name."""

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
"""Policies for each problem; only a value that is too long can be truncated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The policies of one stream, by problem."""

    zero_dates: Policy = Policy.NULL
    oversize: Policy = Policy.QUARANTINE
    out_of_range: Policy = Policy.QUARANTINE
    invalid_text: Policy = Policy.FAIL

    def __post_init__(self) -> None:
        for problem, allowed in ALLOWED_POLICIES.items():
            policy = self.policy_for(problem)
            if policy not in allowed:
                names = ", ".join(sorted(allowed))
                raise ConfigError(
                    f"the policy of {problem} cannot be {policy}",
                    hint=f"Choose one of {names} for {problem}.",
                )

    def policy_for(self, problem: ValueProblem) -> Policy:
        return {
            ValueProblem.ZERO_DATE: self.zero_dates,
            ValueProblem.OVERSIZE: self.oversize,
            ValueProblem.OUT_OF_RANGE: self.out_of_range,
            ValueProblem.INVALID_TEXT: self.invalid_text,
        }[problem]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMapping:
    """Mapping of one column: SQL expression, Parquet type, Redshift type."""

    column: str
    """Its name at the source."""
    name: str
    """Its name in files: lower case and unique."""
    select: str
    """SQL expression over the quoted column that yields the transfer form."""
    travel: TransferType
    parquet: ParquetType
    redshift: str
    """Type of the target column."""
    limit: int | None = None
    """Most bytes of one value in the target, if its length varies."""
    befalls: tuple[ValueProblem, ...] = ()
    """Problems that its values can have."""
    whole: bool = False
    """Whether a truncated value is worthless, so that none is ever cut."""

    @property
    def is_integer(self) -> bool:
        """Return whether its values are integers of at most 64 bits."""
        return (
            self.parquet.meaning in {LogicalType.NONE, LogicalType.INT_16, LogicalType.DECIMAL}
            and not self.parquet.scale
        )

    @property
    def scratch_type(self) -> str:
        """Return the type of the column that COPY fills, before rows are applied.

        Documents go through VARBYTE, which holds more than VARCHAR; JSON_PARSE turns it into SUPER.
        """
        return f"VARBYTE({MAX_VARBYTE_BYTES})" if self.redshift == REDSHIFT_JSON_TYPE else self.redshift
