"""Which table a plan was made for: what tells another one from the one before it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from syncd.mysql.sql import parse_partition, table_ids_sql
from syncd.tables.table_identity import TABLE_IDS_CHECK_INTERVAL, TableIncarnation, find_replacing_batch
from tests.builders import make_increment, make_plan
from watermarks.batch import BatchId

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MADE = TableIncarnation(identity="server-1", created_at="2026-01-01", innodb_ids=frozenset({"7"}), checked_at=NOON)
ALTERED = replace(MADE, created_at="2026-02-02")


@pytest.mark.parametrize(
    ("now", "others"),
    [
        (MADE, set()),
        (ALTERED, set()),
        (replace(MADE, innodb_ids=frozenset({"8"})), {"8"}),
        (replace(ALTERED, innodb_ids=frozenset({"8"})), {"8"}),
        (replace(ALTERED, innodb_ids=frozenset({"7", "8"})), {"8"}),
        (replace(MADE, innodb_ids=None), set()),
        (replace(ALTERED, innodb_ids=None), None),
        (replace(ALTERED, identity="server-2", innodb_ids=frozenset({"8"})), set()),
    ],
    ids=["the same", "altered in place", "a number alone", "both", "a partition more", "unknown", "in doubt", "server"],
)
def test_what_was_no_part_of_the_table_before(now: TableIncarnation, others: set[str] | None) -> None:
    assert now.new_innodb_ids(MADE) == others


def test_it_is_looked_at_again_after_a_while_or_when_anything_differs() -> None:
    assert MADE.has_current_ids(MADE, now=NOON + TABLE_IDS_CHECK_INTERVAL - timedelta(seconds=1))
    assert not MADE.has_current_ids(MADE, now=NOON + TABLE_IDS_CHECK_INTERVAL)
    assert not MADE.has_current_ids(ALTERED, now=NOON)
    assert not MADE.has_current_ids(replace(MADE, identity="server-2"), now=NOON)


def test_a_plan_says_it_to_the_next() -> None:
    made = replace(
        MADE, identity=make_increment().basis.source_identity, replaced_in=BatchId(1, 7), innodb_ids=frozenset("98")
    )
    plan = make_plan(draft=replace(make_increment(), body={"created": made.created_at, **made.to_fields()}))

    assert TableIncarnation.from_plan(plan) == made
    assert find_replacing_batch(plan.draft.body) == BatchId(1, 7)


def test_a_plan_of_before_this_was_written_down_knows_when_the_table_was_made() -> None:
    plan = make_plan(draft=replace(make_increment(), body={"created": "2026-01-01"}))

    made = TableIncarnation.from_plan(plan)

    assert (made.created_at, made.innodb_ids, made.checked_at, made.replaced_in) == ("2026-01-01", None, None, None)


def test_innodb_names_a_table_and_its_partitions() -> None:
    assert table_ids_sql("shop", "größe", mariadb=False, partitioned=False) is None
    assert parse_partition("shop/t") is None
    assert parse_partition("shop/t#P#p0") == "p0"
    assert parse_partition("shop/t#p#p0#sp#p0sp0") == "p0"
    assert parse_partition("shop/t#p#@0041") is None
