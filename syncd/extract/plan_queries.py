"""Statements that read a plan, made from the plan alone: every process that carries it out reads the same rows."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from syncd.datatypes.columns import ColumnMapping, TransferType
from syncd.datatypes.mysql_quoting import quote_table
from syncd.datatypes.source_table import SourceTable
from syncd.extract.plan_rules import PlanSpan
from syncd.lake.window_reads import OrderField, WindowQuery
from syncd.mysql.sql import (
    below_horizon_condition,
    custom_query_source,
    force_index,
    keys_condition,
    select_list,
    select_rows_sql,
    window_condition,
)
from syncd.tables.order_column import OrderColumn
from syncd.tables.sort_order import has_usable_index
from watermarks.batch import Plan
from watermarks.cursor import Cursor, ValueKind
from watermarks.window import Window

KEYS_PER_STATEMENT: Final = 500
"""Rows that one statement reads by their keys."""


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
