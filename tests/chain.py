"""Builders of plans and links: each is right as it stands, and any part of it can be another."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchLink, BatchOutput, Plan, PlanBasis, SnapshotProgress
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.names import StreamName
from watermarks.progress import Run
from watermarks.window import Window

NOON: Final = datetime(2024, 5, 17, 12, 0, tzinfo=UTC)
ORDERS: Final = StreamName(source="main", database="shop", table="orders")
FIRST_RUN: Final = Run(id="run-1", seconds=1.5)


def at(*plain: int) -> Cursor:
    return Cursor.from_values(*plain)


def make_world(mark: Cursor = START_CURSOR) -> PlanBasis:
    return PlanBasis(mark=mark, source_identity="server-1", schema="sha256:schema")


def make_increment(low: Cursor, *points: Cursor, high: Cursor, proven: bool = True) -> BatchDraft:
    """The rows between two positions, cut at the points."""
    windows = Window(low, high).split(points)
    return BatchDraft(kind=BatchKind.INCREMENT, basis=make_world(low), windows=windows, high=high, proven=proven)


def make_chunk(mark: Cursor, *, horizon: Cursor, reached: Cursor = START_CURSOR, done: bool = False) -> BatchDraft:
    """A chunk of the first pass, up to a key."""
    return BatchDraft(
        kind=BatchKind.SNAPSHOT,
        basis=make_world(mark),
        windows=(Window(START_CURSOR, reached),),
        high=horizon if done else mark,
        snapshot=SnapshotProgress(horizon=horizon, reached_key=reached, done=done),
    )


def make_still(kind: BatchKind, mark: Cursor) -> BatchDraft:
    """A batch that does not move the mark."""
    origin = BatchId(1, 1) if kind is BatchKind.REPLAY else None
    return BatchDraft(kind=kind, basis=make_world(mark), high=mark, origin=origin)


def make_plan(draft: BatchDraft | None = None, *, id: BatchId = BatchId(1, 1), **parts: Any) -> Plan:  # noqa: A002, B008 - a value
    usual = Plan(
        stream=ORDERS,
        id=id,
        draft=draft or make_increment(START_CURSOR, high=at(10, 1)),
        nonce="nonce-1",
        epoch=1,
        planned_at=NOON,
    )
    return replace(usual, **parts)


def make_link(
    plan: Plan | None = None,
    *,
    rows: int = 3,
    files: tuple[str, ...] = ("part-1", "part-2"),
    previous: str | None = None,
    body: Mapping[str, Any] | None = None,
) -> BatchLink:
    filled = BatchOutput(rows=rows, files=files, body=body or {})
    return BatchLink.from_completed_plan(
        plan or make_plan(), filled, previous=previous, nonce="nonce-2", epoch=1, made_at=NOON
    )


def make_abandoned(plan: Plan | None = None, *, mark: Cursor = START_CURSOR, previous: str | None = None) -> BatchLink:
    return BatchLink.from_abandoned_plan(
        plan or make_plan(), "the schema changed", mark=mark, previous=previous, nonce="nonce-3", epoch=2, made_at=NOON
    )
