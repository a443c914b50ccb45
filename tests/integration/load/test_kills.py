"""Loaders that are killed between any two effects, and inside one: the next run lands each batch once."""

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from threading import Event
from typing import Any

import pytest

from syncd.datatypes.source_table import SourceColumn
from syncd.sandbox.redshift import RedshiftStandIn
from syncd.sandbox.redshift.faults import COMMIT_PATTERN, FaultTiming
from syncd.settings import Deletes, MetadataColumn, Mode
from tests.builders import RUN
from tests.integration.load.conftest import Loader, Reader
from tests.services.clients import eventually
from tests.services.landed import Batches
from tests.services.load_victim import BEFORE_WORDS, Ended, Victims, job_of
from tests.services.prepared import Prepared, json_column, moment, row, text_column
from watermarks.lease import ProcessLease

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]
PAID = SourceColumn(
    name="paid", data_type="int", column_type="int(11)", precision=10, scale=0, nullable=False, default="7"
)
PAID_BEFORE = 7
DELETES = {
    Mode.UPSERT: Deletes.HARD,
    Mode.APPEND: Deletes.SOFT,
    Mode.HISTORY: Deletes.SOFT,
    Mode.REPLACE: Deletes.IGNORE,
}
MODES = [Mode.UPSERT, Mode.APPEND, Mode.HISTORY, Mode.REPLACE]
STORE_POINTS = [
    *(f"{when} {verb} {place}" for when in ("before", "after") for verb, place in (
        ("create", "owners"), ("replace", "claims"), ("create", "history {taken}"), ("create", "history {landed}"),
        ("replace", "watermarks"),
    )),
    "before put",
    "after put",
]  # fmt: skip
SAMPLE = 6
"""Points of each mode that every change is held to; `make test-long` plays them all."""


def short(seconds: float) -> None:
    Event().wait(min(seconds, 0.1))


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    with Victims() as started:
        yield started


class Story:
    """A stream in the middle of its life: one batch has landed, two are due, and the table has to change for them."""

    def __init__(self, prepared: Prepare, loader: Loader, warehouse: Reader, victims: Victims, mode: Mode) -> None:
        notes = (MetadataColumn.BATCH, MetadataColumn.LOADED_AT)
        cursor = "none" if mode is Mode.REPLACE else "update_at"
        self.stream = prepared(mode=mode, cursor=cursor, notes=notes, layout={"deletes": DELETES[mode]})
        self.stream.columns = (*self.stream.columns, text_column("note"))
        self.batches = Batches(self.stream)
        self.loader = loader
        self.warehouse = warehouse
        self.victims = victims

    def begin(self) -> None:
        """The first batch lands as it should."""
        self.batches.add(row(1, 1, note="a"), row(2, 2, note="b"))
        self.loader.load(self.stream)

    def go_on(self) -> None:
        """More is extracted: two files, too wide a text, a key twice, columns that came, and rows that are gone."""
        self.batches.add(row(1, 3, name="b", note="x" * 3000), row(3, 4, note=""), parts=2)
        self.stream.columns = (*self.stream.columns, json_column("doc"), PAID)
        self.stream.defaults = {"paid": 7}
        self.batches.add(row(1, 5, name="c", doc=b"[1]"), row(2, 5, name="d"), row(4, 6, note=None))
        self.batches.bury(2, 3, upto=moment(5).replace(tzinfo=None))
        self.batches.add(row(3, 8, name="back"), row(5, 9, paid=1))

    def job(self, **more: Any) -> dict[str, Any]:
        settings = self.stream.settings
        assert settings.target
        given = {"signal": signal.SIGKILL, "point": "", **more}
        state = self.loader.journal.read_newest(self.stream.stream.stem)
        assert state
        # The next two entries of its history: that a loader has taken the stage, and that it has landed.
        given["point"] = given["point"].format(taken=state.revision + 1, landed=state.revision + 2)
        return job_of(
            self.loader.lake, self.loader.warehouse, self.stream.stream, settings.mode, settings.target, **given
        )

    def killed(self, point: str) -> Ended:
        return self.victims.run(self.job(point=point))

    def recover(self, *, patience: float = 0.0, left: bool = True) -> None:
        """Another process runs, and everything is as it should be; `left`: nobody is left, either."""
        process = ProcessLease(self.loader.journal.store)
        process.renew()
        run = self.loader.run(self.stream, process=process, patience=timedelta(seconds=patience), pause=short)
        outcome = run.execute(RUN)
        assert outcome.error is None, outcome.error
        self.whole()
        again = self.loader.run(self.stream, process=process).execute(RUN, compare=True)
        assert (again.error, again.batches) == (None, 0)
        self.whole()
        if left:
            self.nobody_left()

    def whole(self) -> None:
        assert self.warehouse.rows(self.stream, self.batches.columns) == self.batches.content
        if self.stream.mode is not Mode.REPLACE:
            before = f"_syncd_batch < {self.batches.ledger[2]}"
            wrong = f"{before} and (paid is null or paid <> {PAID_BEFORE})"
            assert not self.warehouse.client.rows(f'select id from "{self.stream.table}" where {wrong}')
        assert [batch for batch, _, _ in self.warehouse.ledger(self.stream)] == self.batches.ledger
        state = self.loader.journal.read_newest(self.stream.stream.stem)
        assert state
        assert state.load_progress.last_batch == self.batches.read[-1][0].id
        assert state.load_progress.counts.rows == sum(rows for _, rows, _ in self.warehouse.ledger(self.stream))

    def nobody_left(self) -> None:
        """No session of a dead loader stands; and so no lock and no scratch table of one either."""
        sql = "select count(*) from sys_connection_log where application_name = 'syncd victim'"
        assert eventually(lambda: self.warehouse.client.value(sql) == 0), "a session of a dead loader still stands"


@pytest.fixture
def story(prepared: Prepare, loader: Loader, warehouse: Reader, victims: Victims) -> Callable[[Mode], Story]:
    def tell(mode: Mode) -> Story:
        told = Story(prepared, loader, warehouse, victims, mode)
        told.begin()
        told.go_on()
        return told

    return tell


def points_of(statements: int, *, chosen: int | None) -> list[str]:
    """Every point of a landing; or so many of them, spread over all of it."""
    every = [f"{how} {number}" for number in range(1, statements + 1) for how in ("before", "sent")]
    every += STORE_POINTS
    return every if chosen is None else [every[len(every) * place // chosen] for place in range(chosen)]


@pytest.mark.parametrize("mode", MODES)
def test_a_landing_killed_at_any_point_lands_once(story: Callable[[Mode], Story], mode: Mode) -> None:
    play(story, mode, chosen=SAMPLE)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_a_landing_killed_at_every_point_lands_once(story: Callable[[Mode], Story], mode: Mode) -> None:
    play(story, mode, chosen=None)


def play(story: Callable[[Mode], Story], mode: Mode, *, chosen: int | None) -> None:
    untouched = story(mode)
    done = untouched.killed("")
    assert done.told["error"] is None, done.told
    untouched.whole()
    for point in points_of(len(done.statements), chosen=chosen):
        told = story(mode)
        assert told.killed(point).status == -signal.SIGKILL, point
        told.recover()


FEW, MANY = 6, 200


@pytest.mark.parametrize(
    "kills", [pytest.param(FEW, marks=pytest.mark.slow), pytest.param(MANY, marks=pytest.mark.long)]
)
def test_landings_killed_at_random_instants_land_once(story: Callable[[Mode], Story], kills: int) -> None:
    """Each stream has several loaders killed, one after another, before one is left alone."""
    chance = random.Random(kills)
    longest = 0.6
    while kills > 0:
        told = story(chance.choice(MODES))
        for _ in range(min(chance.randint(1, 3), kills)):
            kills -= 1
            pid = told.victims.start(told.job())
            Event().wait(chance.uniform(0, longest))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            told.victims.ended()
        told.recover()


@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=() if mode is Mode.UPSERT else pytest.mark.long) for mode in MODES]
)
@pytest.mark.parametrize("when", FaultTiming)
def test_a_kill_inside_commit_lands_once(
    story: Callable[[Mode], Story], server: RedshiftStandIn, mode: Mode, when: FaultTiming
) -> None:
    """The server has COMMIT, and carries it out before, or long after, the next loader comes."""
    told = story(mode)
    held = server.faults.hold(COMMIT_PATTERN, when=when)
    told.victims.start(told.job())
    held.wait_reached()
    os.kill(told.victims.pid, signal.SIGKILL)
    assert told.victims.ended().status == -signal.SIGKILL

    told.recover(left=False)

    held.release()
    told.whole()
    told.nobody_left()


POINTS_OF_PAUSE = {
    "before it ends others": "1 SELECT DISTINCT t.pid",
    "before the fence is raised": "1 DELETE FROM .*syncd_fence",
    "before its transaction": "1 BEGIN",
    "with the fence locked": "1 SELECT load_generation",
    "with its rows copied": "1 SELECT PG_LAST_COPY_COUNT",
    "before the ledger": "1 INSERT INTO .*syncd_ledger",
    "before COMMIT": "1 COMMIT",
}


PAUSES = [*POINTS_OF_PAUSE, "before put", "before create history {landed}"]
PAUSE_MARKS: dict[str, Any] = {
    "before COMMIT": (),
    **dict.fromkeys(
        ("before its transaction", "before the ledger", "before create history {landed}"), pytest.mark.slow
    ),
}


@pytest.mark.parametrize(
    "place", [pytest.param(place, marks=PAUSE_MARKS.get(place, pytest.mark.long)) for place in PAUSES]
)
def test_a_paused_loader_that_wakes_after_a_takeover_lands_nothing(story: Callable[[Mode], Story], place: str) -> None:
    told = story(Mode.UPSERT)
    point = place if place not in POINTS_OF_PAUSE else BEFORE_WORDS + POINTS_OF_PAUSE[place]
    told.victims.start(told.job(point=point, signal=signal.SIGSTOP, ttl=1.0))
    told.victims.stopped()

    told.recover(patience=20, left=False)
    before = told.warehouse.ledger(told.stream), told.loader.journal.read_newest(told.stream.stream.stem)
    os.kill(told.victims.pid, signal.SIGCONT)
    ended = told.victims.ended()

    assert ended.told["error"] in {"Fenced", "Ended"}, ended.told
    assert before == (told.warehouse.ledger(told.stream), told.loader.journal.read_newest(told.stream.stream.stem))
    told.whole()
    told.nobody_left()
