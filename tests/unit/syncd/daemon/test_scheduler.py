"""Who begins when, as a table of decisions: the clock is the test's, and nothing runs."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from syncd.config.check import build_settings
from syncd.config.yaml_reader import parse_document
from syncd.daemon.scheduler import LEDGER_CHECK_INTERVAL_SECONDS, Scheduler
from syncd.daemon.stage_task import LOAD_CHECK_INTERVAL_SECONDS, StageTask, TaskKey
from syncd.errors import ConfigError, HorizonNotKnown, LakeDown, SchemaDrift, SourceDown, WarehouseDown
from syncd.events import ClockReading
from syncd.extract.extract_pass import ExtractOutcome
from syncd.settings import Settings
from watermarks.document import Stage
from watermarks.errors import HintedError
from watermarks.lease import LeaseEnded, OtherOwner
from watermarks.names import StreamName
from watermarks.progress import RunStrategy

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)
TOP = """
sources: {one: {url: "mysql://s@h/shop", max_connections: 2}, two: {url: "mysql://s@i/shop", max_connections: 4}}
lake: {url: "s3://b"}
"""
WAREHOUSE = 'warehouse: {url: "redshift://w:x@h/dev"}\n'


@dataclass
class Play:
    """Turns, and a clock that passes when it is told to."""

    turns: Scheduler
    mono: float = 0.0
    wall: datetime = NOON
    held: list[str] = field(default_factory=list)

    @property
    def now(self) -> ClockReading:
        return ClockReading(self.mono, self.wall)

    def passes(self, seconds: float) -> None:
        self.mono += seconds
        self.wall += timedelta(seconds=seconds)

    def begin(self) -> list[str]:
        turn = self.turns.start_due(self.now)
        self.held += [f"{hold.task.name}: {hold.reason}" for hold in turn.held]
        return [shown(lane) for lane in turn.started]

    def lane(self, name: str) -> StageTask:
        table, _, stage = name.partition(" ")
        return next(
            lane
            for lane in self.turns.tasks.values()
            if lane.key.stream.table == table and lane.stage == (stage or "extract")
        )

    def end(self, name: str, error: HintedError | None = None, *, has_more: bool = False, **more: Any) -> StageTask:
        lane = self.lane(name)
        outcome = ExtractOutcome(stream=lane.key.stream, error=error, **more)
        self.turns.on_pass_ended(lane, outcome, self.now, has_more=has_more)
        return lane

    def all_end(self, *names: str, error: HintedError | None = None) -> None:
        for name in names:
            self.end(name, error)


def shown(lane: StageTask) -> str:
    return lane.key.stream.table if lane.stage is Stage.EXTRACT else f"{lane.key.stream.table} load"


def settings_of(tables: str, *, top: str = TOP) -> Settings:
    return build_settings(parse_document(f"{top}tables: {{{tables}}}", path="syncd.yaml", environ={}))


def play(tables: str, *, top: str = TOP) -> Play:
    return Play(
        Scheduler(
            settings_of(tables, top=top),
            now=ClockReading(0.0, NOON),
            random_fraction=lambda: 0.5,
            takeover_seconds=10.0,
        )
    )


def test_everything_begins_at_once_as_far_as_there_are_places() -> None:
    some = play("a: {source: one}, b: {source: one}, c: {source: two}, d: {source: two}, e: {source: two}")

    assert some.begin() == ["a", "c", "d"]
    assert some.begin() == []


def test_a_stage_is_due_again_an_interval_after_it_began_and_only_once() -> None:
    some = play("a: {source: one, every: 1m}")
    some.begin()
    some.passes(20)
    some.end("a")
    some.passes(39)
    assert some.begin() == []

    some.passes(1)
    assert some.begin() == ["a"]
    some.passes(600)  # ten intervals long
    some.end("a")

    assert some.begin() == ["a"]
    some.end("a")
    assert some.begin() == []


def test_the_higher_priority_goes_first() -> None:
    some = play("a: {source: one}, b: {source: one, priority: 5}, c: {source: one, priority: -1}")
    order = []
    for _ in range(3):
        [name] = some.begin()
        order.append(name)
        some.end(name)

    assert order == ["b", "a", "c"]


def test_a_backlog_goes_on_at_once_after_those_who_wait_for_their_turn() -> None:
    some = play("a: {source: one, priority: 9, every: 10m}, b: {source: one, every: 10m}, c: {source: one, every: 10m}")
    order = []
    for _ in range(5):
        [name] = some.begin()
        order.append(name)
        some.end(name, has_more=name == "a")

    assert order == ["a", "b", "c", "a", "a"]


def test_a_backlog_does_not_lose_its_regular_turn() -> None:
    some = play("a: {source: one, priority: 9, every: 1m}, b: {source: one, every: 1s}")
    assert some.begin() == ["a"]
    some.passes(61)
    some.end("a", has_more=True)

    assert some.begin() == ["a"]


def test_a_stream_comes_after_those_it_names_where_both_are_due() -> None:
    some = play("a: {source: two, after: [shop.b], every: 1m}, b: {source: two, every: 2m}")

    assert some.begin() == ["b"]
    assert some.held == ["shop.a: waits for shop.b, which runs first"]
    some.end("b")
    assert some.begin() == ["a"]
    some.end("a")
    some.passes(60)
    assert some.begin() == ["a"]


def test_a_predecessor_that_fails_holds_nobody_up() -> None:
    some = play("a: {source: two, after: [b]}, b: {source: two}")
    some.begin()

    some.end("b", SchemaDrift("another table"))

    assert some.begin() == ["a"]


def began_in(seconds: int, some: Play, *, takes: dict[str, int], more: bool = False) -> Counter[str]:
    """How many passes each table began, where one of its passes takes so long; `a` may have more to read after each."""
    began, until = Counter[str](), dict[str, float]()
    for _ in range(seconds):
        for name in [name for name, at in until.items() if at <= some.mono]:
            del until[name]
            some.end(name, has_more=more and name == "a")
        for name in some.begin():
            began[name] += 1
            until[name] = some.mono + takes[name]
        some.passes(1)
    return began


@pytest.mark.parametrize(("every", "seconds", "more"), [("5s", 6, False), ("1h", 6, True), ('"* * * * *"', 70, False)])
def test_a_predecessor_that_is_never_done_lets_others_go_after_each_of_its_passes(
    every: str, seconds: int, *, more: bool
) -> None:
    some = play(f"a: {{source: two, every: {every}}}, b: {{source: two, every: 5s, after: [a]}}")

    began = began_in(1200, some, takes={"a": seconds, "b": 1}, more=more)

    assert began["a"] >= 1200 // (seconds + 1)
    assert began["b"] >= began["a"] - 1


def test_in_a_chain_each_lets_the_one_before_it_go_first_and_all_have_their_turn() -> None:
    some = play(
        "a: {source: two, every: 5s}, b: {source: two, every: 5s, after: [a]}, d: {source: two, every: 5s},"
        "c: {source: two, every: 5s, after: [a, b, d]}"
    )
    assert some.begin() == ["a", "d"]
    some.all_end("a", "d")
    assert some.begin() == ["b"]
    some.end("b")
    assert some.begin() == ["c"]
    some.end("c")

    began = began_in(600, some, takes={"a": 6, "b": 7, "c": 1, "d": 9})

    assert min(began[name] for name in "abcd") >= 20


def test_one_pass_of_a_predecessor_is_waited_for_and_no_second_one() -> None:
    some = play("a: {source: two, every: 1m}, b: {source: two, every: 1m, after: [a]}")
    assert some.begin() == ["a"]
    some.passes(70)
    assert some.begin() == []
    some.end("a", has_more=True)

    assert sorted(some.begin()) == ["a", "b"]


def test_a_pass_that_was_at_work_before_is_not_waited_for() -> None:
    some = play("a: {source: two, every: 50s}, b: {source: two, every: 1m, after: [a]}")
    some.begin()
    some.end("a")
    assert some.begin() == ["b"]
    some.end("b")
    some.passes(50)
    assert some.begin() == ["a"]
    some.passes(10)

    assert some.begin() == ["b"]


def test_a_predecessor_whose_source_does_not_answer_holds_nobody_up() -> None:
    others = ", ".join(f"{name}: {{source: one, priority: 1}}" for name in "xyz")
    some = play(f"{others}, a: {{source: one}}, b: {{source: two, after: [a]}}")
    for name in "xyz":
        assert some.begin() == [name]
        some.end(name, SourceDown("away"))

    assert some.begin() == ["b"]


def test_a_predecessor_that_another_process_has_holds_nobody_up() -> None:
    some = play("a: {source: two, every: 1m}, b: {source: two, every: 1m, after: [a]}")
    some.begin()
    some.end("a", OtherOwner("host-1 has it", owner="host-1"))
    assert some.begin() == ["b"]
    some.end("b")
    some.passes(60)

    assert sorted(some.begin()) == ["a", "b"]


def test_failures_in_a_row_make_pauses_longer_and_a_success_ends_them() -> None:
    some, pauses = play("a: {source: one, every: 1s}"), []
    for _ in range(4):
        assert some.begin() == ["a"]
        lane = some.end("a", HintedError("it broke"))
        pauses.append(lane.due - some.mono)
        some.passes(pauses[-1])
    some.begin()
    lane = some.end("a")

    assert pauses == [2.0, 4.0, 8.0, 16.0]
    assert lane.failures == 0
    assert lane.due - some.mono == 1.0


@pytest.mark.parametrize("error", [ConfigError("no"), SchemaDrift("another")])
def test_what_a_person_has_to_mend_is_tried_seldom_or_when_somebody_says_so(error: HintedError) -> None:
    some = play("a: {source: one, every: 1s}")
    some.begin()
    some.end("a", error)
    some.passes(600)
    assert some.begin() == []

    some.turns.retry_now(some.mono)

    assert some.begin() == ["a"]


def test_what_is_well_keeps_to_its_schedule_when_everything_else_is_tried_at_once() -> None:
    """A snapshot of the night is not read at noon because somebody reads a configuration again that is as it was."""
    some = play('a: {source: one, every: "0 3 * * *"}, b: {source: one, every: 1h}')
    some.begin()
    some.end("b")
    some.passes(600)

    some.turns.retry_now(some.mono)

    assert some.begin() == []


def test_of_a_source_that_is_down_one_stream_asks_and_all_go_when_it_is_back() -> None:
    some = play(", ".join(f"{name}: {{source: two, every: 1s}}" for name in "abcd") + ", other: {source: one}")
    assert some.begin() == ["a", "b", "other"]
    some.end("other")
    some.all_end("a", "b", error=SourceDown("away"))
    assert some.begin() == ["c", "d"]
    some.all_end("c", "d", error=SourceDown("away"))
    some.passes(2)
    assert some.begin() == []
    assert "shop.a: source two does not answer: away" in some.held
    some.passes(10)

    [probe] = some.begin()
    assert some.begin() == []
    some.end(probe)

    assert len(some.begin()) == 2
    assert some.turns.tasks[some.lane("other").key].failure is None


def test_a_source_that_is_back_is_not_kept_from_all_others_by_a_pass_that_lasts() -> None:
    some = play(", ".join(f"{name}: {{source: two, every: 1s}}" for name in "abc"))
    some.begin()
    some.all_end("a", "b", error=SourceDown("away"))
    some.begin()
    some.end("c", SourceDown("away"))
    some.passes(5)
    [reads_for_hours] = some.begin()
    some.passes(4.9)
    assert some.begin() == []
    some.passes(0.1)

    [another] = some.begin()
    some.end(another)

    assert len(some.begin()) == 1
    assert reads_for_hours in {shown(lane) for lane in some.turns.running_tasks}


def test_a_stream_whose_questions_alone_have_no_answer_keeps_no_other_from_asking() -> None:
    some = play("a: {source: one, every: 1s, priority: 9}, b: {source: one, every: 1m}")
    assert some.begin() == ["a"]
    some.end("a", SourceDown("no answer in time"))
    assert some.begin() == ["b"]
    some.end("b")
    began = []
    for _ in range(300):
        some.passes(1)
        for name in some.begin():
            began.append(name)
            some.end(name, SourceDown("no answer in time") if name == "a" else None)

    assert began.count("b") >= 3


def test_a_lake_that_is_down_holds_up_both_stages() -> None:
    some = play(
        "a: {every: 1s}, b: {every: 1s}", top='source: {url: "mysql://s@h/shop"}\nlake: {url: "s3://b"}\n' + WAREHOUSE
    )
    assert sorted(some.begin()) == ["a", "a load", "b", "b load"]
    some.all_end("a", "b", "a load", error=LakeDown("away"))
    some.end("b load", WarehouseDown("away"))

    some.passes(3)

    assert some.begin() == []
    assert any("the lake does not answer" in told for told in some.held)


def test_a_loader_with_nothing_to_do_does_not_show_that_a_warehouse_is_back() -> None:
    some = play(
        ", ".join(f"{name}: {{every: 1h}}" for name in "abc"),
        top='source: {url: "mysql://s@h/shop"}\nlake: {url: "s3://b"}\n'
        + WAREHOUSE.replace('dev"', 'dev", max_sessions: 3'),
    )
    some.begin()
    some.all_end("a load", "b load", "c load", error=WarehouseDown("away"))
    some.passes(6)
    assert [one for one in some.begin() if one.endswith("load")] == ["a load"]

    some.end("a load")

    assert [one for one in some.begin() if one.endswith("load")] == ["b load"]


def test_a_loader_is_woken_by_a_batch_and_sees_what_came_while_it_was_at_work() -> None:
    some = play("a: {every: 1h}", top='source: {url: "mysql://s@h/shop"}\nlake: {url: "s3://b"}\n' + WAREHOUSE)
    some.begin()
    some.turns.on_batch_extracted(some.lane("a").key.stream, some.mono)
    some.end("a load", batches=1)
    assert some.begin() == ["a load"]
    some.end("a load")
    assert some.begin() == []

    some.turns.on_batch_extracted(some.lane("a").key.stream, some.mono)

    assert some.begin() == ["a load"]


def test_a_loader_that_failed_is_not_woken_before_its_pause_is_over() -> None:
    some = play("a: {every: 1h}", top='source: {url: "mysql://s@h/shop"}\nlake: {url: "s3://b"}\n' + WAREHOUSE)
    some.begin()
    some.end("a load", HintedError("it broke"))

    some.turns.on_batch_extracted(some.lane("a").key.stream, some.mono)

    assert some.begin() == []


def test_a_loader_looks_seldom_while_extractions_look_for_it_but_at_the_ledger_every_ten_minutes() -> None:
    some = play("a: {every: 1m}", top='source: {url: "mysql://s@h/shop"}\nlake: {url: "s3://b"}\n' + WAREHOUSE)
    looked = []
    for _ in range(1300):
        for name in some.begin():
            looked.append((some.mono, name))
            lane = some.end(name)
            if name == "a":
                some.turns.on_pending_counted(lane.key.stream, 0, some.mono)
        some.passes(1)
    loads = [at for at, name in looked if name == "a load"]

    assert loads[1] - loads[0] == pytest.approx(LEDGER_CHECK_INTERVAL_SECONDS, abs=2)
    assert len(loads) == 3


def test_a_loader_looks_for_itself_where_nobody_extracts() -> None:
    some = play("a: {every: 1h}", top='source: {url: "mysql://s@h/shop"}\nlake: {url: "s3://b"}\n' + WAREHOUSE)
    some.begin()
    some.all_end("a", "a load")

    some.passes(LOAD_CHECK_INTERVAL_SECONDS)

    assert some.begin() == ["a load"]


def test_of_all_that_another_owner_has_one_stream_watches_it() -> None:
    some = play("a: {source: two, every: 5m}, b: {source: two, every: 5m}")
    some.begin()
    other = OtherOwner("host-1 has it", owner="host-1")
    some.all_end("a", "b", error=other)
    some.passes(10)
    assert some.begin() == ["a"]
    some.end("a", other)
    some.passes(10)
    assert some.begin() == ["a"]

    some.end("a", batches=1)

    assert some.begin() == ["b"]


@pytest.mark.parametrize("error", [None, SchemaDrift("another table")])
def test_where_the_one_that_watched_an_owner_does_so_no_more_another_one_watches(error: HintedError | None) -> None:
    """Else a stream that is due once a day would wait for its next day, though nobody has it any more."""
    some = play("a: {source: two, every: 5m}, b: {source: two, every: 1d}, c: {source: two, every: 1d}")
    other = OtherOwner("host-1 has it", owner="host-1")
    while began := some.begin():
        some.all_end(*began, error=other)
    some.passes(10)
    assert some.begin() == ["a"]

    some.end("a", error)
    some.passes(10)

    assert some.begin() == ["b"]
    some.end("b", other)
    some.passes(10)
    assert some.begin() == ["b"]
    some.end("b", batches=1)
    assert "c" in some.begin()


def test_what_is_not_known_yet_is_looked_at_again_soon() -> None:
    some = play("a: {source: one, every: 5m}")
    some.begin()

    lane = some.end("a", HorizonNotKnown("not yet"))

    assert (lane.due - some.mono, lane.failures) == (5.0, 0)


def test_who_was_ended_goes_on_at_once() -> None:
    some = play("a: {source: one, every: 5m}")
    some.begin()

    lane = some.end("a", LeaseEnded("too silent"))

    assert lane.due == some.mono


def test_a_pass_that_takes_too_long_is_told_once() -> None:
    some = play("a: {source: one, longest_run: 10s}")
    some.begin()
    assert some.turns.mark_overdue(9.9) == ()

    assert [lane.name for lane in some.turns.mark_overdue(10.0)] == ["shop.a"]
    assert some.turns.mark_overdue(11.0) == ()


def test_a_cron_is_due_by_the_wall_and_once_for_all_that_was_slept_through() -> None:
    some = play('a: {source: one, every: "0 * * * *"}')
    assert some.begin() == []
    some.passes(3599)
    assert some.begin() == []
    some.passes(1)
    assert some.begin() == ["a"]
    some.end("a")

    some.passes(30 * 3600)  # the host slept, and the clock that only rises went on

    assert some.begin() == ["a"]
    some.end("a")
    assert some.begin() == []


@pytest.mark.parametrize("days", [1, -1])
def test_a_clock_that_is_set_by_a_day_neither_stops_nor_storms(days: int) -> None:
    some = play('a: {source: two, every: 1m}, b: {source: two, every: "0 * * * *"}')
    assert some.begin() == ["a"]
    some.end("a")
    some.wall += timedelta(days=days)

    began = [some.end(name).name for _ in hours(some, 2) for name in some.begin()]

    assert 118 <= began.count("shop.a") <= 121
    assert began.count("shop.b") == (2 if days > 0 else 1)


def hours(some: Play, count: int) -> Iterator[None]:
    for _ in range(count * 3600 // 5):
        yield
        some.passes(5)


def test_what_was_due_by_the_wall_is_due_still_after_a_reload() -> None:
    old = play('a: {source: one, every: "0 * * * *"}')
    old.passes(3601)
    new = play('a: {source: one, every: "0 * * * *"}')
    new.mono, new.wall = old.mono, old.wall

    new.turns.continue_from(old.turns, old.mono)

    assert new.begin() == ["a"]


def renewed(old: Play, tables: str) -> Play:
    """Other turns after those, as a reload or a lost lease has them."""
    new = play(tables)
    new.turns = Scheduler(settings_of(tables), now=old.now, random_fraction=lambda: 0.5, takeover_seconds=10.0)
    new.mono, new.wall = old.mono, old.wall
    new.turns.continue_from(old.turns, old.mono)
    return new


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("no"), SchemaDrift("another"), SourceDown("away"), HintedError("it broke"),
        HorizonNotKnown("not yet"), OtherOwner("host-1 has it", owner="host-1"), LeaseEnded("too silent"),
    ],
)  # fmt: skip
def test_a_cron_that_waits_for_another_try_is_tried_at_once_after_a_reload(error: HintedError) -> None:
    old = play('a: {source: one, every: "0 * * * *"}')
    old.passes(3600)
    assert old.begin() == ["a"]
    old.end("a", error)
    old.passes(1)

    new = renewed(old, 'a: {source: one, every: "0 * * * *", priority: 1}')

    assert new.begin() == ["a"]


def test_a_cron_that_went_well_is_not_tried_again_by_a_reload() -> None:
    old = play('a: {source: one, every: "0 * * * *"}')
    old.passes(3600)
    old.begin()
    old.end("a")

    assert renewed(old, 'a: {source: one, every: "0 * * * *", priority: 1}').begin() == []


def test_a_cron_whose_time_comes_while_it_is_at_work_is_due_once_when_it_ends() -> None:
    some = play('a: {source: one, every: "0 * * * *"}')
    some.passes(3600)
    assert some.begin() == ["a"]
    some.passes(3 * 3600 - 10)
    some.end("a")

    assert some.begin() == ["a"]
    assert some.end("a").due - some.mono == 10.0


def test_a_cron_that_begins_a_little_before_its_time_does_not_begin_again_at_its_time() -> None:
    some = play('a: {source: one, every: "0 * * * *"}')
    some.passes(3600)
    some.wall -= timedelta(seconds=0.5)
    assert some.begin() == ["a"]
    some.passes(10)

    assert some.end("a").due - some.mono == 3590.5


@pytest.mark.parametrize("seconds", [5400, -5400])
def test_a_clock_that_is_set_while_a_cron_is_at_work_is_heeded_when_it_ends(seconds: int) -> None:
    some = play('a: {source: one, every: "30 * * * *"}')
    some.passes(1800)
    assert some.begin() == ["a"]
    some.wall += timedelta(seconds=seconds)
    assert some.begin() == []
    some.passes(60)

    lane = some.end("a")

    assert lane.due - some.mono == (0.0 if seconds > 0 else 1740.0)


def test_a_clock_that_is_set_leaves_a_cron_that_looks_again_soon() -> None:
    some = play('a: {source: one, every: "0 * * * *"}')
    some.passes(3600)
    some.begin()
    some.end("a", HorizonNotKnown("not yet"))
    some.wall += timedelta(minutes=10)
    assert some.begin() == []

    some.passes(5)

    assert some.begin() == ["a"]


def test_it_rests_until_something_can_be_due() -> None:
    some = play("a: {source: one, every: 3s}")
    some.begin()
    some.end("a")

    assert some.turns.seconds_to_wait(some.mono) == 3.0
    some.passes(3)
    some.begin()
    assert 0 < some.turns.seconds_to_wait(some.mono) <= 5.0


def test_how_a_pass_works_depends_on_who_else_wants_a_place() -> None:
    alone = play("a: {source: two}")
    several = play("a: {source: two}, b: {source: two}")
    narrow = play("a: {source: one}, b: {source: one}")
    for one in (alone, several, narrow):
        one.begin()

    assert alone.lane("a").strategy is RunStrategy.SEQUENTIAL
    assert several.lane("a").strategy is RunStrategy.INTER_TABLE
    assert narrow.lane("a").strategy is RunStrategy.SEQUENTIAL
    alone.end("a", has_more=True)
    alone.begin()
    assert alone.lane("a").strategy is RunStrategy.INTRA_TABLE


def test_a_key_names_a_lane() -> None:
    some = play("a: {source: one}")

    assert list(some.turns.tasks) == [TaskKey(StreamName(source="one", database="shop", table="a"), Stage.EXTRACT)]
