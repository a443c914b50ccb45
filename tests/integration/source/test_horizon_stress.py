"""Twenty writers against three readers: one bounded by the horizon, one with `>`, one with (update_at, id)."""

import os
import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pymysql
import pytest

from syncd.mysql.connection import connect
from syncd.mysql.shared_horizon import ServerHorizons
from syncd.ports.source import Horizon, HorizonRequest, TableName
from syncd.s3.horizon_note_store import StoredHorizonNotes
from syncd.settings import Secret, SourceSettings, Tls
from syncd.tables.order_clock import truncate_to_step
from tests.services.clients import Client, eventually
from tests.services.load import TABLES, Load, Versions
from watermarks.stores.memory import MemoryStore

if TYPE_CHECKING:
    from tests.integration.source.conftest import SourceServer

pytestmark = pytest.mark.services

LIMIT: Final = 200
LOCK_WAIT: Final = 1205
POLL_EVERY: Final = 0.5
SECONDS: Final = float(os.environ.get("SYNCD_STRESS_SECONDS", "120"))
NAMES: Final = {table: TableName(database="shop", table=table) for table in TABLES}
BEFORE_ALL: Final = datetime(2000, 1, 1)  # noqa: DTZ001  # a wall clock's reading, as the driver gives them


def read_or_leave(client: Client, sql: str) -> Sequence[tuple[Any, ...]]:
    """The rows; none while an ALTER or LOCK TABLES bars the table, which the next attempt will find open."""
    try:
        return client.run(sql)
    except pymysql.err.MySQLError as error:
        if error.args[0] != LOCK_WAIT:
            raise
        return ()


class Naive:
    """`update_at > mark`, as tutorials write it."""

    def __init__(self, client: Client) -> None:
        self.versions = Versions()
        self._client = client
        self._marks = dict.fromkeys(TABLES, BEFORE_ALL)

    def step(self) -> int:
        return sum(self._read(table) for table in TABLES)

    def _read(self, table: str) -> int:
        rows = read_or_leave(
            self._client,
            f"SELECT id, v, update_at FROM {table} WHERE update_at > '{self._marks[table]}'"
            f" ORDER BY update_at LIMIT {LIMIT}",
        )
        self.versions.see(table, rows)
        if rows:
            self._marks[table] = rows[-1][2]
        return len(rows)


class Tuples:
    """`(update_at, id)` after the last row, up to a bound if there is one."""

    def __init__(self, client: Client) -> None:
        self.versions = Versions()
        self.marks = dict.fromkeys(TABLES, (BEFORE_ALL, 0))
        self._client = client

    def step(self) -> int:
        return sum(self.read(table, None) for table in TABLES)

    def read(self, table: str, below: datetime | None) -> int:
        """All that is due, window by window."""
        read = 0
        while True:
            stamp, last = self.marks[table]
            until = f" AND update_at < '{below}'" if below else ""
            rows = read_or_leave(
                self._client,
                f"SELECT id, v, update_at FROM {table} WHERE ((update_at = '{stamp}' AND id > {last})"
                f" OR update_at > '{stamp}'){until} ORDER BY update_at, id LIMIT {LIMIT}",
            )
            self.versions.see(table, rows)
            read += len(rows)
            if rows:
                self.marks[table] = (rows[-1][2], rows[-1][0])
            if len(rows) < LIMIT:
                return read


class Bounded:
    """The same, below the horizon."""

    def __init__(self, client: Client, horizons: ServerHorizons) -> None:
        self.tuples = Tuples(client)
        self.lags: list[float] = []
        self._horizons = horizons

    @property
    def versions(self) -> Versions:
        return self.tuples.versions

    def step(self) -> int:
        horizons = self._horizons.get_horizons([HorizonRequest(table=name) for name in NAMES.values()])
        return sum(self._read(table, horizons[NAMES[table]]) for table in TABLES)

    def _read(self, table: str, horizon: Horizon) -> int:
        assert horizon.proven, horizon
        assert horizon.bound is not None
        self.lags.append((horizon.t0 - horizon.bound).total_seconds())
        return self.tuples.read(table, truncate_to_step(horizon.bound, 10 ** TABLES[table]).replace(tzinfo=None))


def play(server: "SourceServer", seconds: float, longest: float, report: Callable[[str], None]) -> None:
    address = server.address
    settings = SourceSettings(
        name="shop",
        host=address.host,
        port=address.port,
        user=address.user,
        password=Secret(address.password),
        tls=Tls.PREFER,
        silence=timedelta(seconds=60),
    )
    horizons = ServerHorizons(
        settings, lambda: connect(settings), StoredHorizonNotes(store=MemoryStore(), source="shop")
    )
    load = Load(address, longest=longest)
    load.prepare()
    with ExitStack() as stack:
        client, *others = (stack.enter_context(Client(address)) for _ in range(4))
        for other in others:
            other.run("SET SESSION lock_wait_timeout = 1")
        bounded = Bounded(others[2], horizons)
        readers = (Naive(others[0]), Tuples(others[1]), bounded)
        bounded.step()
        load.run_for(seconds, *(reader.step for reader in readers), every=POLL_EVERY)
        if load.broken:
            raise load.broken[0]
        highest = {table: client.one(f"SELECT MAX(update_at) FROM {table}") for table in TABLES}
        during = sorted(bounded.lags)

        def drained() -> bool:
            """A second after the last stamp the horizon has passed it."""
            read = sum(reader.step() for reader in readers)
            return not read and all(bounded.tuples.marks[table][0] >= highest[table] for table in TABLES)

        arrived = eventually(drained, within=60)

        lost = {type(reader).__name__: reader.versions.lost(client) for reader in readers}
        rows = {table: client.one(f"SELECT COUNT(*) FROM {table}") for table in TABLES}
    horizons.close()
    report(
        f"{server.kind} {seconds:.0f} s: {load.done} transactions, rows {rows}, lost {lost}; H behind"
        f" {statistics.median(during):.1f} / {during[len(during) * 95 // 100]:.1f} / {during[-1]:.1f} s"
        f" (median / p95 / max of {len(during)} answers)"
    )
    assert arrived, "the horizon never passed the last stamp"
    assert sum(lost["Bounded"].values()) == 0
    assert sum(lost["Naive"].values()) > 0, "the load did not hurt, so nothing is proved"


def test_horizon_loses_nothing_where_a_naive_reader_does(server: "SourceServer", report: Callable[[str], None]) -> None:
    play(server, 10, 3, report)


@pytest.mark.long
def test_horizon_loses_nothing_for_two_minutes(server: "SourceServer", report: Callable[[str], None]) -> None:
    play(server, SECONDS, 20, report)
