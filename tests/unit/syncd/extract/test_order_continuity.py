"""Which changes of a table change the order of its stream, and which do not."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from syncd.datatypes.source_table import SourceColumn, SourceIndex, SourceTable
from syncd.errors import SchemaDrift
from syncd.extract.order_continuity import require_same_order
from syncd.extract.plan_body import plan_increment, plan_start
from syncd.extract.plan_rules import PlanContext, WindowBounds
from syncd.settings import StreamSettings
from syncd.tables.sort_order import StreamOrder, resolve_order
from tests.builders import make_plan
from watermarks.batch import BatchDraft, Plan
from watermarks.cursor import START_CURSOR, Cursor

SETTINGS = StreamSettings(source="shop", database="shop", table="orders")
STAMP = SourceColumn(name="update_at", data_type="datetime", column_type="datetime(3)", fraction=3)
TEXT = SourceColumn(
    name="k", data_type="varchar", column_type="varchar(9)", charset="utf8", collation="utf8_general_ci"
)
LISTED = SourceColumn(name="k", data_type="enum", column_type="enum('a','b')")
NUMBER = SourceColumn(name="k", data_type="decimal", column_type="decimal(9,2)", precision=9, scale=2)
GROUND = PlanContext(
    mark=START_CURSOR, identity="server-1", fingerprint="s1", created=datetime(2026, 1, 31, tzinfo=UTC)
)


def order(key: SourceColumn, stamp: SourceColumn = STAMP) -> StreamOrder:
    indexes = (
        SourceIndex(name="PRIMARY", columns=(key.name,), unique=True, whole=True),
        SourceIndex(name="by_time", columns=(stamp.name,), unique=False, whole=True),
    )
    made = SourceTable(
        database="shop", name="orders", kind="BASE TABLE", engine="InnoDB", columns=(key, stamp), indexes=indexes
    )
    return resolve_order(made, replace(SETTINGS, cursor=stamp.name))


def read_by(before: StreamOrder) -> list[Plan]:
    """What plans of an increment and of a beginning say, read back from the lake."""
    drafts = (
        plan_increment(GROUND, before, WindowBounds(low=START_CURSOR, ends=(Cursor.from_values(1, 1),))),
        plan_start(GROUND, before, Cursor.from_values(1)),
    )
    return [_read_back(draft) for draft in drafts]


def _read_back(draft: BatchDraft) -> Plan:
    made = make_plan(draft=draft)
    return Plan.from_bytes(made.to_bytes(), location="here", stream=made.stream, batch=made.id)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (TEXT, {"charset": "utf8mb3", "collation": "utf8mb3_general_ci"}),
        (TEXT, {"name": "K", "column_type": "varchar(90)"}),
        (LISTED, {"column_type": "enum('a','b','c')"}),
        (NUMBER, {"column_type": "decimal(20,4)", "precision": 20, "scale": 4}),
        (STAMP, {"column_type": "datetime(6)", "fraction": 6}),
    ],
    ids=["another name of a charset", "wider", "members behind", "digits", "fractions"],
)
def test_what_only_grows_is_the_same_order(before: SourceColumn, now: dict[str, Any]) -> None:
    after = replace(before, **now)
    was, is_ = (order(NUMBER, one) if before is STAMP else order(one) for one in (before, after))

    for plan in read_by(was):
        require_same_order(is_, plan)


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (TEXT, {"collation": "utf8_bin"}, "the collation of k changed from utf8_general_ci to utf8_bin"),
        (TEXT, {"name": "other"}, r"\(update_at, k\), and its order is now \(update_at, other\)"),
        (TEXT, {"data_type": "int", "column_type": "int", "charset": None, "collation": None}, "the kind of k changed"),
        (LISTED, {"column_type": "enum('b','a')"}, "members of k"),
        (LISTED, {"column_type": "enum('a')"}, "members of k"),
        (LISTED, {"column_type": "enum('a','bb')"}, "members of k"),
        (LISTED, {"data_type": "int", "column_type": "int"}, "of k"),
        (NUMBER, {"column_type": "decimal(9,1)", "scale": 1}, "fractional digits of k changed from . to 1"),
        (STAMP, {"column_type": "datetime", "fraction": 0}, "fractional digits of update_at changed from 3 to 0"),
        (STAMP, {"name": "made_at"}, r"now \(made_at, k\)"),
    ],
)
def test_what_moves_rows_about_is_another_order(before: SourceColumn, now: dict[str, Any], told: str) -> None:
    after = replace(before, **now)
    was, is_ = (order(NUMBER, one) if before is STAMP else order(one) for one in (before, after))

    for plan in read_by(was):
        with pytest.raises(SchemaDrift, match=told):
            require_same_order(is_, plan)
