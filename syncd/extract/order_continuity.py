"""Check that a stream goes on in the order in which its positions were made.

A position of another order may pass for one of this order, since its values are of the same kinds. Rows before it were
never read, and would be lost without a message. So the plan that read last is compared with the order of now.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final

from syncd.errors import SchemaDrift
from syncd.extract.plan_rules import PlanMode, PlanSpan
from syncd.tables.order_column import OrderColumn
from syncd.tables.sort_order import StreamOrder
from watermarks.batch import BatchId, Plan
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.extraction import BatchChain
from watermarks.progress import ExtractProgress

_CHARSET_ALIASES: Final = {"utf8": "utf8mb3"}
"""Character sets that newer servers call by another name, and their collations with them."""


@dataclass(kw_only=True)
class OrderChecker:
    """Compares the order of one stream with its last plan, once a run."""

    history: BatchChain
    on_plan: Callable[[Plan], None]
    """Called with the plan that was compared."""
    _known_order: StreamOrder | None = field(default=None, init=False)
    """The order that passed the check: plans of one run are made in one order."""

    def require_same_order(self, order: StreamOrder, progress: ExtractProgress, mode: PlanMode) -> None:
        """Check that the stream's positions were made in this order.

        Raises:
            SchemaDrift: they were made in another order.
        """
        snapshot = progress.snapshot
        _require_valid_positions(order, progress.cursor, snapshot.reached_key if snapshot else START_CURSOR)
        if order == self._known_order or mode is PlanMode.BEGIN:
            return
        if (before := self._find_last_ordered_plan(progress)) is not None:
            require_same_order(order, before)
            self.on_plan(before)
        self._known_order = order

    def _find_last_ordered_plan(self, progress: ExtractProgress) -> Plan | None:
        """Return the last plan that records the order.

        None after an operator has set the mark: the operator saw the table as it was then. An abandoned plan counts.
        """
        in_first_pass = progress.snapshot is not None and not progress.snapshot.done
        spans = {PlanSpan.KEY} if in_first_pass else {PlanSpan.ORDER, PlanSpan.KEY}
        for batch in progress.batch_ids_newest_first(up_to=progress.last_batch, after=BatchId(progress.generation, 0)):
            plan = self.history.read_plan(batch)
            if plan is None or plan.draft.body.get("span") in spans:
                return plan
        return None


def _require_valid_positions(order: StreamOrder, mark: Cursor, reached: Cursor) -> None:
    """Check that the mark, and the key that a first pass has reached, can be positions in this order.

    Raises:
        SchemaDrift: the order column or the key has changed.
    """
    for cursor, columns in ((mark, order.columns), (reached, order.key)):
        kinds = [value.kind for value in cursor.values]
        if kinds != [column.kind for column in columns[: len(kinds)]]:
            raise _schema_drift(
                order,
                f"the position {cursor} does not fit {order.table_name}, which is read by ({_join_names(columns)}):"
                " the order column or key has changed",
            )


def require_same_order(order: StreamOrder, before: Plan) -> None:
    """Check that the plan before read in this very order.

    Raises:
        SchemaDrift: columns were added to the order or left it, or their values are sorted in another way.
    """
    body = before.draft.body
    was, now = _recorded_columns(body), _current_columns(order, body)
    if change := next(_describe_changes(was, now), None):
        raise _schema_drift(order, f"{order.table_name} was read by ({_join_names(was)}), and {change}")


def _recorded_columns(body: Mapping[str, Any]) -> Sequence[OrderColumn]:
    time = [body["time"]] if "time" in body else []
    return tuple(OrderColumn.from_fields(each) for each in (*time, *body["columns"]))


def _current_columns(order: StreamOrder, body: Mapping[str, Any]) -> Sequence[OrderColumn]:
    """Return the present columns that match those of a plan; a first pass goes by the key, and records the time too."""
    if PlanSpan(body["span"]) is PlanSpan.ORDER:
        return order.columns
    return (*([order.time_column] if order.time_column and "time" in body else []), *order.key)


def _describe_changes(before: Sequence[OrderColumn], now: Sequence[OrderColumn]) -> Iterator[str]:
    for old, new in zip_longest(before, now):
        if old is None or new is None or old.name.casefold() != new.name.casefold():
            yield f"its order is now ({_join_names(now)})"
            return
    for old, new in zip(before, now, strict=True):
        if old.kind is not new.kind:
            yield f"the kind of {new.name} changed from {old.kind} to {new.kind}"
        if _normalize_collation(old) != _normalize_collation(new):
            yield f"the collation of {new.name} changed from {old.collation} to {new.collation}"
        if new.fraction < old.fraction:
            yield f"the fractional digits of {new.name} changed from {old.fraction} to {new.fraction}"
        if old.members is not None and not _begins_with(new.members, old.members):
            yield f"the members of {new.name} or their order changed"


def _normalize_collation(column: OrderColumn) -> str | None:
    charset, _, rest = (column.collation or "").partition("_")
    return f"{_CHARSET_ALIASES.get(charset, charset)}_{rest}"


def _begins_with(members: str | None, old: str) -> bool:
    """Return whether an `enum('a','b')` begins with the old members: members that follow change no number."""
    return members is not None and (members == old or members.startswith(f"{old.removesuffix(')')},"))


def _join_names(columns: Sequence[OrderColumn]) -> str:
    return ", ".join(column.name for column in columns)


def _schema_drift(order: StreamOrder, message: str) -> SchemaDrift:
    return SchemaDrift(
        message,
        hint="Revert the change in MySQL, or read the table again from its start: syncd watermark reset "
        f"-t {order.table_name} --mysql-only --reason 'the order changed'",
    )
