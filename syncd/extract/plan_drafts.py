"""Drafts of batches: each kind of batch with the facts that its plan records."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from syncd.extract.plan_rules import PlanContext, PlanSpan, WindowBounds
from syncd.ports.source import Horizon
from syncd.tables.sort_order import StreamOrder
from watermarks.batch import BatchDraft, BatchKind, SnapshotProgress
from watermarks.cursor import START_CURSOR, Cursor, format_instant


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
