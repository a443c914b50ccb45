"""Going on: whether the order of a stream is still the one in which its positions were made.

A position of another order may pass for one of this order, for its values are of the same kinds. What lies before it
was read by nobody, and would be lost without a word. So whoever goes on asks the plan that read last by what it did.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from syncd.errors import SchemaDrift
from syncd.extract.plan_rules import PlanSpan
from syncd.tables.order_column import OrderColumn
from syncd.tables.sort_order import StreamOrder
from watermarks.batch import Plan
from watermarks.cursor import Cursor

_CHARSET_ALIASES: Final = {"utf8": "utf8mb3"}
"""Character sets that newer servers call by another name, and their collations with them."""


def require_valid_positions(order: StreamOrder, mark: Cursor, reached: Cursor) -> None:
    """Make sure that the mark, and the key a first pass has reached, can be positions in this order.

    Raises:
        SchemaDrift: the order column or the key is another one than before.
    """
    for cursor, columns in ((mark, order.columns), (reached, order.key)):
        kinds = [value.kind for value in cursor.values]
        if kinds != [column.kind for column in columns[: len(kinds)]]:
            raise _schema_drift(
                order,
                f"{cursor} is no position of {order.table_name} by ({_join_names(columns)}):"
                " its order column or key has changed",
            )


def require_same_order(order: StreamOrder, before: Plan) -> None:
    """Make sure that a plan, whose end the next one goes on from, read in this very order.

    Raises:
        SchemaDrift: columns came to the order or left it, or they sort their values in another way.
    """
    body = before.draft.body
    was, now = _recorded_columns(body), _current_columns(order, body)
    if change := next(_describe_changes(was, now), None):
        raise _schema_drift(order, f"{order.table_name} was read by ({_join_names(was)}), and {change}")


def records_order(plan: Plan) -> bool:
    """Whether a plan says by which columns it read, the order column among them where there is one."""
    return plan.draft.body.get("span") in {PlanSpan.ORDER, PlanSpan.KEY}


def is_by_key(plan: Plan) -> bool:
    """Whether a plan is of a first pass, which goes by the key."""
    return plan.draft.body.get("span") == PlanSpan.KEY


def _recorded_columns(body: Mapping[str, Any]) -> Sequence[OrderColumn]:
    time = [body["time"]] if "time" in body else []
    return tuple(OrderColumn.from_fields(each) for each in (*time, *body["columns"]))


def _current_columns(order: StreamOrder, body: Mapping[str, Any]) -> Sequence[OrderColumn]:
    """What the order has now where a plan had its columns: a first pass goes by the key, and knows the time beside."""
    if PlanSpan(body["span"]) is PlanSpan.ORDER:
        return order.columns
    return (*([order.time_column] if order.time_column and "time" in body else []), *order.key)


def _describe_changes(before: Sequence[OrderColumn], now: Sequence[OrderColumn]) -> Iterator[str]:
    for old, new in zip_longest(before, now):
        if old is None or new is None or old.name.casefold() != new.name.casefold():
            yield f"its order is ({_join_names(now)}) now"
            return
    for old, new in zip(before, now, strict=True):
        if old.kind is not new.kind:
            yield f"values of {new.name} are {new.kind} now, and were {old.kind}"
        if _normalize_collation(old) != _normalize_collation(new):
            yield f"{new.name} is sorted by {new.collation} now, and was by {old.collation}"
        if new.fraction < old.fraction:
            yield f"{new.name} has {new.fraction} digits after its point now, and had {old.fraction}"
        if old.members is not None and not _begins_with(new.members, old.members):
            yield f"the members of {new.name} are others now, or in another order"


def _normalize_collation(column: OrderColumn) -> str | None:
    charset, _, rest = (column.collation or "").partition("_")
    return f"{_CHARSET_ALIASES.get(charset, charset)}_{rest}"


def _begins_with(members: str | None, old: str) -> bool:
    """Whether an `enum('a','b')` has the members of an old one first: what comes behind them changes no number."""
    return members is not None and (members == old or members.startswith(f"{old.removesuffix(')')},"))


def _join_names(columns: Sequence[OrderColumn]) -> str:
    return ", ".join(column.name for column in columns)


def _schema_drift(order: StreamOrder, message: str) -> SchemaDrift:
    return SchemaDrift(
        message,
        hint="Take the change back, or begin a new generation: syncd watermark reset "
        f"-t {order.table_name} --mysql-only --reason 'the order changed'",
    )
