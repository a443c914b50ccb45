from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chain import (
    FIRST_RUN,
    NOON,
    at,
    make_abandoned,
    make_chunk,
    make_increment,
    make_link,
    make_plan,
    make_still,
    make_world,
)
from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchLink, ChainBroken, SnapshotProgress
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.errors import DataInDoubt
from watermarks.progress import (
    BEFORE_FIRST_BATCH,
    ZERO_COUNTS,
    BatchOutOfOrder,
    EarlierLoads,
    ExtractProgress,
    LoadProgress,
    ProgressCounts,
    Run,
    RunStrategy,
    SkippedBatches,
)

LATER = NOON + timedelta(hours=1)


def make_chain(*closed: int, seq: int = 0) -> ExtractProgress:
    """A half whose earlier generations end at these numbers."""
    ends = dict(enumerate(closed, start=1))
    return ExtractProgress(generation=len(closed) + 1, seq=seq, closed_generations=ends)


def next_link(half: ExtractProgress, draft: BatchDraft | None = None, *, rows: int = 3) -> BatchLink:
    """The link that follows."""
    draft = draft or make_increment(half.cursor, high=at(10 * (half.seq + 1)))
    files = tuple(f"part-{half.next_batch}-{number}" for number in range(2 if rows else 0))
    return make_link(make_plan(draft, id=half.next_batch), rows=rows, files=files, previous=half.last_link_digest)


def grown(half: ExtractProgress, *drafts: BatchDraft | None, run: Run = FIRST_RUN) -> ExtractProgress:
    """The half after links of these drafts."""
    for draft in drafts:
        half = half.with_link(next_link(half, draft), run=run, now=NOON)
    return half


def numbers(half: ExtractProgress, *, after: BatchId = BEFORE_FIRST_BATCH) -> list[str]:
    return [str(batch) for batch in half.batch_ids(after=after)]


def landed(half: LoadProgress, *batches: BatchId, run: Run = FIRST_RUN) -> LoadProgress:
    for batch in batches:
        half = half.with_loaded_batch(make_link(make_plan(id=batch)), rows=3, run=run, now=NOON)
    return half


# Tallies.


def test_counts_of_a_run_are_summed_batch_by_batch() -> None:
    run = Run(id="a", seconds=0.25)

    tally = ZERO_COUNTS.with_batch(run, batch_rows=3, batch_files=1).with_batch(run, batch_rows=4, batch_files=2)

    assert (tally.run, tally.run_rows, tally.run_files) == ("a", 7, 3)
    assert (tally.rows, tally.files, tally.batches, tally.milliseconds) == (7, 3, 2, 500)


def test_counts_of_the_run_begin_anew_with_each_run_and_those_of_the_life_do_not() -> None:
    """The earlier tool added a session's running total to the total at every batch."""
    tally = ZERO_COUNTS.with_batch(Run(id="a"), batch_rows=3, batch_files=1).with_batch(
        Run(id="b"), batch_rows=4, batch_files=2
    )

    assert (tally.run, tally.run_rows, tally.run_files) == ("b", 4, 2)
    assert (tally.rows, tally.files, tally.batches) == (7, 3, 2)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 9))))
def test_every_batch_counts_once(batches: list[tuple[str, int, int]]) -> None:
    tally = ZERO_COUNTS
    for run, rows, files in batches:
        tally = tally.with_batch(Run(id=run), batch_rows=rows, batch_files=files)

    own = 0
    while own < len(batches) and batches[-1 - own][0] == batches[-1][0]:
        own += 1
    last = batches[len(batches) - own :]
    assert (tally.rows, tally.files, tally.batches) == (
        sum(rows for _, rows, _ in batches),
        sum(files for _, _, files in batches),
        len(batches),
    )
    assert (tally.run_rows, tally.run_files) == (sum(rows for _, rows, _ in last), sum(files for *_, files in last))


def test_time_is_counted_in_whole_milliseconds() -> None:
    tally = ZERO_COUNTS
    for _ in range(10):
        tally = tally.with_batch(Run(id="a", seconds=0.1), batch_rows=0, batch_files=0)

    assert tally.milliseconds == 1000


# The chain of the extracted half.


def test_a_stream_begins_before_its_first_batch() -> None:
    half = ExtractProgress()

    assert (half.last_batch, half.next_batch) == (BEFORE_FIRST_BATCH, BatchId(1, 1))
    assert numbers(half) == []


def test_a_link_moves_the_mark_to_its_end() -> None:
    half = ExtractProgress()
    link = next_link(half, make_increment(START_CURSOR, high=at(10, 1)))

    after = half.with_link(link, run=Run(id="a", strategy=RunStrategy.INTER_TABLE), now=LATER)

    assert (after.last_batch, after.cursor, after.last_link_digest, after.extracted_at) == (
        BatchId(1, 1),
        at(10, 1),
        link.digest,
        LATER,
    )
    assert (after.proven, after.source_identity, after.strategy) == (True, "server-1", RunStrategy.INTER_TABLE)
    assert (after.counts.rows, after.counts.files, after.counts.batches) == (3, 2, 1)
    assert half == ExtractProgress()


def test_links_follow_each_other() -> None:
    half = grown(ExtractProgress(), None, None, None)

    assert numbers(half) == ["1-1", "1-2", "1-3"]
    assert half.cursor == at(30)
    assert half.counts.rows == 9


@pytest.mark.parametrize("batch", [BatchId(1, 2), BatchId(1, 4), BatchId(1, 1), BatchId(2, 1), BatchId(2, 3)], ids=str)
def test_a_link_out_of_turn_is_refused(batch: BatchId) -> None:
    half = grown(ExtractProgress(), None, None)
    link = replace(next_link(half), id=batch)

    with pytest.raises(BatchOutOfOrder, match=f"batch {batch} does not follow 1-2") as caught:
        half.with_link(link, run=FIRST_RUN, now=NOON)

    assert "syncd watermark history" in caught.value.hint


@pytest.mark.parametrize("previous", [None, "sha256:" + "0" * 64])
def test_a_link_that_names_another_one_before_it_is_refused(previous: str | None) -> None:
    """The number alone proves nothing: a restored lake may hold another batch under it."""
    half = grown(ExtractProgress(), None)
    link = replace(next_link(half), previous=previous)

    with pytest.raises(
        ChainBroken, match=f"follows {previous}, but the newest link is {half.last_link_digest}"
    ) as caught:
        half.with_link(link, run=FIRST_RUN, now=NOON)

    assert "syncd audit" in caught.value.hint


def test_the_first_link_names_none_before_it() -> None:
    link = replace(next_link(ExtractProgress()), previous="sha256:before")

    with pytest.raises(ChainBroken):
        ExtractProgress().with_link(link, run=FIRST_RUN, now=NOON)


@pytest.mark.parametrize("kind", [BatchKind.AHEAD, BatchKind.REPAIR, BatchKind.REPLAY])
def test_a_link_that_moves_no_mark_takes_a_number_all_the_same(kind: BatchKind) -> None:
    half = grown(ExtractProgress(), None)

    after = grown(half, make_still(kind, half.cursor))

    assert (after.last_batch, after.cursor) == (BatchId(1, 2), half.cursor)
    assert after.counts.rows == 6


def test_an_abandoned_number_is_a_link_that_leaves_the_mark_and_what_was_proven() -> None:
    half = grown(ExtractProgress(), make_increment(START_CURSOR, high=at(10), proven=False))
    link = make_abandoned(make_plan(id=half.next_batch), mark=half.cursor, previous=half.last_link_digest)

    after = half.with_link(link, run=FIRST_RUN, now=NOON)

    assert (after.last_batch, after.cursor, after.last_link_digest) == (BatchId(1, 2), at(10), link.digest)
    assert (after.proven, after.counts.rows, after.counts.batches) == (False, 3, 2)


@pytest.mark.parametrize("kind", [BatchKind.AHEAD, BatchKind.REPAIR, BatchKind.REPLAY])
def test_a_link_that_must_not_move_the_mark_never_does(kind: BatchKind) -> None:
    half = grown(ExtractProgress(), None)
    link = next_link(half, make_still(kind, at(99)))

    with pytest.raises(DataInDoubt, match=f"batch 1-2 of kind {kind} would move the mark"):
        half.with_link(link, run=FIRST_RUN, now=NOON)


def test_an_abandonment_made_in_another_world_never_moves_the_mark() -> None:
    half = grown(ExtractProgress(), None)
    link = make_abandoned(make_plan(id=half.next_batch), mark=at(99), previous=half.last_link_digest)

    with pytest.raises(DataInDoubt, match="of kind abandoned would move the mark"):
        half.with_link(link, run=FIRST_RUN, now=NOON)


def test_an_abandonment_vouches_for_no_server() -> None:
    """It was planned for another server and read nothing from it: that is why it was abandoned."""
    half = grown(ExtractProgress(), None)
    world = replace(make_world(half.cursor), source_identity="server-2")
    plan = make_plan(replace(make_still(BatchKind.REPAIR, half.cursor), basis=world), id=half.next_batch)

    after = half.with_link(
        make_abandoned(plan, mark=half.cursor, previous=half.last_link_digest), run=FIRST_RUN, now=NOON
    )

    assert after.source_identity == "server-1"


@pytest.mark.parametrize(
    ("batches", "proven"),
    [([True], True), ([True, True], True), ([False], False), ([True, False], False), ([False, True], False)],
)
def test_a_mark_is_proven_only_where_every_step_to_it_was(*, batches: list[bool], proven: bool) -> None:
    """One unproven window may have lost a row: no later one brings it back."""
    half = ExtractProgress()
    for number, each in enumerate(batches):
        half = grown(half, make_increment(half.cursor, high=at(number + 1), proven=each))

    assert half.proven is proven


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("kind", [BatchKind.AHEAD, BatchKind.REPAIR, BatchKind.REPLAY])
def test_what_moves_no_mark_proves_nothing_and_unproves_nothing(kind: BatchKind, *, before: bool) -> None:
    half = grown(ExtractProgress(), make_increment(START_CURSOR, high=at(10), proven=before))

    after = grown(half, replace(make_still(kind, half.cursor), proven=not before))

    assert after.proven is before


@pytest.mark.parametrize("proven", [True, False])
def test_a_first_pass_is_proven_by_its_last_chunk(*, proven: bool) -> None:
    chunk = replace(make_chunk(START_CURSOR, horizon=at(100), reached=at(7)), proven=True)
    last = replace(make_chunk(START_CURSOR, horizon=at(100), reached=at(9), done=True), proven=proven)

    half = grown(ExtractProgress(), chunk)

    assert (half.proven, grown(half, last).proven) == (False, proven)


def test_a_new_generation_is_proven_from_where_it_began() -> None:
    half = grown(ExtractProgress(), make_increment(START_CURSOR, high=at(10), proven=False)).with_new_generation(
        at(5), snapshot=None
    )

    after = grown(half, make_increment(at(5), high=at(20), proven=True))

    assert (half.proven, after.proven) == (False, True)


def test_a_first_pass_leaves_the_mark_until_its_last_chunk() -> None:
    horizon = at(100)

    half = grown(ExtractProgress(), make_chunk(START_CURSOR, horizon=horizon, reached=at(7)))
    done = grown(half, make_chunk(START_CURSOR, horizon=horizon, reached=at(9), done=True))

    assert (half.cursor, half.snapshot) == (
        START_CURSOR,
        SnapshotProgress(horizon=horizon, reached_key=at(7), done=False),
    )
    assert (done.cursor, done.snapshot) == (horizon, SnapshotProgress(horizon=horizon, reached_key=at(9), done=True))


def test_what_is_read_after_a_first_pass_leaves_its_story() -> None:
    half = grown(ExtractProgress(), make_chunk(START_CURSOR, horizon=at(100), reached=at(9), done=True))

    after = grown(half, make_increment(at(100), high=at(200)))

    assert (after.cursor, after.snapshot) == (at(200), half.snapshot)


def test_the_horizon_of_a_first_pass_is_fixed_by_its_first_chunk() -> None:
    """A later H0 would put rows that were updated between both into neither the pass nor the increments."""
    half = grown(ExtractProgress(), make_chunk(START_CURSOR, horizon=at(100), reached=at(7)))
    link = next_link(half, make_chunk(START_CURSOR, horizon=at(101), reached=at(9), done=True))

    with pytest.raises(DataInDoubt, match="its snapshot has"):
        half.with_link(link, run=FIRST_RUN, now=NOON)


# Numbers over closed generations.


def test_numbers_run_through_closed_generations_in_the_order_of_reading() -> None:
    half = make_chain(2, 0, 1, seq=2)

    assert numbers(half) == ["1-1", "1-2", "3-1", "4-1", "4-2"]


@pytest.mark.parametrize(
    ("after", "due"),
    [
        (BEFORE_FIRST_BATCH, ["1-1", "1-2", "3-1", "4-1"]),
        (BatchId(1, 1), ["1-2", "3-1", "4-1"]),
        (BatchId(1, 2), ["3-1", "4-1"]),
        (BatchId(2, 0), ["3-1", "4-1"]),
        (BatchId(3, 1), ["4-1"]),
        (BatchId(4, 0), ["4-1"]),
        (BatchId(4, 1), []),
        (BatchId(9, 0), []),
    ],
    ids=str,
)
def test_a_target_lands_what_comes_behind_its_last_batch(after: BatchId, due: list[str]) -> None:
    assert numbers(make_chain(2, 0, 1, seq=1), after=after) == due


@given(st.lists(st.integers(0, 3), max_size=4), st.integers(0, 3))
def test_numbers_come_in_order_and_are_links(closed: list[int], seq: int) -> None:
    half = make_chain(*closed, seq=seq)

    found = [*half.batch_ids(after=BEFORE_FIRST_BATCH)]

    assert found == sorted(set(found))
    assert all(half.has_batch(batch) for batch in found)
    assert len(found) == sum(closed) + seq


@given(st.lists(st.integers(0, 3), max_size=3), st.integers(0, 3), st.data())
def test_numbers_run_back_as_they_ran_forth(closed: list[int], seq: int, data: st.DataObject) -> None:
    half = make_chain(*closed, seq=seq)
    spots = st.builds(BatchId, st.integers(1, len(closed) + 2), st.integers(0, 4))
    after, upto = data.draw(spots), data.draw(spots)

    back = [*half.batch_ids_newest_first(up_to=upto, after=after)]

    assert back == [batch for batch in half.batch_ids(after=after) if batch <= upto][::-1]


def test_generations_are_walked_in_their_order_and_not_in_that_of_text() -> None:
    half = replace(make_chain(*[1] * 10, seq=1), closed_generations={10: 1, 9: 1, 1: 1})

    assert numbers(half, after=BatchId(1, 1)) == ["9-1", "10-1", "11-1"]


@pytest.mark.parametrize(
    ("batch", "held"),
    [
        (BatchId(1, 0), False),
        (BatchId(1, 1), True),
        (BatchId(1, 2), True),
        (BatchId(1, 3), False),
        (BatchId(2, 1), False),
        (BatchId(3, 4), True),
        (BatchId(3, 5), False),
        (BatchId(4, 1), False),
    ],
    ids=str,
)
def test_a_number_is_a_link_up_to_the_end_of_its_generation(batch: BatchId, *, held: bool) -> None:
    assert make_chain(2, 0, seq=4).has_batch(batch) is held


def test_a_generation_ends_at_its_last_number() -> None:
    half = make_chain(2, 0, seq=4)

    assert [half.last_seq_of(generation) for generation in (1, 2, 3, 4, 9)] == [2, 0, 4, 0, 0]


def test_a_set_mark_opens_a_generation_and_closes_the_one_before() -> None:
    half = grown(ExtractProgress(), None, None)

    anew = half.with_new_generation(at(5), snapshot=None)

    assert (anew.last_batch, anew.next_batch, anew.closed_generations) == (BatchId(2, 0), BatchId(2, 1), {1: 2})
    assert (anew.cursor, anew.generation_start) == (at(5), at(5))
    assert (anew.strategy, anew.proven) == (RunStrategy.MANUAL, False)
    assert numbers(anew) == ["1-1", "1-2"]


def test_the_chain_goes_on_over_a_new_generation() -> None:
    """An outsider audits one chain from the first link to the last."""
    half = grown(ExtractProgress(), None, None)

    after = grown(half.with_new_generation(at(5), snapshot=None), make_increment(at(5), high=at(20)))

    assert after.last_batch == BatchId(2, 1)
    assert numbers(after) == ["1-1", "1-2", "2-1"]
    with pytest.raises(ChainBroken):
        half.with_new_generation(at(5), snapshot=None).with_link(
            replace(next_link(half.with_new_generation(at(5), snapshot=None)), previous=None), run=FIRST_RUN, now=NOON
        )


def test_a_new_generation_keeps_the_counts_of_the_life() -> None:
    half = grown(ExtractProgress(), None)

    assert half.with_new_generation(START_CURSOR, snapshot=None).counts == half.counts


def test_a_new_generation_forgets_the_first_pass_of_the_old_one_unless_told() -> None:
    half = grown(ExtractProgress(), make_chunk(START_CURSOR, horizon=at(100), reached=at(7)))
    halfway = half.snapshot

    assert half.with_new_generation(START_CURSOR, snapshot=None).snapshot is None
    assert half.with_new_generation(START_CURSOR, snapshot=halfway).snapshot == halfway


def test_every_set_closes_one_more_generation() -> None:
    half = grown(
        grown(ExtractProgress(), None).with_new_generation(START_CURSOR, snapshot=None), None, None
    ).with_new_generation(START_CURSOR, snapshot=None)

    assert half.closed_generations == {1: 1, 2: 2}
    assert half.with_new_generation(START_CURSOR, snapshot=None).closed_generations == {1: 1, 2: 2, 3: 0}


def test_closed_generations_cannot_be_changed_from_outside() -> None:
    closed = grown(ExtractProgress(), None).with_new_generation(START_CURSOR, snapshot=None).closed_generations

    with pytest.raises(TypeError):
        closed[1] = 0  # type: ignore[index]  # the fault to refuse


# The loaded half.


def test_a_landed_batch_moves_the_loaded_mark() -> None:
    link = make_link(make_plan(make_increment(START_CURSOR, high=at(10, 1))), rows=3, files=("part-1", "part-2"))

    half = LoadProgress().with_loaded_batch(link, rows=2, run=FIRST_RUN, now=LATER)

    assert (half.last_batch, half.cursor, half.loaded_at, half.file_count) == (BatchId(1, 1), at(10, 1), LATER, 2)
    assert (half.counts.rows, half.counts.files) == (2, 2)


def test_rows_count_as_the_ledger_has_them() -> None:
    """Of 3 rows read, one may stand in quarantine: the manifest's count would claim it loaded."""
    half = LoadProgress().with_loaded_batch(make_link(rows=3), rows=2, run=FIRST_RUN, now=NOON)

    assert half.counts.rows == 2


@pytest.mark.parametrize("batch", [BatchId(1, 1), BatchId(1, 2)], ids=str)
def test_a_landed_batch_is_not_landed_again(batch: BatchId) -> None:
    half = landed(LoadProgress(), BatchId(1, 1), BatchId(1, 2))

    with pytest.raises(BatchOutOfOrder, match=f"batch {batch} is already loaded: the last loaded batch is 1-2"):
        half.with_loaded_batch(make_link(make_plan(id=batch)), rows=3, run=FIRST_RUN, now=NOON)


def test_an_older_generation_is_not_landed_behind_a_newer_one() -> None:
    half = landed(LoadProgress(), BatchId(2, 1))

    with pytest.raises(BatchOutOfOrder):
        landed(half, BatchId(1, 9))


def test_the_ledger_must_hold_what_landed_in_this_load_generation() -> None:
    half = landed(replace(LoadProgress(), base=BatchId(1, 2), last_batch=BatchId(1, 2)), BatchId(1, 3), BatchId(1, 4))

    expected = [half.expects_in_ledger(BatchId(1, seq)) for seq in range(1, 6)]

    assert expected == [False, False, True, True, False]


def test_skipped_batches_are_passed_over_and_not_expected() -> None:
    half = landed(landed(LoadProgress(), BatchId(1, 1)).with_batches_skipped(BatchId(1, 3)), BatchId(1, 4))

    assert half.last_batch == BatchId(1, 4)
    assert half.skipped_batches == (SkippedBatches(after=BatchId(1, 1), up_to=BatchId(1, 3)),)
    assert [half.expects_in_ledger(BatchId(1, seq)) for seq in range(1, 6)] == [True, False, False, True, False]


def test_skipping_is_no_landing() -> None:
    half = landed(LoadProgress(), BatchId(1, 1))

    skipped = half.with_batches_skipped(BatchId(1, 3))

    assert (skipped.cursor, skipped.counts, skipped.file_count, skipped.loaded_at) == (
        half.cursor,
        half.counts,
        half.file_count,
        half.loaded_at,
    )


def test_batches_are_skipped_over_generations() -> None:
    half = landed(LoadProgress(), BatchId(1, 1)).with_batches_skipped(BatchId(2, 3))

    assert [half.expects_in_ledger(batch) for batch in (BatchId(1, 9), BatchId(2, 0), BatchId(2, 3))] == [
        False,
        False,
        False,
    ]


def test_spans_that_were_skipped_add_up() -> None:
    half = landed(LoadProgress().with_batches_skipped(BatchId(1, 1)), BatchId(1, 2)).with_batches_skipped(BatchId(1, 4))

    assert [half.expects_in_ledger(BatchId(1, seq)) for seq in range(1, 5)] == [False, True, False, False]


def test_the_last_that_landed_lies_before_all_that_was_skipped_since() -> None:
    half = landed(LoadProgress().with_batches_skipped(BatchId(1, 1)), BatchId(1, 2))

    assert half.last_loaded_batch == BatchId(1, 2)
    assert half.with_batches_skipped(BatchId(1, 3)).with_batches_skipped(BatchId(2, 1)).last_loaded_batch == BatchId(
        1, 2
    )
    assert LoadProgress().with_batches_skipped(BatchId(1, 3)).last_loaded_batch == BEFORE_FIRST_BATCH


@pytest.mark.parametrize("upto", [BatchId(1, 1), BatchId(1, 2)], ids=str)
def test_what_is_landed_is_not_skipped(upto: BatchId) -> None:
    with pytest.raises(BatchOutOfOrder, match=f"batch {upto} is already loaded"):
        landed(LoadProgress(), BatchId(1, 1), BatchId(1, 2)).with_batches_skipped(upto)


def test_a_span_holds_its_end_and_not_its_beginning() -> None:
    span = SkippedBatches(after=BatchId(1, 1), up_to=BatchId(1, 3))

    assert [BatchId(1, seq) in span for seq in range(1, 5)] == [False, True, True, False]


def test_a_reset_raises_the_load_generation_so_that_the_ledger_cannot_undo_it() -> None:
    half = landed(LoadProgress(), BatchId(1, 1), BatchId(1, 2))

    anew = half.with_new_generation(BEFORE_FIRST_BATCH, cursor=START_CURSOR)

    assert (anew.load_generation, anew.base, anew.last_batch, anew.cursor) == (
        2,
        BEFORE_FIRST_BATCH,
        BEFORE_FIRST_BATCH,
        START_CURSOR,
    )
    assert not any(anew.expects_in_ledger(BatchId(1, seq)) for seq in range(4))
    assert numbers(make_chain(seq=2), after=anew.last_batch) == ["1-1", "1-2"]


def test_a_reset_counts_its_files_anew_and_keeps_the_counts_of_the_life() -> None:
    half = landed(LoadProgress(), BatchId(1, 1), BatchId(1, 2))

    anew = half.with_new_generation(BEFORE_FIRST_BATCH, cursor=START_CURSOR)

    assert (anew.file_count, anew.counts) == (0, half.counts)
    assert landed(anew, BatchId(1, 1)).file_count == 2


def test_a_reset_to_where_it_stands_keeps_what_is_folded() -> None:
    half = landed(LoadProgress(), BatchId(1, 1))

    anew = half.with_new_generation(half.last_batch, cursor=half.cursor)

    assert (anew.load_generation, anew.last_batch, anew.file_count, anew.skipped_batches) == (
        2,
        half.last_batch,
        half.file_count,
        (),
    )


def test_a_loaded_mark_set_forward_names_what_it_leaves_out() -> None:
    """No silence: status and audit can tell which batches the target was told never to land."""
    half = landed(LoadProgress(), BatchId(1, 1))

    anew = half.with_new_generation(BatchId(1, 4), cursor=at(40))

    assert anew.skipped_batches == (SkippedBatches(after=BatchId(1, 1), up_to=BatchId(1, 4)),)
    assert (anew.base, anew.last_batch, anew.cursor) == (BatchId(1, 4), BatchId(1, 4), at(40))
    assert not anew.expects_in_ledger(BatchId(1, 3))


def test_a_batch_that_came_after_a_reset_is_expected_again() -> None:
    half = landed(
        landed(LoadProgress(), BatchId(1, 1))
        .with_batches_skipped(BatchId(1, 3))
        .with_new_generation(BEFORE_FIRST_BATCH, cursor=START_CURSOR),
        BatchId(1, 1),
    )

    half = landed(half, BatchId(1, 2))

    assert [half.expects_in_ledger(BatchId(1, seq)) for seq in range(1, 4)] == [True, True, False]


def test_what_an_earlier_load_generation_landed_stays_expected_under_it() -> None:
    """The ledger's key holds the load generation: asked under the new one, it would seem to have lost them all."""
    half = landed(LoadProgress(), BatchId(1, 1), BatchId(1, 2), BatchId(1, 3))

    half = landed(half.with_new_generation(BatchId(1, 2), cursor=at(20)), BatchId(1, 3))

    assert [half.expects_in_ledger(BatchId(1, seq)) for seq in range(1, 5)] == [True, True, True, False]
    assert [half.load_generation_of(BatchId(1, seq)) for seq in range(1, 5)] == [1, 1, 2, 2]


def test_a_span_of_landings_holds_its_end_and_not_its_beginning() -> None:
    span = EarlierLoads(load_generation=1, after=BatchId(1, 1), up_to=BatchId(1, 3))

    assert [BatchId(1, seq) in span for seq in range(1, 5)] == [False, True, True, False]


def test_going_back_stands_on_what_had_landed_by_then() -> None:
    before = landed(landed(LoadProgress(), BatchId(1, 1)).with_batches_skipped(BatchId(1, 2)), BatchId(1, 3))
    later = landed(before, BatchId(1, 4)).with_new_generation(BEFORE_FIRST_BATCH, cursor=START_CURSOR)

    back = later.with_rollback_to(before)

    assert (back.load_generation, back.base, back.last_batch) == (3, BatchId(1, 3), BatchId(1, 3))
    assert (back.cursor, back.file_count, back.skipped_batches) == (
        before.cursor,
        before.file_count,
        before.skipped_batches,
    )
    assert [back.expects_in_ledger(BatchId(1, seq)) for seq in range(1, 5)] == [True, False, True, False]
    assert [back.load_generation_of(BatchId(1, seq)) for seq in (1, 3, 4)] == [1, 1, 3]


def test_going_back_takes_nothing_from_the_counts_of_the_life() -> None:
    before = landed(LoadProgress(), BatchId(1, 1))
    later = landed(before, BatchId(1, 2))

    assert later.with_rollback_to(before).counts == later.counts


STEPS = st.lists(st.tuples(st.sampled_from(["land", "skip", "reset"]), st.integers(0, 6)), max_size=12)


@given(STEPS)
def test_the_ledger_must_hold_what_was_landed_and_is_not_undone(steps: list[tuple[str, int]]) -> None:
    """Whatever a person sets and skips: expected is what some load generation landed, and under that one."""
    half, held = LoadProgress(), dict[BatchId, int]()
    for step, number in steps:
        upto = BatchId(1, number)
        match step:
            case "land":
                half = landed(half, half.last_batch.next)
                held[half.last_batch] = half.load_generation
            case "skip" if upto > half.last_batch:
                half = half.with_batches_skipped(upto)
            case "reset":
                half = half.with_new_generation(upto, cursor=at(number))
                held = {batch: under for batch, under in held.items() if batch <= upto}
            case _:
                continue

    numbered = [BatchId(1, seq) for seq in range(1, 20)]
    assert {batch: half.load_generation_of(batch) for batch in numbered if half.expects_in_ledger(batch)} == held
    assert half.load_generation_of(half.last_batch.next) == half.load_generation


def test_counts_that_were_never_made_are_zero() -> None:
    assert ProgressCounts() == ZERO_COUNTS == LoadProgress().counts == ExtractProgress().counts
    assert Cursor() == ExtractProgress().generation_start == LoadProgress().cursor


def test_a_batch_out_of_turn_stops_the_stream() -> None:
    assert issubclass(BatchOutOfOrder, DataInDoubt)
