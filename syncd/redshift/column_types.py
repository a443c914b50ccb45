"""The types of a target's columns: what the catalog calls them, and which holds whatever another one holds."""

import re
from dataclasses import dataclass
from typing import Final, Self

from syncd.datatypes.columns import MAX_VARBYTE_BYTES, MAX_VARCHAR_BYTES
from syncd.datatypes.type_table import TRUNCATED_PRECISION

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
"""Decimal digits that every value of so many holds."""
_MAX_SIZES: Final = {"character varying": (MAX_VARCHAR_BYTES,), "varbyte": (MAX_VARBYTE_BYTES,)}
_NEEDED_DIGITS: Final = {"smallint": 5, "integer": 10, "bigint": 19}

FULL_WIDTH_BYTES: Final = 1_024
"""Text that may take no more bytes than these gets them all: what is spared would be less than a later change costs."""
_WIDTH_STEPS_BYTES: Final = (1_024, 4_096, 16_384, MAX_VARCHAR_BYTES)


@dataclass(frozen=True, slots=True)
class TargetType:
    """A column type in one spelling, whatever the catalog or the type table calls it."""

    name: str
    sizes: tuple[int, ...] = ()

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The type that the catalog, or a declaration, means."""
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
        """Bytes of the longest value, of text and binary."""
        return self.sizes[0]

    @property
    def without_limit(self) -> "TargetType":
        """The same without a limit of its own: a cast to it cuts nothing."""
        return TargetType(self.name, _MAX_SIZES.get(self.name, self.sizes))

    def can_hold(self, other: "TargetType") -> bool:
        """Whether every value of the other type is one of this type, unchanged."""
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
        """Digits before the point, of a numeric."""
        precision, scale = self.sizes
        return precision - scale - (precision == TRUNCATED_PRECISION)


def text_column_width(limit: int, widest: int) -> int:
    """How wide a column of text is made: as its values need, and a step more; never wider than they can grow.

    Redshift sets memory aside for the width that is declared, not for the text that is there.
    """
    if limit <= FULL_WIDTH_BYTES:
        return limit
    return min(limit, next(step for step in _WIDTH_STEPS_BYTES if step >= min(widest, MAX_VARCHAR_BYTES)))
