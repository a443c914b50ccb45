"""Checks of SELECT, INSERT, UPDATE and DELETE: the tables they touch, and syntax that Redshift lacks."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from syncd.sandbox.redshift.refusal import SYNTAX_ERROR, Refusal, not_in_stand_in, not_supported, syntax_error
from syncd.sandbox.redshift.sql.statement_editor import postgres_name
from syncd.sandbox.redshift.sql.tokens import RESERVED_WORDS, SYSTEM_COLUMNS, LongNames, StandInDialect, fold_name

WRITE_NODES: Final = (exp.Insert, exp.Update, exp.Delete)
ALLOWED_NODES: Final = (exp.Select, exp.SetOperation, exp.Subquery, *WRITE_NODES)
WORDS_USED_AS_COLUMNS: Final = frozenset(
    {"SYSDATE", "USER", "CURRENT_USER_ID", "CURRENT_USER", "SESSION_USER", "DEFAULT"}
)

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class TouchedTables:
    """Tables of a statement, as names for PostgreSQL."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]


def check_query(sql: str, names: LongNames) -> TouchedTables:
    """Refuse a query that Redshift would refuse; return the tables of any other."""
    try:
        tree = sqlglot.parse_one(sql, read=StandInDialect)
    except SqlglotError as error:
        raise Refusal(SYNTAX_ERROR, f"syntax error: {_error_position(error)}") from error
    except RecursionError as error:
        raise Refusal("54001", "stack depth limit exceeded") from error
    if not isinstance(tree, ALLOWED_NODES):
        raise syntax_error(sql.split(maxsplit=1)[0])
    for node in tree.walk():
        check = CHECK_BY_NODE.get(type(node))
        if check is not None:
            check(node)
    return _find_touched_tables(tree, names)


def _error_position(error: SqlglotError) -> str:
    details = getattr(error, "errors", None)
    return f'at or near "{details[0].get("highlight", "")}"' if details else "at end of input"


def _find_touched_tables(tree: exp.Expr, names: LongNames) -> TouchedTables:
    common = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    target = _write_target(tree)
    reads = [
        table
        for table in tree.find_all(exp.Table)
        if table is not target and (table.args.get("db") or table.name.lower() not in common)
    ]
    return TouchedTables(
        tuple(dict.fromkeys(_relation_name(t, names) for t in reads if t.name)),
        () if target is None else (_relation_name(target, names),),
    )


def _write_target(tree: exp.Expr) -> exp.Table | None:
    if not isinstance(tree, WRITE_NODES):
        return None
    table = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    if not isinstance(table, exp.Table):
        raise not_in_stand_in(f"{tree.key.upper()} of such a form")
    return table


def _relation_name(table: exp.Table, names: LongNames) -> str:
    parts = [table.args.get("db"), table.this]
    return postgres_name([fold_name(p.name) for p in parts if p is not None], names)


def _check_identifier(node: exp.Expr) -> None:
    if not node.args.get("quoted") and node.name.upper() in RESERVED_WORDS - WORDS_USED_AS_COLUMNS:
        raise syntax_error(node.name)


def _check_column(node: exp.Expr) -> None:
    if node.name.lower() in SYSTEM_COLUMNS - {"oid"}:
        raise Refusal("42703", f'column "{node.name}" does not exist')


def _check_insert(node: exp.Expr) -> None:
    _refuse_leading_with(node)
    if node.args.get("conflict"):
        raise syntax_error("ON")
    if (target := node.this.find(exp.Table)) is not None and target.args.get("alias"):
        raise syntax_error("AS")
    if node.args.get("overwrite") or node.args.get("where"):
        raise syntax_error("OVERWRITE")


def _check_delete(node: exp.Expr) -> None:
    _refuse_leading_with(node)
    if node.this.args.get("alias"):
        raise syntax_error(node.this.alias)


def _check_update(node: exp.Expr) -> None:
    _refuse_leading_with(node)
    source = node.args.get("from_") or node.args.get("from")
    if source is not None and any(join.side for join in source.find_all(exp.Join)):
        raise not_supported("an outer join in the FROM clause of UPDATE is not supported")


def _refuse_leading_with(node: exp.Expr) -> None:
    if node.args.get("with_") or node.args.get("with"):
        raise syntax_error(node.key.upper())


def _check_common_table(node: exp.Expr) -> None:
    inner = node.this
    if not isinstance(inner, (exp.Select, exp.SetOperation)):
        raise syntax_error(inner.key.upper())
    if inner.args.get("with_") or inner.args.get("with"):
        raise not_supported("a WITH clause inside a WITH clause is not supported")


def _check_distinct(node: exp.Expr) -> None:
    if node.args.get("on"):
        raise not_supported("SELECT DISTINCT ON is not supported")


def _check_values(node: exp.Expr) -> None:
    if not isinstance(node.parent, exp.Insert):
        raise syntax_error("VALUES")


def _check_select(node: exp.Expr) -> None:
    if node.args.get("into"):
        raise not_in_stand_in("SELECT INTO")
    if node.args.get("qualify"):
        raise not_in_stand_in("QUALIFY")


def _refuse(make_error: Callable[[str], Refusal], text: str) -> Callable[[exp.Expr], None]:
    def refuse(_: exp.Expr) -> None:
        raise make_error(text)

    return refuse


CHECK_BY_NODE: Final[dict[type[exp.Expr], Callable[[exp.Expr], None]]] = {
    exp.Identifier: _check_identifier,
    exp.Column: _check_column,
    exp.Insert: _check_insert,
    exp.Delete: _check_delete,
    exp.Update: _check_update,
    exp.CTE: _check_common_table,
    exp.Distinct: _check_distinct,
    exp.Values: _check_values,
    exp.Select: _check_select,
    exp.OnConflict: _refuse(syntax_error, "ON"),
    exp.Returning: _refuse(syntax_error, "RETURNING"),
    exp.Filter: _refuse(syntax_error, "FILTER"),
    exp.Lateral: _refuse(syntax_error, "LATERAL"),
    exp.NullSafeEQ: _refuse(syntax_error, "DISTINCT"),
    exp.NullSafeNEQ: _refuse(syntax_error, "DISTINCT"),
    exp.Array: _refuse(not_supported, "array constructors are not supported"),
    exp.Bracket: _refuse(not_supported, "navigation into a SUPER value is not carried out by the stand-in"),
    exp.Lock: _refuse(not_supported, "SELECT FOR UPDATE/SHARE is not supported"),
    exp.ArrayAgg: _refuse(not_supported, 'function "array_agg" is not supported'),
}
