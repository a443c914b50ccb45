"""Forty minutes of a shop with a dozen streams, told to a board: some at ease, some in trouble."""

import random
from collections.abc import Sequence
from datetime import timedelta

from syncd.daemon.health import HealthChecker
from syncd.daemon.routes import ReadHistory, Routes
from syncd.errors import SchemaDrift, TransactionConflict, WarehouseDown
from syncd.events import (
    BatchesLoaded,
    BatchExtracted,
    LoadRetried,
    PassDue,
    PassEnded,
    PassHeldBack,
    PassStarted,
    RowsArrived,
    RowsQuarantined,
    StreamEvent,
)
from syncd.observe.board import Board
from syncd.observe.mark_history import MarkHistoryEntry
from syncd.observe.metrics import Metrics
from syncd.observe.stream_state import ConfiguredStream
from watermarks.batch import BatchId
from watermarks.cursor import Cursor
from watermarks.document import Stage
from watermarks.errors import HintedError
from watermarks.names import StreamName
from watermarks.progress import RunStrategy
from watermarks.testing import ManualClock

TABLES = (
    "orders", "order_lines", "customers", "payments", "refunds", "products", "prices", "stock", "shipments", "carts",
    "events", "countries",
)  # fmt: skip
ODD = "<b>odd</b> & \"quoted\" 'täble'"
"""A name that MySQL allows, and that is to be no markup."""
STEP = 20.0
DRIFT = SchemaDrift(
    "shop.prices: column `amount` was decimal(10,2) and is decimal(14,4)",
    hint="Run in the warehouse: ALTER TABLE public.prices ALTER COLUMN amount TYPE decimal(14,4)",
)
LOCKED = WarehouseDown(
    "cluster:5439: no answer within 3600 s; the connection was ended",
    hint="See what it waits for: SELECT * FROM svv_transactions;",
)


def stream_of(table: str) -> StreamName:
    return StreamName(source="main", database="shop", table=table)


class Story:
    """Tells a board and metrics what happens, step by step."""

    def __init__(self, clock: ManualClock, *, more: int = 0) -> None:
        """Prepare; with so many streams `more`, which are at ease."""
        self.clock = clock
        names = [*TABLES, *(f"archive_{number:03}" for number in range(more))]
        self.tables = names
        listed = [self._listed(name) for name in names]
        self.board = Board(listed, clock=clock)
        self.metrics = Metrics(self.board, clock=clock, heartbeat_age=lambda: 0.2)
        self._chance = random.Random(7)  # a story is to be the same each time
        self._seq = dict.fromkeys(names, 0)
        self._last = dict.fromkeys(names, 0)
        """The last batch that is loaded."""

    def answers(self, *, history: ReadHistory | None = None) -> Routes:
        health = HealthChecker(clock=self.clock, last_iteration_at=self.clock.monotonic, probe_lake=lambda: None)
        return Routes(board=self.board, metrics=self.metrics, health=health, read_history=history or self.history)

    def tell(self, event: StreamEvent) -> None:
        self.board(event)
        self.metrics(event)

    def play(self, minutes: float = 40) -> None:
        for number in range(int(minutes * 60 / STEP)):
            self.clock.advance(STEP)
            for table in self.tables:
                self._turn(table, number)
        self._end()

    def history(self, stream: StreamName, limit: int, before: int | None) -> Sequence[MarkHistoryEntry]:
        """What the lake would tell."""
        newest = before - 1 if before else 44
        return [self._move(revision) for revision in range(newest, max(newest - limit, 0), -1)]

    def _move(self, revision: int) -> MarkHistoryEntry:
        by_hand = revision == 30
        at = self.clock.now() - timedelta(seconds=(44 - revision) * 60)
        stamp = at.strftime("%Y-%m-%dT%H:%M:%S.000000Z")
        return MarkHistoryEntry(
            revision=revision,
            changed_at=at,
            change="set" if by_hand else "load" if revision % 2 else "extract",
            author="ada@desk" if by_hand else "syncd-7b3e",
            reason="read August again" if by_hand else "",
            stage=None if by_hand else "load" if revision % 2 else "extract",
            epoch=0 if by_hand else 3,
            after={
                "generation": 1,
                "extracted_seq": revision // 2,
                "loaded_generation": 1,
                "loaded_seq": (revision - 1) // 2,
                "last_mysql_data_timestamp": stamp,
                "last_mysql_key": [f"int:{revision * 913}"],
                "load_generation": 1,
            },
        )

    def _listed(self, name: str) -> ConfiguredStream:
        promised = timedelta(minutes=5) if name in {"orders", "stock"} else None
        every = "0 3 * * * UTC" if name == "countries" else "every 20s"
        return ConfiguredStream(stream=stream_of(name), target=f"public.{name}", schedule=every, promised_lag=promised)

    def _turn(self, table: str, number: int) -> None:
        if table == "countries":
            return
        late = number > 60  # the second half of the story has the trouble
        extract_error = DRIFT if table == "prices" and late else None
        load_error = LOCKED if table == "refunds" and late and number % 6 == 0 else None
        held = table == "payments" and late
        behind = (number - 60) * STEP + 3 if held else self._chance.uniform(0.1, 1.5)
        rows = 0 if extract_error or held else self._rows(table)
        self._extracted(table, rows, behind, error=extract_error, held=held)
        stuck = (table == "refunds" and late) or (table == "stock" and number > 95)
        if load_error or not stuck:
            self._loaded(table, rows, behind, error=load_error)

    def _rows(self, table: str) -> int:
        busy = {"orders": 900, "order_lines": 2_600, "events": 7_500, "stock": 300, "refunds": 40}.get(table, 0)
        if table.startswith("archive") or not busy:
            return 0 if self._chance.random() < 0.9 else self._chance.randrange(5, 60)
        return int(busy * self._chance.uniform(0.6, 1.4))

    def _mark(self, table: str) -> Cursor:
        return Cursor.from_values(self.clock.now() - timedelta(seconds=1), 100_000 + self._seq[table] * 731)

    def _extracted(self, table: str, rows: int, behind: float, *, error: HintedError | None, held: bool) -> None:
        stream, at = stream_of(table), Stage.EXTRACT
        self.tell(PassStarted(stream=stream, stage=at, strategy=RunStrategy.INTER_TABLE))
        if rows:
            self._seq[table] += 1
            self.tell(
                BatchExtracted(
                    stream=stream, batch=BatchId(1, self._seq[table]), kind="increment", rows=rows, files=1,
                    bytes=rows * 61, quarantined=0, mark=self._mark(table), seconds=0.2 + rows / 9_000,
                )
            )  # fmt: skip
        reason = "held by transaction 4711, user reports, 14 min" if held else ""
        state = "failed" if error else "extracted" if rows else "waiting" if held else "nothing new"
        self._ended(stream, at, rows, behind, state=state, reason=reason, error=error)

    def _loaded(self, table: str, rows: int, behind: float, *, error: HintedError | None) -> None:
        if not rows and error is None:
            return
        stream, at = stream_of(table), Stage.LOAD
        self.tell(PassStarted(stream=stream, stage=at, strategy=RunStrategy.INTER_TABLE))
        if error is None:
            self._last[table] = self._seq[table]
            self.tell(
                BatchesLoaded(
                    stream=stream, first=BatchId(1, self._seq[table]), last=BatchId(1, self._seq[table]), batches=1,
                    rows=rows, files=1, mark=self._mark(table), seconds=0.9,
                )
            )  # fmt: skip
        self._ended(stream, at, rows, behind, state="failed" if error else "loaded", error=error)

    def _ended(
        self, stream: StreamName, stage: Stage, rows: int, behind: float, *, state: str,
        reason: str = "", error: HintedError | None = None,
    ) -> None:  # fmt: skip
        self.tell(
            PassEnded(
                stream=stream,
                stage=stage,
                state=state,
                batches=1 if rows and error is None else 0,
                rows=rows,
                seconds=0.3,
                mark=self._mark(stream.table),
                complete_up_to=None if error else self.clock.now() - timedelta(seconds=behind),
                proven=stream.table != "carts",
                pending_batches=self._seq[stream.table] - self._last[stream.table],
                reason=reason,
                error=error,
            )
        )
        soon = self.clock.now() + timedelta(seconds=900 if error is DRIFT else STEP)
        self.tell(PassDue(stream=stream, stage=stage, at=soon))

    def _end(self) -> None:
        """The moment in which somebody looks."""
        orders, events, stock = stream_of("orders"), stream_of("events"), stream_of("stock")
        self.tell(
            LoadRetried(
                stream=orders,
                error=TransactionConflict("could not serialize: another transaction came between"),
                seconds=0.7,
            )
        )
        self.tell(RowsQuarantined(stream=orders, batch=BatchId(1, 12), rows=3, reason="note: 70,113 bytes, 65,535 fit"))
        self.tell(PassStarted(stream=events, stage=Stage.EXTRACT, strategy=RunStrategy.INTRA_TABLE))
        self.tell(RowsArrived(stream=events, batch=BatchId(1, 200), rows=48_300))
        held = "both sessions of warehouse main are in use"
        self.tell(PassHeldBack(stream=stock, stage=Stage.LOAD, reason=held))
        self.clock.advance(3.4)
