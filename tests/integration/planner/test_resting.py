"""A stream at rest: what little is asked of it, and what ends its rest."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from syncd.extract.plan_rules import ExtractRequest, IdleState
from syncd.extract.planner import Planner
from syncd.mysql.source import SourceConnection
from syncd.ports.source import ServerTimeBreak
from syncd.settings import NullCursor
from tests.integration.planner.chains import Stream
from tests.integration.planner.servers import Server
from tests.integration.planner.test_streams import NEW_YEAR, bump, make, run_sql, stream, versioned

pytestmark = pytest.mark.services

LATER = NEW_YEAR + timedelta(days=1)


@dataclass
class Resting:
    """A stream that was read to its end, and a planner that has proposed nothing yet."""

    lab: Stream
    rest: IdleState

    @property
    def planner(self) -> Planner:
        return self.lab.rows().planner


@pytest.fixture
def resting(server: Server) -> Resting:
    versioned(server, rows=200)
    return rested(stream(server))


def rested(lab: Stream) -> Resting:
    rest = lab.run().planner.idle_state
    assert rest is not None
    return Resting(lab, rest)


def test_it_is_told_by_two_questions_and_complete_up_to_the_horizon_of_now(
    resting: Resting, monkeypatch: pytest.MonkeyPatch
) -> None:
    resting.lab.horizons.bound = LATER + timedelta(hours=1)
    asked = list[str]()
    real = SourceConnection.fetch_rows

    def counted(self: SourceConnection, sql: str, *, database: str | None = None) -> Any:
        asked.append(sql)
        return real(self, sql, database=database)

    monkeypatch.setattr(SourceConnection, "fetch_rows", counted)
    planner = resting.planner

    assert planner.is_still_idle(resting.rest)

    assert planner.complete_before == LATER + timedelta(hours=1)
    assert len(asked) == 1, asked  # and SHOW CREATE TABLE, by another way


def test_what_holds_the_horizon_meanwhile_is_said(resting: Resting) -> None:
    resting.lab.horizons.held = timedelta(seconds=40)
    resting.lab.horizons.holder = "transaction 4711, user app"
    planner = resting.planner

    assert planner.is_still_idle(resting.rest)
    assert planner.wait_reason.startswith("held by transaction 4711, user app, since ")


def ends_by_a_row(resting: Resting, server: Server) -> None:
    resting.lab.horizons.bound = LATER + timedelta(hours=6)
    bump(server, "2026-01-02 03:00:00", "id = 7")


def ends_by_a_row_above_the_horizon(resting: Resting, server: Server) -> None:
    bump(server, "2026-01-03", "id = 7")


def ends_by_a_break(resting: Resting, server: Server) -> None:
    resting.lab.horizons.breaks = (ServerTimeBreak(id="b", clock_reset_to=NEW_YEAR, is_other_server=False),)


@pytest.mark.parametrize(
    "ends", [ends_by_a_row, ends_by_a_row_above_the_horizon, ends_by_a_break], ids=lambda each: each.__name__
)
def test_it_ends_by(resting: Resting, server: Server, ends: Callable[[Resting, Server], None]) -> None:
    assert resting.planner.is_still_idle(resting.rest)

    ends(resting, server)

    assert not resting.planner.is_still_idle(resting.rest)


def test_a_table_that_was_made_anew_is_looked_at_whole(resting: Resting, server: Server) -> None:
    run_sql(server, "SELECT SLEEP(1.1)")  # the server counts its tables' ages in whole seconds
    versioned(server, rows=0)

    assert not resting.planner.is_still_idle(resting.rest)


def test_a_stream_that_looks_for_rows_without_a_stamp_never_rests(server: Server) -> None:
    make(server, "id INT PRIMARY KEY, v INT, update_at DATETIME NULL ON UPDATE CURRENT_TIMESTAMP, KEY (update_at)")
    lab = stream(server, null_cursor=NullCursor.FAIL)

    assert lab.run().planner.idle_state is None


def test_a_pass_that_is_not_at_its_end_is_no_rest(server: Server) -> None:
    versioned(server, rows=400)
    lab = stream(server)

    rows = lab.run(lab.rows(ExtractRequest(limit=150)))

    assert len(rows.rows) == 150
    assert rows.planner.idle_state is None
