"""Streams at rest: when a pass is spared, and when not."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from syncd.errors import SourceDown
from syncd.extract.extract_pass import ExtractOutcome, ExtractState
from syncd.extract.idle_streams import FULL_PASS_INTERVAL_SECONDS, MAX_SINGLE_READS, IdleStreams
from syncd.extract.plan_rules import IdleState
from syncd.settings import Schedule, StreamSettings
from watermarks.batch import BatchId
from watermarks.names import StreamName, document_key
from watermarks.store import Revision, StoredObject
from watermarks.stores.memory import MemoryStore
from watermarks.testing import ManualClock

if TYPE_CHECKING:
    from syncd.extract.planner import Planner

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STREAM = StreamName(source="mysql", database="shop", table="orders")
MANY = tuple(StreamName(source="mysql", database="shop", table=f"t{number}") for number in range(MAX_SINGLE_READS))
"""So many that with one more they are not a few."""
REST = cast("IdleState", object())


def settings(seconds: float = 60) -> StreamSettings:
    every = Schedule(every=timedelta(seconds=seconds))
    return StreamSettings(source="mysql", database="shop", table="orders", schedule=every)


@dataclass
class Asked:
    """A planner that tells whether its stream is at rest, and how often it was asked."""

    rest: bool = True
    complete_before: datetime | None = NOON
    times: int = 0
    fails: bool = False
    wait_reason: str = ""

    def is_still_idle(self, rest: IdleState) -> bool:
        assert rest is REST
        self.times += 1
        if self.fails:
            raise SourceDown("away")
        return self.rest


@dataclass
class Desk:
    """A lake with documents, and how often it was asked for them."""

    clock: ManualClock = field(default_factory=ManualClock)
    store: MemoryStore = field(default_factory=MemoryStore)
    gone: set[str] = field(default_factory=set[str])
    listed: int = 0
    planner: Asked = field(default_factory=Asked)

    def __post_init__(self) -> None:
        self.rests = IdleStreams(self.read, self.standing, clock=self.clock)
        for stream in (STREAM, *MANY):
            self.store.put(document_key(stream.stem), b"read", expected=None)

    def read(self, key: str) -> StoredObject | None:
        return None if key in self.gone else self.store.read(key)

    def standing(self, prefix: str) -> dict[str, tuple[int, str]]:
        self.listed += 1
        return {key: (100, self.revision(key)) for key in self.store.list(prefix) if key not in self.gone}

    def revision(self, key: str) -> Revision:
        stored = self.store.read(key)
        assert stored is not None
        return stored.revision

    def change(self, stream: StreamName = STREAM) -> None:
        key = document_key(stream.stem)
        self.store.put(key, b"changed", expected=self.revision(key))

    def note(
        self,
        *streams: StreamName,
        rest: IdleState | None = REST,
        wanted: StreamSettings | None = None,
        **outcome: Any,
    ) -> None:
        for stream in streams or (STREAM,):
            found = ExtractOutcome(stream=stream, last_batch=BatchId(1, 4), **outcome)
            revision = self.revision(document_key(stream.stem))
            self.rests.record_pass(stream, wanted or settings(), found, idle_state=rest, revision=revision)

    def still(self, stream: StreamName = STREAM, wanted: StreamSettings | None = None) -> ExtractOutcome | None:
        return self.rests.find_outcome_if_idle(stream, wanted or settings(), cast("Planner", self.planner))


def test_a_stream_at_rest_gives_what_its_last_pass_gave_complete_up_to_now() -> None:
    desk = Desk()
    assert desk.still() is None
    desk.note()

    found = desk.still()

    assert found is not None
    assert (found.last_batch, found.complete_before, found.batches) == (BatchId(1, 4), NOON, 0)


def test_a_change_of_one_of_a_few_is_seen_at_once_and_nothing_is_listed() -> None:
    desk = Desk()
    desk.note(STREAM, *MANY[1:])
    assert desk.still()

    desk.change()

    assert desk.still() is None
    assert desk.listed == 0


def test_many_streams_are_listed_once_within_ten_seconds() -> None:
    desk = Desk()
    desk.note(STREAM, *MANY)

    assert desk.still(STREAM)
    assert desk.still(MANY[0])
    assert desk.listed == 1
    desk.clock.advance(9)
    assert desk.still(STREAM)
    assert desk.listed == 1
    desk.clock.advance(2)
    assert desk.still(STREAM)
    assert desk.listed == 2


def test_one_of_many_that_is_read_often_hears_of_a_change_soon() -> None:
    desk = Desk()
    often = settings(2)
    desk.note(*MANY)
    desk.note(STREAM, wanted=often)
    assert desk.still(wanted=often)
    desk.change()
    desk.clock.advance(1.5)

    assert desk.still(wanted=often) is None


@pytest.mark.parametrize("streams", [(STREAM,), (STREAM, *MANY)], ids=["few", "many"])
@pytest.mark.parametrize("gone", [False, True])
def test_a_document_that_changed_or_is_gone_is_read(streams: tuple[StreamName, ...], *, gone: bool) -> None:
    desk = Desk()
    desk.note(*streams)
    if gone:
        desk.gone.add(document_key(STREAM.stem))
    else:
        desk.change()

    assert desk.still() is None
    assert desk.planner.times == 0


def test_what_a_pass_tells_better_is_left_to_it() -> None:
    desk = Desk()
    desk.note()
    desk.planner.rest = False
    assert desk.still() is None
    desk.planner.rest, desk.planner.fails = True, True
    assert desk.still() is None


def test_other_settings_want_a_pass() -> None:
    desk = Desk()
    desk.note()

    assert desk.still(wanted=replace(settings(), batch_rows=7)) is None


def test_after_ten_minutes_of_rest_there_is_a_whole_pass() -> None:
    desk = Desk()
    desk.note()
    desk.clock.advance(FULL_PASS_INTERVAL_SECONDS + 1)

    assert desk.still() is None


def test_what_stands_in_the_way_of_more_is_told_as_it_is_now() -> None:
    desk = Desk()
    desk.note(wait_reason="held by transaction 7")
    desk.planner.wait_reason = "held by transaction 8"

    found = desk.still()

    assert found is not None
    assert (found.state, found.wait_reason) == (ExtractState.WAITING, "held by transaction 8")
    desk.planner.wait_reason = ""
    found = desk.still()
    assert found is not None
    assert (found.state, found.wait_reason) == (ExtractState.NOTHING, "")


@pytest.mark.parametrize("outcome", [{"batches": 1}, {"error": SourceDown("away")}, {"rest": None}])
def test_only_a_pass_that_found_nothing_leaves_a_rest(outcome: dict[str, Any]) -> None:
    desk = Desk()
    desk.note()

    desk.note(**outcome)

    assert desk.still() is None
