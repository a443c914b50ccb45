"""SELECT, INSERT, UPDATE, DELETE: which tables they touch, and what in them Redshift does not have."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from syncd.sandbox.redshift.refusal import SYNTAX_ERROR, Refusal, not_in_stand_in, not_supported, syntax_error
from syncd.sandbox.redshift.sql.identifiers import RESERVED, SYSTEM_COLUMNS, LongNames, folded
from syncd.sandbox.redshift.sql.statement_editor import name_behind
from syncd.sandbox.redshift.sql.tokens import StandIn

WRITES: Final = (exp.Insert, exp.Update, exp.Delete)
ALLOWED: Final = (exp.Select, exp.SetOperation, exp.Subquery, *WRITES)
SPOKEN_AS_COLUMNS: Final = frozenset({"SYSDATE", "USER", "CURRENT_USER_ID", "CURRENT_USER", "SESSION_USER", "DEFAULT"})

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class Touched:
    """The tables of a statement, as names for PostgreSQL."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]


def checked(sql: str, names: LongNames) -> Touched:
    """Refuse what Redshift would refuse; tell the tables of the rest."""
    try:
        tree = sqlglot.parse_one(sql, read=StandIn)
    except SqlglotError as error:
        raise Refusal(SYNTAX_ERROR, f"syntax error: {_near(error)}") from error
    except RecursionError as error:
        raise Refusal("54001", "stack depth limit exceeded") from error
    if not isinstance(tree, ALLOWED):
        raise syntax_error(sql.split(maxsplit=1)[0])
    for node in tree.walk():
        check = CHECKS.get(type(node))
        if check is not None:
            check(node)
    return _touched(tree, names)


def _near(error: SqlglotError) -> str:
    details = getattr(error, "errors", None)
    return f'at or near "{details[0].get("highlight", "")}"' if details else "at end of input"


def _touched(tree: exp.Expr, names: LongNames) -> Touched:
    common = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    target = _target(tree)
    reads = [
        table
        for table in tree.find_all(exp.Table)
        if table is not target and (table.args.get("db") or table.name.lower() not in common)
    ]
    return Touched(
        tuple(dict.fromkeys(_relation(t, names) for t in reads if t.name)),
        () if target is None else (_relation(target, names),),
    )


def _target(tree: exp.Expr) -> exp.Table | None:
    if not isinstance(tree, WRITES):
        return None
    table = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    if not isinstance(table, exp.Table):
        raise not_in_stand_in(f"{tree.key.upper()} of such a form")
    return table


def _relation(table: exp.Table, names: LongNames) -> str:
    parts = [table.args.get("db"), table.this]
    return name_behind([folded(p.name) for p in parts if p is not None], names)


def _identifier(node: exp.Expr) -> None:
    if not node.args.get("quoted") and node.name.upper() in RESERVED - SPOKEN_AS_COLUMNS:
        raise syntax_error(node.name)


def _column(node: exp.Expr) -> None:
    if node.name.lower() in SYSTEM_COLUMNS - {"oid"}:
        raise Refusal("42703", f'column "{node.name}" does not exist')


def _insert(node: exp.Expr) -> None:
    _no_leading_with(node)
    if node.args.get("conflict"):
        raise syntax_error("ON")
    if (target := node.this.find(exp.Table)) is not None and target.args.get("alias"):
        raise syntax_error("AS")
    if node.args.get("overwrite") or node.args.get("where"):
        raise syntax_error("OVERWRITE")


def _delete(node: exp.Expr) -> None:
    _no_leading_with(node)
    if node.this.args.get("alias"):
        raise syntax_error(node.this.alias)


def _update(node: exp.Expr) -> None:
    _no_leading_with(node)
    source = node.args.get("from_") or node.args.get("from")
    if source is not None and any(join.side for join in source.find_all(exp.Join)):
        raise not_supported("an outer join in the FROM clause of UPDATE is not supported")


def _no_leading_with(node: exp.Expr) -> None:
    if node.args.get("with_") or node.args.get("with"):
        raise syntax_error(node.key.upper())


def _common_table(node: exp.Expr) -> None:
    inner = node.this
    if not isinstance(inner, (exp.Select, exp.SetOperation)):
        raise syntax_error(inner.key.upper())
    if inner.args.get("with_") or inner.args.get("with"):
        raise not_supported("a WITH clause inside a WITH clause is not supported")


def _distinct(node: exp.Expr) -> None:
    if node.args.get("on"):
        raise not_supported("SELECT DISTINCT ON is not supported")


def _values(node: exp.Expr) -> None:
    if not isinstance(node.parent, exp.Insert):
        raise syntax_error("VALUES")


def _select(node: exp.Expr) -> None:
    if node.args.get("into"):
        raise not_in_stand_in("SELECT INTO")
    if node.args.get("qualify"):
        raise not_in_stand_in("QUALIFY")


def _word(word: str) -> Callable[[exp.Expr], None]:
    def refuse(_: exp.Expr) -> None:
        raise syntax_error(word)

    return refuse


def _unsupported(sentence: str) -> Callable[[exp.Expr], None]:
    def refuse(_: exp.Expr) -> None:
        raise not_supported(sentence)

    return refuse


CHECKS: Final[dict[type[exp.Expr], Callable[[exp.Expr], None]]] = {
    exp.Identifier: _identifier,
    exp.Column: _column,
    exp.Insert: _insert,
    exp.Delete: _delete,
    exp.Update: _update,
    exp.CTE: _common_table,
    exp.Distinct: _distinct,
    exp.Values: _values,
    exp.Select: _select,
    exp.OnConflict: _word("ON"),
    exp.Returning: _word("RETURNING"),
    exp.Filter: _word("FILTER"),
    exp.Lateral: _word("LATERAL"),
    exp.NullSafeEQ: _word("DISTINCT"),
    exp.NullSafeNEQ: _word("DISTINCT"),
    exp.Array: _unsupported("array constructors are not supported"),
    exp.Bracket: _unsupported("navigation into a SUPER value is not carried out by the stand-in"),
    exp.Lock: _unsupported("SELECT FOR UPDATE/SHARE is not supported"),
    exp.ArrayAgg: _unsupported('function "array_agg" is not supported'),
}
