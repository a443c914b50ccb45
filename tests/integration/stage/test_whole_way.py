"""From MySQL through Spark, S3 and COPY into a target: every type in every mode, value by value."""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from syncd.app.pass_factory import PassOptions
from syncd.config.check import read_settings
from syncd.events import RowsQuarantined, StreamEvent
from syncd.extract.extract_pass import ExtractOutcome
from syncd.extract.plan_rules import ExtractRequest
from syncd.load.load_pass import LoadOutcome
from syncd.sandbox.redshift import CopyStorage, RedshiftStandIn
from syncd.sandbox.running_sandbox import Sandbox
from syncd.spark.spark_session import WarmSparkSession
from tests.integration.stage.conftest import WarmService
from tests.services.whole_types import ALONE, WIDE, Group, Grown, Stream, streams
from tests.standin.clients import Client, connect

pytestmark = pytest.mark.services

NOBODY_KNOWS = {"inet4", "inet6", "uuid", "vector"}
"""Types of which nothing is said of what they begin with."""
FEWEST_COLUMNS = 60
ANOTHER = "the table was replaced before batch "
NOTHING_MORE = ExtractRequest()


@pytest.fixture(scope="module")
def warehouse(box: Sandbox) -> Iterator[RedshiftStandIn]:
    s3 = box.s3
    lake = CopyStorage(
        endpoint=s3.endpoint, access_key=str(s3.access_key), secret_key=str(s3.secret_key), region=str(s3.region)
    )
    with RedshiftStandIn(lake=lake) as running:
        yield running


@pytest.fixture
def client(warehouse: RedshiftStandIn) -> Iterator[Client]:
    found = connect(warehouse)
    found.connection.autocommit = True
    yield found
    found.close()


class WholeWay:
    """Both stages over some streams, in this process."""

    def __init__(self, box: Sandbox, warm: WarmSparkSession, warehouse: RedshiftStandIn, directory: Path) -> None:
        self._box = box
        self._warm = warm
        self._warehouse = warehouse
        self._path = directory / "syncd.yaml"
        self._lake = uuid4().hex[:8]
        self.aside: list[str] = []
        """Why rows were refused by the warehouse."""

    def passes(
        self, streams: list[str], request: ExtractRequest = NOTHING_MORE
    ) -> dict[str, tuple[ExtractOutcome, LoadOutcome]]:
        """One pass over each stream of these entries of the configuration."""
        s3, server = self._box.s3, self._warehouse
        place = f"{server.user}:{server.password}@{server.host}:{server.port}/{server.database}"
        self._path.write_text(
            f"source: {{url: '{self._box.mysql.url}', zone: UTC}}\n"
            f"lake: {{url: 's3://{s3.bucket}/{self._lake}', endpoint: '{s3.endpoint}', region: '{s3.region}'}}\n"
            f"warehouse: {{url: 'redshift://{place}', iam_role: 'arn:aws:iam::123456789012:role/load'}}\n"
            "defaults: {invalid_text: quarantine, metadata: [batch]}\ntables:\n"
            + "".join(f"  {one}\n" for one in streams)
        )
        settings = read_settings(self._path, {})
        wanted = PassOptions(horizon_wait=timedelta(seconds=30), request=request)
        with WarmService(settings, environ=os.environ, emit=self._hear) as service:
            service.shared, service.wrap = self._warm, lambda reader: reader
            return {one.table: (service.extract(one, wanted), service.load(one, wanted)) for one in settings.streams}

    def _hear(self, event: StreamEvent) -> None:
        if isinstance(event, RowsQuarantined):
            self.aside.append(f"{event.stream.table}: {event.rows}, {event.reason}")


@pytest.fixture
def way(box: Sandbox, warm: WarmSparkSession, warehouse: RedshiftStandIn, tmp_path: Path) -> WholeWay:
    return WholeWay(box, warm, warehouse, tmp_path)


@pytest.fixture
def database(box: Sandbox) -> Iterator[str]:
    name = f"whole_{uuid4().hex[:8]}"
    with box.mysql.connect(database="") as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        yield name
        cursor.execute(f"DROP DATABASE {name}")


@pytest.fixture
def made(database: str, box: Sandbox, request: pytest.FixtureRequest) -> "Callable[[Group], list[Stream]]":
    """A stream of each mode for a group of types."""
    kind = request.node.callspec.params["box"]

    def make(group: Group) -> list[Stream]:
        found = list(streams([group], kind, database, box.mysql))
        return found or pytest.skip(f"{kind} has no such type or value")

    return make


@pytest.fixture
def table_to_grow(database: str, box: Sandbox, request: pytest.FixtureRequest) -> Callable[[str], Grown]:
    def make(mode: str) -> Grown:
        grown = Grown(f"grown_{mode}", request.node.callspec.params["box"], database, box.mysql)
        grown.create()
        return grown

    return make


def told(outcome: tuple[ExtractOutcome, LoadOutcome]) -> tuple[Any, ...]:
    """What went wrong, and how many rows were put aside at either end."""
    extracted, landed = outcome
    return (extracted.error, landed.error, extracted.quarantined, landed.quarantined)


def columns_in(landed: LoadOutcome) -> set[str]:
    """The columns of which it is told; that the table was copied for it is another matter."""
    return {line.partition(" ")[0] for line in landed.incomplete_columns if not line.startswith(ANOTHER)}


@pytest.mark.parametrize(
    "group",
    [
        *(pytest.param(one, id=one.name, marks=pytest.mark.long if number else ()) for number, one in enumerate(WIDE)),
        *(pytest.param(one, id=one.name, marks=pytest.mark.long) for one in ALONE),
    ],
)
def test_every_value_arrives_in_every_mode(
    way: WholeWay, client: Client, made: Callable[[Group], list[Stream]], group: Group
) -> None:
    mine = made(group)
    for number in range(2):
        for stream in mine:
            stream.change() if number else stream.create()

        outcomes = way.passes([stream.configured for stream in mine])

        for stream in mine:
            aside = stream.put_aside_in(number)
            assert told(outcomes[stream.table]) == (None, None, aside, 0), (stream.table, way.aside)
            assert stream.found(client) == stream.expected(client), stream.table


@pytest.mark.parametrize(
    "mode", ["upsert", *(pytest.param(one, marks=pytest.mark.long) for one in ("append", "history"))]
)
def test_old_rows_hold_what_the_server_gave_them_in_every_column_that_came(
    way: WholeWay, client: Client, table_to_grow: Callable[[str], Grown], mode: str
) -> None:
    grown = table_to_grow(mode)
    database = grown.database
    entry = [f"{database}.{grown.name}: {{mode: {mode}}}"]
    assert told(way.passes(entry)[grown.name]) == (None, None, 0, 0)
    grown.grow([case for group in WIDE for case in group.cases])

    extracted, landed = way.passes(entry)[grown.name]

    assert told((extracted, landed)) == (None, None, 0, 0), way.aside
    unknown = columns_in(landed)
    held = grown.held(client)
    for n, found in grown.found(client):
        old = n < 3 or (mode != "upsert" and n == 3)
        assert found == {
            name: None if name in unknown and old and found[name] is None else value for name, value in held[n].items()
        }, n
    assert "computed" in unknown
    assert unknown <= {"computed", *(f"z_{kind}" for kind in NOBODY_KNOWS), *grown.computed}
    assert len(grown.columns) > FEWEST_COLUMNS


@pytest.mark.parametrize("box", ["mariadb"], indirect=True)
@pytest.mark.parametrize("gone", ["id > 2", "id > 1 AND id < 5", "TRUE"], ids=["the last", "some", "all"])
def test_a_range_read_again_leaves_in_a_table_that_appends_what_stands_at_the_source(
    way: WholeWay, box: Sandbox, database: str, client: Client, gone: str
) -> None:
    table = f"{database}.events"
    entry = [f"{table}: {{mode: append, target: {database}_events}}"]
    with box.mysql.connect(database=database) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE events (id INT PRIMARY KEY, update_at DATETIME NOT NULL, KEY (update_at))")
        cursor.execute("INSERT INTO events SELECT seq, '2026-01-01' + INTERVAL seq DIV 3 DAY FROM seq_0_to_8")
        assert told(way.passes(entry)["events"]) == (None, None, 0, 0)
        cursor.execute(f"DELETE FROM events WHERE id < 6 AND {gone}")
        cursor.execute("SELECT id FROM events ORDER BY id")
        left = [key for (key,) in cursor.fetchall()]

    again = ExtractRequest(since=datetime(2026, 1, 1, tzinfo=UTC), until=datetime(2026, 1, 3, tzinfo=UTC))
    assert told(way.passes(entry, again)["events"]) == (None, None, 0, 0)

    assert [key for [key] in client.rows(f"select id from {database}_events order by 1")] == left


def test_values_that_an_alter_may_have_changed_are_told_once(
    way: WholeWay, client: Client, box: Sandbox, database: str
) -> None:
    def run(*statements: str) -> None:
        with box.mysql.connect(database=database) as connection, connection.cursor() as cursor:
            for statement in ("SET sql_mode = ''", *statements):
                cursor.execute(statement)
            connection.commit()

    entry = [f"{database}.altered: {{}}"]
    stamp = "update_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)"
    run(
        f"CREATE TABLE altered (n INT PRIMARY KEY, seen DATETIME(6), kind ENUM('a', 'b'), t VARCHAR(9), {stamp},"
        " KEY (update_at, n))",
        "INSERT INTO altered (n, seen, kind, t) VALUES (1, '2026-01-02 03:04:05.178901', 'b', 'kept')",
    )
    assert told(way.passes(entry)["altered"]) == (None, None, 0, 0)
    run(
        "ALTER TABLE altered MODIFY seen DATETIME, MODIFY kind ENUM('a', 'c'), MODIFY t VARCHAR(99)",
        "INSERT INTO altered (n, seen, kind, t) VALUES (2, '2026-01-02 03:04:05', 'c', 'new')",
    )

    extracted, landed = way.passes(entry)["altered"]

    assert told((extracted, landed)) == (None, None, 0, 0), way.aside
    assert columns_in(landed) == {"seen", "kind"}
    shown = "select n, seen::varchar, kind, t from public.altered order by n"
    assert client.rows(shown)[0] == [1, "2026-01-02 03:04:05.178901", "b", "kept"]
    until = datetime.fromisoformat(landed.incomplete_columns[0].rpartition("--until ")[2])
    again = way.passes(entry, ExtractRequest(since=datetime(1970, 1, 1, tzinfo=UTC), until=until))["altered"]
    assert told(again) == (None, None, 0, 0)
    assert again[1].incomplete_columns == ()
    assert client.rows(shown)[0] == [1, "2026-01-02 03:04:05", "", "kept"]


def test_rows_that_came_with_another_table_are_told_once_and_can_be_read(
    way: WholeWay, client: Client, box: Sandbox, database: str
) -> None:
    def run(*statements: str) -> None:
        with box.mysql.connect(database=database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    entry = [f"{database}.swapped: {{}}"]
    stamp = "update_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)"
    run(f"CREATE TABLE swapped (n INT PRIMARY KEY, {stamp}, KEY (update_at, n))", "INSERT INTO swapped (n) VALUES (1)")
    first, _ = way.passes(entry)["swapped"]
    run(
        "DO SLEEP(1.1)",
        "CREATE TABLE other LIKE swapped",
        "INSERT INTO other SELECT * FROM swapped",
        "INSERT INTO other VALUES (2, '2026-01-01')",
        "RENAME TABLE swapped TO old, other TO swapped",
    )

    extracted, landed = way.passes(entry)["swapped"]

    assert told((extracted, landed)) == (None, None, 0, 0)
    assert (first.proven, extracted.proven) == (True, False)
    assert (extracted.batches, extracted.rows) == (1, 0)
    [line] = landed.incomplete_columns
    assert line.startswith(f"{ANOTHER}{extracted.last_batch} ")
    assert client.rows("select n from public.swapped order by n") == [[1]]
    until = datetime.fromisoformat(line.rpartition("--until ")[2])
    again = way.passes(entry, ExtractRequest(since=datetime(1970, 1, 1, tzinfo=UTC), until=until))["swapped"]
    assert told(again) == (None, None, 0, 0)
    assert again[1].incomplete_columns == ()
    assert client.rows("select n from public.swapped order by n") == [[1], [2]]
