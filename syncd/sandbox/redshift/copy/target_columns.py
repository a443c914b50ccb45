"""Columns of the table that a COPY loads, from the catalog, and the selection that the file fills."""

from dataclasses import dataclass
from typing import Final

from syncd.sandbox.redshift.backend import quote_literal
from syncd.sandbox.redshift.copy.copy_text import CopyStatement
from syncd.sandbox.redshift.refusal import Refusal, not_supported
from syncd.sandbox.redshift.sql.plan import StatementContext
from syncd.sandbox.redshift.sql.sql_types import MAX_VARBYTE_BYTES, SqlType

TYPE_BY_CATALOG_NAME: Final = {
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "float4": "REAL",
    "float8": "DOUBLE PRECISION",
    "bool": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
    "time": "TIME",
    "timetz": "TIMETZ",
    "super": "SUPER",
}
SIZED_TYPE_BY_CATALOG_NAME: Final = {"varchar": "VARCHAR", "bpchar": "CHAR"}
MODIFIER_HEADER_BYTES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetColumn:
    name: str
    type: SqlType
    not_null: bool
    default: str
    identity: str


def read_target_columns(context: StatementContext, table: str) -> list[TargetColumn]:
    rows = context.run(
        "SELECT a.attname, t.typname, a.atttypmod, a.attnotnull,"
        " coalesce(pg_get_expr(d.adbin, d.adrelid), ''), a.attidentity"
        " FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
        " LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
        f" WHERE a.attrelid = {quote_literal(table)}::regclass AND a.attnum > 0 AND NOT a.attisdropped"
        " ORDER BY a.attnum"
    )
    return [_make_column(context, [value or "" for value in row]) for row in rows]


def _make_column(context: StatementContext, row: list[str]) -> TargetColumn:
    name, kind, modifier, not_null, default, identity = row
    long = context.names.to_redshift(name.encode()).decode()
    type_ = type_from_catalog(kind, int(modifier))
    return TargetColumn(name=long, type=type_, not_null=not_null == "t", default=default, identity=identity)


def type_from_catalog(name: str, modifier: int) -> SqlType:
    if name == "numeric":
        return SqlType("NUMERIC", (modifier - MODIFIER_HEADER_BYTES) >> 16, (modifier - MODIFIER_HEADER_BYTES) & 0x7FF)
    if name == "varbyte":
        return SqlType("VARBYTE", modifier if modifier >= 0 else MAX_VARBYTE_BYTES)
    if name in SIZED_TYPE_BY_CATALOG_NAME:
        return SqlType(
            SIZED_TYPE_BY_CATALOG_NAME[name], modifier - MODIFIER_HEADER_BYTES if modifier >= 0 else MAX_VARBYTE_BYTES
        )
    return SqlType(TYPE_BY_CATALOG_NAME.get(name, name.upper()))


def select_filled_columns(columns: list[TargetColumn], copy: CopyStatement) -> list[TargetColumn]:
    """Return the columns that the file fills, in the file's order."""
    named = {c.name: c for c in columns}
    for name in copy.columns:
        if name not in named:
            raise Refusal("42703", f'column "{name}" of relation "{copy.table[-1]}" does not exist')
    filled = [named[name] for name in copy.columns] if copy.columns else columns
    for column in columns:
        if column not in filled and column.not_null and not column.default and not column.identity:
            raise Refusal("42601", "NOT NULL column without DEFAULT must be included in column list")
    for column in filled:
        if column.identity == "a" and not copy.explicit_ids:
            raise not_supported(f'cannot set an identity column to a value: "{column.name}" needs EXPLICIT_IDS')
    return filled
