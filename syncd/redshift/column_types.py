"""Types of a target's columns: their spelling, which type holds which, casts and constants between them."""

import re
from dataclasses import dataclass
from typing import Final, Self

from syncd.datatypes.columns import MAX_VARBYTE_BYTES, MAX_VARCHAR_BYTES
from syncd.datatypes.type_table import TRUNCATED_PRECISION
from syncd.redshift.quoting import text_literal

_TYPE_PATTERN: Final = re.compile(
    r"\s*([a-z0-9_ ]+?)\s*(?:\(([\d, ]+)\))?\s*((?:with|without) time zone)?\s*", re.ASCII
)
_CANONICAL_NAMES: Final = {
    "int2": "smallint",
    "int4": "integer",
    "int": "integer",
    "int8": "bigint",
    "bool": "boolean",
    "float8": "double precision",
    "float4": "real",
    "decimal": "numeric",
    "varchar": "character varying",
    "bpchar": "character",
    "char": "character",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "binary varying": "varbyte",
    "varbinary": "varbyte",
}
_SHORT_NAMES: Final = {
    "character varying": "VARCHAR",
    "timestamp without time zone": "TIMESTAMP",
    "timestamp with time zone": "TIMESTAMPTZ",
    "numeric": "DECIMAL",
}
_INTEGER_DIGITS: Final = {"smallint": 4, "integer": 9, "bigint": 18}
"""Decimal digits that always fit."""
_NEEDED_DIGITS: Final = {"smallint": 5, "integer": 10, "bigint": 19}
"""Decimal digits that hold every value."""
_MAX_SIZES: Final = {"character varying": (MAX_VARCHAR_BYTES,), "varbyte": (MAX_VARBYTE_BYTES,)}

FULL_WIDTH_BYTES: Final = 1_024
"""Texts of at most this limit get a column of their limit: a later change would cost more than a narrow one saves."""
_WIDTH_STEPS_BYTES: Final = (1_024, 4_096, 16_384, MAX_VARCHAR_BYTES)


@dataclass(frozen=True, slots=True)
class TargetType:
    """Column type in one spelling, independent of the spelling in the catalog or the type table."""

    name: str
    sizes: tuple[int, ...] = ()

    @classmethod
    def from_text(cls, text: str) -> Self:
        match = _TYPE_PATTERN.fullmatch(text.lower())
        if match is None:
            return cls(text.lower())
        name = " ".join(filter(None, (match[1], match[3])))
        sizes = tuple(int(size) for size in match[2].split(",")) if match[2] else ()
        return cls(_CANONICAL_NAMES.get(name, name), sizes)

    def __str__(self) -> str:
        sizes = f"({','.join(map(str, self.sizes))})" if self.sizes else ""
        return f"{_SHORT_NAMES.get(self.name, self.name.upper())}{sizes}"

    @property
    def is_text(self) -> bool:
        return self.name == "character varying"

    @property
    def width(self) -> int:
        """Bytes of the longest text or binary value."""
        return self.sizes[0]

    @property
    def without_limit(self) -> "TargetType":
        """The type with the largest size: a cast to it truncates nothing."""
        return TargetType(self.name, _MAX_SIZES.get(self.name, self.sizes))

    def can_hold(self, other: "TargetType") -> bool:
        """Return whether this type holds every value of the other type unchanged."""
        if self == other:
            return True
        if self.name == other.name:
            return self._can_hold_size(other)
        if other.name in _NEEDED_DIGITS:
            if self.name in _INTEGER_DIGITS:
                return _INTEGER_DIGITS[self.name] > _INTEGER_DIGITS[other.name]
            return self.name == "numeric" and self.integer_digits >= _NEEDED_DIGITS[other.name]
        return other.name == "numeric" and not other.sizes[1] and _INTEGER_DIGITS.get(self.name, 0) >= other.sizes[0]

    def _can_hold_size(self, other: "TargetType") -> bool:
        if self.name == "numeric":
            return self.sizes[1] >= other.sizes[1] and self.integer_digits >= other.integer_digits
        return self.sizes >= other.sizes

    @property
    def integer_digits(self) -> int:
        """Digits before the point of a numeric."""
        precision, scale = self.sizes
        return precision - scale - (precision == TRUNCATED_PRECISION)


_ANY_TEXT: Final = TargetType("character varying").without_limit


def text_column_width(limit: int, widest: int) -> int:
    """Return the width of a new text column: the next step above its widest value, at most its limit.

    Redshift reserves memory for the declared width, not for the stored text.
    """
    if limit <= FULL_WIDTH_BYTES:
        return limit
    return min(limit, next(step for step in _WIDTH_STEPS_BYTES if step >= min(widest, MAX_VARCHAR_BYTES)))


def cast_sql(value: str, from_type: TargetType, to_type: TargetType) -> str:
    """Convert a value as MySQL would, without truncation: a column that is too narrow refuses the value later."""
    if to_type.name == "super":
        return f"JSON_PARSE({cast_sql(value, from_type, _ANY_TEXT)})"
    if from_type.name == "super":
        return cast_sql(f"JSON_SERIALIZE({value})", _ANY_TEXT, to_type)
    if to_type.is_text and from_type.name == "boolean":  # Redshift has no cast for it
        return f"CAST(CASE WHEN {value} THEN '1' WHEN NOT {value} THEN '0' END AS {to_type.without_limit})"
    if to_type.name == "varbyte" and from_type.name not in {"varbyte", _ANY_TEXT.name}:
        return cast_sql(cast_sql(value, from_type, _ANY_TEXT), _ANY_TEXT, to_type)
    return f"CAST({value} AS {to_type.without_limit})"


def typed_constant(text: str | None, type_: TargetType) -> str:
    """Return a constant of a column's type; binary values are given in hexadecimal digits."""
    if text is None:
        return f"CAST(NULL AS {type_})"
    if type_.name == "super":
        return f"JSON_PARSE({text_literal(text)})"
    if type_.name == "varbyte":
        return f"CAST(FROM_HEX({text_literal(text)}) AS {type_})"
    return f"CAST({text_literal(text)} AS {type_})"
