"""Which streams have to read again after a break in their server's time, and from when on."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from syncd.extract.reread_after_clock_break import RereadReason, find_reread_reason
from syncd.ports.source import Horizon, ServerTimeBreak
from tests.builders import ORDERS, make_increment
from watermarks.batch import BatchId, Plan
from watermarks.cursor import START_CURSOR
from watermarks.progress import ExtractProgress

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
OTHER = ServerTimeBreak(id="other", is_other_server=True)
BACK = ServerTimeBreak(id="back", clock_reset_to=NOON - timedelta(minutes=30))
UNKNOWN = ServerTimeBreak(id="how far?")
CHAIN = ExtractProgress(source_identity="one", seq=1)
MINUTE = timedelta(minutes=1)


def horizon(*breaks: ServerTimeBreak) -> Horizon:
    return Horizon(bound=NOON, proven=True, t0=NOON, identity="server-1", breaks=breaks)


def newest(*known: ServerTimeBreak) -> Plan:
    draft = replace(
        make_increment(START_CURSOR, START_CURSOR), body={"horizon": {"breaks": [each.id for each in known]}}
    )
    return Plan(stream=ORDERS, id=BatchId(1, 1), draft=draft, nonce="n", epoch=1, planned_at=NOON)


def not_asked() -> Plan | None:
    raise AssertionError


def test_without_a_break_nobody_looks_at_the_chain() -> None:
    assert find_reread_reason(CHAIN, horizon(), identity="one", newest=not_asked) is None
    assert find_reread_reason(ExtractProgress(), horizon(), identity="one", newest=not_asked) is None


def test_a_break_is_due_until_a_link_knows_of_it() -> None:
    found = find_reread_reason(CHAIN, horizon(OTHER, BACK), identity="one", newest=lambda: newest(OTHER))

    assert found == RereadReason(breaks=(BACK,), newest_link_is_foreign=False)
    assert find_reread_reason(CHAIN, horizon(OTHER, BACK), identity="one", newest=lambda: newest(BACK, OTHER)) is None
    assert find_reread_reason(CHAIN, horizon(OTHER), identity="one", newest=lambda: None) == RereadReason(
        breaks=(OTHER,), newest_link_is_foreign=False
    )


def test_another_server_than_that_of_the_newest_link_is_due_without_any_notes() -> None:
    assert find_reread_reason(CHAIN, horizon(), identity="two", newest=lambda: newest(OTHER)) == RereadReason(
        breaks=(), newest_link_is_foreign=True
    )


def test_how_far_a_clock_went_back_a_person_says_by_a_mark_of_their_own() -> None:
    found = find_reread_reason(CHAIN, horizon(UNKNOWN, BACK), identity="one", newest=lambda: newest(BACK))
    set_by_hand = replace(CHAIN, generation=2, seq=0)

    assert found == RereadReason(breaks=(UNKNOWN,), newest_link_is_foreign=False)
    assert found.clock_offset_unknown
    assert not RereadReason(breaks=(BACK, OTHER), newest_link_is_foreign=True).clock_offset_unknown
    assert find_reread_reason(set_by_hand, horizon(UNKNOWN), identity="one", newest=lambda: None) is None
    assert find_reread_reason(set_by_hand, horizon(UNKNOWN, BACK), identity="one", newest=lambda: None) == RereadReason(
        breaks=(BACK,), newest_link_is_foreign=False
    )
    assert find_reread_reason(CHAIN, horizon(UNKNOWN), identity="one", newest=lambda: newest(UNKNOWN)) is None


@pytest.mark.parametrize(
    ("breaks", "stranger", "since"),
    [
        ((OTHER,), False, NOON - MINUTE),
        ((), True, NOON - MINUTE),
        ((BACK,), False, NOON - 31 * MINUTE),
        ((BACK, OTHER), False, NOON - 31 * MINUTE),
        ((ServerTimeBreak(id="far", clock_reset_to=NOON + 5 * MINUTE),), False, NOON + 4 * MINUTE),
        ((ServerTimeBreak(id="far", clock_reset_to=NOON + 5 * MINUTE), OTHER), False, NOON - MINUTE),
    ],
)
def test_how_far_back(breaks: tuple[ServerTimeBreak, ...], stranger: bool, since: datetime) -> None:  # noqa: FBT001  # pytest passes the cases
    assert RereadReason(breaks=breaks, newest_link_is_foreign=stranger).reread_since(NOON, allowance=MINUTE) == since


def test_no_mark_is_too_early() -> None:
    first = datetime(1, 1, 1, tzinfo=UTC)

    assert RereadReason(breaks=(OTHER,), newest_link_is_foreign=False).reread_since(
        first, allowance=MINUTE
    ) <= first + timedelta(days=1)
