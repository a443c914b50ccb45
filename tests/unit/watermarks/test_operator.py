from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from tests.builders import NOON, ORDERS, RUN, Script, a_chunk, at, extract, hold, make_process, upto
from tests.chain import make_increment, make_link, make_plan
from watermarks.batch import BatchId
from watermarks.cursor import START_CURSOR
from watermarks.document import Stage, Watermark
from watermarks.errors import Misuse, OutcomeUnknown
from watermarks.extraction import Extraction
from watermarks.history import ChangeKind, ChangeNote, CommitAttempt, Journal
from watermarks.legacy import read_legacy_watermark
from watermarks.names import SYSTEM_STEM, history_key
from watermarks.operator import (
    ImportedPosition,
    NothingToUndo,
    NotLatestChange,
    Operator,
    StreamAlreadyExtracted,
    set_system_default,
)
from watermarks.progress import RunStrategy, SkippedBatches
from watermarks.stores.memory import MemoryStore
from watermarks.system_default import SystemDefault
from watermarks.testing import FaultyStore, ManualClock, StoreFault, StoreOperation, script_faults

LEGACY = b"""{"table_name": "US_DW:Shop.Orders", "last_mysql_data_timestamp": "2026-01-31 12:00:05",
 "mysql_status": "success", "redshift_status": "success", "backup_strategy": "sequential",
 "processed_s3_files": ["s3://bucket/a.parquet"]}"""


@dataclass
class Desk:
    """A stream with three batches, two of them landed, and a person at the controls."""

    store: MemoryStore = field(default_factory=MemoryStore)

    def __post_init__(self) -> None:
        self.journal = Journal(self.store, Watermark, clock=ManualClock())
        self.held = hold(make_process(self.store), self.journal)
        extract(self.journal, self.held, at(1, 1), at(2, 2), at(3, 3))
        self.land(2)
        self.person = Operator(journal=self.journal, author="ann", reason="backfill")

    def land(self, count: int) -> None:
        half = self.state().required_extract_progress
        batches = list(half.batch_ids(after=self.state().load_progress.last_batch))[:count]
        extraction = Extraction(self.journal, self.held, Script())
        for batch in batches:
            link = extraction.chain.require_link(batch)

            def landed(state: Watermark | None, link: object = link) -> Watermark:
                assert state
                return state.with_loaded_batch(link, rows=3, run=RUN, now=NOON)  # type: ignore[arg-type]  # the batch exists at this point

            self.journal.commit(ORDERS.stem, landed, ChangeNote(change=ChangeKind.LOAD, author="p1"))

    def state(self) -> Watermark:
        state = self.journal.read_newest(ORDERS.stem)
        assert state
        return state


def test_a_set_mark_opens_a_generation_and_closes_the_old_one() -> None:
    desk = Desk()

    state = desk.person.set_marks(ORDERS, extract_cursor=at(1))

    half = state.required_extract_progress
    assert (half.generation, half.seq, half.cursor, half.generation_start) == (2, 0, at(1), at(1))
    assert half.closed_generations == {1: 3}
    assert half.strategy is RunStrategy.MANUAL
    assert state.load_progress == desk.state().load_progress


def test_an_undo_of_one_change_takes_back_no_other() -> None:
    desk = Desk()
    mine = desk.person.reset_marks(ORDERS, reset_extract=False)
    desk.person.set_marks(ORDERS, extract_cursor=at(9))

    with pytest.raises(NotLatestChange):
        desk.person.undo(ORDERS, revision=mine.last_manual_revision)
    desk.person.undo(ORDERS)
    after = desk.person.set_marks(ORDERS, extract_cursor=at(9))

    assert (
        desk.person.undo(ORDERS, revision=after.last_manual_revision).last_manual_revision
        == after.last_manual_revision + 1
    )


def test_a_change_by_a_person_carries_name_and_reason() -> None:
    desk = Desk()

    state = desk.person.reset_marks(ORDERS, reset_load=False)

    entry = desk.journal.read_entry(ORDERS.stem, state.revision)
    assert entry
    assert (entry.note.change, entry.note.author, entry.note.reason) == (ChangeKind.RESET, "ann", "backfill")


def test_a_reset_begins_as_on_the_first_run() -> None:
    desk = Desk()

    half = desk.person.reset_marks(ORDERS, reset_load=False).required_extract_progress

    assert (half.cursor, half.snapshot, half.seq) == (START_CURSOR, None, 0)
    assert list(half.batch_ids(after=BatchId(1, 2))) == [BatchId(1, 3)]


def test_a_mark_can_be_set_before_the_first_run() -> None:
    store = MemoryStore()
    journal = Journal(store, Watermark, clock=ManualClock())

    state = Operator(journal=journal, author="ann", reason="start here").set_marks(ORDERS, extract_cursor=at(0))

    assert (state.revision, state.required_extract_progress.generation, state.required_extract_progress.cursor) == (
        1,
        2,
        at(0),
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda person, batch: person.set_marks(ORDERS, load_after=batch),
        lambda person, batch: person.skip_batches(ORDERS, batch),
    ],
    ids=["set_marks", "skip_batches"],
)
def test_only_batches_of_the_chain_can_be_named(change: Callable[[Operator, BatchId], Watermark]) -> None:
    desk = Desk()

    with pytest.raises(Misuse, match="has no batch 1-9"):
        change(desk.person, BatchId(1, 9))


def test_of_a_stream_that_never_ran_nothing_can_be_skipped() -> None:
    desk = Desk()

    with pytest.raises(Misuse, match="has never run"):
        desk.person.skip_batches(type(ORDERS)(source="shop", database="shop", table="lines"), BatchId(1, 1))


def test_a_loaded_mark_set_back_lands_again_what_comes_after() -> None:
    desk = Desk()

    half = desk.person.set_marks(ORDERS, load_after=BatchId(1, 1), load_cursor=at(1, 1)).load_progress

    assert (half.load_generation, half.base, half.last_batch, half.cursor) == (
        2,
        BatchId(1, 1),
        BatchId(1, 1),
        at(1, 1),
    )
    assert half.skipped_batches == ()


def test_setting_the_loaded_mark_leaves_the_extracted_half() -> None:
    desk = Desk()
    before = desk.state().extract_progress

    assert desk.person.reset_marks(ORDERS, reset_extract=False).extract_progress == before


def test_both_halves_are_set_by_one_entry_and_taken_back_by_one_undo() -> None:
    desk = Desk()
    before = desk.state()

    state = desk.person.set_marks(ORDERS, extract_cursor=at(1), load_after=BatchId(1, 3), load_cursor=at(3, 3))

    assert state.revision == before.revision + 1
    assert (state.required_extract_progress.generation, state.required_extract_progress.cursor) == (2, at(1))
    assert (state.load_progress.load_generation, state.load_progress.last_batch, state.load_progress.cursor) == (
        2,
        BatchId(1, 3),
        at(3, 3),
    )
    undone = desk.person.undo(ORDERS)
    assert undone.required_extract_progress.cursor == before.required_extract_progress.cursor
    assert (undone.load_progress.last_batch, undone.load_progress.cursor) == (
        before.load_progress.last_batch,
        before.load_progress.cursor,
    )
    assert undone.load_progress.skipped_batches == ()


def test_both_halves_are_reset_by_one_entry() -> None:
    desk = Desk()

    state = desk.person.reset_marks(ORDERS)

    assert (state.required_extract_progress.last_batch, state.required_extract_progress.cursor) == (
        BatchId(2, 0),
        START_CURSOR,
    )
    assert (state.load_progress.load_generation, state.load_progress.last_batch) == (2, BatchId(1, 0))
    assert list(state.required_extract_progress.batch_ids(after=state.load_progress.last_batch)) == [
        BatchId(1, 1),
        BatchId(1, 2),
        BatchId(1, 3),
    ]


@pytest.mark.parametrize("words", [{}, {"reset_extract": False, "reset_load": False}])
def test_a_change_of_nothing_is_refused(words: dict[str, bool]) -> None:
    desk = Desk()

    with pytest.raises(Misuse, match="no mark of"):
        desk.person.reset_marks(ORDERS, **words) if words else desk.person.set_marks(ORDERS)

    assert desk.state().last_manual_revision == 0


def test_a_loaded_mark_set_by_a_person_is_manual_until_the_next_extraction() -> None:
    desk = Desk()

    state = desk.person.set_marks(ORDERS, load_after=BatchId(1, 1), load_cursor=at(1, 1))

    assert state.to_fields()["backup_strategy"] == "manual_cli"
    desk.land(2)
    assert desk.state().to_fields()["backup_strategy"] == "manual_cli"
    extract(desk.journal, desk.held, at(4, 4))
    assert desk.state().to_fields()["backup_strategy"] == "sequential"


@pytest.mark.parametrize("lands_between", [False, True])
def test_undo_of_a_loaded_mark_takes_back_that_it_is_manual(*, lands_between: bool) -> None:
    desk = Desk()
    desk.person.set_marks(ORDERS, load_after=BatchId(1, 1))
    if lands_between:
        desk.land(1)

    assert desk.person.undo(ORDERS).required_extract_progress.strategy is RunStrategy.SEQUENTIAL


def test_undo_of_a_loaded_mark_leaves_a_mark_that_was_manual_before() -> None:
    desk = Desk()
    desk.person.set_marks(ORDERS, extract_cursor=at(1))
    desk.person.set_marks(ORDERS, load_after=BatchId(1, 1))

    state = desk.person.undo(ORDERS)

    assert (state.required_extract_progress.strategy, state.required_extract_progress.generation) == (
        RunStrategy.MANUAL,
        2,
    )


@pytest.mark.parametrize("change", ["set", "reset", "undo"])
def test_what_a_person_left_out_stays_left_out_across_a_new_generation(change: str) -> None:
    """Only what comes after the instant lands: the rest was skipped, whatever becomes of the other half."""
    desk = Desk()
    if change == "undo":
        desk.person.set_marks(ORDERS, extract_cursor=at(1))
        desk.land(1)
        desk.person.undo(ORDERS)
        extract(desk.journal, desk.held, at(4, 4))
    left_out = desk.state().required_extract_progress.last_batch
    skipped = desk.person.set_marks(ORDERS, load_after=left_out).load_progress.skipped_batches

    {
        "set": lambda: desk.person.set_marks(ORDERS, extract_cursor=at(1)),
        "reset": lambda: desk.person.reset_marks(ORDERS, reset_load=False),
    }.get(change, lambda: desk.person.set_marks(ORDERS, extract_cursor=at(2)))()
    extract(desk.journal, desk.held, at(9, 9))

    state = desk.state()
    assert state.load_progress.skipped_batches == skipped
    assert skipped[-1].up_to == left_out
    assert list(state.required_extract_progress.batch_ids(after=state.load_progress.last_batch)) == [
        state.required_extract_progress.last_batch
    ]


def test_a_manual_mark_of_a_further_target_leaves_the_chain_alone() -> None:
    desk = Desk()
    before = desk.state()

    state = desk.person.set_marks(ORDERS.with_target("second"), load_after=BatchId(1, 2))

    assert (state.extract_progress, state.load_progress.skipped_batches) == (
        None,
        (SkippedBatches(after=BatchId(1, 0), up_to=BatchId(1, 2)),),
    )
    assert desk.state() == before


def test_undo_takes_back_a_set_of_the_extracted_mark() -> None:
    desk = Desk()
    desk.person.set_marks(ORDERS, extract_cursor=at(1))

    half = desk.person.undo(ORDERS).required_extract_progress

    assert (half.generation, half.cursor, half.seq) == (3, at(3, 3), 0)
    assert half.closed_generations == {1: 3, 2: 0}
    assert half.strategy is RunStrategy.SEQUENTIAL


@pytest.mark.parametrize("proven", [True, False])
def test_undo_brings_back_what_was_proven_up_to_the_mark_and_from_where(*, proven: bool) -> None:
    """Positions are what they were, and so is what is known of them: nothing more, and nothing less."""
    desk = Desk()
    before = replace(desk.state().required_extract_progress, proven=proven)
    desk.journal.commit(
        ORDERS.stem,
        lambda state: state and replace(state, extract_progress=before),
        ChangeNote(change=ChangeKind.EXTRACT, author="p1"),
    )
    desk.person.reset_marks(ORDERS)

    half = desk.person.undo(ORDERS).required_extract_progress
    script = Script(drafts=[lambda state: replace(upto(at(4, 4))(state), proven=True)])
    Extraction(desk.journal, desk.held, script).extract_next_batch(RUN)

    assert (half.proven, half.generation_start) == (proven, before.generation_start)
    assert desk.state().required_extract_progress.proven is proven


def test_undo_of_an_undo_brings_the_change_back() -> None:
    desk = Desk()
    desk.person.set_marks(ORDERS, extract_cursor=at(1))
    desk.person.undo(ORDERS)

    half = desk.person.undo(ORDERS).required_extract_progress

    assert (half.generation, half.cursor) == (4, at(1))


def test_undo_takes_back_a_reset_of_the_loaded_mark() -> None:
    desk = Desk()
    desk.person.reset_marks(ORDERS, reset_extract=False)

    half = desk.person.undo(ORDERS).load_progress

    assert (half.load_generation, half.last_batch, half.base, half.cursor) == (
        3,
        BatchId(1, 2),
        BatchId(1, 2),
        at(2, 2),
    )


def test_undo_takes_back_a_skip() -> None:
    desk = Desk()
    assert desk.person.skip_batches(ORDERS, BatchId(1, 3)).load_progress.last_batch == BatchId(1, 3)

    half = desk.person.undo(ORDERS).load_progress

    assert half.last_batch == BatchId(1, 2)
    assert list(desk.state().required_extract_progress.batch_ids(after=half.last_batch)) == [BatchId(1, 3)]
    assert half.skipped_batches == ()


def test_undo_keeps_what_stages_did_since_to_the_other_half() -> None:
    desk = Desk()
    desk.person.set_marks(ORDERS, extract_cursor=at(1))
    desk.land(1)

    state = desk.person.undo(ORDERS)

    assert state.load_progress.last_batch == BatchId(1, 3)


def test_undo_of_the_very_first_change_begins_anew() -> None:
    journal = Journal(MemoryStore(), Watermark, clock=ManualClock())
    person = Operator(journal=journal, author="ann", reason="a test")
    person.set_marks(ORDERS, extract_cursor=at(0))

    assert person.undo(ORDERS).required_extract_progress.cursor == START_CURSOR


def test_undo_brings_a_first_pass_back_to_where_it_was() -> None:
    desk = Desk()
    desk.person.reset_marks(ORDERS, reset_load=False)
    script = Script(drafts=[a_chunk(10, horizon=at(9))])
    Extraction(desk.journal, desk.held, script).extract_next_batch(RUN)
    snapshot = desk.state().required_extract_progress.snapshot
    desk.person.set_marks(ORDERS, extract_cursor=at(1))

    half = desk.person.undo(ORDERS).required_extract_progress

    assert half.snapshot == snapshot
    assert half.snapshot is not None


def test_nothing_changed_by_hand_is_nothing_to_undo() -> None:
    desk = Desk()

    with pytest.raises(NothingToUndo):
        desk.person.undo(ORDERS)


def newcomer() -> Operator:
    """A person before a stream that has never run."""
    return Operator(journal=Journal(MemoryStore(), Watermark, clock=ManualClock()), author="ann", reason="adopted")


def test_a_takeover_sets_both_marks_and_keeps_the_old_document_word_by_word() -> None:
    person = newcomer()
    legacy = read_legacy_watermark(LEGACY, location="old")

    state = person.import_position(ORDERS, ImportedPosition(cursor=at(7), legacy=legacy, proof={"rows": 7}))

    entry = person.journal.read_entry(ORDERS.stem, state.revision)
    assert entry
    assert (state.required_extract_progress.cursor, state.load_progress.cursor) == (at(7), at(7))
    assert not list(state.required_extract_progress.batch_ids(after=state.load_progress.last_batch))
    assert entry.note.evidence == {"form": "flat", "document": LEGACY.decode(), "proof": {"rows": 7}}


def test_a_takeover_of_another_table_is_refused() -> None:
    legacy = read_legacy_watermark(LEGACY.replace(b"Orders", b"Orders_old"), location="old")

    with pytest.raises(Misuse, match=r"is of US_DW:Shop\.Orders_old"):
        newcomer().import_position(ORDERS, ImportedPosition(cursor=legacy.cursor, legacy=legacy))


def test_a_document_may_name_its_connection_and_its_target_beside_the_table() -> None:
    legacy = read_legacy_watermark(LEGACY.replace(b"Shop.Orders", b"Shop.Orders:redshift_default"), location="old")

    assert legacy.matches_stream(ORDERS)


def test_a_stream_with_a_chain_of_its_own_is_not_taken_over() -> None:
    desk = Desk()
    before = desk.state()

    with pytest.raises(StreamAlreadyExtracted, match="up to batch 1-3"):
        desk.person.import_position(ORDERS, ImportedPosition(cursor=at(7)))

    assert desk.state() == before


def test_a_takeover_is_taken_back_by_undo_in_both_halves() -> None:
    person = newcomer()
    person.import_position(ORDERS, ImportedPosition(cursor=at(7), first_cursor=at(3)))

    state = person.undo(ORDERS)

    assert (
        state.required_extract_progress.cursor,
        state.load_progress.cursor,
        state.required_extract_progress.snapshot,
    ) == (START_CURSOR, START_CURSOR, None)


@pytest.mark.parametrize("proven", [True, False])
def test_what_is_proven_after_a_takeover_is_so_only_if_it_was(*, proven: bool) -> None:
    half = newcomer().import_position(ORDERS, ImportedPosition(cursor=at(7), proven=proven)).required_extract_progress

    link = make_link(make_plan(make_increment(at(7), high=at(8)), id=half.next_batch))
    after = half.with_link(link, run=RUN, now=NOON)

    assert (half.proven, after.proven) == (proven, proven)


@pytest.mark.parametrize("arrives", ["never", "at once", "late"])
@pytest.mark.parametrize("others", [0, 1])
def test_a_change_without_an_answer_is_recognised_when_it_is_asked_again(arrives: str, others: int) -> None:
    """An undo made twice would be no undo."""
    desk = Desk()
    desk.person.set_marks(ORDERS, extract_cursor=at(1))
    key = history_key(ORDERS.stem, desk.state().revision + 1)
    fault = {"never": StoreFault.LOST_REQUEST, "at once": StoreFault.LOST_ANSWER, "late": StoreFault.LATE}[arrives]
    line = FaultyStore(
        desk.store,
        script_faults(StoreOperation.CREATE, key, fault),
        script_faults(StoreOperation.READ, key, StoreFault.DOWN),
    )
    person = Operator(journal=Journal(line, Watermark), author="ann", reason="undo")
    with pytest.raises(OutcomeUnknown) as caught:
        person.undo(ORDERS)
    attempt = caught.value.facts["attempt"]
    assert isinstance(attempt, CommitAttempt)
    if arrives == "late" and not others:
        line.deliver_delayed_write()
    for _ in range(others):
        desk.land(1)

    state = replace(person, retry_of=attempt).undo(ORDERS)

    assert state.required_extract_progress.cursor == at(3, 3)
    assert state.required_extract_progress.generation == 3


def test_an_unfinished_skip_counts_as_left_out() -> None:
    desk = Desk()

    half = desk.person.skip_batches(ORDERS, BatchId(1, 3)).load_progress

    assert half.skipped_batches == (SkippedBatches(after=BatchId(1, 2), up_to=BatchId(1, 3)),)
    assert not half.expects_in_ledger(BatchId(1, 3))


def test_the_system_wide_default_is_set_and_taken_away() -> None:
    journal = Journal(MemoryStore(), SystemDefault, clock=ManualClock())

    set_system_default(journal, NOON, author="ann", reason="begin with January")
    set_system_default(journal, None, author="ann", reason="from the first row")

    state = journal.read_newest(SYSTEM_STEM)
    assert state is not None
    assert (state.revision, state.start) == (2, None)
    entry = journal.read_entry(SYSTEM_STEM, 1)
    assert entry
    assert entry.after["last_run_timestamp"] == "2026-01-31T12:00:00.000000Z"


def test_stages_meet_a_change_at_their_next_entry() -> None:
    desk = Desk()
    desk.person.set_marks(ORDERS, extract_cursor=at(1))

    extract(desk.journal, desk.held, at(2, 2))

    assert desk.state().required_extract_progress.last_batch == BatchId(2, 1)
    assert desk.state().stage_status(Stage.EXTRACT) == "success"
