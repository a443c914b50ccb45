"""Builders of plans and links: each is right as it stands, and any part of it can be another."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from watermarks.batch import BatchId, Draft, Filled, Kind, Link, Plan, Snapshot, World
from watermarks.cursor import START, Cursor
from watermarks.names import StreamName
from watermarks.progress import Run
from watermarks.window import Window

NOON: Final = datetime(2024, 5, 17, 12, 0, tzinfo=UTC)
ORDERS: Final = StreamName(source="main", database="shop", table="orders")
FIRST_RUN: Final = Run(id="run-1", seconds=1.5)


def at(*plain: int) -> Cursor:
    return Cursor.of(*plain)


def make_world(mark: Cursor = START) -> World:
    return World(mark=mark, source_identity="server-1", schema="sha256:schema")


def make_increment(low: Cursor, *points: Cursor, high: Cursor, proven: bool = True) -> Draft:
    """The rows between two positions, cut at the points."""
    windows = Window(low, high).split(points)
    return Draft(kind=Kind.INCREMENT, world=make_world(low), windows=windows, high=high, proven=proven)


def make_chunk(mark: Cursor, *, horizon: Cursor, reached: Cursor = START, done: bool = False) -> Draft:
    """A chunk of the first pass, up to a key."""
    return Draft(
        kind=Kind.SNAPSHOT,
        world=make_world(mark),
        windows=(Window(START, reached),),
        high=horizon if done else mark,
        snapshot=Snapshot(horizon=horizon, reached=reached, done=done),
    )


def make_still(kind: Kind, mark: Cursor) -> Draft:
    """A batch that does not move the mark."""
    origin = BatchId(1, 1) if kind is Kind.REPLAY else None
    return Draft(kind=kind, world=make_world(mark), high=mark, origin=origin)


def make_plan(draft: Draft | None = None, *, id: BatchId = BatchId(1, 1), **parts: Any) -> Plan:  # noqa: A002, B008 - a value
    usual = Plan(
        stream=ORDERS,
        id=id,
        draft=draft or make_increment(START, high=at(10, 1)),
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
) -> Link:
    filled = Filled(rows=rows, files=files, body=body or {})
    return Link.done(plan or make_plan(), filled, previous=previous, nonce="nonce-2", epoch=1, at=NOON)


def make_abandoned(plan: Plan | None = None, *, mark: Cursor = START, previous: str | None = None) -> Link:
    return Link.abandoned(
        plan or make_plan(), "the schema changed", mark=mark, previous=previous, nonce="nonce-3", epoch=2, at=NOON
    )
