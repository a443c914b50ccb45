"""A stream driven end to end without Spark: batches are read with PyMySQL and kept in memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from syncd.datatypes.columns import ColumnMapping, ParquetType, PhysicalType, TransferType
from syncd.extract.plan_rules import ExtractRequest
from syncd.extract.planner import Planner
from syncd.horizon.key_gaps import InMemorySeenKeys, SeenKeyStore
from syncd.mysql.connection import connect
from syncd.ports.source import Horizon, HorizonProvider, HorizonRequest, ServerTimeBreak, TableName
from syncd.settings import StreamSettings
from tests.builders import Here
from tests.integration.planner.servers import Server, rows_of
from watermarks.batch import BatchDraft, BatchOutput, Plan
from watermarks.document import Stage, Watermark
from watermarks.extraction import BatchChain, Extraction, ExtractResult
from watermarks.history import Journal
from watermarks.lease import ProcessLease
from watermarks.names import StreamName
from watermarks.progress import Run
from watermarks.stores.memory import MemoryStore
from watermarks.testing import ManualClock


@dataclass
class Told:
    """A horizon as a test says it; else the server's own clock, for nobody else writes."""

    server: Server
    bound: datetime | None = None
    held: timedelta = timedelta()
    """How long something holds it."""
    holder: str = ""
    marks: list[datetime | None] = field(default_factory=list[datetime | None])
    breaks: tuple[ServerTimeBreak, ...] = ()
    proven: bool = True
    identity: str | None = None
    """Of which server it is; None: of the one that rows are read from."""
    seen: list[tuple[datetime, int | None]] = field(default_factory=list[tuple[datetime, int | None]])

    def get_horizons(self, asked: Sequence[HorizonRequest], *, aged: float = 0.0) -> Mapping[TableName, Horizon]:
        return {each.table: self._told(each) for each in asked}

    def wait_for_horizons(self, asked: Sequence[HorizonRequest], *, within: timedelta) -> Mapping[TableName, Horizon]:
        return self.get_horizons(asked)

    def _told(self, asked: HorizonRequest) -> Horizon:
        self.marks.append(asked.mark)
        if asked.id_column:
            self.seen.append((self._now(), self._highest(asked)))
        bound = self.bound or self._now() - self.held
        ids = max((highest for when, highest in self.seen if when <= bound and highest is not None), default=None)
        if not self.proven:
            ids = None
        return Horizon(
            bound=bound,
            proven=self.proven,
            t0=bound + self.held,
            identity=self.identity or self.server.source().get_server_info().identity,
            reason="as told",
            holder=self.holder,
            max_complete_id=ids,
            breaks=self.breaks,
        )

    def _highest(self, asked: HorizonRequest) -> int | None:
        with self.server.admin() as connection:
            [(highest,)] = rows_of(connection, f"SELECT MAX(`{asked.id_column}`) FROM `lab`.`{asked.table.table}`")
        assert highest is None or isinstance(highest, int)
        return highest

    def _now(self) -> datetime:
        with self.server.admin() as connection:
            [(now,)] = rows_of(connection, "SELECT UTC_TIMESTAMP(6)")
        assert isinstance(now, datetime)
        return now.replace(tzinfo=UTC)


def passage(column: str, select: str | None = None, travel: TransferType = TransferType.TEXT) -> ColumnMapping:
    return ColumnMapping(
        column=column,
        name=column.lower(),
        select=select or f"`{column}`",
        travel=travel,
        parquet=ParquetType(physical=PhysicalType.BYTE_ARRAY),
        redshift="VARCHAR",
    )


@dataclass
class Rows:
    """A producer that reads each window over a connection of its own, and remembers what it read."""

    planner: Planner
    server: Server
    passages: tuple[ColumnMapping, ...]
    batches: list[tuple[Plan, list[tuple[Any, ...]]]] = field(default_factory=list)
    before_reading: Callable[[Plan], None] = lambda _plan: None
    drafts: list[BatchDraft] = field(default_factory=list)

    def propose_batch(self, watermark: Watermark) -> BatchDraft | None:
        draft = self.planner.propose(watermark)
        if draft is not None:
            self.drafts.append(draft)
        return draft

    def is_plan_current(self, plan: Plan) -> bool:
        return self.planner.is_plan_current(plan)

    def write_files(self, plan: Plan) -> BatchOutput:
        self.before_reading(plan)
        read = list[tuple[Any, ...]]()
        fields = self.planner.order_fields(plan, self.passages)
        for query in self.planner.queries(plan, self.passages):
            with connect(self.server.settings) as connection, connection.cursor() as cursor:
                cursor.execute(query.sql)
                names = [told[0] for told in cursor.description or ()]
                assert {place.name for place in fields} <= set(names)
                read += cursor.fetchall()
        self.batches.append((plan, read))
        return BatchOutput(rows=len(read), files=(f"data/{plan.id}.parquet",) if read else ())

    def delete_files(self, files: Sequence[str]) -> None:
        raise AssertionError(files)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return [row for _, read in self.batches for row in read]


@dataclass
class Stream:
    """One stream's documents in memory, over any number of runs."""

    server: Server
    settings: StreamSettings
    passages: tuple[ColumnMapping, ...]
    horizons: Told
    zone: str | None = "+00:00"
    windows: int = 3
    notes: SeenKeyStore = field(default_factory=InMemorySeenKeys)
    polls: HorizonProvider | None = None
    """Where the server itself is to be asked for its horizon."""

    def __post_init__(self) -> None:
        store, clock = MemoryStore(), ManualClock()
        self.journal = Journal(store, Watermark, clock=clock)
        name = StreamName(source="lab", database="lab", table=self.settings.table)
        process = ProcessLease(store, "p1", ttl_seconds=30, clock=clock, host=Here("p1"))
        process.renew()
        self.held = process.acquire(name, Stage.EXTRACT, self.journal)
        self.chain = BatchChain(self.journal, name)
        self.turns = list[ExtractResult]()

    def rows(self, request: ExtractRequest | None = None) -> Rows:
        planner = Planner(
            source=self.server.source(),
            horizons=self.polls or self.horizons,
            settings=self.settings,
            history=self.chain,
            zone=self.zone,
            windows=self.windows,
            request=request or ExtractRequest(),
            notes=self.notes,
        )
        return Rows(planner, self.server, self.passages)

    def run(self, rows: Rows | None = None, *, turns: int = 200) -> Rows:
        """Turn until there is nothing to do."""
        rows = rows or self.rows()
        extraction = Extraction(self.journal, self.held, rows)
        for _ in range(turns):
            turn = extraction.extract_next_batch(Run(id="r"))
            self.turns.append(turn)
            if turn.state is None:
                break
        return rows

    @property
    def watermark(self) -> Watermark:
        state = self.journal.read_newest(self.chain.stream.stem)
        assert state
        return state
