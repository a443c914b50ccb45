"""Builders: values with sensible content, of which a test says only what it is about."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchLink, BatchOutput, Plan, PlanBasis, SnapshotProgress
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.document import Stage, Watermark
from watermarks.extraction import Extraction
from watermarks.history import Journal
from watermarks.host import ProcessLocation
from watermarks.lease import HeldClaim, ProcessLease
from watermarks.names import StreamName
from watermarks.progress import Run
from watermarks.store import Store
from watermarks.testing import ManualClock
from watermarks.window import Window

ORDERS = StreamName(source="shop", database="shop", table="orders")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
RUN = Run(id="r1")


def at(seconds: float, key: int | None = None) -> Cursor:
    """A position: so many seconds after noon, and a key."""
    moment = NOON + timedelta(seconds=seconds)
    return Cursor.from_values(moment) if key is None else Cursor.from_values(moment, key)


def make_increment(low: Cursor = START_CURSOR, high: Cursor | None = None, **more: Any) -> BatchDraft:
    high = at(1, 1) if high is None else high
    world = PlanBasis(mark=low, source_identity="server-1", schema="s1")
    return BatchDraft(kind=BatchKind.INCREMENT, basis=world, windows=(Window(low, high),), high=high, **more)


def make_plan(batch: str = "1-1", draft: BatchDraft | None = None, **more: Any) -> Plan:
    wanted = Plan(
        stream=ORDERS,
        id=BatchId.from_text(batch),
        draft=draft or make_increment(),
        nonce="plan-nonce",
        epoch=1,
        planned_at=NOON,
    )
    return replace(wanted, **more)


def make_link(
    batch: str = "1-1",
    *,
    low: Cursor = START_CURSOR,
    high: Cursor | None = None,
    previous: str | None = None,
    **more: Any,
) -> BatchLink:
    plan = make_plan(batch, make_increment(low, high))
    filled = BatchOutput(rows=10, files=(f"data/{batch}/0.parquet", f"data/{batch}/1.parquet"))
    return replace(
        BatchLink.from_completed_plan(plan, filled, previous=previous, nonce="link-nonce", epoch=1, made_at=NOON),
        **more,
    )


def make_chain(count: int, *, generation: int = 1) -> list[BatchLink]:
    """So many links, each following the one before."""
    links: list[BatchLink] = []
    for seq in range(1, count + 1):
        low = links[-1].high if links else START_CURSOR
        previous = links[-1].digest if links else None
        links.append(make_link(f"{generation}-{seq}", low=low, high=at(seq, seq), previous=previous))
    return links


def make_watermark(*links: BatchLink, landed: int = 0, **more: Any) -> Watermark:
    """The watermark of a stream with these links, of which the first few are landed."""
    state = Watermark.new(ORDERS, created_at=NOON)
    for link in links:
        state = state.with_link(link, run=RUN, now=NOON)
    for link in links[:landed]:
        state = state.with_loaded_batch(link, rows=link.rows, run=RUN, now=NOON)
    return replace(state, **more)


class Here:
    """A host that knows which of its processes are dead because it is told."""

    def __init__(self, name: str = "one", *, dead: frozenset[str] = frozenset()) -> None:
        self._name, self.dead = name, set(dead)

    def locate_process(self) -> ProcessLocation:
        return ProcessLocation(host="test", pid_namespace="boot", pid=1, start_time=self._name)

    def is_dead(self, other: ProcessLocation) -> bool:
        return other.start_time in self.dead


@dataclass
class Script:
    """A producer that proposes given drafts in turn, and fills each with rows and files as told."""

    drafts: list[Callable[[Watermark], BatchDraft | None]] = field(default_factory=list)
    rows: int = 3
    identity: str = "server-1"
    proposed: int = 0
    filled: list[Plan] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)

    def propose_batch(self, watermark: Watermark) -> BatchDraft | None:
        if self.proposed == len(self.drafts):
            return None
        self.proposed += 1
        return self.drafts[self.proposed - 1](watermark)

    def is_plan_current(self, plan: Plan) -> bool:
        return plan.draft.basis.source_identity == self.identity

    def write_files(self, plan: Plan) -> BatchOutput:
        self.filled.append(plan)
        name = f"data/{plan.id}/0-{len(self.filled)}.parquet"
        return BatchOutput(rows=self.rows, files=(name,) if self.rows else ())

    def delete_files(self, files: Sequence[str]) -> None:
        self.dropped += files


def upto(high: Cursor) -> Callable[[Watermark], BatchDraft]:
    """Propose an increment from wherever the mark is up to a cursor."""
    return lambda state: make_increment(state.required_extract_progress.cursor, high)


def a_chunk(reached: int, *, horizon: Cursor, done: bool = False) -> Callable[[Watermark], BatchDraft]:
    """Propose a chunk of the first pass."""

    def draft(state: Watermark) -> BatchDraft:
        snapshot = SnapshotProgress(horizon=horizon, reached_key=Cursor.from_values(reached), done=done)
        world = PlanBasis(mark=state.required_extract_progress.cursor, source_identity="server-1", schema="s1")
        high = horizon if done else state.required_extract_progress.cursor
        return BatchDraft(kind=BatchKind.SNAPSHOT, basis=world, high=high, snapshot=snapshot)

    return draft


def make_process(
    store: Store, name: str = "p1", *, clock: ManualClock | None = None, host: Here | None = None, ttl: float = 30
) -> ProcessLease:
    """A process that has said that it lives."""
    process = ProcessLease(store, name, ttl_seconds=ttl, clock=clock or ManualClock(), host=host or Here(name))
    process.renew()
    return process


def hold(
    process: ProcessLease, journal: Journal[Watermark], stage: Stage = Stage.EXTRACT, stream: StreamName = ORDERS
) -> HeldClaim:
    return process.acquire(stream, stage, journal)


def extract(journal: Journal[Watermark], held: HeldClaim, *highs: Cursor) -> Extraction:
    """Extract one increment up to each of the cursors."""
    extraction = Extraction(journal, held, Script(drafts=[upto(high) for high in highs]))
    for _ in highs:
        extraction.extract_next_batch(RUN)
    return extraction
