"""Which streams have to read again after a break in their server's time, and from when on."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from syncd.extract.reread import Due, due
from syncd.ports.source import Break, Horizon
from tests.builders import ORDERS, make_increment
from watermarks.batch import BatchId, Plan
from watermarks.cursor import START
from watermarks.progress import Extracted

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
OTHER = Break(id="other", other=True)
BACK = Break(id="back", low=NOON - timedelta(minutes=30))
UNKNOWN = Break(id="how far?")
CHAIN = Extracted(source_identity="one", seq=1)
MINUTE = timedelta(minutes=1)


def horizon(*breaks: Break) -> Horizon:
    return Horizon(bound=NOON, proven=True, t0=NOON, identity="server-1", breaks=breaks)


def newest(*known: Break) -> Plan:
    draft = replace(make_increment(START, START), body={"horizon": {"breaks": [each.id for each in known]}})
    return Plan(stream=ORDERS, id=BatchId(1, 1), draft=draft, nonce="n", epoch=1, planned_at=NOON)


def not_asked() -> Plan | None:
    raise AssertionError


def test_without_a_break_nobody_looks_at_the_chain() -> None:
    assert due(CHAIN, horizon(), identity="one", newest=not_asked) is None
    assert due(Extracted(), horizon(), identity="one", newest=not_asked) is None


def test_a_break_is_due_until_a_link_knows_of_it() -> None:
    found = due(CHAIN, horizon(OTHER, BACK), identity="one", newest=lambda: newest(OTHER))

    assert found == Due(breaks=(BACK,), stranger=False)
    assert due(CHAIN, horizon(OTHER, BACK), identity="one", newest=lambda: newest(BACK, OTHER)) is None
    assert due(CHAIN, horizon(OTHER), identity="one", newest=lambda: None) == Due(breaks=(OTHER,), stranger=False)


def test_another_server_than_that_of_the_newest_link_is_due_without_any_notes() -> None:
    assert due(CHAIN, horizon(), identity="two", newest=lambda: newest(OTHER)) == Due(breaks=(), stranger=True)


def test_how_far_a_clock_went_back_a_person_says_by_a_mark_of_their_own() -> None:
    found = due(CHAIN, horizon(UNKNOWN, BACK), identity="one", newest=lambda: newest(BACK))
    set_by_hand = replace(CHAIN, generation=2, seq=0)

    assert found == Due(breaks=(UNKNOWN,), stranger=False)
    assert found.unknown
    assert not Due(breaks=(BACK, OTHER), stranger=True).unknown
    assert due(set_by_hand, horizon(UNKNOWN), identity="one", newest=lambda: None) is None
    assert due(set_by_hand, horizon(UNKNOWN, BACK), identity="one", newest=lambda: None) == Due(
        breaks=(BACK,), stranger=False
    )
    assert due(CHAIN, horizon(UNKNOWN), identity="one", newest=lambda: newest(UNKNOWN)) is None


@pytest.mark.parametrize(
    ("breaks", "stranger", "since"),
    [
        ((OTHER,), False, NOON - MINUTE),
        ((), True, NOON - MINUTE),
        ((BACK,), False, NOON - 31 * MINUTE),
        ((BACK, OTHER), False, NOON - 31 * MINUTE),
        ((Break(id="far", low=NOON + 5 * MINUTE),), False, NOON + 4 * MINUTE),
        ((Break(id="far", low=NOON + 5 * MINUTE), OTHER), False, NOON - MINUTE),
    ],
)
def test_how_far_back(breaks: tuple[Break, ...], stranger: bool, since: datetime) -> None:  # noqa: FBT001
    assert Due(breaks=breaks, stranger=stranger).since(NOON, allowance=MINUTE) == since


def test_no_mark_is_too_early() -> None:
    first = datetime(1, 1, 1, tzinfo=UTC)

    assert Due(breaks=(OTHER,), stranger=False).since(first, allowance=MINUTE) <= first + timedelta(days=1)
