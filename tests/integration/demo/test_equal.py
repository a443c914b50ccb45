"""The comparison sees whatever is done to the warehouse behind its back."""

import os
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from syncd.sandbox.demo.demonstration import Demo, StopCondition
from syncd.sandbox.demo.equality_check import DEMO_TABLES, compare_table, normalize_value
from syncd.sandbox.running_sandbox import Sandbox
from tests.integration.demo.conftest import Watching

if TYPE_CHECKING:
    from syncd.sandbox.demo.demonstration import DemoResult
    from syncd.sandbox.demo.equality_check import TableComparison

DIFFERENCES = {
    "a row is deleted": ("DELETE FROM orders WHERE id = 7", "orders", (1, 0, 0), "id = 7 is missing"),
    "a value is changed": ("UPDATE customers SET credit = 5 WHERE id = 3", "customers", (0, 0, 1), "credit is"),
    "a NULL becomes empty": (
        "UPDATE orders SET note = '' WHERE id = (SELECT MIN(id) FROM orders WHERE note IS NULL)",
        "orders",
        (0, 0, 1),
        "note is NULL",
    ),
    "a row is doubled": ("INSERT INTO events SELECT * FROM events WHERE id = 9", "events", (0, 1, 0), "more than once"),
    "a row is invented": ("INSERT INTO countries (code) VALUES ('XX')", "countries", (0, 1, 0), "not at the source"),
    "a column is gone": ("ALTER TABLE order_lines DROP COLUMN weight", "order_lines", None, "its columns are"),
}


class Meddled:
    """One demonstration; before its comparison, each thing is done to the warehouse, looked at, and undone."""

    def __init__(self, directory: Path) -> None:
        self.seen: dict[str, list[TableComparison]] = {}
        ending = StopCondition(2.0)
        demo = Demo(
            directory=directory, display=Watching(), stop_condition=ending, orders=60, before_compare=self.meddle
        )
        self.verdict: DemoResult = demo.run()

    def meddle(self, box: Sandbox) -> None:
        with box.mysql.connect() as source, box.redshift.connect() as target:
            cursor = target.cursor()
            target.autocommit = False
            for name, (statement, *_) in DIFFERENCES.items():
                cursor.execute(statement)
                self.seen[name] = [compare_table(shown, source, target) for shown in DEMO_TABLES]
                target.rollback()
            target.autocommit = True
            cursor.execute("DELETE FROM order_lines WHERE order_id = 11")


@pytest.fixture(scope="module")
def meddled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Meddled]:
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("SYNCD_SANDBOX")}
    yield Meddled(tmp_path_factory.mktemp("demo"))
    os.environ |= kept


@pytest.mark.services
def test_a_demonstration_is_not_equal_when_somebody_deletes_a_row_of_the_warehouse(meddled: Meddled) -> None:
    unequal = [one for one in meddled.verdict.comparisons if not one.equal]

    assert not meddled.verdict.equal
    assert [one.table for one in unequal] == ["order_lines"]
    assert unequal[0].missing > 0


@pytest.mark.services
@pytest.mark.parametrize("name", DIFFERENCES)
def test_the_comparison_sees_that(meddled: Meddled, name: str) -> None:
    _, table, counts, word = DIFFERENCES[name]

    unequal = [one for one in meddled.seen[name] if not one.equal]

    assert [one.table for one in unequal] == [table]
    assert word in unequal[0].examples[0]
    if counts is not None:
        assert (unequal[0].missing, unequal[0].extra, unequal[0].different) == counts


@pytest.mark.parametrize(
    ("here", "there", "kind"),
    [
        (18446744073709551615, Decimal(18446744073709551615), "bigint"),
        (1, True, "bit"),
        ('{"b": 1.50, "a": [null]}', '{"a":[null],"b":1.5}', "json"),
        (datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC), "datetime"),  # noqa: DTZ001  # as a driver gives it
        (date(2026, 1, 1), date(2026, 1, 1), "date"),
    ],
)
def test_one_value_has_one_form_whichever_driver_it_came_from(here: Any, there: Any, kind: str) -> None:
    assert normalize_value(here, kind) == normalize_value(there, kind)


@pytest.mark.parametrize(
    ("here", "there", "kind"),
    [
        (None, "", "varchar"),
        (None, "NULL", "varchar"),
        ("a", "a ", "varchar"),
        (Decimal("1.10"), Decimal("1.1"), "decimal"),
        (0.1, 0.10000000149011612, "float"),
        (0.0, -0.0, "double"),
        ('{"a": 1}', '{"a": "1"}', "json"),
        ('{"a": 1.0}', '{"a": "1.0"}', "json"),
        (datetime(2026, 1, 1), datetime(2026, 1, 1, 0, 0, 0, 1), "datetime"),  # noqa: DTZ001  # as above
    ],
)
def test_values_that_differ_have_different_forms(here: Any, there: Any, kind: str) -> None:
    assert normalize_value(here, kind) != normalize_value(there, kind)
