"""A value of one type as one of another: where a column's type has changed at the source."""

from typing import Final

from syncd.redshift.column_types import TargetType

_ANY_TEXT: Final = TargetType("character varying").without_limit


def cast_sql(value: str, from_type: TargetType, to_type: TargetType) -> str:
    """The value as MySQL would have converted it, never cut: the column that it comes to refuses what is too long."""
    if to_type.name == "super":
        return f"JSON_PARSE({cast_sql(value, from_type, _ANY_TEXT)})"
    if from_type.name == "super":
        return cast_sql(f"JSON_SERIALIZE({value})", _ANY_TEXT, to_type)
    if to_type.is_text and from_type.name == "boolean":  # Redshift has no text for it
        return f"CAST(CASE WHEN {value} THEN '1' WHEN NOT {value} THEN '0' END AS {to_type.without_limit})"
    if to_type.name == "varbyte" and from_type.name not in {"varbyte", _ANY_TEXT.name}:
        return cast_sql(cast_sql(value, from_type, _ANY_TEXT), _ANY_TEXT, to_type)
    return f"CAST({value} AS {to_type.without_limit})"
