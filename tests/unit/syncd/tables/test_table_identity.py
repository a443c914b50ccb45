"""Which table a plan was made for: what tells another one from the one before it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from syncd.mysql.sql import partition_of, table_numbers
from syncd.tables.table_identity import LOOKED_EVERY, Made, remade_in
from tests.builders import make_increment, make_plan
from watermarks.batch import BatchId

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MADE = Made(identity="server-1", created="2026-01-01", numbers=frozenset({"7"}), looked=NOON)
ALTERED = replace(MADE, created="2026-02-02")


@pytest.mark.parametrize(
    ("now", "others"),
    [
        (MADE, set()),
        (ALTERED, set()),
        (replace(MADE, numbers=frozenset({"8"})), {"8"}),
        (replace(ALTERED, numbers=frozenset({"8"})), {"8"}),
        (replace(ALTERED, numbers=frozenset({"7", "8"})), {"8"}),
        (replace(MADE, numbers=None), set()),
        (replace(ALTERED, numbers=None), None),
        (replace(ALTERED, identity="server-2", numbers=frozenset({"8"})), set()),
    ],
    ids=["the same", "altered in place", "a number alone", "both", "a partition more", "unknown", "in doubt", "server"],
)
def test_what_was_no_part_of_the_table_before(now: Made, others: set[str] | None) -> None:
    assert now.others(MADE) == others


def test_it_is_looked_at_again_after_a_while_or_when_anything_differs() -> None:
    assert MADE.is_known(MADE, now=NOON + LOOKED_EVERY - timedelta(seconds=1))
    assert not MADE.is_known(MADE, now=NOON + LOOKED_EVERY)
    assert not MADE.is_known(ALTERED, now=NOON)
    assert not MADE.is_known(replace(MADE, identity="server-2"), now=NOON)


def test_a_plan_says_it_to_the_next() -> None:
    made = replace(MADE, identity=make_increment().world.source_identity, remade=BatchId(1, 7), numbers=frozenset("98"))
    plan = make_plan(draft=replace(make_increment(), body={"created": made.created, **made.fields()}))

    assert Made.of_plan(plan) == made
    assert remade_in(plan.draft.body) == BatchId(1, 7)


def test_a_plan_of_before_this_was_written_down_knows_when_the_table_was_made() -> None:
    plan = make_plan(draft=replace(make_increment(), body={"created": "2026-01-01"}))

    made = Made.of_plan(plan)

    assert (made.created, made.numbers, made.looked, made.remade) == ("2026-01-01", None, None, None)


def test_innodb_names_a_table_and_its_partitions() -> None:
    assert table_numbers("shop", "größe", mariadb=False, partitioned=False) is None
    assert partition_of("shop/t") is None
    assert partition_of("shop/t#P#p0") == "p0"
    assert partition_of("shop/t#p#p0#sp#p0sp0") == "p0"
    assert partition_of("shop/t#p#@0041") is None
