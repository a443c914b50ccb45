"""How streams stand, as events tell."""

import threading
import tracemalloc
from datetime import timedelta

from syncd.errors import TransactionConflict, WarehouseDown
from syncd.events import LoadRetried, RowsArrived, RowsQuarantined
from syncd.observe.board import Board
from syncd.observe.board_view import StageState, StreamState, StreamView
from syncd.observe.stage_state import MAX_LAG_POINTS, MAX_TEXT_CHARS
from syncd.observe.stream_state import MAX_RECORDS_PER_STREAM, ConfiguredStream
from tests.builders import NOON, ORDERS, at
from tests.unit.syncd.observe.stories import (
    EXTRACT,
    LOAD,
    began,
    due,
    ended,
    extracted,
    held_back,
    landed,
    make_board,
    stream_named,
    tell,
)
from watermarks.batch import BatchId
from watermarks.testing import ManualClock

DOWN = WarehouseDown("the warehouse is away", hint="Is it up?")


def orders(board: Board) -> StreamView:
    found = board.view().find("orders")
    assert found is not None
    return found


def test_a_stream_of_which_nothing_was_heard_has_not_run_yet() -> None:
    seen = orders(make_board())

    assert (seen.state, seen.last_stage.complete) == (StreamState.NEW, None)
    assert [each.state for each in seen.stages] == [StageState.NEW, StageState.NEW]


def test_a_pass_is_running_until_it_ends_and_says_when_it_comes_again() -> None:
    board, soon = make_board(), NOON + timedelta(seconds=60)

    tell(board, began(EXTRACT), RowsArrived(stream=ORDERS, batch=BatchId(1, 1), rows=70))
    running = orders(board)
    tell(board, ended(EXTRACT, mark=at(1, 1)), due(EXTRACT, soon))
    done = orders(board)

    assert (running.state, running.stages[0].rows_so_far) == (StreamState.RUNNING, 70)
    assert (running.stages[0].began_at, running.stages[0].strategy) == (NOON, "inter-table")
    assert (done.stages[0].state, done.stages[0].next_due_at, done.stages[0].mark) == (StageState.IDLE, soon, at(1, 1))


def test_a_pass_that_was_cut_tells_of_neither_failure_nor_success() -> None:
    clock = ManualClock(NOON)
    board = make_board(clock)
    tell(board, ended(EXTRACT, pending_batches=3), ended(LOAD, error=DOWN, pending_batches=3))
    clock.advance(60)

    tell(board, began(EXTRACT), ended(EXTRACT, state="waiting", interrupted=True))
    tell(board, began(LOAD), ended(LOAD, state="waiting", interrupted=True, reason="load was ended: the daemon stops"))
    extract, load = orders(board).stages

    assert (load.state, load.running, load.failure and load.failure.times) == (StageState.FAILED, False, 1)
    assert (extract.last_success_at, extract.failure, orders(board).pending_batches) == (NOON, None, 3)


def test_a_failure_stays_until_a_pass_ends_well() -> None:
    clock = ManualClock(NOON)
    board = make_board(clock)

    tell(board, began(LOAD), ended(LOAD, error=DOWN))
    clock.advance(30)
    tell(board, held_back(LOAD, "main is down"), began(LOAD), ended(LOAD, error=DOWN), began(LOAD))
    failed = orders(board).stages[1]
    tell(board, ended(LOAD))

    assert (failed.state, failed.running) == (StageState.FAILED, True)
    assert failed.failure is not None
    assert (failed.failure.message, failed.failure.hint) == ("the warehouse is away", "Is it up?")
    assert (failed.failure.since, failed.failure.times) == (NOON, 2)
    assert orders(board).stages[1].failure is None


def test_what_a_stage_waits_for_and_is_held_back_by_is_told() -> None:
    board, until = make_board(), NOON + timedelta(seconds=20)

    tell(
        board, ended(EXTRACT, state="waiting", reason="held by transaction 7"), held_back(LOAD, "no place", until=until)
    )
    seen = orders(board)

    assert (seen.stages[0].state, seen.stages[0].waiting_reason) == (StageState.WAITING, "held by transaction 7")
    assert (seen.stages[1].state, seen.stages[1].waiting_reason, seen.stages[1].held_until) == (
        StageState.HELD_BACK,
        "no place",
        until,
    )
    assert seen.state is StreamState.HELD_BACK


def test_lag_is_of_the_data_and_grows_while_nothing_is_heard() -> None:
    clock = ManualClock(NOON)
    board = make_board(clock)

    tell(board, ended(EXTRACT, behind=2, pending_batches=3))
    clock.advance(10)
    lake, target = orders(board).stages

    assert lake.complete is not None
    assert (lake.complete.upto, lake.complete.lag) == (NOON - timedelta(seconds=2), timedelta(seconds=12))
    assert target.complete is None


def test_a_target_has_what_the_lake_has_once_nothing_is_left_to_load() -> None:
    board = make_board()

    tell(board, ended(EXTRACT, behind=5, proven=False))

    complete = orders(board).last_stage.complete
    assert complete is not None
    assert (complete.upto, complete.is_proven) == (NOON - timedelta(seconds=5), False)


def test_a_target_is_never_said_to_fall_back() -> None:
    board = make_board()

    tell(board, ended(EXTRACT, behind=5), ended(LOAD, behind=50), ended(LOAD))

    complete = orders(board).last_stage.complete
    assert complete is not None
    assert complete.upto == NOON - timedelta(seconds=5)


def test_a_broken_promise_makes_a_stream_late() -> None:
    clock = ManualClock(NOON)
    board = make_board(clock, promised_lag=timedelta(seconds=60))
    tell(board, ended(EXTRACT, behind=1))

    before = orders(board).state
    clock.advance(60)

    assert (before, orders(board).state) == (StreamState.IDLE, StreamState.LATE)


def test_batches_move_marks_and_are_remembered_newest_first() -> None:
    board = make_board()

    tell(board, extracted(1, quarantined=4), extracted(2), landed(1, 2))
    tell(board, RowsQuarantined(stream=ORDERS, batch=BatchId(1, 2), rows=3, reason="too long"))
    seen = orders(board)

    assert [(one.first_batch, one.last_batch, one.kind) for one in seen.batches] == [
        ("1-1", "1-2", "loaded"),
        ("1-2", "1-2", "increment"),
        ("1-1", "1-1", "increment"),
    ]
    assert [each.mark for each in seen.stages] == [at(2, 2), at(2, 2)]
    assert (seen.pending_batches, seen.quarantined_rows) == (2, 7)


def test_throughput_is_of_the_last_minutes_alone() -> None:
    clock = ManualClock(NOON)
    board = make_board(clock)

    clock.advance(60)
    tell(board, extracted(1, rows=6_000))
    fast = orders(board).stages[0].rows_per_second
    clock.advance(600)

    assert fast == 100
    assert orders(board).stages[0].rows_per_second == 0


def test_the_line_of_lag_has_a_point_for_each_step_and_gaps_where_nothing_is_known() -> None:
    clock = ManualClock(NOON)
    board = make_board(clock)

    clock.advance(30)
    board.view()
    tell(board, ended(EXTRACT, behind=0))
    for _ in range(MAX_LAG_POINTS + 5):
        clock.advance(30)
        board.view()
    lags = orders(board).stages[0].lag_seconds

    assert len(lags) == MAX_LAG_POINTS
    assert lags[-1] == (MAX_LAG_POINTS + 5) * 30 + 30


def test_passes_that_find_nothing_are_one_line_however_many() -> None:
    board = make_board()

    tell(board, ended(EXTRACT, batches=1, rows=10, state="extracted"))
    tell(board, *[event for _ in range(500) for event in (ended(EXTRACT), ended(LOAD))])
    seen = orders(board)

    assert [(one.stage, one.state, one.times) for one in seen.runs] == [
        (LOAD, "nothing new", 500),
        (EXTRACT, "nothing new", 500),
        (EXTRACT, "extracted", 1),
    ]
    assert [run.state for _, run in board.view().runs] == ["extracted"]


def test_streams_with_trouble_come_first_and_those_at_work_keep_their_place() -> None:
    tables = ("broken", "calm", "held", "slow", "working")
    listed = [ConfiguredStream(stream=stream_named(table), target=table) for table in tables]
    board = Board(listed, clock=ManualClock(NOON))
    streams = [one.stream for one in listed]

    for stream in streams:
        tell(board, ended(EXTRACT, stream=stream), ended(LOAD, stream=stream))
    tell(board, ended(LOAD, stream=streams[0], error=DOWN), held_back(LOAD, "busy", stream=streams[2]))
    tell(board, ended(EXTRACT, stream=streams[3], reason="locked"), began(EXTRACT, stream=streams[4]))

    assert [one.stream.table for one in board.view().streams] == ["broken", "held", "slow", "calm", "working"]


def test_a_stream_without_a_target_has_one_stage_and_nothing_pending() -> None:
    board = make_board(target="")

    tell(board, extracted(1), ended(EXTRACT, behind=3, pending_batches=1))
    seen = orders(board)

    assert (len(seen.stages), seen.pending_batches) == (1, 0)
    assert seen.last_stage.complete is not None


def test_other_settings_bring_and_take_streams_and_keep_what_is_known() -> None:
    board = make_board()
    tell(board, ended(EXTRACT, behind=3))

    board.set_streams(
        [
            ConfiguredStream(stream=ORDERS, target="public.o", schedule="every 5m"),
            ConfiguredStream(stream=stream_named("new")),
        ]
    )
    known = orders(board)
    board.set_streams([ConfiguredStream(stream=stream_named("new"))])

    assert (known.schedule, known.last_stage.complete is not None) == ("every 5m", True)
    assert [one.stream.table for one in board.view().streams] == ["new"]


def test_a_name_that_two_streams_have_finds_neither() -> None:
    other = ConfiguredStream(stream=type(ORDERS)(source="eu", database="shop", table="orders"))
    board = Board([ConfiguredStream(stream=ORDERS), other], clock=ManualClock(NOON))

    assert board.view().find("orders") is None
    assert board.view().find(str(ORDERS)) is not None


def test_memory_does_not_grow_with_age() -> None:
    board = make_board()
    noise = [
        extracted(1),
        landed(1, 1),
        LoadRetried(stream=ORDERS, error=TransactionConflict("x" * 10_000), seconds=1.0),
    ]

    def live(rounds: int) -> int:
        for number in range(rounds):
            reason = f"{number} {'y' * 10_000}"
            tell(board, *noise, ended(EXTRACT, state="waiting", reason=reason), held_back(LOAD, reason))
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        young, old = live(50), live(500)
    finally:
        tracemalloc.stop()

    seen = orders(board)
    assert old - young < 20_000
    assert len(seen.runs) == len(seen.batches) == MAX_RECORDS_PER_STREAM
    assert all(len(one.text) <= MAX_TEXT_CHARS + 1 for one in seen.notices)


def test_readers_and_tellers_do_not_disturb_each_other() -> None:
    board = make_board()
    tellers = [threading.Thread(target=tell, args=(board, *[extracted(1)] * 500)) for _ in range(4)]

    for each in tellers:
        each.start()
    while any(each.is_alive() for each in tellers):
        assert len(board.view().streams) == 1
    for each in tellers:
        each.join()

    assert orders(board).pending_batches == 2_000
