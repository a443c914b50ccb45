"""Bodies of plans: the facts that each kind of batch records, and the statements that are made from them alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from syncd.datatypes.columns import ColumnMapping, TransferType
from syncd.datatypes.mysql_quoting import quote_table
from syncd.datatypes.source_table import SourceTable
from syncd.extract.plan_rules import PlanContext, PlanSpan, WindowBounds
from syncd.lake.read_requests import OrderField, WindowQuery
from syncd.mysql.sql import (
    below_horizon_condition,
    custom_query_source,
    force_index,
    keys_condition,
    select_list,
    select_rows_sql,
    window_condition,
)
from syncd.ports.source import Horizon
from syncd.tables.order_column import OrderColumn
from syncd.tables.sort_order import StreamOrder, has_usable_index
from watermarks.batch import BatchDraft, BatchKind, Plan, SnapshotProgress
from watermarks.cursor import START_CURSOR, Cursor, ValueKind, format_instant
from watermarks.window import Window

KEYS_PER_STATEMENT: Final = 500
"""Rows that one statement reads by their keys."""


def plan_increment(facts: PlanContext, order: StreamOrder, bounds: WindowBounds) -> BatchDraft:
    """Plan the rows after the mark up to a real row."""
    return BatchDraft(
        kind=BatchKind.INCREMENT,
        basis=facts.basis,
        windows=bounds.windows,
        high=bounds.high,
        proven=facts.is_proven,
        body=_plan_body(facts, order, bounds, PlanSpan.ORDER),
    )


def plan_start(facts: PlanContext, order: StreamOrder, start: Cursor) -> BatchDraft:
    """Plan a batch without rows that sets the first mark; rows before it are not promised, so it is not proven."""
    time = {"time": order.time_column.to_fields()} if order.time_column else {}
    return BatchDraft(
        kind=BatchKind.SNAPSHOT,
        basis=facts.basis,
        high=start,
        snapshot=SnapshotProgress(horizon=start, reached_key=START_CURSOR, done=True),
        proven=False,
        body=_plan_body(facts, order, WindowBounds(low=START_CURSOR), PlanSpan.KEY) | time,
    )


def plan_chunk(
    facts: PlanContext, order: StreamOrder, bounds: WindowBounds, horizon: Cursor, *, proven: bool, include_nulls: bool
) -> BatchDraft:
    """Plan a range of keys of the first pass; the last one moves the mark to the horizon that the first one fixed."""
    done = not bounds.has_more
    body = _plan_body(facts, order, bounds, PlanSpan.KEY) | {
        "below": str(horizon.values[0]),
        "time": order.columns[0].to_fields(),
        "nulls": include_nulls and order.nullable,
    }
    return BatchDraft(
        kind=BatchKind.SNAPSHOT,
        basis=facts.basis,
        windows=bounds.windows,
        high=horizon if done else facts.mark,
        snapshot=SnapshotProgress(horizon=horizon, reached_key=bounds.high, done=done),
        proven=proven and not facts.is_table_replaced,
        body=body,
    )


def plan_beside_mark(
    kind: BatchKind, facts: PlanContext, order: StreamOrder, bounds: WindowBounds, *, proven: bool = False
) -> BatchDraft:
    """Plan a batch that moves no mark: rows ahead of the horizon, or a range that is read again."""
    return BatchDraft(
        kind=kind,
        basis=facts.basis,
        windows=bounds.windows,
        high=facts.mark,
        proven=proven,
        body=_plan_body(facts, order, bounds, PlanSpan.ORDER) | {"more": bounds.has_more},
    )


def plan_by_keys(facts: PlanContext, order: StreamOrder, keys: Sequence[Cursor]) -> BatchDraft:
    """Plan to read the rows with these keys again; the batch moves no mark."""
    body = _plan_body(facts, order, WindowBounds(low=START_CURSOR, rows=len(keys)), PlanSpan.KEY)
    return BatchDraft(
        kind=BatchKind.REPAIR,
        basis=facts.basis,
        high=facts.mark,
        body={**body, "span": PlanSpan.ROWS, "keys": [key.to_texts() for key in keys]},
    )


def plan_reread(facts: PlanContext, order: StreamOrder, bounds: WindowBounds, reason: Mapping[str, Any]) -> BatchDraft:
    """Plan to read again what was read before a break in the server's time; the plan records the break."""
    draft = plan_beside_mark(BatchKind.REPAIR, facts, order, bounds)
    return replace(draft, body={**draft.body, "again": dict(reason)})


def plan_whole_table(facts: PlanContext, database: str, table: str, *, proven: bool) -> BatchDraft:
    """Plan to read the whole table in one statement, and so in one snapshot."""
    return BatchDraft(
        kind=BatchKind.SNAPSHOT,
        basis=facts.basis,
        high=START_CURSOR,
        snapshot=SnapshotProgress(horizon=START_CURSOR, reached_key=START_CURSOR, done=True),
        proven=proven,
        body=_common_fields(facts) | {"span": PlanSpan.ALL, "database": database, "table": table},
    )


def _plan_body(facts: PlanContext, order: StreamOrder, bounds: WindowBounds, span: PlanSpan) -> dict[str, Any]:
    by_key = span is PlanSpan.KEY
    return _common_fields(facts) | {
        "span": span,
        "database": order.database,
        "table": order.table,
        "index": order.key_index if by_key else order.index,
        "columns": [column.to_fields() for column in (order.key if by_key else order.columns)],
        "rows_at_most": bounds.rows,
    }


def _common_fields(facts: PlanContext) -> dict[str, Any]:
    return {
        "horizon": _horizon_fields(facts.horizon) if facts.horizon else None,
        "created": format_instant(facts.created) if facts.created else None,
        **(facts.incarnation.to_fields() if facts.incarnation else {}),
    }


def _horizon_fields(horizon: Horizon) -> dict[str, Any]:
    return {
        "bound": format_instant(horizon.bound) if horizon.bound else None,
        "t0": format_instant(horizon.t0),
        "proven": horizon.proven,
        "reason": horizon.reason,
        "breaks": [each.id for each in horizon.breaks],
    }


def build_queries(
    plan: Plan, mappings: Sequence[ColumnMapping], *, custom_query: str | None = None
) -> tuple[WindowQuery, ...]:
    """Build the statements of a plan, one a window; `custom_query` is the stream's own SQL."""
    body = plan.draft.body
    selects = select_list(mappings)
    if PlanSpan(body["span"]) is PlanSpan.ALL:
        table = quote_table(body["database"], body["table"])
        source = custom_query_source(custom_query, "TRUE") if custom_query else table
        return (WindowQuery(window=None, sql=select_rows_sql(selects, source, "TRUE")),)
    columns = _recorded_columns(body)
    if PlanSpan(body["span"]) is PlanSpan.ROWS:
        keys = [Cursor.from_texts(key) for key in body["keys"]]
        groups = (keys[first : first + KEYS_PER_STATEMENT] for first in range(0, len(keys), KEYS_PER_STATEMENT))
        conditions = (keys_condition(columns, group) for group in groups)
        return tuple(WindowQuery(window=None, sql=_read_sql(body, selects, each, custom_query)) for each in conditions)
    selects += _extra_selects(columns, mappings)
    return tuple(
        WindowQuery(window=window, sql=_read_sql(body, selects, _window_condition(body, columns, window), custom_query))
        for window in plan.draft.windows
    )


def make_order_fields(plan: Plan, mappings: Sequence[ColumnMapping]) -> tuple[OrderField, ...]:
    """Return the fields of the statements that hold a row's position; none where rows have no window."""
    body = plan.draft.body
    if PlanSpan(body["span"]) in {PlanSpan.ALL, PlanSpan.ROWS}:
        return ()
    return tuple(
        OrderField(name=_find_carrying_field(column, mappings) or _extra_name(place), kind=column.kind)
        for place, column in enumerate(_recorded_columns(body))
    )


def has_needed_index(body: Mapping[str, Any], table: SourceTable) -> bool:
    """Return whether the index that a plan's statements name still covers the columns they need."""
    if PlanSpan(body["span"]) in {PlanSpan.ALL, PlanSpan.NONE}:
        return True
    return has_usable_index(table, body["index"], [column["name"] for column in body["columns"]])


def _read_sql(body: Mapping[str, Any], selects: Sequence[tuple[str, str]], where: str, custom_query: str | None) -> str:
    if custom_query:
        return select_rows_sql(selects, custom_query_source(custom_query, where), "TRUE")
    return select_rows_sql(selects, force_index(body["database"], body["table"], body["index"]), where)


def _window_condition(body: Mapping[str, Any], columns: Sequence[OrderColumn], window: Window) -> str:
    where = window_condition(columns, window)
    if "below" not in body:
        return where
    time = OrderColumn.from_fields(body["time"])
    horizon = Cursor.from_texts([body["below"]])
    return f"{where} AND {below_horizon_condition(time, horizon.values[0], nulls=body['nulls'])}"


def _recorded_columns(body: Mapping[str, Any]) -> tuple[OrderColumn, ...]:
    return tuple(map(OrderColumn.from_fields, body["columns"]))


def _find_carrying_field(column: OrderColumn, mappings: Sequence[ColumnMapping]) -> str | None:
    """Return the selected field that already carries a value of the order: in its very form, or as an integer.

    An unsigned 64-bit integer travels as the two's complement of a signed one; the reader that compares rows with their
    window knows that from the column mapping.
    """
    for mapping in mappings:
        integer = column.kind is ValueKind.INT and mapping.travel is TransferType.INTEGER and mapping.is_integer
        if mapping.select == column.select or (integer and mapping.column == column.name):
            return mapping.name
    return None


def _extra_selects(columns: Sequence[OrderColumn], mappings: Sequence[ColumnMapping]) -> list[tuple[str, str]]:
    """Return a field for each value of the order that no selected field carries."""
    return [
        (column.select, _extra_name(place))
        for place, column in enumerate(columns)
        if _find_carrying_field(column, mappings) is None
    ]


def _extra_name(place: int) -> str:
    return f"_syncd_order_{place}"
