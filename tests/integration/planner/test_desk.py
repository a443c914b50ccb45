"""What a person at the marks is told by MySQL: what positions are made of, and how many rows will be read."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from syncd.app.operator_context import OperatorContext
from syncd.operations.position_input import CursorShape
from syncd.settings import LakeSettings, Settings, StreamSettings
from tests.integration.planner.servers import Server
from tests.integration.planner.test_streams import NEW_YEAR, run_sql, versioned
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.errors import Misuse

pytestmark = pytest.mark.services


def desk_of(server: Server, **more: object) -> tuple[OperatorContext, StreamSettings]:
    stream = StreamSettings(source="lab", database="lab", table="t", **more)  # type: ignore[arg-type]  # each test passes fields of its own
    settings = Settings(
        sources=(replace(server.settings, zone="UTC"),), lake=LakeSettings(bucket="b"), streams=(stream,)
    )
    return OperatorContext(settings), stream


@pytest.mark.parametrize("kind", ["DATETIME", "DATETIME(6)", "TIMESTAMP(3) NULL"])
def test_positions_are_made_of_what_the_table_has(server: Server, kind: str) -> None:
    versioned(server, kind, rows=1000)
    run_sql(server, "ANALYZE TABLE t")  # MySQL counts a new table in its own time
    desk, stream = desk_of(server)
    instant = NEW_YEAR + timedelta(seconds=3, microseconds=1)

    with desk:
        asked = desk.query_source(stream)
        assert asked.order is not None
        shape = CursorShape.from_order(asked.order)
        cursor = shape.parse_position(START_CURSOR, timestamp=instant, key=["7"])
        rows = desk.query_source(stream, after=Cursor(cursor.values[:1])).rows_behind
        nearly_all = desk.query_source(stream, after=START_CURSOR).rows_behind
        none = (
            desk.query_source(stream, after=Cursor((asked.order.clock.last_value,))).rows_behind
            if asked.order.clock
            else None
        )

    step = {"DATETIME": timedelta(seconds=1), "TIMESTAMP(3) NULL": timedelta(milliseconds=1)}.get(kind, timedelta(0))
    found = cursor.values[0].raw
    assert isinstance(found, datetime)
    assert found.replace(tzinfo=None) == (NEW_YEAR.replace(tzinfo=None) + timedelta(seconds=3)) + (
        step or timedelta(microseconds=1)
    )
    assert str(cursor.values[1]) == "int:7"
    assert rows is not None
    assert nearly_all is not None
    assert 400 <= rows <= nearly_all <= 1500, "a guess, but none of another table"
    assert none in {0, 1}


def test_an_instant_means_nothing_where_a_table_is_read_by_its_key(server: Server) -> None:
    versioned(server)
    desk, stream = desk_of(server, cursor="id")

    with desk:
        order = desk.query_source(stream).order
        assert order is not None
        shape = CursorShape.from_order(order)

    assert shape.parse_position(START_CURSOR, timestamp=None, key=["42"]) == Cursor.from_values(42)
    with pytest.raises(Misuse, match="is not a position"):
        shape.parse_position(START_CURSOR, timestamp=NEW_YEAR, key=[])


def test_a_table_that_is_not_there_is_told_and_guessed_of_nothing(server: Server) -> None:
    desk, stream = desk_of(server)

    with desk:
        asked = desk.query_source(replace(stream, table="nowhere"), after=START_CURSOR)

    assert (asked.order, asked.rows_behind) == (None, None)
    assert "nowhere" in asked.problem
