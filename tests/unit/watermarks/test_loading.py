from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

import pytest

from tests.builders import NOON, ORDERS, RUN, Script, at, extract, hold, make_process
from watermarks.batch import BatchDraft, BatchId, BatchKind, ChainBroken, PlanBasis
from watermarks.document import FailureRecord, Stage, StageStatus, Watermark
from watermarks.errors import OutcomeUnknown
from watermarks.extraction import Extraction
from watermarks.history import ChangeKind, Fenced, Journal, StateMissing
from watermarks.loading import (
    NOTHING_LOADED,
    BatchLoadResult,
    FenceAhead,
    FenceLost,
    LedgerKey,
    LoadCycle,
    Loading,
    require_fence,
)
from watermarks.names import link_key
from watermarks.operator import Operator
from watermarks.progress import Run
from watermarks.stores.memory import MemoryStore
from watermarks.testing import ManualClock

SECOND = ORDERS.with_target("wh2")
ALL = 1000


@dataclass
class Ledger:
    """A target that keeps its ledger, and its fence, in memory."""

    rows: dict[LedgerKey, int] = field(default_factory=dict)
    fence: int = 0
    order: list[str] = field(default_factory=list)
    cycles: int = 0
    lose_answers: int = 0
    most: int = 1000
    """So many batches it lands in one transaction."""
    refuses: dict[str, int] = field(default_factory=dict)
    """How many rows of a batch it does not take."""

    def load(self, cycle: LoadCycle) -> Mapping[BatchId, BatchLoadResult]:
        if require_fence(self.fence, cycle.epoch, was_raised=cycle.is_fenced):
            self.fence = cycle.epoch
        self.cycles += 1
        links = tuple(islice(cycle.links_to_load(self.rows), self.most))
        for link in links:
            self.order.append(str(link.id))
            self.rows[cycle.ledger_key(link.id)] = link.rows - self.refuses.get(str(link.id), 0)
        if self.lose_answers:
            self.lose_answers -= 1
            raise OutcomeUnknown("no answer to commit")
        held = ((link, self.rows.get(cycle.ledger_key(link.id))) for link in (*cycle.due_links, *links))
        return {
            link.id: BatchLoadResult(rows=rows, refused_rows=link.rows - rows)
            for link, rows in held
            if rows is not None
        }


@dataclass
class Lake:
    """A stream with extracted batches, and a process that holds its load stage."""

    batches: int = 3
    target: str = ""
    store: MemoryStore = field(default_factory=MemoryStore)
    ledger: Ledger = field(default_factory=Ledger)

    def __post_init__(self) -> None:
        self.journal = Journal(self.store, Watermark, clock=ManualClock())
        self.stream = ORDERS.with_target(self.target)
        self.process = make_process(self.store)
        self.extracts = hold(self.process, self.journal)
        self.extraction(*range(1, self.batches + 1))
        self.held = hold(self.process, self.journal, Stage.LOAD, self.stream)
        self.landing = Loading(self.journal, self.held, lambda: self.ledger)
        self.person = Operator(journal=self.journal, author="ann", reason="a test")

    def extraction(self, *seconds: int) -> None:
        extract(self.journal, self.extracts, *(at(second, second) for second in seconds))

    def turn(self, *, most: int = ALL, compare: bool = False) -> Watermark | None:
        return self.landing.load_next_batches(RUN, max_batches=most, check_ledger=compare).watermark

    def state(self) -> Watermark:
        state = self.journal.read_newest(self.stream.stem)
        assert state
        return state


@pytest.mark.parametrize("target", ["", "wh2"])
def test_what_is_due_lands_in_order_and_then_the_mark_moves(target: str) -> None:
    lake = Lake(target=target)

    lake.turn()

    half = lake.state().load_progress
    assert lake.ledger.order == ["1-1", "1-2", "1-3"]
    assert (half.last_batch, half.cursor, half.file_count) == (BatchId(1, 3), at(3, 3), 3)
    assert (half.counts.rows, half.counts.batches) == (9, 3)
    assert lake.state().stage_status(Stage.LOAD) is StageStatus.SUCCESS


def test_a_cycle_takes_as_many_batches_as_it_may() -> None:
    lake = Lake()

    lake.turn(most=2)

    assert lake.ledger.order == ["1-1", "1-2"]
    assert lake.state().load_progress.last_batch == BatchId(1, 2)


@pytest.mark.parametrize(("rows", "batches"), [(1, 1), (5, 1), (6, 2), (9, 3)])
def test_a_cycle_takes_whole_batches_of_so_many_rows_and_one_at_least(rows: int, batches: int) -> None:
    lake = Lake()

    landed = lake.landing.load_next_batches(RUN, max_batches=ALL, check_ledger=False, max_rows=rows)

    assert [link.rows for link in landed.links] == [3] * batches
    assert lake.state().load_progress.last_batch == BatchId(1, batches)


def test_a_target_that_lands_the_first_few_moves_the_mark_over_those() -> None:
    lake = Lake()
    lake.ledger.most = 2

    landed = lake.landing.load_next_batches(RUN, max_batches=ALL, check_ledger=False)

    assert [str(link.id) for link in landed.links] == ["1-1", "1-2"]
    assert lake.state().load_progress.last_batch == BatchId(1, 2)
    lake.turn()
    assert lake.ledger.order == ["1-1", "1-2", "1-3"]


def test_what_a_restored_target_lost_lands_first_and_a_few_at_a_time() -> None:
    lake = Lake()
    lake.turn()
    lake.ledger.rows.clear()
    lake.ledger.order.clear()
    lake.extraction(4)
    lake.ledger.most = 2

    first = lake.landing.load_next_batches(RUN, max_batches=ALL, check_ledger=False)
    lake.turn()

    assert first.links == ()
    assert lake.ledger.order == ["1-1", "1-2", "1-3", "1-4"]
    assert lake.state().load_progress.last_batch == BatchId(1, 4)


def test_the_time_that_a_cycle_takes_is_counted_once_for_all_its_batches() -> None:
    lake = Lake()
    assert isinstance(lake.journal.clock, ManualClock)
    clock: ManualClock = lake.journal.clock

    class Slow(Ledger):
        def load(self, cycle: LoadCycle) -> Mapping[BatchId, BatchLoadResult]:
            clock.advance(2.0)
            return super().load(cycle)

    Loading(lake.journal, lake.held, Slow).load_next_batches(RUN, max_batches=2, check_ledger=False)
    assert lake.state().load_progress.counts.milliseconds == 2000
    Loading(lake.journal, lake.held, lambda: Slow(fence=1)).load_next_batches(RUN, max_batches=2, check_ledger=False)

    assert lake.state().load_progress.counts.milliseconds == 4000


def test_nothing_due_asks_the_target_nothing() -> None:
    lake = Lake(batches=0)

    assert lake.landing.load_next_batches(RUN, max_batches=ALL, check_ledger=False) is NOTHING_LOADED
    assert lake.ledger.cycles == 0


def test_a_commit_without_an_answer_is_settled_by_the_ledger() -> None:
    lake = Lake()
    lake.ledger.lose_answers = 1
    with pytest.raises(OutcomeUnknown):
        lake.turn()
    assert lake.state().load_progress.last_batch == BatchId(1, 0)

    lake.turn()

    assert lake.ledger.order == ["1-1", "1-2", "1-3"]
    assert lake.state().load_progress.last_batch == BatchId(1, 3)
    assert lake.state().load_progress.counts.rows == 9


def test_a_ledger_that_is_ahead_only_moves_the_mark() -> None:
    lake = Lake()
    for seq in (1, 2):
        key = LedgerKey(stream=ORDERS, load_generation=1, batch=BatchId(1, seq))
        lake.ledger.rows[key] = 5

    lake.turn()

    assert lake.ledger.order == ["1-3"]
    assert lake.state().load_progress.counts.rows == 13


def test_a_ledger_that_was_restored_gets_what_it_lost_again() -> None:
    lake = Lake()
    lake.turn()
    lake.ledger.rows = {key: rows for key, rows in lake.ledger.rows.items() if key.batch.seq == 1}

    lake.turn(compare=True)

    assert lake.ledger.order == ["1-1", "1-2", "1-3", "1-2", "1-3"]
    assert lake.state().load_progress.last_batch == BatchId(1, 3)
    assert lake.state().load_progress.counts.rows == 9


def test_a_comparison_that_finds_nothing_writes_nothing() -> None:
    lake = Lake()
    lake.turn()
    before = lake.state().revision

    lake.turn(compare=True)

    assert lake.state().revision == before


def test_a_fence_that_was_restored_is_raised_again() -> None:
    lake = Lake()
    lake.turn(most=1)
    lake.ledger.fence = 0
    with pytest.raises(FenceLost):
        lake.turn()

    lake.turn()

    assert lake.ledger.fence == lake.held.epoch
    assert lake.state().load_progress.last_batch == BatchId(1, 3)


def test_a_fence_that_another_raised_stops_the_landing() -> None:
    lake = Lake()
    lake.turn(most=1)
    land = lake.ledger.load

    def taken_over_first(cycle: LoadCycle) -> Mapping[BatchId, BatchLoadResult]:
        lake.process.release(lake.held)
        lake.ledger.fence = hold(make_process(lake.store, "p2"), lake.journal, Stage.LOAD).epoch
        return land(cycle)

    lake.ledger.load = taken_over_first  # type: ignore[method-assign]  # another process is faster

    with pytest.raises(Fenced, match="at epoch 2, this process has epoch 1"):
        lake.turn()

    assert lake.ledger.order == ["1-1"]


def test_a_fence_of_an_owner_that_history_does_not_know_is_no_takeover() -> None:
    """The lake is an older state than the warehouse: whoever believed in another process would wait for it for ever."""
    lake = Lake()
    lake.turn(most=1)
    lake.ledger.fence = 9

    with pytest.raises(FenceAhead, match="at epoch 9, this process has epoch 1"):
        lake.turn()

    assert lake.ledger.order == ["1-1"]
    assert lake.state().epochs[Stage.LOAD] == lake.held.epoch


def test_a_stage_that_was_taken_over_lands_nothing_more() -> None:
    lake = Lake()
    lake.process.release(lake.held)
    hold(make_process(lake.store, "p2"), lake.journal, Stage.LOAD)

    with pytest.raises(Fenced):
        lake.turn()

    assert lake.ledger.cycles == 0


@pytest.mark.parametrize("lost", [0, 1])
def test_rows_that_the_target_refused_are_told_by_the_turn_that_moves_the_mark_and_by_no_other(lost: int) -> None:
    """Where the answer to a commit was lost, that is one which finds the batches in the ledger."""
    lake = Lake()
    lake.ledger.refuses, lake.ledger.lose_answers = {"1-2": 1}, lost
    for _ in range(lost):
        with pytest.raises(OutcomeUnknown):
            lake.turn()

    landed = lake.landing.load_next_batches(RUN, max_batches=ALL, check_ledger=False)
    lake.extraction(4)
    after = lake.landing.load_next_batches(RUN, max_batches=ALL, check_ledger=False)

    assert (landed.rows, landed.refused_by_batch) == (8, {BatchId(1, 2): BatchLoadResult(rows=2, refused_rows=1)})
    assert (after.rows, after.refused_by_batch) == (3, {})


def test_rows_that_are_refused_where_a_lost_batch_lands_again_are_told() -> None:
    lake = Lake()
    lake.turn()
    lake.ledger.rows.clear()
    lake.ledger.refuses = {"1-3": 2}

    again = lake.landing.load_next_batches(RUN, max_batches=ALL, check_ledger=True)

    assert (again.reloaded_batches, again.rows, again.refused_by_batch) == (
        3,
        0,
        {BatchId(1, 3): BatchLoadResult(rows=1, refused_rows=2)},
    )


def test_a_reset_lands_everything_again_although_the_ledger_remembers() -> None:
    lake = Lake()
    lake.turn()

    lake.person.reset_marks(ORDERS, reset_extract=False)
    lake.turn()

    assert lake.ledger.order == ["1-1", "1-2", "1-3"] * 2
    assert lake.state().load_progress.load_generation == 2


def test_a_mark_that_a_person_set_meanwhile_stays() -> None:
    lake = Lake()
    land = lake.ledger.load

    def reset_first(cycle: LoadCycle) -> Mapping[BatchId, BatchLoadResult]:
        lake.person.reset_marks(ORDERS, reset_extract=False)
        return land(cycle)

    lake.ledger.load = reset_first  # type: ignore[method-assign]  # a person is faster

    lake.turn()

    assert (lake.state().load_progress.last_batch, lake.state().load_progress.load_generation) == (BatchId(1, 0), 2)


def test_batches_left_out_by_a_person_never_land() -> None:
    lake = Lake()
    lake.turn(most=1)

    lake.person.skip_batches(ORDERS, BatchId(1, 2))
    lake.turn(compare=True)

    assert lake.ledger.order == ["1-1", "1-3"]


def test_a_mark_set_forward_leaves_batches_out_and_says_so() -> None:
    lake = Lake()
    lake.turn(most=1)

    lake.person.set_marks(ORDERS, load_after=BatchId(1, 2))
    lake.turn(compare=True)

    assert lake.ledger.order == ["1-1", "1-3"]
    assert [(str(span.after), str(span.up_to)) for span in lake.state().load_progress.skipped_batches] == [
        ("1-1", "1-2")
    ]


def test_a_closed_generation_lands_before_the_next() -> None:
    lake = Lake()
    lake.turn(most=1)

    lake.person.set_marks(ORDERS, extract_cursor=at(0))
    lake.extraction(4)
    lake.turn()

    assert lake.ledger.order == ["1-1", "1-2", "1-3", "2-1"]
    assert lake.state().load_progress.last_batch == BatchId(2, 1)


def test_abandoned_batches_have_a_row_in_the_ledger_too() -> None:
    lake = Lake(batches=1)
    world = PlanBasis(mark=at(1, 1), source_identity="server-0", schema="s1")
    script = Script(drafts=[lambda _: BatchDraft(kind=BatchKind.REPAIR, basis=world, high=world.mark)])
    Extraction(lake.journal, lake.extracts, script).extract_next_batch(RUN)

    lake.turn()

    assert list(lake.ledger.rows.values()) == [3, 0]
    assert lake.state().load_progress.cursor == at(1, 1)


def test_a_link_that_is_gone_stops_the_landing() -> None:
    lake = Lake()
    del lake.store._objects[f"batches/{ORDERS.stem}/1-2.json"]

    with pytest.raises(StateMissing, match=r"1-2\.json is missing"):
        lake.turn()

    assert lake.ledger.cycles == 0


@pytest.mark.parametrize("process", ["the same", "another"])
def test_a_link_that_does_not_follow_what_landed_before_is_refused(process: str) -> None:
    lake = Lake()
    lake.turn(most=1)
    key = link_key(ORDERS, BatchId(1, 2))
    stored = lake.store.read(key)
    assert stored
    other = replace(lake.landing.chain.require_link(BatchId(1, 2)), previous="f" * 64)
    lake.store.put(key, other.to_bytes(), expected=stored.revision)
    landing = lake.landing if process == "the same" else Loading(lake.journal, lake.held, lambda: lake.ledger)

    with pytest.raises(ChainBroken, match="1-2"):
        landing.load_next_batches(RUN, max_batches=1, check_ledger=False)

    assert lake.ledger.order == ["1-1"]


def test_a_target_waits_for_the_first_extraction_of_its_stream() -> None:
    store = MemoryStore()
    journal = Journal(store, Watermark)
    held = hold(make_process(store), journal, Stage.LOAD, SECOND)

    assert Loading(journal, held, Ledger).load_next_batches(RUN, max_batches=1, check_ledger=False) is NOTHING_LOADED


def test_a_stage_held_without_a_watermark_is_named() -> None:
    lake = Lake()
    held = replace(lake.held, stream=type(ORDERS)(source="shop", database="shop", table="other"))

    with pytest.raises(StateMissing, match="has no watermark"):
        Loading(lake.journal, held, lambda: lake.ledger).load_next_batches(RUN, max_batches=1, check_ledger=False)


def test_a_failure_is_an_entry_and_moves_nothing() -> None:
    lake = Lake()

    lake.landing.record_failure(
        "locked", lambda attempt: FailureRecord(message="locked", attempt=attempt, failed_at=NOON, retry_at=None)
    )

    entry = lake.journal.read_entry(ORDERS.stem, lake.state().revision)
    assert entry
    assert (entry.note.change, entry.note.reason, entry.note.epoch) == (ChangeKind.FAIL, "locked", 1)
    assert lake.state().load_progress.last_batch == BatchId(1, 0)
    assert lake.state().last_error == "locked"


def test_two_targets_land_one_chain_apart() -> None:
    lake, other = Lake(), Ledger()
    held = hold(lake.process, lake.journal, Stage.LOAD, SECOND)
    second = Loading(lake.journal, held, lambda: other)

    lake.turn(most=1)
    second.load_next_batches(Run(id="r9"), max_batches=2, check_ledger=False)

    state = lake.journal.read_newest(SECOND.stem)
    assert state
    assert (lake.state().load_progress.last_batch, state.load_progress.last_batch) == (BatchId(1, 1), BatchId(1, 2))
    assert {key.stream for key in other.rows} == {SECOND}
