"""What a value in text becomes in the warehouse: a constant of a column's type."""

from syncd.redshift.column_types import TargetType
from syncd.redshift.quoting import text_literal


def typed_constant(text: str | None, kind: TargetType) -> str:
    """The value, as a column of a table holds it; binary stands in hexadecimal digits."""
    if text is None:
        return f"CAST(NULL AS {kind})"
    if kind.name == "super":
        return f"JSON_PARSE({text_literal(text)})"
    if kind.name == "varbyte":
        return f"CAST(FROM_HEX({text_literal(text)}) AS {kind})"
    return f"CAST({text_literal(text)} AS {kind})"


def scratch_constant(text: str | None, kind: TargetType, *, document: bool) -> str:
    """The same as a scratch table holds it, where a document still is its text."""
    return typed_constant(text.encode().hex() if document and text is not None else text, kind)
