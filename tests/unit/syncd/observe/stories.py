"""Events as streams tell them, of which a test says only what it is about."""

from datetime import datetime, timedelta
from typing import Any

from syncd.events import BatchesLoaded, BatchExtracted, PassDue, PassEnded, PassHeldBack, PassStarted, StreamEvent
from syncd.observe.board import Board
from syncd.observe.stream_state import ConfiguredStream
from tests.builders import NOON, ORDERS, at
from watermarks.batch import BatchId
from watermarks.cursor import START_CURSOR
from watermarks.document import Stage
from watermarks.names import StreamName
from watermarks.progress import RunStrategy
from watermarks.testing import ManualClock

EXTRACT, LOAD = Stage.EXTRACT, Stage.LOAD


def stream_named(table: str) -> StreamName:
    return StreamName(source="shop", database="shop", table=table)


def make_board(clock: ManualClock | None = None, *, target: str = "public.orders", **more: Any) -> Board:
    listed = ConfiguredStream(stream=ORDERS, target=target, schedule="every 1m", **more)
    return Board([listed], clock=clock or ManualClock(NOON))


def began(stage: Stage, *, stream: StreamName = ORDERS) -> PassStarted:
    return PassStarted(stream=stream, stage=stage, strategy=RunStrategy.INTER_TABLE)


def due(stage: Stage, moment: datetime, *, stream: StreamName = ORDERS) -> PassDue:
    return PassDue(stream=stream, stage=stage, at=moment)


def held_back(stage: Stage, reason: str, *, stream: StreamName = ORDERS, until: datetime | None = None) -> PassHeldBack:
    return PassHeldBack(stream=stream, stage=stage, reason=reason, until=until)


def ended(stage: Stage, *, stream: StreamName = ORDERS, behind: float | None = None, **more: Any) -> PassEnded:
    """A pass that found nothing, unless told; it is complete up to so many seconds `behind` noon."""
    error = more.get("error")
    told: dict[str, Any] = {
        "state": "failed" if error else "nothing new",
        "batches": 0,
        "rows": 0,
        "seconds": 0.5,
        "mark": START_CURSOR,
        "complete_up_to": None if behind is None else NOON - timedelta(seconds=behind),
        "proven": True,
        "pending_batches": 0,
        **more,
    }
    return PassEnded(stream=stream, stage=stage, **told)


def extracted(seq: int, *, stream: StreamName = ORDERS, **more: Any) -> BatchExtracted:
    told: dict[str, Any] = {
        "kind": "increment",
        "rows": 100,
        "files": 2,
        "bytes": 5_000,
        "quarantined": 0,
        "mark": at(seq, seq),
        "seconds": 1.5,
        **more,
    }
    return BatchExtracted(stream=stream, batch=BatchId(1, seq), **told)


def landed(first: int, last: int, *, stream: StreamName = ORDERS, **more: Any) -> BatchesLoaded:
    told: dict[str, Any] = {"rows": 100, "files": 2, "mark": at(last, last), "seconds": 2.0, **more}
    return BatchesLoaded(
        stream=stream, first=BatchId(1, first), last=BatchId(1, last), batches=last - first + 1, **told
    )


def tell(board: Board, *events: StreamEvent) -> None:
    for event in events:
        board(event)
