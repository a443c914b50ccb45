"""What a stream's next batch is: decisions over the watermark, the horizon and the positions that probes found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from syncd.datatypes.columns import ColumnMapping, TransferType
from syncd.datatypes.mysql_quoting import quote_table
from syncd.datatypes.source_table import SourceTable
from syncd.errors import ConfigError
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
from syncd.ports.source import Horizon
from syncd.settings import Mode, StreamSettings
from syncd.tables.order_column import OrderColumn
from syncd.tables.sort_order import CURSOR_NONE, StreamOrder, has_usable_index
from syncd.tables.table_identity import TableIncarnation
from watermarks.batch import BatchDraft, BatchKind, Plan, PlanBasis, SnapshotProgress
from watermarks.cursor import START_CURSOR, Cursor, OrderedByDatabase, ValueKind, format_instant
from watermarks.progress import ExtractProgress
from watermarks.window import Window

FEWEST_ROWS: Final = 50_000
"""Below so many rows a window is not worth a task and a connection of its own."""
KEYS_PER_STATEMENT: Final = 500
"""Rows that one statement reads by their keys."""


class PlanMode(StrEnum):
    """How a stream goes on."""

    WHOLE = "whole"
    """The whole table, each time."""
    BEGIN = "begin"
    """It has no position yet."""
    CHUNKS = "chunks"
    """Its first pass is not done."""
    FOLLOW = "follow"
    """From mark to mark."""


class PlanSpan(StrEnum):
    """What the windows of a plan are ranges of."""

    ORDER = "order"
    KEY = "key"
    """Chunks of a first pass."""
    ALL = "all"
    """One statement without a window."""
    NONE = "none"
    """Nothing is read: the plan names what is known already."""
    ROWS = "rows"
    """Single rows, named by their keys: what a comparison found to differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractRequest:
    """What one run asks for beyond the configuration."""

    limit: int | None = None
    """Rows of this run, at most."""
    since: datetime | None = None
    """With `until`: a range that is read again, and moves no mark."""
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowBounds:
    """Positions of real rows, in order, that windows end at."""

    low: Cursor
    ends: tuple[Cursor, ...] = ()
    rows: int = 0
    """How many rows there were up to the last end, at most."""
    has_more: bool = False
    """Whether rows may follow."""

    @property
    def high(self) -> Cursor:
        return self.ends[-1] if self.ends else self.low

    @property
    def windows(self) -> tuple[Window, ...]:
        if not self.ends:
            return ()
        return tuple(Window(low, high) for low, high in zip((self.low, *self.ends), self.ends, strict=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContext:
    """What every plan of this moment has in common."""

    mark: Cursor
    identity: str
    fingerprint: str
    created: datetime | None
    horizon: Horizon | None = None
    incarnation: TableIncarnation | None = None
    """Of a table that is read by its stamps: which one it is."""

    @property
    def world(self) -> PlanBasis:
        return PlanBasis(mark=self.mark, source_identity=self.identity, schema=self.fingerprint)


def choose_plan_mode(chain: ExtractProgress, settings: StreamSettings) -> PlanMode:
    """How the stream goes on from where its chain stands."""
    if settings.cursor == CURSOR_NONE:
        return PlanMode.WHOLE
    if chain.snapshot is not None and not chain.snapshot.done:
        return PlanMode.CHUNKS
    # A finished pass over an empty table with no horizon yet is no beginning either.
    return PlanMode.BEGIN if chain.cursor == START_CURSOR and chain.snapshot is None else PlanMode.FOLLOW


def window_rows(batch_rows: int, windows: int) -> int:
    """How many rows a window should have, so that a batch gives about as many windows as can be read at once."""
    return max(FEWEST_ROWS, -(-batch_rows // max(windows, 1)))


def split_rows(rows: int, *, window_size: int) -> list[int]:
    """The sizes of windows that make up so many rows."""
    return [min(window_size, rows - done) for done in range(0, rows, window_size)]


def rows_left(settings: StreamSettings, request: ExtractRequest, *, done: int) -> int:
    """How many rows the next batch of a run may have."""
    return settings.batch_rows if request.limit is None else min(settings.batch_rows, request.limit - done)


def may_hold_rows(high: Cursor, low: Cursor) -> bool:
    """Whether there can be rows behind one position up to another; what only the database can judge, it shall."""
    try:
        return low < high
    except OrderedByDatabase:
        return low != high


def is_ahead_due(horizon: Horizon, settings: StreamSettings, *, checked_at: datetime | None) -> bool:
    """Whether rows have waited too long above a horizon that something holds."""
    if settings.mode is not Mode.UPSERT or horizon.bound is None:
        return False
    rested = checked_at is None or horizon.t0 - checked_at >= settings.ahead_after
    return rested and horizon.t0 - horizon.bound > settings.ahead_after


def describe_long_hold(horizon: Horizon, settings: StreamSettings, request: ExtractRequest) -> str:
    """Who has held a horizon for longer than rows are to wait for it, in words; empty where nobody has."""
    bound, promised = horizon.bound, settings.schedule.fresh_within
    if bound is None or not horizon.holder or (request.until is not None and request.until <= bound):
        return ""
    # A promise breaks between two passes: the one before has to have said why.
    patience = settings.ahead_after if promised is None else min(settings.ahead_after, promised / 2)
    return describe_hold(horizon) if horizon.t0 - bound > patience else ""


def describe_hold(horizon: Horizon) -> str:
    """What holds a horizon, in words; they stay the same while one transaction does, for that is no news."""
    if horizon.bound is None or not horizon.holder:
        return horizon.reason
    # Between the poll that first met it and the one before nobody looked.
    return f"held by {horizon.holder}, since {horizon.bound:%Y-%m-%d %H:%M:%S} UTC at the earliest"


def require_start(settings: StreamSettings) -> datetime:
    if settings.start is None:
        raise ConfigError("first_run: from says no instant", hint="Write it like first_run: {from: 2025-01-01}.")
    return settings.start


def require_range(request: ExtractRequest) -> tuple[datetime, datetime]:
    if request.since is None or request.until is None:
        raise ConfigError("a range has two ends", hint="Give both: --from INSTANT --until INSTANT")
    return request.since, request.until


def require_no_bounds(request: ExtractRequest, settings: StreamSettings) -> None:
    """A table that is read whole can be cut nowhere.

    Raises:
        ConfigError: the run asks for a part of it.
    """
    if request != ExtractRequest():
        raise ConfigError(
            f"{settings.name} is read whole each time, and no part of it means anything",
            hint="Leave out --limit, --from and --until for a stream with `cursor: none`.",
        )


def require_no_time_range(request: ExtractRequest, settings: StreamSettings) -> None:
    """A table that is read by its key knows no time.

    Raises:
        ConfigError: the run names one.
    """
    if request.since is None and request.until is None:
        return
    raise ConfigError(
        f"{settings.name} is read by its key, which tells no time",
        hint="Leave out --from and --until; to begin at a key: syncd watermark set --id",
    )


def plan_increment(context: PlanContext, order: StreamOrder, bounds: WindowBounds) -> BatchDraft:
    """The rows after the mark up to a real row."""
    return BatchDraft(
        kind=BatchKind.INCREMENT,
        basis=context.world,
        windows=bounds.windows,
        high=bounds.high,
        proven=_is_proven(context),
        body=_plan_body(context, order, bounds, PlanSpan.ORDER),
    )


def plan_start(context: PlanContext, order: StreamOrder, start: Cursor) -> BatchDraft:
    """No rows: the mark is put where the stream begins. What lies before is not promised, so nothing is proven."""
    time = {"time": order.time_column.to_fields()} if order.time_column else {}
    return BatchDraft(
        kind=BatchKind.SNAPSHOT,
        basis=context.world,
        high=start,
        snapshot=SnapshotProgress(horizon=start, reached_key=START_CURSOR, done=True),
        proven=False,
        body=_plan_body(context, order, WindowBounds(low=START_CURSOR), PlanSpan.KEY) | time,
    )


def plan_chunk(
    context: PlanContext,
    order: StreamOrder,
    bounds: WindowBounds,
    horizon: Cursor,
    *,
    proven: bool,
    include_nulls: bool,
) -> BatchDraft:
    """A range of keys of the first pass; the last one moves the mark to the horizon that the first one fixed."""
    done = not bounds.has_more
    body = _plan_body(context, order, bounds, PlanSpan.KEY) | {
        "below": str(horizon.values[0]),
        "time": order.columns[0].to_fields(),
        "nulls": include_nulls and order.nullable,
    }
    return BatchDraft(
        kind=BatchKind.SNAPSHOT,
        basis=context.world,
        windows=bounds.windows,
        high=horizon if done else context.mark,
        snapshot=SnapshotProgress(horizon=horizon, reached_key=bounds.high, done=done),
        proven=proven and not is_table_replaced(context),
        body=body,
    )


def plan_beside_mark(
    kind: BatchKind, context: PlanContext, order: StreamOrder, bounds: WindowBounds, *, proven: bool = False
) -> BatchDraft:
    """A batch that moves no mark: rows ahead of the horizon, or a range read again."""
    return BatchDraft(
        kind=kind,
        basis=context.world,
        windows=bounds.windows,
        high=context.mark,
        proven=proven,
        body=_plan_body(context, order, bounds, PlanSpan.ORDER) | {"more": bounds.has_more},
    )


def plan_by_keys(context: PlanContext, order: StreamOrder, keys: Sequence[Cursor]) -> BatchDraft:
    """The rows with these keys, read again; it moves no mark."""
    facts = _plan_body(context, order, WindowBounds(low=START_CURSOR, rows=len(keys)), PlanSpan.KEY)
    return BatchDraft(
        kind=BatchKind.REPAIR,
        basis=context.world,
        high=context.mark,
        body={**facts, "span": PlanSpan.ROWS, "keys": [key.to_texts() for key in keys]},
    )


def extend_to_end(bounds: WindowBounds, end: Cursor) -> WindowBounds:
    """Where no row follows up to the end of a range, bounds that reach it: to be read again is all of the range.

    A target that appends loses what stood there, and what is gone at the source has left no row to end a window at.
    """
    if bounds.has_more or not may_hold_rows(end, bounds.high):
        return bounds
    return replace(bounds, ends=(*bounds.ends[:-1], end))


def plan_reread(
    context: PlanContext, order: StreamOrder, bounds: WindowBounds, reason: Mapping[str, Any]
) -> BatchDraft:
    """What was read before a break in the server's time, once more: it moves no mark, and knows of the break."""
    made = plan_beside_mark(BatchKind.REPAIR, context, order, bounds)
    return replace(made, body={**made.body, "again": dict(reason)})


def plan_whole_table(context: PlanContext, database: str, table: str, *, proven: bool) -> BatchDraft:
    """The whole table, in one statement and so in one snapshot."""
    facts = _common_fields(context) | {"span": PlanSpan.ALL, "database": database, "table": table}
    return BatchDraft(
        kind=BatchKind.SNAPSHOT,
        basis=context.world,
        high=START_CURSOR,
        snapshot=SnapshotProgress(horizon=START_CURSOR, reached_key=START_CURSOR, done=True),
        proven=proven,
        body=facts,
    )


def _is_proven(context: PlanContext) -> bool:
    return context.horizon is not None and context.horizon.proven and not is_table_replaced(context)


def is_table_replaced(context: PlanContext) -> bool:
    """Whether rows may stand below the mark that were never read, for the table was another one when they were due."""
    return context.incarnation is not None and context.incarnation.replaced_in is not None


def _plan_body(context: PlanContext, order: StreamOrder, bounds: WindowBounds, span: PlanSpan) -> dict[str, Any]:
    by_key = span is PlanSpan.KEY
    return _common_fields(context) | {
        "span": span,
        "database": order.database,
        "table": order.table,
        "index": order.key_index if by_key else order.index,
        "columns": [column.to_fields() for column in (order.key if by_key else order.columns)],
        "rows_at_most": bounds.rows,
    }


def _common_fields(context: PlanContext) -> dict[str, Any]:
    horizon = context.horizon
    shown = None if horizon is None else _horizon_fields(horizon)
    created = context.created
    made = context.incarnation.to_fields() if context.incarnation else {}
    return {"horizon": shown, "created": format_instant(created) if created else None, **made}


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
    """The statements that read a plan: of the sealed plan, the passages and one's own SQL alone."""
    body = plan.draft.body
    if PlanSpan(body["span"]) is PlanSpan.ALL:
        source = (
            custom_query_source(custom_query, "TRUE") if custom_query else quote_table(body["database"], body["table"])
        )
        return (WindowQuery(window=None, sql=select_rows_sql(select_list(mappings), source, "TRUE")),)
    columns = _recorded_columns(body)
    if PlanSpan(body["span"]) is PlanSpan.ROWS:
        keys = [Cursor.from_texts(key) for key in body["keys"]]
        some = (keys[first : first + KEYS_PER_STATEMENT] for first in range(0, len(keys), KEYS_PER_STATEMENT))
        selects = select_list(mappings)
        return tuple(
            WindowQuery(window=None, sql=_read_sql(body, selects, keys_condition(columns, each), custom_query))
            for each in some
        )
    selects = select_list(mappings) + _extra_selects(columns, mappings)
    return tuple(
        WindowQuery(window=window, sql=_read_sql(body, selects, _window_condition(body, columns, window), custom_query))
        for window in plan.draft.windows
    )


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


def reads_in_order(plan: Plan) -> bool:
    """Whether a plan was made to read rows from the source in their order, by its body: so it knows the horizon."""
    return plan.draft.body.get("span") not in {PlanSpan.NONE, PlanSpan.ROWS}


def is_small(draft: BatchDraft) -> bool:
    """Whether a draft reads few rows; of a table that is read whole nobody knows."""
    most = draft.body.get("rows_at_most")
    return most is None or most <= FEWEST_ROWS


def has_needed_index(body: Mapping[str, Any], table: SourceTable) -> bool:
    """Whether the index that a plan's statements name is still there for the columns they need it for."""
    if PlanSpan(body["span"]) in {PlanSpan.ALL, PlanSpan.NONE}:
        return True
    return has_usable_index(table, body["index"], [column["name"] for column in body["columns"]])


def make_order_fields(plan: Plan, mappings: Sequence[ColumnMapping]) -> tuple[OrderField, ...]:
    """Where each value of a row's position stands among what a query gives."""
    body = plan.draft.body
    if PlanSpan(body["span"]) in {PlanSpan.ALL, PlanSpan.ROWS}:
        return ()
    columns = _recorded_columns(body)
    return tuple(
        OrderField(name=name, kind=column.kind)
        for name, column in zip(_order_field_names(columns, mappings), columns, strict=True)
    )


def _recorded_columns(body: Mapping[str, Any]) -> tuple[OrderColumn, ...]:
    return tuple(map(OrderColumn.from_fields, body["columns"]))


def _order_field_names(columns: Sequence[OrderColumn], mappings: Sequence[ColumnMapping]) -> list[str]:
    """A passage's own field where it carries the order's value, else one beside it."""
    return [_find_carrying_field(column, mappings) or f"_syncd_order_{place}" for place, column in enumerate(columns)]


def _find_carrying_field(column: OrderColumn, mappings: Sequence[ColumnMapping]) -> str | None:
    """The field in which a value of the order travels already: in its very form, or as an integer of the same column.

    An integer of 64 bits without a sign travels in the two's complement of one, which whoever holds rows against
    their window knows from the passage.
    """
    for passage in mappings:
        integer = column.kind is ValueKind.INT and passage.travel is TransferType.INTEGER and passage.is_integer
        if passage.select == column.select or (integer and passage.column == column.name):
            return passage.name
    return None


def _extra_selects(columns: Sequence[OrderColumn], mappings: Sequence[ColumnMapping]) -> list[tuple[str, str]]:
    beside = ((column, place) for place, column in enumerate(columns) if _find_carrying_field(column, mappings) is None)
    return [(column.select, f"_syncd_order_{place}") for column, place in beside]
