"""A warehouse that drops lines, answers late, or calls a conflict: the run settles it by itself, each batch once."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from syncd.events import LoadRetried
from syncd.redshift.connection import connect
from syncd.redshift.session import WarehouseSession
from syncd.redshift.session_pool import ReusableSession, SessionOpener
from syncd.sandbox.redshift import RedshiftStandIn
from syncd.sandbox.redshift.faults import COMMIT_PATTERN, COPY_PATTERN, FaultTiming
from syncd.settings import Deletes, Mode
from tests.builders import RUN
from tests.integration.load.conftest import Loader, Reader
from tests.services.landed import Batches
from tests.services.prepared import Prepared, moment, row

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]
SAMPLE = 6
MODES = [Mode.UPSERT, Mode.APPEND, Mode.HISTORY, Mode.REPLACE]


class Weather:
    """Streams of one mode, each of which meets one fault."""

    def __init__(self, prepared: Prepare, loader: Loader, warehouse: Reader, mode: Mode = Mode.UPSERT) -> None:
        self._prepared = prepared
        self._mode = mode
        self.loader = loader
        self.warehouse = warehouse

    def stream(self) -> Batches:
        """A stream with one batch that has landed, and two that are due."""
        replaced = self._mode is Mode.REPLACE
        layout = {"deletes": Deletes.IGNORE if replaced else Deletes.SOFT}
        batches = Batches(self._prepared(mode=self._mode, cursor="none" if replaced else "update_at", layout=layout))
        batches.add(row(1, 1), row(2, 2))
        self.loader.load(batches.prepared)
        batches.add(row(1, 3, name="b"), row(3, 4))
        batches.add(row(1, 5, name="c"), row(4, 6))
        batches.bury(2, upto=moment(6).replace(tzinfo=None))
        return batches

    def statements(self) -> int:
        """So many statements one landing takes, counted on a session that stands."""
        batches, counted = self.stream(), []
        execute = WarehouseSession._execute
        with pytest.MonkeyPatch.context() as patch:

            def counting(session: WarehouseSession, sql: str, *rest: Any, **words: Any) -> Any:
                counted.append(sql)
                return execute(session, sql, *rest, **words)

            patch.setattr(WarehouseSession, "_execute", counting)
            self.loader.load(batches.prepared)
        return len(counted)

    def settles(self, batches: Batches, *, tries: int | None = 1) -> None:
        """One run is enough, with so many further tries; and all is as it should be."""
        began = len(self.loader.events)

        outcome = self.loader.run(batches.prepared).execute(RUN)

        assert outcome.error is None, outcome.error
        retried = [event for event in self.loader.events[began:] if isinstance(event, LoadRetried)]
        assert tries is None or len(retried) == tries, retried
        assert outcome.last_batch == batches.read[-1][0].id
        self.whole(batches)

    def whole(self, batches: Batches) -> None:
        assert self.warehouse.rows(batches.prepared, batches.columns) == batches.content
        assert [batch for batch, _, _ in self.warehouse.ledger(batches.prepared)] == batches.ledger


def spread(count: int, *, chosen: int) -> list[int]:
    return [1 + count * place // chosen for place in range(chosen)]


def drop_at(weather: Weather, server: RedshiftStandIn, numbers: list[int]) -> None:
    for number in numbers:
        for when in FaultTiming:
            batches = weather.stream()
            fault = server.faults.drop(".", nth=number, when=when)
            weather.settles(batches)
            assert fault.reached.is_set(), (number, when)


@pytest.mark.parametrize("mode", MODES)
def test_a_line_dropped_at_a_statement_is_settled(
    prepared: Prepare, loader: Loader, warehouse: Reader, server: RedshiftStandIn, mode: Mode
) -> None:
    weather = Weather(prepared, loader, warehouse, mode)
    drop_at(weather, server, spread(weather.statements(), chosen=SAMPLE // 2))


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_a_line_dropped_at_every_statement_is_settled(
    prepared: Prepare, loader: Loader, warehouse: Reader, server: RedshiftStandIn, mode: Mode
) -> None:
    weather = Weather(prepared, loader, warehouse, mode)
    drop_at(weather, server, list(range(1, weather.statements() + 1)))


@pytest.fixture
def weather(prepared: Prepare, loader: Loader, warehouse: Reader) -> Weather:
    return Weather(prepared, loader, warehouse)


@pytest.mark.parametrize("when", FaultTiming)
def test_an_answer_to_commit_that_is_lost_is_settled_by_the_ledger(
    weather: Weather, server: RedshiftStandIn, when: FaultTiming
) -> None:
    batches = weather.stream()
    server.faults.drop(COMMIT_PATTERN, when=when)

    weather.settles(batches)


def test_answers_to_commit_that_are_lost_again_and_again_land_nothing_twice(
    weather: Weather, server: RedshiftStandIn
) -> None:
    batches = weather.stream()
    for when in (FaultTiming.AFTER, FaultTiming.BEFORE, FaultTiming.BEFORE):
        server.faults.drop(COMMIT_PATTERN, when=when)

    weather.settles(batches, tries=None)


@pytest.mark.parametrize("statement", [COMMIT_PATTERN, "insert into .*syncd_ledger", "delete from", COPY_PATTERN])
def test_a_conflict_is_met_by_another_transaction(weather: Weather, server: RedshiftStandIn, statement: str) -> None:
    batches = weather.stream()
    server.faults.fail_with_conflict(statement)

    weather.settles(batches)


MOMENT = timedelta(seconds=3)
"""Longer than any statement here takes on a busy machine."""


def impatient(loader: Loader) -> None:
    """No statement may take longer than a moment."""
    settings = replace(loader.warehouse, silence=MOMENT)
    loader.sessions.close()
    loader.sessions = ReusableSession(SessionOpener(lambda: connect(settings, session_name="impatient")))


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["lock", COPY_PATTERN, COMMIT_PATTERN])
def test_a_warehouse_that_freezes_is_left_by_the_watchdog_and_met_again(
    weather: Weather, server: RedshiftStandIn, statement: str
) -> None:
    batches = weather.stream()
    impatient(weather.loader)
    held = server.faults.hold(statement)

    def pause(_seconds: float) -> None:
        held.wait_reached()
        held.release()

    run = weather.loader.run(batches.prepared, statement_timeout=MOMENT, pause=pause)
    outcome = run.execute(RUN)

    assert outcome.error is None
    weather.whole(batches)


def test_a_warehouse_that_answers_nobody_for_a_while_is_met_again(weather: Weather, server: RedshiftStandIn) -> None:
    batches = weather.stream()
    impatient(weather.loader)
    thaw = server.faults.thaw
    run = weather.loader.run(batches.prepared, statement_timeout=MOMENT, pause=lambda _seconds: thaw())
    weather.loader.sessions.session()
    server.faults.freeze()

    outcome = run.execute(RUN)

    assert outcome.error is None
    assert any(isinstance(event, LoadRetried) for event in weather.loader.events)
    weather.whole(batches)


def test_a_statement_that_hangs_for_good_is_not_waited_for(weather: Weather, server: RedshiftStandIn) -> None:
    """The server never hears of the end of the line: its session is ended by the one that comes after it."""
    batches = weather.stream()
    impatient(weather.loader)
    held = server.faults.hold("insert into .*syncd_ledger")
    run = weather.loader.run(batches.prepared, statement_timeout=MOMENT)

    outcome = run.execute(RUN)

    assert outcome.error is None
    assert held.reached.is_set()
    weather.whole(batches)
    held.release()
    weather.whole(batches)
