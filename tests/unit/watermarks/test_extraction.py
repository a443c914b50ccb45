from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from tests.builders import NOON, ORDERS, RUN, Script, a_chunk, at, extract, hold, make_plan, make_process, upto
from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchLink, BatchOutput, ChainBroken, Plan, PlanBasis
from watermarks.batch_states import BatchState
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.document import FailureRecord, Stage, Watermark
from watermarks.errors import OutcomeUnknown
from watermarks.extraction import NOTHING_EXTRACTED, BatchChain, Extraction
from watermarks.history import ChangeKind, Fenced, Journal, StateMissing
from watermarks.lease import HeldClaim, ProcessLease
from watermarks.names import link_key, plan_key
from watermarks.operator import Operator
from watermarks.progress import Run
from watermarks.store import Store
from watermarks.stores.memory import MemoryStore
from watermarks.testing import FaultyStore, ManualClock, StoreFault, StoreOperation, script_faults

FIRST = BatchId(1, 1)
Propose = Callable[[Watermark], BatchDraft]


@dataclass
class Lake:
    """A store with one process that holds the extract stage."""

    store: Store = field(default_factory=MemoryStore)
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.journal = Journal(self.store, Watermark, clock=self.clock)
        self.process = make_process(self.store, clock=self.clock)
        self.held = hold(self.process, self.journal)
        self.chain = BatchChain(self.journal, ORDERS)

    def extraction(self, script: Script, held: HeldClaim | None = None) -> Extraction:
        return Extraction(self.journal, held or self.held, script)

    def state(self) -> Watermark:
        state = self.journal.read_newest(ORDERS.stem)
        assert state
        return state

    def taken_over(self) -> tuple[ProcessLease, HeldClaim]:
        self.process.release(self.held)
        other = make_process(self.store, "p2", clock=self.clock)
        return other, hold(other, self.journal)


def test_a_turn_leaves_plan_link_entry_and_mark() -> None:
    lake = Lake()
    script = Script(drafts=[upto(at(1, 7))])

    turn = lake.extraction(script).extract_next_batch(RUN)

    plan, link = lake.chain.read_plan(FIRST), lake.chain.read_link(FIRST)
    assert plan
    assert link
    assert (turn.state, turn.link) == (BatchState.DONE, link)
    assert (link.plan, link.previous, link.rows, link.epoch) == (plan.digest, None, 3, 1)
    assert (lake.state().required_extract_progress.cursor, lake.state().required_extract_progress.last_batch) == (
        at(1, 7),
        FIRST,
    )
    assert lake.state().required_extract_progress.last_link_digest == link.digest
    entry = lake.journal.read_entry(ORDERS.stem, 2)
    assert entry
    assert (entry.note.change, entry.note.author, entry.note.epoch) == (ChangeKind.EXTRACT, "p1", 1)


def test_links_name_the_link_before_them() -> None:
    lake = Lake()

    extract(lake.journal, lake.held, at(1, 1), at(2, 2), at(3, 3))

    links = [lake.chain.require_link(BatchId(1, seq)) for seq in (1, 2, 3)]
    assert [link.previous for link in links] == [None, links[0].digest, links[1].digest]


def test_nothing_to_propose_writes_nothing() -> None:
    lake = Lake()
    before = list(lake.store.list(""))

    assert lake.extraction(Script()).extract_next_batch(RUN) is NOTHING_EXTRACTED
    assert list(lake.store.list("")) == before


def test_a_window_without_rows_is_a_link_without_files() -> None:
    lake = Lake()

    turn = lake.extraction(Script(drafts=[upto(at(1, 1))], rows=0)).extract_next_batch(RUN)

    assert turn.state is BatchState.NOOP
    assert lake.state().required_extract_progress.cursor == at(1, 1)


def kill_at(verb: StoreOperation, key: str) -> Callable[[Lake], Store]:
    return lambda lake: FaultyStore(
        lake.store, script_faults(verb, key, StoreFault.LOST_REQUEST, *[StoreFault.LOST_REQUEST] * 9)
    )


@pytest.mark.parametrize(
    ("verb", "key", "plans"),
    [
        (StoreOperation.CREATE, plan_key(ORDERS, FIRST), 2),
        (StoreOperation.CREATE, link_key(ORDERS, FIRST), 1),
        (StoreOperation.CREATE, f"history/{ORDERS.stem}/2.json", 1),
    ],
)
def test_a_turn_killed_anywhere_is_finished_by_the_next(verb: StoreOperation, key: str, plans: int) -> None:
    lake = Lake()
    script = Script(drafts=[upto(at(1, 1)), upto(at(2, 2))])
    line = kill_at(verb, key)(lake)
    with pytest.raises(OutcomeUnknown):
        Extraction(Journal(line, Watermark), lake.held, script).extract_next_batch(RUN)
    assert lake.state().required_extract_progress.seq == 0

    turn = lake.extraction(script).extract_next_batch(RUN)

    assert turn.state is BatchState.DONE
    assert script.proposed == plans
    assert lake.state().required_extract_progress.seq == 1
    assert lake.state().required_extract_progress.counts.rows == 3


def test_a_plan_that_is_there_is_carried_out_and_not_made_again() -> None:
    lake = Lake()
    lake.chain.create_plan(make_plan(draft=upto(at(5, 5))(lake.state())))
    script = Script(drafts=[upto(at(1, 1))])

    lake.extraction(script).extract_next_batch(RUN)

    assert script.proposed == 0
    assert lake.state().required_extract_progress.cursor == at(5, 5)


def test_a_link_that_is_there_is_adopted_without_reading_the_source() -> None:
    lake = Lake()
    plan = lake.chain.create_plan(make_plan(draft=upto(at(5, 5))(lake.state())))
    filled = BatchOutput(rows=8, files=("data/x.parquet",))
    link = lake.chain.create_link(
        BatchLink.from_completed_plan(plan, filled, previous=None, nonce="other", epoch=1, made_at=NOON)
    )
    script = Script(drafts=[upto(at(1, 1))])

    turn = lake.extraction(script).extract_next_batch(RUN)

    assert turn.link == link
    assert script.filled == []
    assert lake.state().required_extract_progress.counts.rows == 8


def test_who_comes_second_at_a_link_drops_its_own_files_only() -> None:
    lake = Lake()
    theirs = ("data/theirs.parquet", "data/1-1/0-1.parquet")

    @dataclass
    class Overtaken(Script):
        def write_files(self, plan: Plan) -> BatchOutput:
            filled = super().write_files(plan)
            other = BatchOutput(rows=8, files=theirs)
            lake.chain.create_link(
                BatchLink.from_completed_plan(plan, other, previous=None, nonce="other", epoch=1, made_at=NOON)
            )
            return replace(filled, files=(*filled.files, "data/mine.parquet"))

    script = Overtaken(drafts=[upto(at(1, 1))])

    turn = lake.extraction(script).extract_next_batch(RUN)

    assert turn.link is not None
    assert turn.link.files == theirs
    assert script.dropped == ["data/mine.parquet"]


def test_a_plan_whose_world_is_gone_is_abandoned_and_planned_anew() -> None:
    lake = Lake()
    lake.chain.create_plan(make_plan(draft=upto(at(5, 5))(lake.state())))
    script = Script(drafts=[lambda state: _at_home(state, "server-2")], identity="server-2")
    extraction = lake.extraction(script)

    abandoned, done = extraction.extract_next_batch(RUN), extraction.extract_next_batch(RUN)

    assert (abandoned.state, done.state) == (BatchState.ABANDONED, BatchState.DONE)
    link = lake.chain.require_link(FIRST)
    assert (link.kind, link.files, link.high) == (BatchKind.ABANDONED, (), START_CURSOR)
    assert lake.chain.require_link(BatchId(1, 2)).previous == link.digest
    entries = [lake.journal.read_entry(ORDERS.stem, revision) for revision in (2, 3)]
    assert [entry.note.change for entry in entries if entry] == [ChangeKind.ABANDON, ChangeKind.EXTRACT]
    assert (lake.state().required_extract_progress.seq, lake.state().required_extract_progress.cursor) == (2, at(1, 1))


def _at_home(state: Watermark, identity: str) -> BatchDraft:
    draft = upto(at(1, 1))(state)
    return replace(draft, basis=replace(draft.basis, source_identity=identity))


def test_a_plan_made_for_another_mark_is_abandoned() -> None:
    lake = Lake()
    world = PlanBasis(mark=at(9), source_identity="server-1", schema="s1")
    lake.chain.create_plan(make_plan(draft=BatchDraft(kind=BatchKind.REPAIR, basis=world, high=at(9))))

    turn = lake.extraction(Script()).extract_next_batch(RUN)

    assert turn.state is BatchState.ABANDONED
    assert lake.state().required_extract_progress.cursor == START_CURSOR


def test_abandonment_and_link_exclude_each_other() -> None:
    lake = Lake()
    plan = lake.chain.create_plan(make_plan(draft=upto(at(5, 5))(lake.state())))

    abandoned = lake.chain.create_link(
        BatchLink.from_abandoned_plan(plan, "gone", mark=START_CURSOR, nonce="a", previous=None, epoch=1, made_at=NOON)
    )
    late = lake.chain.create_link(
        BatchLink.from_completed_plan(
            plan, BatchOutput(rows=1, files=("x",)), nonce="b", previous=None, epoch=1, made_at=NOON
        )
    )

    assert late == abandoned


def test_the_first_pass_moves_the_cursor_with_its_last_chunk_only() -> None:
    lake = Lake()
    horizon = Cursor.from_values(NOON)
    script = Script(drafts=[a_chunk(10, horizon=horizon), a_chunk(20, horizon=horizon, done=True)])
    extraction = lake.extraction(script)

    extraction.extract_next_batch(RUN)
    halfway = lake.state().required_extract_progress
    extraction.extract_next_batch(RUN)

    assert (halfway.cursor, halfway.seq) == (START_CURSOR, 1)
    assert halfway.snapshot is not None
    assert halfway.snapshot.reached_key == Cursor.from_values(10)
    assert lake.state().required_extract_progress.cursor == horizon


def test_the_horizon_of_the_first_pass_is_fixed_once() -> None:
    lake = Lake()
    script = Script(drafts=[a_chunk(10, horizon=at(0)), a_chunk(20, horizon=at(1), done=True)])
    extraction = lake.extraction(script)
    extraction.extract_next_batch(RUN)

    with pytest.raises(Exception, match="its snapshot has"):
        extraction.extract_next_batch(RUN)

    assert lake.state().required_extract_progress.seq == 1


def test_a_stage_that_was_taken_over_writes_nothing_more() -> None:
    lake = Lake()
    script = Script(drafts=[upto(at(1, 1)), upto(at(1, 1))])
    zombie = lake.extraction(script)
    lake.taken_over()

    with pytest.raises(Fenced):
        zombie.extract_next_batch(RUN)

    assert lake.state().required_extract_progress.seq == 0


def test_a_zombie_that_wakes_before_its_entry_moves_nothing() -> None:
    lake = Lake()
    taken: list[HeldClaim] = []

    @dataclass
    class Slow(Script):
        def write_files(self, plan: Plan) -> BatchOutput:
            taken.append(lake.taken_over()[1])
            return super().write_files(plan)

    with pytest.raises(Fenced):
        lake.extraction(Slow(drafts=[upto(at(1, 1))])).extract_next_batch(RUN)
    assert lake.state().required_extract_progress.seq == 0

    turn = lake.extraction(Script(), taken[0]).extract_next_batch(RUN)

    assert turn.state is BatchState.DONE
    assert lake.state().required_extract_progress.seq == 1


def test_a_reset_during_a_turn_wins_and_the_batch_is_left_behind() -> None:
    lake = Lake()

    @dataclass
    class Interrupted(Script):
        def write_files(self, plan: Plan) -> BatchOutput:
            Operator(journal=lake.journal, author="ann", reason="again").reset_marks(ORDERS, reset_load=False)
            return super().write_files(plan)

    lake.extraction(Interrupted(drafts=[upto(at(1, 1))])).extract_next_batch(RUN)

    half = lake.state().required_extract_progress
    assert (half.generation, half.seq, half.cursor, half.closed_generations) == (2, 0, START_CURSOR, {1: 0})
    assert not half.has_batch(FIRST)


def test_a_link_that_does_not_follow_is_refused() -> None:
    lake = Lake()
    plan = lake.chain.create_plan(make_plan(draft=upto(at(5, 5))(lake.state())))
    lake.chain.create_link(
        BatchLink.from_completed_plan(
            plan, BatchOutput(rows=0, files=()), previous="sha256:other", nonce="x", epoch=1, made_at=NOON
        )
    )

    with pytest.raises(ChainBroken):
        lake.extraction(Script()).extract_next_batch(RUN)

    assert lake.state().required_extract_progress.seq == 0


def test_a_failure_is_an_entry_and_counts_attempts() -> None:
    lake = Lake()
    extraction = lake.extraction(Script(drafts=[upto(at(1, 1))]))

    for _ in range(3):
        extraction.record_failure(
            "source is down",
            make_failure=lambda n: FailureRecord(message="down", attempt=n, failed_at=NOON, retry_at=None),
        )

    state = lake.state()
    assert state.failures[Stage.EXTRACT].attempt == 3
    assert state.required_extract_progress.cursor == START_CURSOR
    extraction.extract_next_batch(RUN)
    assert Stage.EXTRACT not in lake.state().failures


def test_counts_of_a_run_begin_anew_and_those_of_the_life_go_on() -> None:
    lake = Lake()
    script = Script(drafts=[upto(at(1, 1)), upto(at(2, 2)), upto(at(3, 3))])
    extraction = lake.extraction(script)
    for run in ("r1", "r1", "r2"):
        extraction.extract_next_batch(Run(id=run, seconds=0.5))

    tally = lake.state().required_extract_progress.counts
    assert (tally.run, tally.run_rows, tally.rows, tally.batches, tally.milliseconds) == ("r2", 3, 9, 3, 1500)


def test_the_time_that_a_turn_takes_is_counted() -> None:
    lake = Lake()

    class Slow(Script):
        def write_files(self, plan: Plan) -> BatchOutput:
            lake.clock.advance(2.0)
            return super().write_files(plan)

    lake.extraction(Slow(drafts=[upto(at(1, 1))])).extract_next_batch(Run(id="r1", seconds=0.5))

    assert lake.state().required_extract_progress.counts.milliseconds == 2500


def test_a_link_that_is_gone_is_named() -> None:
    lake = Lake()
    extract(lake.journal, lake.held, at(1, 1))

    with pytest.raises(StateMissing, match="is a link of the chain"):
        lake.chain.require_link(BatchId(1, 2))


def test_a_replay_of_a_replay_ranks_by_the_first_reading() -> None:
    lake = Lake()
    extract(lake.journal, lake.held, at(1, 1))

    def replay(of: BatchId) -> Callable[[Watermark], BatchDraft]:
        def draft(state: Watermark) -> BatchDraft:
            world = PlanBasis(mark=state.required_extract_progress.cursor, source_identity="server-1", schema="s1")
            return BatchDraft(
                kind=BatchKind.REPLAY, basis=world, high=world.mark, origin=lake.chain.require_link(of).rank
            )

        return draft

    extraction = lake.extraction(Script(drafts=[replay(BatchId(1, 1)), replay(BatchId(1, 2))]))
    extraction.extract_next_batch(RUN)
    extraction.extract_next_batch(RUN)

    assert lake.chain.require_link(BatchId(1, 3)).rank == FIRST


def test_a_stage_held_without_a_watermark_is_named() -> None:
    lake = Lake()
    held = replace(lake.held, stream=type(ORDERS)(source="shop", database="shop", table="other"))

    with pytest.raises(StateMissing, match="has no watermark"):
        lake.extraction(Script(), held).extract_next_batch(RUN)


def proven(high: Cursor, *, so: bool) -> Callable[[Watermark], BatchDraft]:
    return lambda state: replace(upto(high)(state), proven=so)


def still(kind: BatchKind) -> Callable[[Watermark], BatchDraft]:
    def draft(state: Watermark) -> BatchDraft:
        world = PlanBasis(mark=state.required_extract_progress.cursor, source_identity="server-1", schema="s1")
        return BatchDraft(kind=kind, basis=world, high=world.mark)

    return draft


@pytest.mark.parametrize(
    ("drafts", "expected"),
    [
        ([proven(at(1, 1), so=True)], [True]),
        ([proven(at(1, 1), so=True), proven(at(2, 2), so=False), proven(at(3, 3), so=True)], [True, False, False]),
        ([proven(at(1, 1), so=True), still(BatchKind.AHEAD), still(BatchKind.REPAIR)], [True, True, True]),
        ([still(BatchKind.REPAIR), proven(at(1, 1), so=True)], [False, True]),
    ],
)
def test_a_mark_is_proven_when_all_below_it_is(
    drafts: list[Callable[[Watermark], BatchDraft]], expected: list[bool]
) -> None:
    lake = Lake()
    extraction = lake.extraction(Script(drafts=list(drafts)))

    found: list[bool] = []
    for _ in drafts:
        extraction.extract_next_batch(RUN)
        found.append(lake.state().required_extract_progress.proven)

    assert found == expected


def test_an_abandoned_plan_does_not_say_which_server_was_read() -> None:
    lake = Lake()
    extract(lake.journal, lake.held, at(1, 1))
    draft = _at_home(lake.state(), "server-2")
    lake.chain.create_plan(
        make_plan("1-2", replace(draft, basis=replace(draft.basis, mark=at(1, 1)), windows=(), kind=BatchKind.REPAIR))
    )

    lake.extraction(Script(identity="server-3")).extract_next_batch(RUN)

    assert lake.state().required_extract_progress.source_identity == "server-1"
