"""Loads of several streams at once over the sessions of one service, and the end of one of them."""

from collections.abc import Callable
from functools import partial

import pytest

from syncd.app.pass_factory import PassOptions
from syncd.errors import PassStopped
from syncd.events import LoadRetried
from syncd.load.load_pass import LoadState
from tests.integration.load.conftest import Reader
from tests.integration.parallel.conftest import Loading
from tests.services.clients import eventually
from tests.services.prepared import Prepared, moment, row
from tests.standin.clients import Clients
from watermarks.document import Stage

pytestmark = pytest.mark.services


def test_two_streams_land_at_once_and_their_sessions_are_used_again(
    loading: Loading, prepared: Callable[..., Prepared], warehouse: Reader
) -> None:
    tables = [prepared() for _ in range(5)]
    for number, one in enumerate(tables):
        one.increment(row(number, 1))
    service, streams = loading.of(*tables)

    for stream in streams:
        loading.threads.start(stream.table, partial(service.load, stream, PassOptions()))
    came = loading.threads.join()

    assert [came[one.table].error for one in tables] == [None] * 5
    assert [warehouse.rows(one) for one in tables] == [[(number, f"row {number}")] for number in range(5)]
    retried = [event.error.message for event in loading.events if isinstance(event, LoadRetried)]
    assert not [error for error in retried if "connection" in error], "no landing ends another's session"


def test_what_is_loaded_is_complete_up_to_its_mark(loading: Loading, prepared: Callable[..., Prepared]) -> None:
    table = prepared()
    table.increment(row(1, 7))
    service, [stream] = loading.of(table)

    assert service.load(stream, PassOptions()).complete_before == moment(7)


@pytest.mark.parametrize("overran", [False, True])
def test_a_load_that_is_ended_returns_and_the_other_lands(
    loading: Loading, prepared: Callable[..., Prepared], warehouse: Reader, clients: Clients, *, overran: bool
) -> None:
    held, free = prepared(), prepared()
    for one in (held, free):
        one.increment(row(1, 1))
    service, [first, second] = loading.of(held, free)
    assert service.load(first, PassOptions()).error is None
    for one in (held, free):
        one.increment(row(2, 2))
    holder = clients()
    holder.run("begin")
    holder.run(f'lock table "{held.table}"')

    loading.threads.start("held", lambda: service.load(first, PassOptions()))
    assert eventually(lambda: service.is_running(first.stream_name, Stage.LOAD))
    assert service.load(second, PassOptions()).rows == 2
    assert service.end_pass(first.stream_name, Stage.LOAD, why="it took longer than 6 h", overran=overran)
    came = loading.threads.join()

    assert isinstance(came["held"].error, PassStopped)
    assert "it took longer than 6 h" in came["held"].error.message
    state = service.journal.read_newest(first.stream_name.stem)
    assert state is not None
    told = {stage: failure.message for stage, failure in state.failures.items()}
    assert told == ({Stage.LOAD: came["held"].error.message} if overran else {})
    holder.run("rollback")
    again = service.load(first, PassOptions())
    assert (again.state, again.error) == (LoadState.LOADED, None)
    assert warehouse.rows(held) == [(1, "row 1"), (2, "row 2")]
    assert not service.end_pass(first.stream_name, Stage.LOAD), "nothing is under way"


def test_who_waits_for_a_session_can_be_ended(
    loading: Loading, prepared: Callable[..., Prepared], clients: Clients
) -> None:
    held, waiting = prepared(), prepared()
    for one in (held, waiting):
        one.increment(row(1, 1))
    service, [first, second] = loading.of(held, waiting, sessions=1)
    assert service.load(first, PassOptions()).error is None
    held.increment(row(2, 2))
    holder = clients()
    holder.run("begin")
    holder.run(f'lock table "{held.table}"')
    loading.threads.start("held", lambda: service.load(first, PassOptions()))
    assert eventually(lambda: len(holder.rows("select distinct pid from svv_transactions")) > 1)

    loading.threads.start("waiting", lambda: service.load(second, PassOptions()))
    assert eventually(lambda: service.is_running(second.stream_name, Stage.LOAD))
    service.end_pass(second.stream_name, Stage.LOAD)
    assert eventually(lambda: "waiting" in loading.threads.came)
    service.end_pass(first.stream_name, Stage.LOAD)
    came = loading.threads.join()

    assert {name: type(outcome.error) for name, outcome in came.items()} == {
        "held": PassStopped,
        "waiting": PassStopped,
    }
