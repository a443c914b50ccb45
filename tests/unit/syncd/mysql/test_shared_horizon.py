"""Who is answered by which poll: the one that began after they asked, and no other."""

import threading
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from syncd.concurrency.resource_pool import NO_PASS, ResourcePool
from syncd.concurrency.running_pass import run_in_thread
from syncd.errors import SourceDown
from syncd.horizon import HorizonPoll, Visibility
from syncd.mysql.connection import Connection
from syncd.mysql.horizon_poll import Poller
from syncd.mysql.shared_horizon import POLLER_KIND, ServerHorizons
from syncd.ports.source import Horizon, HorizonRequest, TableName
from syncd.s3.horizon_note_store import StoredHorizonNotes
from syncd.settings import Secret, SourceSettings
from tests.services.clients import eventually
from watermarks.stores.memory import MemoryStore
from watermarks.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncd.mysql.source import SourceConnectionPool

BEGAN = datetime(2026, 11, 19, tzinfo=UTC)


class Scripted(Poller):
    """A poller without a server: its clock shows one second more at each poll; a poll lasts until it is let go."""

    def __init__(self) -> None:
        self.polled: list[frozenset[TableName]] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.broken = False
        self.opened_at = 0.0

    def poll(self, tables: AbstractSet[TableName], *, ids: Mapping[TableName, str]) -> HorizonPoll:
        self.polled.append(frozenset(tables))
        t0 = BEGAN + timedelta(seconds=len(self.polled))
        self.meanwhile()
        if self.broken:
            raise SourceDown("nobody answers")
        return HorizonPoll(t0=t0, identity="server-1", visibility=Visibility.SERVER, max_ids=dict.fromkeys(ids, 7))

    def close(self) -> None:
        """Nothing is open."""


class Shared:
    """Horizons over a scripted poller."""

    def __init__(self, *, shared_for: float = 0.0) -> None:
        self.poller, self.clock = Scripted(), ManualClock()
        places: SourceConnectionPool = ResourcePool(1)
        places.acquire(NO_PASS, kind=POLLER_KIND)
        places.put_idle(self.poller, kind=POLLER_KIND)
        settings = SourceSettings(name="shop", host="127.0.0.1", user="sync", password=Secret(""))
        notes = StoredHorizonNotes(MemoryStore(), "shop")
        self.horizons = ServerHorizons(
            settings, _no_other, notes, clock=self.clock, shared_seconds=shared_for, pool=places
        )

    def of(self, *names: str) -> Horizon:
        asked = [HorizonRequest(table=table(name)) for name in names]
        return self.horizons.get_horizons(asked)[asked[0].table]

    @property
    def asking(self) -> int:
        return len(self.horizons._asking)  # who waits cannot say so


def _no_other() -> Connection:
    raise SourceDown("nobody answers")


def table(name: str) -> TableName:
    return TableName(database="shop", table=name)


def test_who_asks_during_a_poll_is_answered_by_the_next_one_and_by_one_for_all() -> None:
    shared, polling, go_on = Shared(), threading.Event(), threading.Event()

    def wait() -> None:
        polling.set()
        go_on.wait(10)

    shared.poller.meanwhile = wait
    first = run_in_thread(lambda: shared.of("orders"), name="first")
    assert polling.wait(10)
    later = [run_in_thread(lambda name=name: shared.of(name), name=name) for name in ("a", "b", "c")]  # type: ignore[misc]  # mypy infers no type for a lambda's default
    assert eventually(lambda: shared.asking == 4)
    go_on.set()

    assert first.result(10).t0 == BEGAN + timedelta(seconds=1)
    assert {one.result(10).t0 for one in later} == {BEGAN + timedelta(seconds=2)}
    assert shared.poller.polled[1] >= {table("a"), table("b"), table("c")}, "one poll is asked about all of them"
    assert len(shared.poller.polled) == 2


def test_a_poll_that_began_before_somebody_asked_is_none_of_theirs() -> None:
    shared = Shared()

    bounds = [shared.of("orders").t0 for _ in range(3)]  # the clock stands still: what is young cannot be told by it

    assert bounds == [BEGAN + timedelta(seconds=number) for number in (1, 2, 3)]


def test_where_streams_come_one_after_the_other_a_poll_answers_for_a_moment() -> None:
    shared = Shared(shared_for=0.1)

    assert shared.of("orders") == shared.of("orders")
    shared.clock.advance(0.1)
    shared.of("orders")

    assert len(shared.poller.polled) == 2


def test_a_server_that_is_away_is_waited_for_once_by_all_who_asked_meanwhile() -> None:
    shared, polling, go_on = Shared(), threading.Event(), threading.Event()

    def wait() -> None:
        polling.set()
        go_on.wait(10)

    shared.poller.meanwhile = wait
    first = run_in_thread(lambda: shared.of("orders"), name="first")
    assert polling.wait(10)
    shared.poller.broken = True
    later = [run_in_thread(lambda name=name: shared.of(name), name=name) for name in ("a", "b", "c")]  # type: ignore[misc]  # mypy infers no type for a lambda's default
    assert eventually(lambda: shared.asking == 4)
    go_on.set()

    errors = [one.exception(10) for one in (first, *later)]
    assert [type(error) for error in errors] == [SourceDown] * 4
    assert len({id(error) for error in errors}) == 4, "each thread has an error of its own"


def test_an_order_of_ids_is_answered_by_a_poll_that_asked_for_them() -> None:
    shared = Shared(shared_for=0.1)
    shared.of("orders")

    shared.horizons.get_horizons([HorizonRequest(table=table("orders"), id_column="id")])

    assert len(shared.poller.polled) == 2
