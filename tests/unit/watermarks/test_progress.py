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
from watermarks.batch import BatchId, ChainBroken, Draft, Kind, Link, Snapshot
from watermarks.cursor import START, Cursor
from watermarks.errors import DataInDoubt
from watermarks.progress import NO_COUNTS, ORIGIN, Extracted, Landings, Loaded, OutOfTurn, Run, Skipped, Strategy, Tally

LATER = NOON + timedelta(hours=1)


def make_chain(*closed: int, seq: int = 0) -> Extracted:
    """A half whose earlier generations end at these numbers."""
    ends = dict(enumerate(closed, start=1))
    return Extracted(generation=len(closed) + 1, seq=seq, closed=ends)


def next_link(half: Extracted, draft: Draft | None = None, *, rows: int = 3) -> Link:
    """The link that follows."""
    draft = draft or make_increment(half.cursor, high=at(10 * (half.seq + 1)))
    files = tuple(f"part-{half.next}-{number}" for number in range(2 if rows else 0))
    return make_link(make_plan(draft, id=half.next), rows=rows, files=files, previous=half.chain)


def grown(half: Extracted, *drafts: Draft | None, run: Run = FIRST_RUN) -> Extracted:
    """The half after links of these drafts."""
    for draft in drafts:
        half = half.with_link(next_link(half, draft), run=run, at=NOON)
    return half


def numbers(half: Extracted, *, after: BatchId = ORIGIN) -> list[str]:
    return [str(batch) for batch in half.ids(after=after)]


def landed(half: Loaded, *batches: BatchId, run: Run = FIRST_RUN) -> Loaded:
    for batch in batches:
        half = half.with_landed(make_link(make_plan(id=batch)), rows=3, run=run, at=NOON)
    return half


# Tallies.


def test_counts_of_a_run_are_summed_batch_by_batch() -> None:
    run = Run(id="a", seconds=0.25)

    tally = NO_COUNTS.plus(run, rows=3, files=1).plus(run, rows=4, files=2)

    assert (tally.run, tally.run_rows, tally.run_files) == ("a", 7, 3)
    assert (tally.rows, tally.files, tally.batches, tally.milliseconds) == (7, 3, 2, 500)


def test_counts_of_the_run_begin_anew_with_each_run_and_those_of_the_life_do_not() -> None:
    """The earlier tool added a session's running total to the total at every batch."""
    tally = NO_COUNTS.plus(Run(id="a"), rows=3, files=1).plus(Run(id="b"), rows=4, files=2)

    assert (tally.run, tally.run_rows, tally.run_files) == ("b", 4, 2)
    assert (tally.rows, tally.files, tally.batches) == (7, 3, 2)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 9))))
def test_every_batch_counts_once(batches: list[tuple[str, int, int]]) -> None:
    tally = NO_COUNTS
    for run, rows, files in batches:
        tally = tally.plus(Run(id=run), rows=rows, files=files)

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
    tally = NO_COUNTS
    for _ in range(10):
        tally = tally.plus(Run(id="a", seconds=0.1), rows=0, files=0)

    assert tally.milliseconds == 1000


# The chain of the extracted half.


def test_a_stream_begins_before_its_first_batch() -> None:
    half = Extracted()

    assert (half.last, half.next) == (ORIGIN, BatchId(1, 1))
    assert numbers(half) == []


def test_a_link_moves_the_mark_to_its_end() -> None:
    half = Extracted()
    link = next_link(half, make_increment(START, high=at(10, 1)))

    after = half.with_link(link, run=Run(id="a", strategy=Strategy.INTER_TABLE), at=LATER)

    assert (after.last, after.cursor, after.chain, after.at) == (BatchId(1, 1), at(10, 1), link.digest, LATER)
    assert (after.proven, after.source_identity, after.strategy) == (True, "server-1", Strategy.INTER_TABLE)
    assert (after.tally.rows, after.tally.files, after.tally.batches) == (3, 2, 1)
    assert half == Extracted()


def test_links_follow_each_other() -> None:
    half = grown(Extracted(), None, None, None)

    assert numbers(half) == ["1-1", "1-2", "1-3"]
    assert half.cursor == at(30)
    assert half.tally.rows == 9


@pytest.mark.parametrize("batch", [BatchId(1, 2), BatchId(1, 4), BatchId(1, 1), BatchId(2, 1), BatchId(2, 3)], ids=str)
def test_a_link_out_of_turn_is_refused(batch: BatchId) -> None:
    half = grown(Extracted(), None, None)
    link = replace(next_link(half), id=batch)

    with pytest.raises(OutOfTurn, match=f"batch {batch} does not follow 1-2") as caught:
        half.with_link(link, run=FIRST_RUN, at=NOON)

    assert "syncd watermark history" in caught.value.hint


@pytest.mark.parametrize("previous", [None, "sha256:" + "0" * 64])
def test_a_link_that_names_another_one_before_it_is_refused(previous: str | None) -> None:
    """The number alone proves nothing: a restored lake may hold another batch under it."""
    half = grown(Extracted(), None)
    link = replace(next_link(half), previous=previous)

    with pytest.raises(ChainBroken, match=f"follows {previous}, the newest link is {half.chain}") as caught:
        half.with_link(link, run=FIRST_RUN, at=NOON)

    assert "syncd audit" in caught.value.hint


def test_the_first_link_names_none_before_it() -> None:
    link = replace(next_link(Extracted()), previous="sha256:before")

    with pytest.raises(ChainBroken):
        Extracted().with_link(link, run=FIRST_RUN, at=NOON)


@pytest.mark.parametrize("kind", [Kind.AHEAD, Kind.REPAIR, Kind.REPLAY])
def test_a_link_that_moves_no_mark_takes_a_number_all_the_same(kind: Kind) -> None:
    half = grown(Extracted(), None)

    after = grown(half, make_still(kind, half.cursor))

    assert (after.last, after.cursor) == (BatchId(1, 2), half.cursor)
    assert after.tally.rows == 6


def test_an_abandoned_number_is_a_link_that_leaves_the_mark_and_what_was_proven() -> None:
    half = grown(Extracted(), make_increment(START, high=at(10), proven=False))
    link = make_abandoned(make_plan(id=half.next), mark=half.cursor, previous=half.chain)

    after = half.with_link(link, run=FIRST_RUN, at=NOON)

    assert (after.last, after.cursor, after.chain) == (BatchId(1, 2), at(10), link.digest)
    assert (after.proven, after.tally.rows, after.tally.batches) == (False, 3, 2)


@pytest.mark.parametrize("kind", [Kind.AHEAD, Kind.REPAIR, Kind.REPLAY])
def test_a_link_that_must_not_move_the_mark_never_does(kind: Kind) -> None:
    half = grown(Extracted(), None)
    link = next_link(half, make_still(kind, at(99)))

    with pytest.raises(DataInDoubt, match=f"batch 1-2 of kind {kind} would move the mark"):
        half.with_link(link, run=FIRST_RUN, at=NOON)


def test_an_abandonment_made_in_another_world_never_moves_the_mark() -> None:
    half = grown(Extracted(), None)
    link = make_abandoned(make_plan(id=half.next), mark=at(99), previous=half.chain)

    with pytest.raises(DataInDoubt, match="of kind abandoned would move the mark"):
        half.with_link(link, run=FIRST_RUN, at=NOON)


def test_an_abandonment_vouches_for_no_server() -> None:
    """It was planned for another server and read nothing from it: that is why it was abandoned."""
    half = grown(Extracted(), None)
    world = replace(make_world(half.cursor), source_identity="server-2")
    plan = make_plan(replace(make_still(Kind.REPAIR, half.cursor), world=world), id=half.next)

    after = half.with_link(make_abandoned(plan, mark=half.cursor, previous=half.chain), run=FIRST_RUN, at=NOON)

    assert after.source_identity == "server-1"


@pytest.mark.parametrize(
    ("batches", "proven"),
    [([True], True), ([True, True], True), ([False], False), ([True, False], False), ([False, True], False)],
)
def test_a_mark_is_proven_only_where_every_step_to_it_was(*, batches: list[bool], proven: bool) -> None:
    """One unproven window may have lost a row: no later one brings it back."""
    half = Extracted()
    for number, each in enumerate(batches):
        half = grown(half, make_increment(half.cursor, high=at(number + 1), proven=each))

    assert half.proven is proven


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("kind", [Kind.AHEAD, Kind.REPAIR, Kind.REPLAY])
def test_what_moves_no_mark_proves_nothing_and_unproves_nothing(kind: Kind, *, before: bool) -> None:
    half = grown(Extracted(), make_increment(START, high=at(10), proven=before))

    after = grown(half, replace(make_still(kind, half.cursor), proven=not before))

    assert after.proven is before


@pytest.mark.parametrize("proven", [True, False])
def test_a_first_pass_is_proven_by_its_last_chunk(*, proven: bool) -> None:
    chunk = replace(make_chunk(START, horizon=at(100), reached=at(7)), proven=True)
    last = replace(make_chunk(START, horizon=at(100), reached=at(9), done=True), proven=proven)

    half = grown(Extracted(), chunk)

    assert (half.proven, grown(half, last).proven) == (False, proven)


def test_a_new_generation_is_proven_from_where_it_began() -> None:
    half = grown(Extracted(), make_increment(START, high=at(10), proven=False)).anew(at(5), snapshot=None)

    after = grown(half, make_increment(at(5), high=at(20), proven=True))

    assert (half.proven, after.proven) == (False, True)


def test_a_first_pass_leaves_the_mark_until_its_last_chunk() -> None:
    horizon = at(100)

    half = grown(Extracted(), make_chunk(START, horizon=horizon, reached=at(7)))
    done = grown(half, make_chunk(START, horizon=horizon, reached=at(9), done=True))

    assert (half.cursor, half.snapshot) == (START, Snapshot(horizon=horizon, reached=at(7), done=False))
    assert (done.cursor, done.snapshot) == (horizon, Snapshot(horizon=horizon, reached=at(9), done=True))


def test_what_is_read_after_a_first_pass_leaves_its_story() -> None:
    half = grown(Extracted(), make_chunk(START, horizon=at(100), reached=at(9), done=True))

    after = grown(half, make_increment(at(100), high=at(200)))

    assert (after.cursor, after.snapshot) == (at(200), half.snapshot)


def test_the_horizon_of_a_first_pass_is_fixed_by_its_first_chunk() -> None:
    """A later H0 would put rows that were updated between both into neither the pass nor the increments."""
    half = grown(Extracted(), make_chunk(START, horizon=at(100), reached=at(7)))
    link = next_link(half, make_chunk(START, horizon=at(101), reached=at(9), done=True))

    with pytest.raises(DataInDoubt, match="its first pass began with"):
        half.with_link(link, run=FIRST_RUN, at=NOON)


# Numbers over closed generations.


def test_numbers_run_through_closed_generations_in_the_order_of_reading() -> None:
    half = make_chain(2, 0, 1, seq=2)

    assert numbers(half) == ["1-1", "1-2", "3-1", "4-1", "4-2"]


@pytest.mark.parametrize(
    ("after", "due"),
    [
        (ORIGIN, ["1-1", "1-2", "3-1", "4-1"]),
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

    found = [*half.ids(after=ORIGIN)]

    assert found == sorted(set(found))
    assert all(half.holds(batch) for batch in found)
    assert len(found) == sum(closed) + seq


@given(st.lists(st.integers(0, 3), max_size=3), st.integers(0, 3), st.data())
def test_numbers_run_back_as_they_ran_forth(closed: list[int], seq: int, data: st.DataObject) -> None:
    half = make_chain(*closed, seq=seq)
    spots = st.builds(BatchId, st.integers(1, len(closed) + 2), st.integers(0, 4))
    after, upto = data.draw(spots), data.draw(spots)

    back = [*half.ids_back(upto=upto, after=after)]

    assert back == [batch for batch in half.ids(after=after) if batch <= upto][::-1]


def test_generations_are_walked_in_their_order_and_not_in_that_of_text() -> None:
    half = replace(make_chain(*[1] * 10, seq=1), closed={10: 1, 9: 1, 1: 1})

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
    assert make_chain(2, 0, seq=4).holds(batch) is held


def test_a_generation_ends_at_its_last_number() -> None:
    half = make_chain(2, 0, seq=4)

    assert [half.end_of(generation) for generation in (1, 2, 3, 4, 9)] == [2, 0, 4, 0, 0]


def test_a_set_mark_opens_a_generation_and_closes_the_one_before() -> None:
    half = grown(Extracted(), None, None)

    anew = half.anew(at(5), snapshot=None)

    assert (anew.last, anew.next, anew.closed) == (BatchId(2, 0), BatchId(2, 1), {1: 2})
    assert (anew.cursor, anew.began) == (at(5), at(5))
    assert (anew.strategy, anew.proven) == (Strategy.MANUAL, False)
    assert numbers(anew) == ["1-1", "1-2"]


def test_the_chain_goes_on_over_a_new_generation() -> None:
    """An outsider audits one chain from the first link to the last."""
    half = grown(Extracted(), None, None)

    after = grown(half.anew(at(5), snapshot=None), make_increment(at(5), high=at(20)))

    assert after.last == BatchId(2, 1)
    assert numbers(after) == ["1-1", "1-2", "2-1"]
    with pytest.raises(ChainBroken):
        half.anew(at(5), snapshot=None).with_link(
            replace(next_link(half.anew(at(5), snapshot=None)), previous=None), run=FIRST_RUN, at=NOON
        )


def test_a_new_generation_keeps_the_counts_of_the_life() -> None:
    half = grown(Extracted(), None)

    assert half.anew(START, snapshot=None).tally == half.tally


def test_a_new_generation_forgets_the_first_pass_of_the_old_one_unless_told() -> None:
    half = grown(Extracted(), make_chunk(START, horizon=at(100), reached=at(7)))
    halfway = half.snapshot

    assert half.anew(START, snapshot=None).snapshot is None
    assert half.anew(START, snapshot=halfway).snapshot == halfway


def test_every_set_closes_one_more_generation() -> None:
    half = grown(grown(Extracted(), None).anew(START, snapshot=None), None, None).anew(START, snapshot=None)

    assert half.closed == {1: 1, 2: 2}
    assert half.anew(START, snapshot=None).closed == {1: 1, 2: 2, 3: 0}


def test_closed_generations_cannot_be_changed_from_outside() -> None:
    closed = grown(Extracted(), None).anew(START, snapshot=None).closed

    with pytest.raises(TypeError):
        closed[1] = 0  # type: ignore[index]  # the fault to refuse


# The loaded half.


def test_a_landed_batch_moves_the_loaded_mark() -> None:
    link = make_link(make_plan(make_increment(START, high=at(10, 1))), rows=3, files=("part-1", "part-2"))

    half = Loaded().with_landed(link, rows=2, run=FIRST_RUN, at=LATER)

    assert (half.last, half.cursor, half.at, half.folded) == (BatchId(1, 1), at(10, 1), LATER, 2)
    assert (half.tally.rows, half.tally.files) == (2, 2)


def test_rows_count_as_the_ledger_has_them() -> None:
    """Of 3 rows read, one may stand in quarantine: the manifest's count would claim it loaded."""
    half = Loaded().with_landed(make_link(rows=3), rows=2, run=FIRST_RUN, at=NOON)

    assert half.tally.rows == 2


@pytest.mark.parametrize("batch", [BatchId(1, 1), BatchId(1, 2)], ids=str)
def test_a_landed_batch_is_not_landed_again(batch: BatchId) -> None:
    half = landed(Loaded(), BatchId(1, 1), BatchId(1, 2))

    with pytest.raises(OutOfTurn, match=f"batch {batch} is landed already, 1-2 is the last"):
        half.with_landed(make_link(make_plan(id=batch)), rows=3, run=FIRST_RUN, at=NOON)


def test_an_older_generation_is_not_landed_behind_a_newer_one() -> None:
    half = landed(Loaded(), BatchId(2, 1))

    with pytest.raises(OutOfTurn):
        landed(half, BatchId(1, 9))


def test_the_ledger_must_hold_what_landed_in_this_load_generation() -> None:
    half = landed(replace(Loaded(), base=BatchId(1, 2), last=BatchId(1, 2)), BatchId(1, 3), BatchId(1, 4))

    expected = [half.expects(BatchId(1, seq)) for seq in range(1, 6)]

    assert expected == [False, False, True, True, False]


def test_skipped_batches_are_passed_over_and_not_expected() -> None:
    half = landed(landed(Loaded(), BatchId(1, 1)).skipping(BatchId(1, 3)), BatchId(1, 4))

    assert half.last == BatchId(1, 4)
    assert half.skipped == (Skipped(after=BatchId(1, 1), upto=BatchId(1, 3)),)
    assert [half.expects(BatchId(1, seq)) for seq in range(1, 6)] == [True, False, False, True, False]


def test_skipping_is_no_landing() -> None:
    half = landed(Loaded(), BatchId(1, 1))

    skipped = half.skipping(BatchId(1, 3))

    assert (skipped.cursor, skipped.tally, skipped.folded, skipped.at) == (
        half.cursor,
        half.tally,
        half.folded,
        half.at,
    )


def test_batches_are_skipped_over_generations() -> None:
    half = landed(Loaded(), BatchId(1, 1)).skipping(BatchId(2, 3))

    assert [half.expects(batch) for batch in (BatchId(1, 9), BatchId(2, 0), BatchId(2, 3))] == [False, False, False]


def test_spans_that_were_skipped_add_up() -> None:
    half = landed(Loaded().skipping(BatchId(1, 1)), BatchId(1, 2)).skipping(BatchId(1, 4))

    assert [half.expects(BatchId(1, seq)) for seq in range(1, 5)] == [False, True, False, False]


def test_the_last_that_landed_lies_before_all_that_was_skipped_since() -> None:
    half = landed(Loaded().skipping(BatchId(1, 1)), BatchId(1, 2))

    assert half.last_landed == BatchId(1, 2)
    assert half.skipping(BatchId(1, 3)).skipping(BatchId(2, 1)).last_landed == BatchId(1, 2)
    assert Loaded().skipping(BatchId(1, 3)).last_landed == ORIGIN


@pytest.mark.parametrize("upto", [BatchId(1, 1), BatchId(1, 2)], ids=str)
def test_what_is_landed_is_not_skipped(upto: BatchId) -> None:
    with pytest.raises(OutOfTurn, match=f"batch {upto} is landed already"):
        landed(Loaded(), BatchId(1, 1), BatchId(1, 2)).skipping(upto)


def test_a_span_holds_its_end_and_not_its_beginning() -> None:
    span = Skipped(after=BatchId(1, 1), upto=BatchId(1, 3))

    assert [BatchId(1, seq) in span for seq in range(1, 5)] == [False, True, True, False]


def test_a_reset_raises_the_load_generation_so_that_the_ledger_cannot_undo_it() -> None:
    half = landed(Loaded(), BatchId(1, 1), BatchId(1, 2))

    anew = half.anew(ORIGIN, cursor=START)

    assert (anew.load_generation, anew.base, anew.last, anew.cursor) == (2, ORIGIN, ORIGIN, START)
    assert not any(anew.expects(BatchId(1, seq)) for seq in range(4))
    assert numbers(make_chain(seq=2), after=anew.last) == ["1-1", "1-2"]


def test_a_reset_counts_its_files_anew_and_keeps_the_counts_of_the_life() -> None:
    half = landed(Loaded(), BatchId(1, 1), BatchId(1, 2))

    anew = half.anew(ORIGIN, cursor=START)

    assert (anew.folded, anew.tally) == (0, half.tally)
    assert landed(anew, BatchId(1, 1)).folded == 2


def test_a_reset_to_where_it_stands_keeps_what_is_folded() -> None:
    half = landed(Loaded(), BatchId(1, 1))

    anew = half.anew(half.last, cursor=half.cursor)

    assert (anew.load_generation, anew.last, anew.folded, anew.skipped) == (2, half.last, half.folded, ())


def test_a_loaded_mark_set_forward_names_what_it_leaves_out() -> None:
    """No silence: status and audit can tell which batches the target was told never to land."""
    half = landed(Loaded(), BatchId(1, 1))

    anew = half.anew(BatchId(1, 4), cursor=at(40))

    assert anew.skipped == (Skipped(after=BatchId(1, 1), upto=BatchId(1, 4)),)
    assert (anew.base, anew.last, anew.cursor) == (BatchId(1, 4), BatchId(1, 4), at(40))
    assert not anew.expects(BatchId(1, 3))


def test_a_batch_that_came_after_a_reset_is_expected_again() -> None:
    half = landed(landed(Loaded(), BatchId(1, 1)).skipping(BatchId(1, 3)).anew(ORIGIN, cursor=START), BatchId(1, 1))

    half = landed(half, BatchId(1, 2))

    assert [half.expects(BatchId(1, seq)) for seq in range(1, 4)] == [True, True, False]


def test_what_an_earlier_load_generation_landed_stays_expected_under_it() -> None:
    """The ledger's key holds the load generation: asked under the new one, it would seem to have lost them all."""
    half = landed(Loaded(), BatchId(1, 1), BatchId(1, 2), BatchId(1, 3))

    half = landed(half.anew(BatchId(1, 2), cursor=at(20)), BatchId(1, 3))

    assert [half.expects(BatchId(1, seq)) for seq in range(1, 5)] == [True, True, True, False]
    assert [half.landed_under(BatchId(1, seq)) for seq in range(1, 5)] == [1, 1, 2, 2]


def test_a_span_of_landings_holds_its_end_and_not_its_beginning() -> None:
    span = Landings(load_generation=1, after=BatchId(1, 1), upto=BatchId(1, 3))

    assert [BatchId(1, seq) in span for seq in range(1, 5)] == [False, True, True, False]


def test_going_back_stands_on_what_had_landed_by_then() -> None:
    before = landed(landed(Loaded(), BatchId(1, 1)).skipping(BatchId(1, 2)), BatchId(1, 3))
    later = landed(before, BatchId(1, 4)).anew(ORIGIN, cursor=START)

    back = later.back_at(before)

    assert (back.load_generation, back.base, back.last) == (3, BatchId(1, 3), BatchId(1, 3))
    assert (back.cursor, back.folded, back.skipped) == (before.cursor, before.folded, before.skipped)
    assert [back.expects(BatchId(1, seq)) for seq in range(1, 5)] == [True, False, True, False]
    assert [back.landed_under(BatchId(1, seq)) for seq in (1, 3, 4)] == [1, 1, 3]


def test_going_back_takes_nothing_from_the_counts_of_the_life() -> None:
    before = landed(Loaded(), BatchId(1, 1))
    later = landed(before, BatchId(1, 2))

    assert later.back_at(before).tally == later.tally


STEPS = st.lists(st.tuples(st.sampled_from(["land", "skip", "reset"]), st.integers(0, 6)), max_size=12)


@given(STEPS)
def test_the_ledger_must_hold_what_was_landed_and_is_not_undone(steps: list[tuple[str, int]]) -> None:
    """Whatever a person sets and skips: expected is what some load generation landed, and under that one."""
    half, held = Loaded(), dict[BatchId, int]()
    for step, number in steps:
        upto = BatchId(1, number)
        match step:
            case "land":
                half = landed(half, half.last.next)
                held[half.last] = half.load_generation
            case "skip" if upto > half.last:
                half = half.skipping(upto)
            case "reset":
                half = half.anew(upto, cursor=at(number))
                held = {batch: under for batch, under in held.items() if batch <= upto}
            case _:
                continue

    numbered = [BatchId(1, seq) for seq in range(1, 20)]
    assert {batch: half.landed_under(batch) for batch in numbered if half.expects(batch)} == held
    assert half.landed_under(half.last.next) == half.load_generation


def test_counts_that_were_never_made_are_zero() -> None:
    assert Tally() == NO_COUNTS == Loaded().tally == Extracted().tally
    assert Cursor() == Extracted().began == Loaded().cursor


def test_a_batch_out_of_turn_stops_the_stream() -> None:
    assert issubclass(OutOfTurn, DataInDoubt)
