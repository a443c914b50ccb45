"""Where reading ahead goes on: what earlier looks left in the chain."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from syncd.extract.ahead_of_horizon import AheadScan, find_last_scan
from tests.builders import ORDERS, at, make_increment
from watermarks.batch import BatchId, BatchKind, BatchLink, Plan
from watermarks.cursor import START_CURSOR, format_instant
from watermarks.progress import ExtractProgress
from watermarks.window import Window

if TYPE_CHECKING:
    from watermarks.extraction import BatchChain

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@dataclass
class Told:
    """A chain of one generation as a test tells it."""

    plans: list[Plan] = field(default_factory=list)
    abandoned: frozenset[int] = frozenset()
    asked: list[int] = field(default_factory=list)

    def add(self, kind: BatchKind, t0: datetime, *, identity: str = "s", **body: Any) -> "Told":
        draft = make_increment(START_CURSOR, at(5, 5))
        moves = kind is BatchKind.INCREMENT
        draft = replace(
            draft,
            kind=kind,
            high=draft.high if moves else draft.basis.mark,
            windows=(Window(START_CURSOR, at(5, 5)),),
            basis=replace(draft.basis, source_identity=identity),
            proven=False,
            body={"horizon": {"t0": format_instant(t0)}, **body},
        )
        number = BatchId(1, len(self.plans) + 1)
        self.plans.append(Plan(stream=ORDERS, id=number, draft=draft, nonce="n", epoch=1, planned_at=NOON))
        return self

    def read_plan(self, batch: BatchId) -> Plan | None:
        self.asked.append(batch.seq)
        return self.plans[batch.seq - 1]

    def read_link(self, batch: BatchId) -> BatchLink | None:
        plan = self.plans[batch.seq - 1]
        common: dict[str, Any] = {"previous": None, "nonce": "n", "epoch": 1, "made_at": NOON}
        made = BatchLink.from_abandoned_plan(plan, "gone", mark=START_CURSOR, **common)
        return made if batch.seq in self.abandoned else replace(made, kind=plan.draft.kind)

    def look(
        self, *, since: datetime = NOON - 100 * SECOND, now: datetime = NOON, identity: str = "s"
    ) -> AheadScan | None:
        chain = ExtractProgress(seq=len(self.plans))
        return find_last_scan(chain, cast("BatchChain", self), identity=identity, now=now, since=since)


def test_without_a_look_there_is_none() -> None:
    assert Told().look() is None
    assert Told().add(BatchKind.INCREMENT, NOON - SECOND).look() is None


def test_a_look_that_saw_all_says_when_it_began() -> None:
    told = Told().add(BatchKind.AHEAD, NOON - 5 * SECOND, more=False, looked=format_instant(NOON - 9 * SECOND))

    assert told.look() == AheadScan(started_at=NOON - 9 * SECOND, last_batch_at=NOON - 5 * SECOND, unread_from=None)


def test_a_look_that_left_rows_says_where() -> None:
    told = Told().add(BatchKind.AHEAD, NOON - 5 * SECOND, more=True, looked=format_instant(NOON - 9 * SECOND))

    assert told.look() == AheadScan(started_at=NOON - 9 * SECOND, last_batch_at=NOON - 5 * SECOND, unread_from=at(5, 5))


def test_a_plan_of_an_earlier_version_began_when_it_was_made() -> None:
    look = Told().add(BatchKind.AHEAD, NOON - 5 * SECOND, more=False).look()

    assert look is not None
    assert look.started_at == NOON - 5 * SECOND


def test_increments_between_do_not_hide_it_but_nobody_reads_a_chain_to_its_start() -> None:
    told = Told()
    for age in range(50, 10, -1):
        told.add(BatchKind.INCREMENT, NOON - age * SECOND)
    told.add(BatchKind.AHEAD, NOON - 9 * SECOND, more=False).add(BatchKind.INCREMENT, NOON - 8 * SECOND)

    assert told.look() is not None
    assert told.asked == [42, 41]

    told.add(BatchKind.INCREMENT, NOON - 7 * SECOND)
    told.plans[40] = told.plans[39]
    told.asked.clear()
    assert told.look(since=NOON - 10 * SECOND) is None
    assert told.asked == [43, 42, 41]


@pytest.mark.parametrize(
    "told",
    [
        Told(abandoned=frozenset({1})).add(BatchKind.AHEAD, NOON - 5 * SECOND, more=False),
        Told().add(BatchKind.AHEAD, NOON - 5 * SECOND, identity="another", more=False),
        Told().add(BatchKind.AHEAD, NOON + 5 * SECOND, more=False),
    ],
)
def test_what_was_abandoned_or_is_of_another_server_or_time_is_no_look(told: Told) -> None:
    assert told.look() is None
