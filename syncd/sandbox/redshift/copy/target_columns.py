"""The table a COPY loads: its columns as the catalog has them, and those the file must fill."""

from dataclasses import dataclass
from typing import Final

from syncd.sandbox.redshift.backend import literal
from syncd.sandbox.redshift.copy.copy_text import Load
from syncd.sandbox.redshift.refusal import Refusal, not_supported
from syncd.sandbox.redshift.sql.sql_types import LONGEST_VARBYTE, SqlType
from syncd.sandbox.redshift.statement_context import Desk

NAMES: Final = {
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
SIZED: Final = {"varchar": "VARCHAR", "bpchar": "CHAR"}
HEADER: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetColumn:
    name: str
    type: SqlType
    not_null: bool
    default: str
    identity: str


def target_columns(desk: Desk, table: str) -> list[TargetColumn]:
    rows = desk.run(
        "SELECT a.attname, t.typname, a.atttypmod, a.attnotnull,"
        " coalesce(pg_get_expr(d.adbin, d.adrelid), ''), a.attidentity"
        " FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
        " LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
        f" WHERE a.attrelid = {literal(table)}::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    )
    return [_column(desk, [value or "" for value in row]) for row in rows]


def _column(desk: Desk, row: list[str]) -> TargetColumn:
    name, kind, modifier, not_null, default, identity = row
    long = desk.names.in_front(name.encode()).decode()
    type_ = type_of(kind, int(modifier))
    return TargetColumn(name=long, type=type_, not_null=not_null == "t", default=default, identity=identity)


def type_of(name: str, modifier: int) -> SqlType:
    if name == "numeric":
        return SqlType("NUMERIC", (modifier - HEADER) >> 16, (modifier - HEADER) & 0x7FF)
    if name == "varbyte":
        return SqlType("VARBYTE", modifier if modifier >= 0 else LONGEST_VARBYTE)
    if name in SIZED:
        return SqlType(SIZED[name], modifier - HEADER if modifier >= 0 else LONGEST_VARBYTE)
    return SqlType(NAMES.get(name, name.upper()))


def filled_columns(columns: list[TargetColumn], load: Load) -> list[TargetColumn]:
    """The columns the file fills, in the file's order."""
    named = {c.name: c for c in columns}
    for name in load.columns:
        if name not in named:
            raise Refusal("42703", f'column "{name}" of relation "{load.table[-1]}" does not exist')
    filled = [named[name] for name in load.columns] if load.columns else columns
    for column in columns:
        if column not in filled and column.not_null and not column.default and not column.identity:
            raise Refusal("42601", "NOT NULL column without DEFAULT must be included in column list")
    for column in filled:
        if column.identity == "a" and not load.explicit_ids:
            raise not_supported(f'cannot set an identity column to a value: "{column.name}" needs EXPLICIT_IDS')
    return filled
