"""A value of one type as one of another: where a column's type has changed at the source."""

from typing import Final

from syncd.redshift.column_types import TargetType

_ANY_TEXT: Final = TargetType("character varying").widest


def cast(value: str, was: TargetType, to: TargetType) -> str:
    """The value as MySQL would have converted it, never cut: the column that it comes to refuses what is too long."""
    if to.name == "super":
        return f"JSON_PARSE({cast(value, was, _ANY_TEXT)})"
    if was.name == "super":
        return cast(f"JSON_SERIALIZE({value})", _ANY_TEXT, to)
    if to.text and was.name == "boolean":  # Redshift has no text for it
        return f"CAST(CASE WHEN {value} THEN '1' WHEN NOT {value} THEN '0' END AS {to.widest})"
    if to.name == "varbyte" and was.name not in {"varbyte", _ANY_TEXT.name}:
        return cast(cast(value, was, _ANY_TEXT), _ANY_TEXT, to)
    return f"CAST({value} AS {to.widest})"
