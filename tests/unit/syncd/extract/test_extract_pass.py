"""One pass of the extract stage, with a lake in memory and a table that is a list of windows."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from syncd.concurrency.running_pass import RunningPass
from syncd.concurrency.stage_claim import ClaimKeeper
from syncd.concurrency.stage_pass import StagePass
from syncd.datatypes.columns import ColumnMapping, ParquetType, PhysicalType, TransferType
from syncd.datatypes.source_table import ServerInfo, SourceColumn, SourceTable
from syncd.error_classes import ExitCode, exit_code_for
from syncd.errors import (
    InternalError,
    LakeDown,
    LakeUnfit,
    PassStopped,
    SchemaDrift,
    ServerChanged,
    SourceDown,
    SourceReplaced,
    TableAltered,
)
from syncd.events import (
    BatchAbandoned,
    BatchExtracted,
    OrphansRemoved,
    StreamEvent,
    StreamFailed,
    TableReplaced,
    WaitKind,
    wait_kind,
)
from syncd.extract.batch_producer import ExtractProducer
from syncd.extract.extract_pass import ExtractOutcome, ExtractPass, ExtractState, PassProducer
from syncd.lake.column_history import EarlierBatches
from syncd.lake.manifest import Manifest
from syncd.lake.read_requests import OrderField, Part, ReadRequest, ReadResult, WindowQuery
from syncd.lake.removal_records import ListedObject
from syncd.settings import StreamSettings, TargetSettings
from syncd.tables.sort_order import RowIdentity
from tests.builders import NOON, ORDERS, RUN, at, make_increment, make_plan, make_process
from watermarks.batch import BatchDraft, BatchId, BatchKind, Plan, PlanBasis
from watermarks.cursor import START_CURSOR
from watermarks.document import Stage, Watermark
from watermarks.errors import HintedError, NotOwner, StateUnreadable
from watermarks.extraction import BatchChain
from watermarks.history import Fenced, Journal
from watermarks.lease import Claim, OtherOwner, ProcessLease
from watermarks.names import claim_key
from watermarks.stores.memory import MemoryStore
from watermarks.testing import ManualClock

if TYPE_CHECKING:
    from syncd.extract.planner import Planner

ID = ColumnMapping(
    column="id",
    name="id",
    select="`id`",
    travel=TransferType.INTEGER,
    parquet=ParquetType(physical=PhysicalType.INT64),
    redshift="BIGINT",
)
UPDATE_AT = replace(ID, column="update_at", name="update_at")
ORDERS_TABLE = SourceTable(database="shop", name="orders", kind="BASE TABLE", engine="InnoDB", columns=(), indexes=())


@dataclass
class ScriptedPlanning:
    """Windows up to these positions, one after another."""

    ends: Sequence[int]
    source: "Shop"
    probes: int = 0
    stands: bool = True
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def wait_reason(self) -> str:
        return "held by transaction 7"

    @property
    def complete_before(self) -> datetime | None:
        return None

    def propose(self, watermark: Watermark) -> BatchDraft | None:
        self.probes += 1
        end = next((end for end in self.ends if at(end, end) > watermark.required_extract_progress.cursor), None)
        if end is None:
            return None
        draft = make_increment(watermark.required_extract_progress.cursor, at(end, end), body=self.body)
        return replace(draft, basis=replace(draft.basis, schema=self.source.shown.fingerprint))

    def is_plan_current(self, plan: Plan) -> bool:
        return self.stands and plan.draft.basis.schema == self.source.shown.fingerprint

    def queries(self, plan: Plan, passages: Sequence[ColumnMapping]) -> tuple[WindowQuery, ...]:
        return tuple(WindowQuery(window=window, sql="SELECT 1") for window in plan.draft.windows)

    def order_fields(self, plan: Plan, passages: Sequence[ColumnMapping]) -> tuple[OrderField, ...]:
        return ()


@dataclass
class MemoryLake:
    """Parts as names, with the instant at which each was written."""

    clock: ManualClock
    kept: dict[str, datetime] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    """Keys of uploads that nobody has finished."""

    def abort_uploads(self, prefix: str, *, mine: Callable[[str], bool]) -> int:
        ended = [key for key in self.begun if key.startswith(prefix) and mine(key)]
        self.begun = [key for key in self.begun if key not in ended]
        return len(ended)

    def delete_objects(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.kept.pop(key, None)

    def list_objects(self, prefix: str) -> Sequence[ListedObject]:
        return [ListedObject(key=key, bytes=1, at=at) for key, at in self.kept.items() if key.startswith(prefix)]


@dataclass
class ScriptedReader:
    """Writes one part a window, and fails as often as told once it has written."""

    lake: MemoryLake
    failures: int = 0
    error: HintedError = field(default_factory=lambda: SourceDown("MySQL hung up"))
    meanwhile: Callable[[], None] = lambda: None
    prepared: list[bool] = field(default_factory=list)
    readings: list[ReadRequest] = field(default_factory=list)
    refused: bool = False
    """Whether each reading puts rows aside."""

    def prepare(self, *, little: bool) -> None:
        self.prepared.append(little)

    def read(self, reading: ReadRequest, *, tell: Callable[[int], None] = lambda _rows: None) -> ReadResult:
        parts = []
        self.readings.append(reading)
        for number, query in enumerate(reading.queries):
            assert query.window is not None
            key = f"{reading.part_prefix}{number:05d}.000-{reading.nonce}.parquet"
            self.lake.kept[key] = self.lake.clock.now()
            window = query.window
            parts.append(Part(key=key, etag="e", bytes=100, rows=10, sha256="s", low=window.high, high=window.high))
        aside = []
        if self.refused:
            key = f"{reading.quarantine_prefix}00000.000-{reading.nonce}.parquet"
            self.lake.kept[key] = self.lake.clock.now()
            aside.append(replace(parts[0], key=key))
        tell(10)
        self.meanwhile()
        if self.failures:
            self.failures -= 1
            raise self.error
        return ReadResult(parts=tuple(parts), quarantined_parts=tuple(aside), problem_counts={"zero_dates.null": 2})


@dataclass
class Shop:
    """The source, as far as it is asked."""

    shown: SourceTable = ORDERS_TABLE
    forgotten: Callable[[], None] = lambda: None
    identity: str = "server-1"

    def get_server_info(self) -> ServerInfo:
        return ServerInfo(identity=self.identity, version=(9, 7, 0), mariadb=False)

    def describe_table(self, database: str, name: str) -> SourceTable:
        return self.shown

    def show_create_table(self, database: str, name: str) -> str:
        raise NotImplementedError

    def find_overload(self) -> str | None:
        return None

    def fetch_rows(self, sql: str) -> Sequence[tuple[object, ...]]:
        raise NotImplementedError

    def discard_connections(self) -> None:
        self.forgotten()


class Bench:
    """One stream with everything around it."""

    def __init__(self, *ends: int, failures: int = 0) -> None:
        self.clock = ManualClock(NOON)
        self.store = MemoryStore()
        self.journal = Journal(self.store, Watermark, clock=self.clock)
        self.shop = Shop()
        self.planning = ScriptedPlanning(ends, self.shop)
        self.lake = MemoryLake(self.clock)
        self.reader = ScriptedReader(self.lake, failures=failures)
        self.events: list[StreamEvent] = []
        self.heard: Callable[[StreamEvent], None] = lambda _event: None
        self.settings = StreamSettings(source="shop", database="shop", table="orders", key=("id",))
        self.asked_for_owner = 0
        self.named: Callable[[HintedError], HintedError] = lambda error: error
        self.process = make_process(self.store, clock=self.clock)
        self.claiming = ClaimKeeper(ORDERS, Stage.EXTRACT, self.journal, clock=self.clock)
        self.nonces = iter(f"n{number}" for number in range(1000))

    def owner(self) -> ProcessLease:
        self.asked_for_owner += 1
        return self.process

    def hear(self, event: StreamEvent) -> None:
        self.events.append(event)
        self.heard(event)

    def once(self) -> ExtractOutcome:
        return self.run().execute(RUN)

    def producer(self) -> ExtractProducer:
        return ExtractProducer(
            stream=ORDERS,
            settings=self.settings,
            source=self.shop,
            planner=cast("Planner", self.planning),
            map_columns=lambda _table, _settings: (ID, UPDATE_AT),
            make_reader=lambda: self.reader,
            parts=self.lake,
            earlier_batches=EarlierBatches(
                read_link=BatchChain(self.journal, ORDERS).read_link, get_progress=lambda: self.state().extract_progress
            ),
            nonce=lambda: next(self.nonces),
            emit=self.hear,
        )

    def run(self, producer: PassProducer | None = None) -> ExtractPass:
        stage = StagePass(
            stream=ORDERS,
            get_process=self.owner,
            claim_keeper=self.claiming,
            clock=self.clock,
            emit=self.hear,
            explain_interruption=self.named,
        )
        return ExtractPass(stage, journal=self.journal, producer=producer or self.producer(), parts=self.lake)

    def given_back(self) -> bool:
        stored = self.store.read(claim_key(ORDERS, Stage.EXTRACT))
        assert stored is not None
        return Claim.from_bytes(stored.body, stream=ORDERS, stage=Stage.EXTRACT).is_released

    def state(self) -> Watermark:
        state = self.journal.read_newest(ORDERS.stem)
        assert state is not None
        return state

    def told(self, kind: type[StreamEvent]) -> list[StreamEvent]:
        return [event for event in self.events if isinstance(event, kind)]


def test_a_pass_extracts_until_nothing_is_due() -> None:
    bench = Bench(1, 2, 3)

    outcome = bench.once()

    assert (outcome.state, outcome.batches, outcome.rows, outcome.files, outcome.bytes) == (
        ExtractState.EXTRACTED,
        3,
        30,
        3,
        300,
    )
    assert (outcome.mark, bench.state().required_extract_progress.cursor) == (at(3, 3), at(3, 3))
    assert len(bench.told(BatchExtracted)) == 3
    assert outcome.wait_reason == "held by transaction 7"


def test_a_stream_with_nothing_to_do_is_left_as_it_is() -> None:
    bench = Bench()
    before = list(bench.store.list(""))

    outcome = bench.once()

    assert (outcome.state, bench.asked_for_owner) == (ExtractState.WAITING, 0)
    assert bench.reader.prepared == []
    assert list(bench.store.list("")) == before


def test_the_reader_gets_ready_as_soon_as_something_is_found() -> None:
    bench = Bench(1)

    bench.once()

    assert bench.reader.prepared == [True]


def test_the_reader_is_told_which_columns_say_what_row_it_is() -> None:
    bench = Bench(1)

    bench.once()

    assert {reading.identity_columns for reading in bench.reader.readings} == {frozenset({"id", "update_at"})}
    assert {reading.cursor for reading in bench.reader.readings} == {"update_at"}


def test_extraction_waits_while_too_many_batches_are_not_loaded() -> None:
    bench = Bench(1, 2, 3, 4)
    target = TargetSettings(warehouse="redshift", schema="public", table="orders")
    bench.settings = replace(bench.settings, target=target, max_pending=2)

    first = bench.once()
    probes = bench.planning.probes
    second = bench.once()

    assert (first.state, first.batches) == (ExtractState.EXTRACTED, 2)
    assert (second.state, second.batches, bench.planning.probes) == (ExtractState.WAITING, 0, probes)
    for outcome in (first, second):
        assert "2 batches or more wait to be loaded" in outcome.wait_reason
        assert wait_kind(outcome.wait_reason) is WaitKind.LOAD_BACKLOG
        assert "syncd run -t shop.orders --load-only" in outcome.wait_reason


def test_without_a_warehouse_nothing_bounds_what_is_extracted() -> None:
    bench = Bench(1, 2, 3)
    bench.settings = replace(bench.settings, max_pending=1)

    assert bench.once().batches == 3


def test_what_was_found_is_planned_without_another_probe() -> None:
    bench = Bench(1)

    bench.once()

    assert bench.planning.probes == 2  # one that found the batch, one that found nothing behind it


def test_a_look_says_what_would_be_read_and_writes_nothing() -> None:
    bench = Bench(1)
    before = list(bench.store.list(""))

    outcome = bench.run().preview()

    assert (outcome.state, bench.asked_for_owner) == (ExtractState.PLANNED, 0)
    assert outcome.preview is not None
    assert (outcome.preview["kind"], outcome.preview["already_planned"]) == ("increment", False)
    assert list(bench.store.list("")) == before


def test_the_claim_is_kept_from_pass_to_pass_and_given_back_at_the_end() -> None:
    bench = Bench(1, 2)

    assert bench.once().state is ExtractState.EXTRACTED
    bench.planning.ends = (1, 2, 3)
    assert bench.once().state is ExtractState.EXTRACTED

    assert bench.state().epochs[Stage.EXTRACT] == 1
    assert not bench.given_back()
    bench.claiming.release()
    assert bench.given_back()


def test_a_pass_that_fails_gives_the_claim_back() -> None:
    bench = Bench(1, failures=1)

    assert bench.once().state is ExtractState.FAILED

    assert bench.given_back()


def test_a_pass_with_nothing_to_do_writes_nothing_while_the_claim_is_kept() -> None:
    bench = Bench(1)
    bench.once()
    before = {key: bench.store.read(key) for key in bench.store.list("")}

    assert bench.once().state is ExtractState.WAITING

    assert {key: bench.store.read(key) for key in bench.store.list("")} == before


def test_a_claim_that_another_took_meanwhile_is_asked_for_anew() -> None:
    bench = Bench(1, 2)
    bench.run().execute(RUN)
    bench.planning.ends = (1, 2, 3)
    with bench.claiming.hold(bench.process) as held:
        bench.process.release(held)
    other = make_process(bench.store, "other", clock=bench.clock)
    taken = other.acquire(ORDERS, Stage.EXTRACT, bench.journal)

    lost = bench.once()
    refused = bench.once()
    other.release(taken)
    again = bench.once()

    assert isinstance(lost.error, Fenced)
    assert isinstance(refused.error, OtherOwner)
    assert (again.error, again.batches, bench.state().epochs[Stage.EXTRACT]) == (None, 1, 3)


def test_no_reader_gets_ready_for_what_another_owner_reads() -> None:
    bench = Bench(1, 2)
    other = make_process(bench.store, "other", clock=bench.clock)
    taken = other.acquire(ORDERS, Stage.EXTRACT, bench.journal)

    watched = [bench.once() for _ in range(3)]
    before = len(bench.reader.prepared)
    other.release(taken)
    done = [bench.once(), bench.once()]

    assert all(isinstance(one.error, OtherOwner) for one in watched)
    assert before == 1, "whose it is shows with the first claim"
    assert [one.batches for one in done] == [2, 0]


def test_a_failure_is_told_noted_and_tried_again_with_more_patience() -> None:
    bench = Bench(1, failures=2)

    first, second = bench.once(), bench.once()

    assert isinstance(first.error, SourceDown)
    assert isinstance(second.error, SourceDown)
    failure = bench.state().failures[Stage.EXTRACT]
    assert (failure.attempt, failure.message) == (2, "MySQL hung up")
    assert failure.retry_at is not None
    assert failure.retry_at - failure.failed_at == timedelta(seconds=20)
    assert len(bench.told(StreamFailed)) == 2
    assert bench.once().state is ExtractState.EXTRACTED
    assert not bench.state().failures


def test_a_bug_fails_its_own_stream_and_is_noted_without_the_values_it_speaks_of() -> None:
    bench = Bench(1)

    def stumble() -> None:
        raise KeyError("a value of some row")

    bench.reader.meanwhile = stumble
    outcome = bench.once()

    assert isinstance(outcome.error, InternalError)
    assert re.fullmatch(r"a bug in syncd: KeyError at test_extract_pass\.py:\d+", outcome.error.message)
    assert isinstance(outcome.error.__cause__, KeyError)
    assert "--debug" in outcome.error.hint
    assert bench.state().failures[Stage.EXTRACT].message == outcome.error.message
    assert (outcome.mark, len(bench.told(StreamFailed))) == (START_CURSOR, 1)


@pytest.mark.parametrize("overran", [False, True])
@pytest.mark.parametrize(
    ("met", "is_its_end"), [(SourceDown("the line was cut"), True), (SchemaDrift("another table"), False)]
)
def test_a_pass_that_was_ended_has_failed_only_by_its_length_or_by_what_no_end_looks_like(
    met: HintedError, *, is_its_end: bool, overran: bool
) -> None:
    bench, now = Bench(1), RunningPass("extract of orders")
    bench.named = now.attribute_error

    def end() -> None:
        now.end("so it is", overran=overran)
        raise met

    bench.reader.meanwhile = end
    outcome = bench.once()

    assert isinstance(outcome.error, PassStopped if is_its_end else SchemaDrift)
    assert bool(bench.state().failures) == (overran or not is_its_end)
    assert bench.given_back()


def test_a_bug_before_there_is_a_claim_is_an_outcome_too(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(1)

    def stumble(_watermark: Watermark) -> BatchDraft | None:
        raise ZeroDivisionError

    monkeypatch.setattr(bench.planning, "propose", stumble)

    assert isinstance(bench.once().error, InternalError)
    assert isinstance(bench.run().preview().error, InternalError)


def test_an_interrupt_ends_the_run_and_the_claim_can_be_given_back() -> None:
    bench = Bench(1)

    def interrupt() -> None:
        raise KeyboardInterrupt

    bench.reader.meanwhile = interrupt

    with pytest.raises(KeyboardInterrupt):
        bench.once()
    bench.claiming.release()
    assert bench.given_back()
    assert not bench.state().failures


def test_a_batch_that_was_left_behind_is_finished_and_its_orphans_go_with_it() -> None:
    bench = Bench(1, 2, failures=1)
    bench.once()
    (orphan,) = bench.lake.kept

    bench.once()

    assert orphan not in bench.lake.kept
    assert bench.told(OrphansRemoved) == [OrphansRemoved(stream=ORDERS, files=1)]
    chain = BatchChain(bench.journal, ORDERS)
    named = {key for seq in (1, 2) for key in chain.require_link(BatchId(1, seq)).files}
    assert named == set(bench.lake.kept)


def test_a_clean_run_lists_nothing() -> None:
    bench = Bench(1, 2)
    bench.lake.list_objects = None  # type: ignore[assignment,method-assign]  # whoever lists, fails

    assert bench.once().state is ExtractState.EXTRACTED


def named(bench: Bench) -> set[str]:
    """Every file that a link names."""
    chain = BatchChain(bench.journal, ORDERS)
    links = [chain.require_link(BatchId(1, seq)) for seq in range(1, bench.state().required_extract_progress.seq + 1)]
    return {
        key
        for link in links
        for key in (*link.files, *(part.key for part in Manifest.from_link(link).quarantined_parts))
    }


def fail_in_batch(bench: Bench, seq: int) -> None:
    """Let the reader fail whenever this batch is read."""

    def fail() -> None:
        if any(f"/1-{seq}/" in key for key in bench.lake.kept):
            raise SourceDown("cut again")

    bench.reader.meanwhile = fail


def test_orphans_go_with_their_own_batch_whatever_comes_of_the_next() -> None:
    bench = Bench(1, 2, 3, failures=1)
    bench.once()
    (orphan,) = bench.lake.kept
    fail_in_batch(bench, 2)

    outcome = bench.once()

    assert (outcome.state, outcome.batches) == (ExtractState.FAILED, 1)
    assert orphan not in bench.lake.kept
    assert bench.told(OrphansRemoved) == [OrphansRemoved(stream=ORDERS, files=1)]


@pytest.mark.parametrize("error", [LakeDown("no answer"), KeyboardInterrupt()])
def test_a_pass_that_ended_before_it_swept_leaves_it_to_the_next(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(1, failures=1)
    bench.once()
    (orphan,) = bench.lake.kept

    def end(_prefix: str) -> Sequence[tuple[str, datetime]]:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(bench.lake, "list_objects", end)
        with suppress(KeyboardInterrupt):
            bench.once()
    assert (bench.state().required_extract_progress.seq, orphan in bench.lake.kept) == (1, True)
    bench.planning.ends = (1, 2)
    bench.once()

    assert set(bench.lake.kept) == named(bench)


def test_uploads_that_an_earlier_attempt_never_finished_are_given_up() -> None:
    bench = Bench(1, 2, failures=1)
    bench.once()
    begun = "data/shop/shop.orders/2026/01/31/1-1/00003.000-dead.parquet"
    aside = "quarantine/shop/shop.orders/1-1/00003.000-dead.parquet"
    of_the_loader = "data/shop/shop.orders/2026/01/31/1-1/amended-1-abc.parquet"
    of_another = "data/shop/shop.orders/2026/01/31/1-2/00003.000-dead.parquet"
    bench.lake.begun = [begun, aside, of_the_loader, of_another]

    bench.once()

    assert bench.lake.begun == [of_the_loader, of_another]


def test_who_lost_a_race_takes_all_its_files_away_those_put_aside_too() -> None:
    bench = Bench(1)
    bench.reader.refused = True
    slow = bench.process

    def overtake() -> None:
        bench.reader.meanwhile = lambda: None
        written = dict(bench.lake.kept)
        slow.release(slow.acquire(ORDERS, Stage.EXTRACT, bench.journal))
        bench.process = make_process(bench.store, "p2", clock=bench.clock)
        assert bench.once().state is ExtractState.EXTRACTED
        bench.lake.kept |= written  # as if they had been written only now

    bench.reader.meanwhile = overtake
    outcome = bench.once()

    assert isinstance(outcome.error, NotOwner)
    assert set(bench.lake.kept) == named(bench)


def test_who_lost_a_race_with_nothing_but_refused_rows_leaves_none_of_them() -> None:
    bench = Bench(1)
    slow = bench.process
    left = "quarantine/shop/shop.orders/1-1/00000.000-late.parquet"

    def overtake() -> None:
        bench.reader.meanwhile = lambda: None
        slow.release(slow.acquire(ORDERS, Stage.EXTRACT, bench.journal))
        bench.process = make_process(bench.store, "p2", clock=bench.clock)
        assert bench.once().state is ExtractState.EXTRACTED
        bench.lake.kept[left] = NOON

    bench.reader.meanwhile = overtake

    assert isinstance(bench.once().error, NotOwner)
    assert set(bench.lake.kept) == named(bench)


def test_a_right_that_only_uploads_need_stops_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(1, failures=1)
    bench.once()

    def refuse(_prefix: str, *, mine: Callable[[str], bool]) -> int:
        raise LakeUnfit("403 AccessDenied")

    monkeypatch.setattr(bench.lake, "abort_uploads", refuse)

    assert bench.once().state is ExtractState.EXTRACTED
    assert set(bench.lake.kept) == named(bench)


def test_parts_of_a_number_without_a_link_are_never_swept() -> None:
    bench = Bench(1, failures=3)
    for _ in range(2):
        bench.once()
        bench.clock.advance(10**6)

    assert bench.once().state is ExtractState.FAILED
    assert len(bench.lake.kept) == 3


def test_a_plan_whose_world_is_gone_is_abandoned_and_made_anew() -> None:
    bench = Bench(1, failures=1)
    bench.once()
    bench.planning.stands = False

    def stand_again(event: StreamEvent) -> None:
        bench.planning.stands = bench.planning.stands or isinstance(event, BatchAbandoned)

    bench.heard = stand_again
    outcome = bench.once()

    assert (outcome.batches, outcome.rows, len(bench.told(BatchAbandoned))) == (2, 10, 1)


def test_a_replay_that_was_planned_and_left_is_given_up_and_nothing_of_it_is_read() -> None:
    """Its rows wait in quarantine for the next one."""
    bench = Bench(1, 2)
    bench.planning.ends = (1,)
    bench.once()
    mark = bench.state().required_extract_progress
    world = PlanBasis(mark=mark.cursor, source_identity="server-1", schema=bench.shop.shown.fingerprint)
    replay = BatchDraft(kind=BatchKind.REPLAY, basis=world, high=mark.cursor, origin=mark.last_batch)
    BatchChain(bench.journal, ORDERS).create_plan(make_plan(str(mark.next_batch), replay))
    bench.planning.ends = (1, 2)

    outcome = bench.once()

    assert (outcome.batches, outcome.rows, len(bench.told(BatchAbandoned))) == (2, 10, 1)


ALTERED_TABLE = replace(ORDERS_TABLE, columns=(SourceColumn(name="id", data_type="bigint", column_type="bigint"),))


def test_a_table_altered_while_it_is_read_is_planned_anew_at_once() -> None:
    bench = Bench(1)
    bench.reader.meanwhile = lambda: setattr(bench.shop, "shown", ALTERED_TABLE)

    outcome = bench.once()

    assert outcome.error is None
    assert (outcome.batches, outcome.rows, len(bench.told(BatchAbandoned))) == (2, 10, 1)
    assert len(bench.lake.kept) == 1, "what was read of the table as it was is dropped"


def test_a_read_that_fails_because_the_table_was_altered_is_no_failure() -> None:
    bench = Bench(1, failures=1)
    bench.reader.error = SchemaDrift("no column v")
    bench.reader.meanwhile = lambda: setattr(bench.shop, "shown", ALTERED_TABLE)

    assert bench.once().error is None

    bench = Bench(1, failures=1)
    bench.reader.error = SchemaDrift("no column v")
    assert isinstance(bench.once().error, SchemaDrift)


def test_a_table_that_is_altered_all_the_time_stops_its_stream() -> None:
    bench = Bench(1)

    def alter() -> None:
        bench.shop.shown = ORDERS_TABLE if bench.shop.shown is ALTERED_TABLE else ALTERED_TABLE

    bench.reader.meanwhile = alter

    outcome = bench.once()

    assert isinstance(outcome.error, TableAltered)
    assert outcome.mark == START_CURSOR


def test_a_stage_that_was_taken_over_writes_nothing_more() -> None:
    bench = Bench(1)

    def take_over() -> None:
        bench.process.release(bench.process.acquire(ORDERS, Stage.EXTRACT, bench.journal))
        make_process(bench.store, "p2", clock=bench.clock).acquire(ORDERS, Stage.EXTRACT, bench.journal)

    bench.reader.meanwhile = take_over
    outcome = bench.once()

    assert isinstance(outcome.error, NotOwner)
    assert bench.state().required_extract_progress.seq == 0
    assert not bench.state().failures


def test_the_manifest_says_of_each_part_what_the_loader_needs() -> None:
    bench = Bench(1)
    bench.once()

    link = BatchChain(bench.journal, ORDERS).require_link(BatchId(1, 1))
    manifest = Manifest.from_link(link)

    assert manifest.columns == (ID, UPDATE_AT)
    assert manifest.identity == RowIdentity(key=("id",), cursor="update_at")
    assert [str(window) for window in manifest.windows] == [f"({START_CURSOR}, {at(1, 1)}]"]
    assert [(part.key, part.etag, part.bytes, part.rows) for part in manifest.parts] == [
        ("data/shop/shop.orders/2026/01/31/1-1/00000.000-n0.parquet", "e", 100, 10)
    ]
    assert manifest.problem_counts == {"zero_dates.null": 2}
    assert manifest.schema == ORDERS_TABLE.fingerprint


def test_a_manifest_that_contradicts_its_link_is_refused() -> None:
    bench = Bench(1)
    bench.once()
    link = BatchChain(bench.journal, ORDERS).require_link(BatchId(1, 1))

    for broken in (replace(link, rows=11), replace(link, body={})):
        with pytest.raises(StateUnreadable):
            Manifest.from_link(broken)


def test_a_reading_that_met_another_server_has_all_asked_anew_and_is_planned_anew() -> None:
    """What waits may be at a server that the address does not lead to any more: asked there, a plan holds for ever."""
    bench = Bench(1, failures=1)
    bench.reader.error = SourceReplaced("not the server that the plan was made for")
    bench.shop.forgotten = lambda: setattr(bench.planning, "stands", False)
    bench.heard = lambda event: setattr(
        bench.planning, "stands", bench.planning.stands or isinstance(event, BatchAbandoned)
    )

    outcome = bench.once()

    assert outcome.error is None
    assert (outcome.batches, outcome.rows, len(bench.told(BatchAbandoned))) == (2, 10, 1)


def test_two_servers_that_take_turns_stop_a_stream_for_a_while() -> None:
    bench = Bench(1)
    bench.reader.failures, bench.reader.error = 9, ServerChanged("another server answers than before")

    outcome = bench.once()

    assert isinstance(outcome.error, ServerChanged)
    assert exit_code_for(outcome.error) is ExitCode.SOURCE
    assert outcome.mark == START_CURSOR


def test_an_address_that_leads_to_several_servers_is_for_a_person() -> None:
    bench = Bench(1, failures=1)
    bench.reader.error = SourceReplaced("not the server that the plan was made for")
    asked_anew = list[bool]()
    bench.shop.forgotten = lambda: asked_anew.append(True)

    outcome = bench.once()

    assert isinstance(outcome.error, SourceReplaced)
    assert asked_anew == [True]


@pytest.mark.parametrize("lands", [True, False])
def test_another_table_is_told_by_the_extraction_where_nothing_lands(*, lands: bool) -> None:
    """Else whoever moves the loaded mark tells it."""
    bench = Bench(1, 2, 3)
    bench.planning.body = {"made": {"remade": "1-2"}}
    if lands:
        target = TargetSettings(warehouse="redshift", schema="public", table="orders")
        bench.settings = replace(bench.settings, target=target)

    bench.once()

    told = [str(event.since) for event in bench.told(TableReplaced) if isinstance(event, TableReplaced)]
    assert told == ([] if lands else ["1-2"])
