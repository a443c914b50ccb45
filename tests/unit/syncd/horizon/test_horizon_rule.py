from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from syncd.events import WaitKind, wait_kind
from syncd.horizon import (
    NO_CONNECTION,
    HorizonNotes,
    HorizonPoll,
    ServerThread,
    Visibility,
    WritingTransaction,
    compute_horizons,
)
from syncd.horizon.horizon_notes import MAX_BREAKS, MAX_CANDIDATES, merge_breaks
from syncd.horizon.horizon_rule import FULL_NOTES_RETENTION
from syncd.horizon.transaction_readings import STAMP_TO_TIMER_GAP
from syncd.ports.source import Horizon, HorizonRequest, ServerTimeBreak, TableName

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ORDERS = TableName(database="shop", table="orders")
ITEMS = TableName(database="shop", table="items")
BOTH = frozenset({ORDERS, ITEMS})


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def listed(seconds: float) -> datetime:
    """The bound of a statement that its server lists as begun then."""
    return at(seconds) - STAMP_TO_TIMER_GAP


def thread(
    connection: int = 7,
    busy: float = 0,
    *,
    state: str = "executing",
    kind: str = "insert",
    command: str = "Query",
    user: str = "app",
    whole_seconds: bool = False,
) -> ServerThread:
    return ServerThread(
        connection=connection,
        lock_owner=connection + 100,
        command=command,
        running_for=timedelta(seconds=busy),
        whole_seconds=whole_seconds,
        state=state,
        user=user,
        kind=kind,
    )


def idle(connection: int = 7) -> ServerThread:
    return thread(connection, 90, command="Sleep", state="", kind="")


def writer(trx_id: str = "4711", connection: int = 7, *, xa: bool = False) -> WritingTransaction:
    return WritingTransaction(trx_id=trx_id, connection=connection, lock_owner=connection + 100, xa=xa)


def on(table: TableName, trx_id: str = "4711", connection: int = 7) -> WritingTransaction:
    return WritingTransaction(trx_id=trx_id, connection=connection, lock_owner=connection + 100, table=table)


def poll(
    seconds: float,
    *threads: ServerThread,
    writers: tuple[WritingTransaction, ...] = (),
    locks: Mapping[int, frozenset[TableName]] | None = None,
    read_only: frozenset[int] = frozenset(),
    identity: str = "one",
    ids: Mapping[TableName, int] | None = None,
) -> HorizonPoll:
    return HorizonPoll(
        t0=at(seconds),
        identity=identity,
        visibility=Visibility.SERVER,
        threads=threads,
        writers=writers,
        read_only=read_only,
        locks=locks,
        max_ids=ids or {},
    )


def by_table(
    seconds: float, *writers: WritingTransaction, tables: frozenset[TableName] = BOTH, passing: bool = False
) -> HorizonPoll:
    return HorizonPoll(
        t0=at(seconds),
        identity="one",
        visibility=Visibility.TABLES,
        writers=writers,
        tables=tables,
        is_temporary=passing,
    )


def blind(seconds: float, sight: Visibility = Visibility.BLIND, identity: str = "one") -> HorizonPoll:
    return HorizonPoll(
        t0=at(seconds), identity=identity, visibility=sight, problem="the account lacks the right PROCESS"
    )


def asked(table: TableName = ORDERS, mark: datetime | None = None) -> HorizonRequest:
    return HorizonRequest(table=table, mark=mark)


def after(*polls: HorizonPoll, table: TableName = ORDERS, mark: datetime | None = None) -> Horizon:
    """The answer to the last of several polls, each with the notes of the one before."""
    return chain(*polls, table=table, mark=mark)[0]


def chain(
    *polls: HorizonPoll, table: TableName = ORDERS, mark: datetime | None = None, notes: HorizonNotes | None = None
) -> tuple[Horizon, HorizonNotes | None]:
    horizon = None
    for readings in polls:
        horizons, notes = compute_horizons(readings, notes, [asked(table, mark)])
        horizon = horizons[table]
    assert horizon is not None
    return horizon, notes


def test_nobody_at_work_leaves_the_clock_as_the_bound() -> None:
    horizon = after(poll(0))

    assert (horizon.bound, horizon.proven, horizon.reason) == (at(0), True, "")


# Statements.


def test_running_statement_holds_its_start() -> None:
    assert after(poll(0), poll(10, thread(busy=4))).bound == listed(6)


def test_statement_of_a_connection_that_was_idle_began_after_the_last_poll() -> None:
    assert after(poll(0, idle()), poll(10, thread(busy=40))).bound == at(0)


def test_statement_that_ran_at_the_last_poll_may_have_begun_before_it() -> None:
    assert after(poll(0, thread(busy=5)), poll(10, thread(busy=15))).bound == listed(-5)


def test_whole_seconds_count_from_a_clock_cut_to_the_second_that_may_lag() -> None:
    # A statement of 11:59:58.1 is listed with one second at 12:00:00.002, where the clock that counts still shows 59.
    assert after(poll(0.002, thread(busy=1, whole_seconds=True))).bound == at(-2)


def test_time_that_the_server_does_not_tell_bounds_nothing() -> None:
    untold = ServerThread(connection=7, lock_owner=107, command="Query", running_for=None, whole_seconds=True)
    endless = ServerThread(
        connection=7, lock_owner=107, command="Query", running_for=timedelta(days=900_000), whole_seconds=True
    )

    for odd in (untold, endless):
        assert after(poll(0, odd)).bound == datetime.min.replace(tzinfo=UTC)
        assert after(poll(-1), poll(0, odd)).bound == at(-1)


def test_a_negative_time_is_none() -> None:
    assert after(poll(0, thread(busy=-900))).bound == listed(0)


@pytest.mark.parametrize("command", ["Sleep", "Daemon", "Binlog Dump", "Binlog Dump GTID"])
def test_connections_that_run_nothing_hold_nothing(command: str) -> None:
    assert after(poll(0, thread(busy=40, command=command))).bound == at(0)


@pytest.mark.parametrize("state", ["Waiting on empty queue", "Waiting for next activation"])
def test_event_scheduler_holds_nothing(state: str) -> None:
    assert after(poll(0, thread(busy=40, command="Connect", user="event_scheduler", state=state))).bound == at(0)


def test_what_an_event_runs_holds() -> None:
    worker = thread(busy=40, command="Connect", user="event_scheduler", state="User sleep", kind="event")
    assert after(poll(0, worker)).bound == listed(-40)


@pytest.mark.parametrize("kind", ["drop_table", "alter_table", "truncate", "rename_table", "optimize", "lock_tables"])
def test_statements_that_stamp_nothing_hold_nothing(kind: str) -> None:
    assert after(poll(0, thread(busy=40, kind=kind, state="Waiting for table metadata lock"))).bound == at(0)


@pytest.mark.parametrize("kind", ["create_table", "analyze", "drop_temporary", "drop_", "load", "call_procedure", ""])
def test_statements_that_may_stamp_hold(kind: str) -> None:
    assert after(poll(0, thread(busy=40, kind=kind, state="starting"))).bound == listed(-40)


def test_statement_of_a_transaction_that_cannot_write_holds_nothing() -> None:
    assert after(poll(0, thread(busy=40), read_only=frozenset({7}))).bound == at(0)


def test_statement_past_locking_holds_only_tables_it_locked_for_writing() -> None:
    readings = poll(0, thread(busy=40), locks={107: frozenset({ITEMS})})

    assert after(readings, table=ORDERS).bound == at(0)
    assert after(readings, table=ITEMS).bound == listed(-40)


def test_tables_are_told_apart_as_loosely_as_a_server_may() -> None:
    readings = poll(0, thread(busy=40), locks={107: frozenset({ORDERS})})
    shouted = TableName(database="SHOP", table="Orders")

    assert after(readings, table=shouted).bound == listed(-40)


@pytest.mark.parametrize(
    "state", ["Waiting for table metadata lock", "Opening tables", "starting", "", "no such state"]
)
def test_statement_that_may_still_lock_holds_every_table(state: str) -> None:
    assert after(poll(0, thread(busy=40, state=state), locks={})).bound == listed(-40)


def test_statement_that_computes_before_it_locks_holds_every_table() -> None:
    # MariaDB: SET STATEMENT max_statement_time = SLEEP(3) FOR INSERT ..., EXECUTE IMMEDIATE CONCAT(..., SLEEP(3)).
    for kind in ("set", "execute"):
        assert after(poll(0, thread(busy=40, state="User sleep", kind=kind), locks={})).bound == listed(-40)


def test_without_locks_a_statement_holds_every_table() -> None:
    assert after(poll(0, thread(busy=40), locks=None)).bound == listed(-40)


# Transactions.


def test_new_transaction_began_after_the_last_poll() -> None:
    assert after(poll(0, idle()), poll(10, idle(), writers=(writer(),))).bound == at(0)


def test_new_transaction_may_be_the_statement_that_ran_at_the_last_poll() -> None:
    assert after(poll(0, thread(busy=30)), poll(10, idle(), writers=(writer(),))).bound == listed(-30)


def test_transaction_keeps_the_bound_it_was_first_given() -> None:
    late = [poll(seconds, idle(), writers=(writer(),)) for seconds in (10, 20, 500)]

    horizon = after(poll(0), *late)

    assert horizon.bound == at(0)
    assert horizon.reason == "held by transaction 4711, user app, 500 s"
    assert wait_kind(horizon.reason) is WaitKind.HELD_TRANSACTION
    assert horizon.holder == "transaction 4711, user app"


def test_nobody_is_blamed_for_the_time_before_it_was_first_seen() -> None:
    """On a busy server some short transaction is open at every poll: it is the pause between polls that holds."""
    horizon = after(poll(0), poll(300, idle(), writers=(writer(),)))

    assert horizon.bound == at(0)
    assert horizon.holder == ""


def test_a_statement_that_the_server_lists_as_long_is_named_at_once() -> None:
    horizon = after(poll(0), poll(300, thread(busy=200)))

    assert horizon.bound == listed(100)
    assert horizon.holder == "a statement of connection 7, user app"


def test_transaction_that_ended_holds_nothing_more() -> None:
    assert after(poll(0), poll(10, idle(), writers=(writer(),)), poll(20, idle())).bound == at(20)


def test_transaction_holds_only_tables_it_locked_for_writing() -> None:
    late = poll(10, idle(), writers=(writer(),), locks={107: frozenset({ITEMS})})

    assert after(poll(0), late, table=ORDERS).bound == at(10)
    assert after(poll(0), late, table=ITEMS).bound == at(0)


def test_writer_without_any_lock_to_be_seen_holds_every_table() -> None:
    # MariaDB drops the metadata locks of a prepared XA whose client is still there.
    assert after(poll(0), poll(10, idle(), writers=(writer(),), locks={})).bound == at(0)


def test_writer_whose_connection_came_after_the_list_holds_every_table() -> None:
    late = poll(10, writers=(writer(connection=9),), locks={109: frozenset({ITEMS})})

    assert after(poll(0), late, table=ORDERS).bound == at(0)


@pytest.mark.parametrize("found", [writer(connection=NO_CONNECTION), writer(connection=8, xa=True)])
def test_prepared_transaction_may_be_any_statement_of_the_last_poll_on_any_table(found: WritingTransaction) -> None:
    first = poll(0, thread(7, busy=30))
    late = poll(10, idle(8), writers=(found,), locks={108: frozenset({ITEMS})})

    horizon = after(first, late, table=ORDERS)

    assert horizon.bound == listed(-30)


def test_reason_of_a_prepared_transaction_says_where_to_look() -> None:
    late = poll(10, writers=(writer(connection=NO_CONNECTION),))

    assert "XA RECOVER" in after(poll(0), late).reason


# The first poll.


def test_first_poll_knows_nothing_of_open_transactions() -> None:
    horizon = after(poll(0, idle(), writers=(writer(),)))

    assert (horizon.bound, horizon.proven) == (None, False)
    assert "transaction 4711, user app" in horizon.reason


def test_first_poll_takes_the_mark_for_open_transactions() -> None:
    horizon = after(poll(0, idle(), writers=(writer(),)), mark=at(-70))

    assert (horizon.bound, horizon.proven) == (at(-70), True)


def test_unknown_transactions_are_waited_for_by_name() -> None:
    first, second = poll(0, idle(), writers=(writer(),)), poll(1, idle(), writers=(writer(), writer("4712", 8)))

    assert after(first, second).bound is None
    assert after(first, second, poll(2, idle(8), writers=(writer("4712", 8),))).bound == at(0)


def test_unknown_transaction_holds_only_its_tables() -> None:
    assert after(poll(0, idle(), writers=(writer(),), locks={107: frozenset({ITEMS})})).bound == at(0)


def test_first_poll_believes_the_time_of_statements() -> None:
    assert after(poll(0, thread(busy=40))).bound == listed(-40)


# The last answer.


def test_bound_never_falls_below_the_last_answer() -> None:
    _, notes = chain(poll(0))
    assert notes is not None

    odd = chain(poll(10, thread(busy=900, connection=9), identity="one"), notes=notes)[0]
    assert odd.bound == at(0)


def test_bound_stays_when_a_known_statement_claims_to_be_older() -> None:
    # SET TIMESTAMP in the past.
    polls = poll(0, thread(busy=0)), poll(10, thread(busy=900))

    assert after(*polls).bound == listed(0)


def test_answers_of_one_table_are_no_floor_for_another() -> None:
    first = poll(0, idle(), writers=(writer(),), locks={107: frozenset({ITEMS})})
    _, notes = chain(first, table=ORDERS)

    assert chain(poll(5, idle(), writers=(writer(),), locks={107: BOTH}), table=ITEMS, notes=notes)[0].bound is None


# Another server, another time.


def test_another_server_drops_the_notes_and_knows_nothing_of_what_is_open_there() -> None:
    _, notes = chain(poll(0), poll(10, idle(), writers=(writer(),)))

    horizon, _ = chain(poll(-100, idle(), writers=(writer(),), identity="two"), notes=notes, mark=at(-200))

    assert (horizon.bound, horizon.proven) == (None, False)
    assert "transaction 4711" in horizon.reason


def test_another_server_proves_nothing_at_first_sight() -> None:
    _, notes = chain(poll(0))

    horizon, _ = chain(poll(10, identity="two"), notes=notes, mark=at(-200))

    assert (horizon.bound, horizon.proven) == (at(10), False)
    assert "another server" in horizon.reason


def test_another_server_proves_again_once_its_first_transactions_ended() -> None:
    open_there = poll(1, idle(), writers=(writer(),), identity="two")
    _, notes = chain(poll(0), open_there, mark=at(-5))
    still, notes = chain(poll(2, idle(), writers=(writer(),), identity="two"), notes=notes, mark=at(-5))
    assert not still.proven

    _, notes = chain(poll(3, identity="two"), notes=notes, mark=at(-5))
    horizon, _ = chain(poll(4, identity="two"), notes=notes, mark=at(-5))

    assert (horizon.bound, horizon.proven) == (at(4), True)


def test_another_server_that_shows_nothing_at_first_is_still_another_server() -> None:
    _, notes = chain(poll(0))

    seen, notes = chain(blind(1, identity="two"), notes=notes, mark=at(-5))
    later, _ = chain(poll(2, identity="two"), notes=notes, mark=at(-5))

    assert not seen.proven
    assert not later.proven


def test_every_break_is_told_to_everyone_who_asks_from_then_on() -> None:
    _, notes = chain(poll(0))
    replaced, notes = chain(replace(poll(5, identity="two"), local_time=at(105)), notes=notes)
    back, notes = chain(replace(poll(4, identity="two"), local_time=at(106)), notes=notes)

    later, _ = chain(poll(9, identity="two"), notes=notes)

    assert [each.clock_reset_to for each in replaced.breaks] == [None]
    assert [each.clock_reset_to for each in back.breaks] == [None, at(3)]
    assert later.breaks == back.breaks
    assert len({each.id for each in later.breaks}) == 2
    assert later.proven


def test_a_clock_that_went_back_may_have_done_so_as_long_ago_as_we_were_away() -> None:
    _, notes = chain(replace(poll(0), local_time=at(1000)))

    horizon, _ = chain(replace(poll(-10, idle(), writers=(writer(),)), local_time=at(1300)), notes=notes, mark=at(-1))

    assert [each.clock_reset_to for each in horizon.breaks] == [at(-310)]
    assert (horizon.bound, horizon.proven) == (None, False), "what is open may carry stamps of the repeated time"


@pytest.mark.parametrize(
    ("before", "here"),
    [
        (at(0), at(-300)),  # half an hour later both clocks went back by an hour, and this is 25 minutes after that
        (at(0), at(0)),
        (None, at(0)),
        (at(0), None),
    ],
)
def test_how_far_a_clock_went_back_is_not_guessed_where_ours_does_not_tell(
    before: datetime | None, here: datetime | None
) -> None:
    _, notes = chain(replace(poll(0), local_time=before))

    horizon, _ = chain(replace(poll(-300), local_time=here), notes=notes, mark=at(-1))

    assert [(each.clock_reset_to, each.is_start_unknown) for each in horizon.breaks] == [(None, True)]
    assert not horizon.proven


def test_a_break_is_the_same_one_for_as_long_as_the_notes_cannot_be_renewed() -> None:
    _, notes = chain(poll(0))

    first, notes = chain(blind(5, Visibility.NOTHING, identity="two"), notes=notes)
    second, notes = chain(blind(6, Visibility.NOTHING, identity="two"), notes=notes)
    seen, _ = chain(poll(7, identity="two"), notes=notes)

    assert first.breaks == second.breaks == seen.breaks
    assert len(seen.breaks) == 1


def test_of_many_breaks_the_oldest_hands_on_what_it_demands() -> None:
    breaks = tuple(
        ServerTimeBreak(id=str(number), clock_reset_to=at(-number) if number else None, is_other_server=not number)
        for number in range(MAX_BREAKS + 3)
    )

    kept = merge_breaks(breaks[: MAX_BREAKS + 1], breaks[2:])  # the second and third are in both

    assert [each.id for each in kept] == [each.id for each in breaks[3:]]
    assert (kept[0].clock_reset_to, kept[0].is_other_server, kept[1].is_other_server) == (at(-3), True, False)
    assert merge_breaks((), breaks[:2]) == breaks[:2]


# Little or no sight.


def test_without_the_right_the_bound_is_a_delay_and_not_proven() -> None:
    horizon = after(blind(0, Visibility.NOTHING))

    assert (horizon.bound, horizon.proven) == (at(-60), False)
    assert "PROCESS" in horizon.reason


def test_other_engines_are_not_proven() -> None:
    horizons, _ = compute_horizons(poll(0), None, [HorizonRequest(table=ORDERS, transactional=False)])

    assert (horizons[ORDERS].bound, horizons[ORDERS].proven) == (at(-60), False)


def test_a_blind_poll_repeats_the_last_answer_and_leaves_the_notes() -> None:
    _, notes = chain(poll(0))

    horizon, left = chain(blind(10), notes=notes)

    assert (horizon.bound, horizon.proven) == (at(0), True)
    assert left is notes


def test_a_blind_first_poll_knows_nothing() -> None:
    horizon = after(blind(10))

    assert (horizon.bound, horizon.proven) == (None, False)


def test_old_notes_are_as_right_as_new_ones() -> None:
    late = poll(100, thread(busy=300), writers=(writer("4712"),))
    _, old = chain(poll(0))
    _, new = chain(poll(0), poll(90))

    older, newer = chain(late, notes=old)[0].bound, chain(late, notes=new)[0].bound

    assert older == at(0)
    assert newer == at(90)


# Table by table.


def test_writers_seen_by_table_hold_their_table() -> None:
    polls = by_table(0), by_table(10, on(ITEMS))

    assert after(*polls, table=ORDERS).bound == at(10)
    assert after(*polls, table=ITEMS).bound == at(0)


def test_a_table_that_was_not_looked_at_has_unknown_writers() -> None:
    polls = by_table(0, tables=frozenset({ORDERS})), by_table(10, on(ITEMS), tables=BOTH)

    assert after(*polls, table=ITEMS).bound is None


def test_a_writer_known_from_one_table_is_not_known_for_another() -> None:
    first = by_table(0, tables=frozenset({ORDERS}))
    second = by_table(10, on(ORDERS), tables=frozenset({ORDERS}))
    third = by_table(20, on(ORDERS), on(ITEMS), tables=BOTH)

    assert after(first, second, third, table=ITEMS).bound is None


def test_all_writers_after_some_tables_are_unknown() -> None:
    assert after(by_table(0), poll(10, idle(), writers=(writer(),)), table=ITEMS, mark=at(-9)).bound == at(0)
    _, notes = chain(by_table(0, tables=frozenset({ORDERS})), table=ORDERS)
    assert chain(poll(10, idle(), writers=(writer(),)), table=ITEMS, notes=notes)[0].bound is None


def test_a_passing_loss_of_sight_keeps_the_fuller_notes() -> None:
    _, full = chain(poll(0))

    horizon, kept = chain(by_table(10, on(ORDERS), passing=True), notes=full)

    assert horizon.bound == at(0)
    assert kept is not None
    assert (kept.t0, kept.tables) == (at(0), None)


def test_a_lasting_loss_of_sight_does_not() -> None:
    late = FULL_NOTES_RETENTION.total_seconds()
    _, full = chain(poll(0))

    for readings in (by_table(10), by_table(late, passing=True)):
        kept = chain(readings, notes=full)[1]
        assert kept is not None
        assert kept.tables == BOTH


# Ids.


def test_ids_are_complete_once_a_horizon_reached_their_reading() -> None:
    def step(readings: HorizonPoll, notes: HorizonNotes | None) -> tuple[int | None, HorizonNotes | None]:
        horizons, notes = compute_horizons(readings, notes, [HorizonRequest(table=ORDERS, id_column="id")])
        return horizons[ORDERS].max_complete_id, notes

    first, notes = step(poll(0, idle(), writers=(writer(),), ids={ORDERS: 100}), None)
    second, notes = step(poll(10, idle(), writers=(writer(),), ids={ORDERS: 120}), notes)
    third, notes = step(poll(20, idle(), ids={ORDERS: 130}), notes)

    assert (first, second, third) == (None, None, 130)


def test_ids_are_complete_at_once_where_nothing_is_open() -> None:
    horizons, notes = compute_horizons(poll(0), None, [])
    horizons, _ = compute_horizons(
        poll(10, idle(), ids={ORDERS: 120}), notes, [HorizonRequest(table=ORDERS, id_column="id")]
    )

    assert horizons[ORDERS].max_complete_id == 120


def test_ids_that_were_read_before_a_table_was_made_are_of_another_one() -> None:
    """It was emptied, and numbers its rows from one on: one of them is still open."""
    notes: HorizonNotes | None = None

    def step(second: float, highest: int, *writers: WritingTransaction, made: float) -> int | None:
        nonlocal notes
        readings = poll(second, idle(), writers=writers, ids={ORDERS: highest})
        horizons, notes = compute_horizons(
            readings, notes, [HorizonRequest(table=ORDERS, id_column="id", table_created_at=at(made))]
        )
        return horizons[ORDERS].max_complete_id

    before = [step(0, 1000, made=-9), step(5, 1000, made=-9)]
    anew = [step(20, 2, writer(), made=10), step(30, 3, writer(), made=10), step(40, 4, made=10)]
    just_made = step(50, 1, made=51)

    assert (before, anew, just_made) == ([1000, 1000], [None, None, 4], 1)


def test_ids_read_before_the_oldest_writer_began_stay_complete() -> None:
    notes = None
    told = []
    for second in range(60):
        writers = (writer(),) if second > 20 else ()
        readings = poll(second, idle(), writers=writers, ids={ORDERS: second})
        horizons, notes = compute_horizons(readings, notes, [HorizonRequest(table=ORDERS, id_column="id")])
        told.append(horizons[ORDERS].max_complete_id)
        assert len(notes.candidates[ORDERS]) <= MAX_CANDIDATES + 1 if notes else False

    assert told[20] == 20
    assert set(told[21:]) == {20}


def test_of_many_breaks_one_of_which_nothing_is_known_is_not_forgotten() -> None:
    unknown = ServerTimeBreak(id="unknown")
    breaks = (unknown, *(ServerTimeBreak(id=str(number), clock_reset_to=at(number)) for number in range(MAX_BREAKS)))

    kept = merge_breaks(breaks, (ServerTimeBreak(id="newest", clock_reset_to=at(99)),))

    assert len(kept) == MAX_BREAKS
    assert (kept[0].is_start_unknown, kept[1].is_start_unknown) == (True, False)
