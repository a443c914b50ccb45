"""Why a stream is not proven: what its newest plans say of that, and where they say nothing."""

from typing import Any

import pytest

from syncd.operations.stream_status import MAX_PLANS_READ, UnprovenReason, find_unproven_reason
from tests.builders import make_increment, make_plan
from watermarks.batch import BatchId, Plan
from watermarks.codec import DamagedDocument
from watermarks.progress import ExtractProgress

PROVEN = {"horizon": {"proven": True, "reason": "held by somebody, 3 s"}}
ASSUMED = {"horizon": {"proven": False, "reason": "not proven: no right; stays 60 s behind"}}
REMADE = {"made": {"numbers": None, "looked": None, "remade": "2-3"}}
ANOTHER = "the table was replaced before batch 2-3"


class Plans:
    """Plans by their number; those that are not there have lost their object."""

    def __init__(self, bodies: dict[int, dict[str, Any]]) -> None:
        self.bodies = bodies
        self.asked = 0

    def read_plan(self, batch: BatchId) -> Plan | None:
        self.asked += 1
        body = self.bodies.get(batch.seq)
        return None if body is None else make_plan(draft=make_increment(body=body))


def half(seq: int, *, proven: bool = False) -> ExtractProgress:
    return ExtractProgress(generation=2, seq=seq, closed_generations={1: 9}, proven=proven)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (PROVEN, None),
        (ASSUMED, UnprovenReason(reason="no right; stays 60 s behind")),
        (PROVEN | REMADE, UnprovenReason(reason=ANOTHER, table_replaced_in=BatchId(2, 3))),
        (ASSUMED | REMADE, UnprovenReason(reason=f"{ANOTHER}; no right; stays 60 s behind")),
    ],
    ids=["a batch before it", "the horizon", "another table", "both"],
)
def test_the_newest_plan_says_why(body: dict[str, Any], found: UnprovenReason | None) -> None:
    plans = Plans({5: body, 4: ASSUMED})

    assert find_unproven_reason(half(5), plans.read_plan) == found
    assert plans.asked == 1


def test_plans_without_a_horizon_are_passed_over_and_not_without_end() -> None:
    repairs: dict[int, dict[str, Any]] = {seq: {"horizon": None} for seq in range(2, 90)}
    few, many = Plans({1: PROVEN | REMADE, **repairs}), Plans({1: PROVEN | REMADE, **repairs})

    assert find_unproven_reason(half(MAX_PLANS_READ), few.read_plan) == UnprovenReason(
        reason=ANOTHER, table_replaced_in=BatchId(2, 3)
    )
    assert find_unproven_reason(half(80), many.read_plan) is None
    assert many.asked == MAX_PLANS_READ


def test_nothing_is_asked_where_it_is_proven_or_nothing_was_read() -> None:
    plans = Plans({5: ASSUMED})

    assert find_unproven_reason(half(5, proven=True), plans.read_plan) is None
    assert find_unproven_reason(half(0), plans.read_plan) == UnprovenReason(
        reason="nothing has been read since the mark was set"
    )
    assert plans.asked == 0


def test_a_plan_that_cannot_be_read_hides_nothing_else() -> None:
    class Lost(Plans):
        def read_plan(self, batch: BatchId) -> Plan | None:
            raise DamagedDocument(f"plans/{batch} is no document")

    assert find_unproven_reason(half(5), Lost({}).read_plan) == UnprovenReason(
        reason="its plans cannot be read: plans/2-5 is no document"
    )
