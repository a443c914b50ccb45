"""Translation of PostgreSQL's answers to Redshift's: errors, types of results, command tags."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from syncd.sandbox.redshift.refusal import INTERNAL, NOT_SUPPORTED, NULL_VALUE_ERROR, Refusal, format_detail
from syncd.sandbox.redshift.sql.plan import StatementPlan
from syncd.sandbox.redshift.sql.tokens import LongNames
from syncd.sandbox.redshift.wire import ResultField

SUPER_TYPE_NUMBER: Final = 4000
VARBYTE_TYPE_NUMBER: Final = 6551
MODIFIER_HEADER_BYTES: Final = 4
"""Bytes that the modifier of a sized type counts beside the length."""
VARCHAR_TYPE_NUMBER: Final = 1043
TEXT_TYPE_NUMBER: Final = 25
SUPER_MODIFIER: Final = 16384000
KEPT_FIELDS: Final = "SCMDHPFLR"
DUPLICATE_KEY_PATTERN: Final = re.compile(r"Key \(\w+, \w+\)=\((.*), \d+\)")
MULTIPLE_MATCHES_MESSAGE: Final = "Found multiple matches to update the same tuple."


@dataclass(frozen=True, slots=True)
class TypeNumbers:
    """Numbers of Redshift's own types in PostgreSQL."""

    super: int
    varbyte: int

    def to_redshift(self, field: ResultField, names: LongNames) -> ResultField:
        field = replace(field, name=names.to_redshift(field.name))
        if field.type == self.super:
            return replace(field, type=SUPER_TYPE_NUMBER, modifier=SUPER_MODIFIER)
        if field.type == self.varbyte:
            return replace(
                field,
                type=VARBYTE_TYPE_NUMBER,
                modifier=field.modifier + MODIFIER_HEADER_BYTES if field.modifier >= 0 else -1,
            )
        return replace(field, type=VARCHAR_TYPE_NUMBER) if field.type == TEXT_TYPE_NUMBER else field


def refusal_to_fields(refusal: Refusal) -> dict[str, str]:
    fields = {"S": "ERROR", "C": refusal.code, "M": refusal.message}
    if refusal.detail:
        fields["D"] = refusal.detail
    return fields


def error_to_redshift(fields: Mapping[str, str], pid: int) -> dict[str, str]:
    """Return an error of PostgreSQL in Redshift's form."""
    kept = {letter: value for letter, value in fields.items() if letter in KEPT_FIELDS}
    put = TRANSLATOR_BY_CODE.get(fields.get("C", ""))
    return kept if put is None else put(kept, pid)


def _translate_conflict(fields: Mapping[str, str], pid: int) -> dict[str, str]:
    detail = f"Serializable isolation violation on table in Redshift (pid:{pid})"
    return {**fields, "S": "ERROR", "C": INTERNAL, "M": "1023", "D": detail}


def _translate_null(fields: dict[str, str], _: int) -> dict[str, str]:
    words = fields["M"].split('"')
    if len(words) < 2:  # noqa: PLR2004  # no column is named
        return fields
    sentence = f"Cannot insert a NULL value into column {words[1]}"
    return {**fields, "C": INTERNAL, "M": sentence, "D": format_detail(sentence, NULL_VALUE_ERROR, sentence)}


def _translate_canceled(fields: dict[str, str], pid: int) -> dict[str, str]:
    return {**fields, "M": f"Query ({pid}) canceled on user's request"}


def _translate_denied(fields: dict[str, str], _: int) -> dict[str, str]:
    message = fields["M"].replace("permission denied for table", "permission denied for relation")
    return {**fields, "M": message.replace("permission denied for view", "permission denied for relation")}


def _translate_multiple_matches(fields: dict[str, str], _: int) -> dict[str, str]:
    if not fields["M"].startswith("MERGE"):
        return fields
    return {"S": "ERROR", "C": INTERNAL, "M": MULTIPLE_MATCHES_MESSAGE}


def _translate_super_constant(fields: dict[str, str], _: int) -> dict[str, str]:
    if "pg_node_tree" not in fields["M"]:
        return fields
    return {
        "S": "ERROR",
        "C": NOT_SUPPORTED,
        "M": "a text constant for a SUPER value is a string scalar in Redshift; here it wants JSON_PARSE",
    }


def _translate_duplicate(fields: dict[str, str], _: int) -> dict[str, str]:
    """Name the relation: only catalogs have unique keys here, so two sessions made an object of one name."""
    found = DUPLICATE_KEY_PATTERN.match(fields.get("D", ""))
    name = f'"{found.group(1)}" ' if found else ""
    return {"S": "ERROR", "C": "42P07", "M": f"Relation {name}already exists"}


def _translate_too_wide(fields: dict[str, str], _: int) -> dict[str, str]:
    if not fields["M"].startswith("row is too big"):
        return fields
    sentence = "a row of more than 8160 bytes, long values aside, is not carried out by the stand-in"
    return {"S": "ERROR", "C": NOT_SUPPORTED, "M": sentence}


TRANSLATOR_BY_CODE: Final = {
    "40001": _translate_conflict,
    "23502": _translate_null,
    "57014": _translate_canceled,
    "42501": _translate_denied,
    "21000": _translate_multiple_matches,
    "23505": _translate_duplicate,
    "54000": _translate_too_wide,
    "0A000": _translate_super_constant,
}


def tag_to_redshift(tag: bytes, plan: StatementPlan) -> bytes:
    """Return a command tag; MERGE gives no count, unless it stands for an UPDATE."""
    if plan.strict_sql:
        return tag.replace(b"MERGE", b"UPDATE")
    return b"MERGE\0" if tag.startswith(b"MERGE") else tag


def varbyte_to_redshift(value: bytes | None) -> bytes | None:
    return value[2:] if value is not None and value.startswith(b"\\x") else value
