"""Streams at rest: when a pass is spared, and when not."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from syncd.core.errors import SourceDown
from syncd.core.settings import Schedule, StreamSettings
from syncd.stages.planning import Rest
from syncd.stages.resting import WHOLE_AGAIN, Rests
from syncd.stages.run import Outcome
from watermarks.batch import BatchId
from watermarks.names import StreamName
from watermarks.store import Revision
from watermarks.testing import ManualClock

if TYPE_CHECKING:
    from syncd.stages.planning import Planner

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STREAM = StreamName(source="mysql", database="shop", table="orders")
OTHER = StreamName(source="mysql", database="shop", table="lines")
REST = cast("Rest", object())


def settings(seconds: float = 60) -> StreamSettings:
    every = Schedule(every=timedelta(seconds=seconds))
    return StreamSettings(source="mysql", database="shop", table="orders", schedule=every)


@dataclass
class Asked:
    """A planner that tells whether its stream is at rest, and how often it was asked."""

    rest: bool = True
    complete: datetime | None = NOON
    times: int = 0
    fails: bool = False

    def rests(self, rest: Rest) -> bool:
        assert rest is REST
        self.times += 1
        if self.fails:
            raise SourceDown("away")
        return self.rest


@dataclass
class Desk:
    """A lake with two documents, and what is listed of it."""

    clock: ManualClock = field(default_factory=ManualClock)
    tags: dict[StreamName, str] = field(default_factory=lambda: {STREAM: '"1"', OTHER: '"9"'})
    listed: int = 0
    planner: Asked = field(default_factory=Asked)

    def __post_init__(self) -> None:
        self.rests = Rests(self.standing, clock=self.clock)

    def standing(self, prefix: str) -> dict[str, tuple[int, str]]:
        self.listed += 1
        assert prefix == "watermarks/"
        return {f"{prefix}{stream.stem}.json": (100, tag) for stream, tag in self.tags.items()}

    def note(self, stream: StreamName = STREAM, rest: Rest | None = REST, **outcome: Any) -> None:
        found = Outcome(stream=stream, last=BatchId(1, 4), **outcome)
        self.rests.note(stream, settings(), found, rest=rest, revision=Revision(self.tags[stream]))

    def still(self, stream: StreamName = STREAM, wanted: StreamSettings | None = None) -> Outcome | None:
        return self.rests.still(stream, wanted or settings(), cast("Planner", self.planner))


def test_a_stream_at_rest_gives_what_its_last_pass_gave_complete_up_to_now() -> None:
    desk = Desk()
    assert desk.still() is None
    desk.note()

    found = desk.still()

    assert found is not None
    assert (found.last, found.complete, found.batches) == (BatchId(1, 4), NOON, 0)


def test_many_streams_are_listed_once_within_ten_seconds() -> None:
    desk = Desk()
    desk.note(STREAM)
    desk.note(OTHER)

    assert desk.still(STREAM)
    assert desk.still(OTHER)
    assert desk.listed == 1
    desk.clock.advance(9)
    assert desk.still(STREAM)
    assert desk.listed == 1
    desk.clock.advance(2)
    assert desk.still(STREAM)
    assert desk.listed == 2


def test_a_stream_that_is_read_often_hears_of_a_change_soon() -> None:
    desk = Desk()
    often = settings(2)
    desk.rests.note(STREAM, often, Outcome(stream=STREAM), rest=REST, revision=Revision('"1"'))
    assert desk.still(wanted=often)
    desk.tags[STREAM] = '"2"'
    desk.clock.advance(1.5)

    assert desk.still(wanted=often) is None


@pytest.mark.parametrize("tag", ['"2"', None])
def test_a_document_that_changed_or_is_gone_is_read(tag: str | None) -> None:
    desk = Desk()
    desk.note()
    if tag is None:
        del desk.tags[STREAM]
    else:
        desk.tags[STREAM] = tag

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
    desk.clock.advance(WHOLE_AGAIN + 1)

    assert desk.still() is None


@pytest.mark.parametrize(
    "outcome",
    [{"batches": 1}, {"reason": "held by transaction 7"}, {"error": SourceDown("away")}, {"rest": None}],
)
def test_only_a_pass_that_found_nothing_and_waits_for_nothing_leaves_a_rest(outcome: dict[str, Any]) -> None:
    desk = Desk()
    desk.note()

    desk.note(**outcome)

    assert desk.still() is None
