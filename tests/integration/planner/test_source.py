"""The source itself: what it tells, what it refuses by name, and what it survives."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from syncd.errors import SourceDown, SourceUnfit
from syncd.mysql.connection import connect
from syncd.mysql.sql import identity_sql, table_ids_sql
from syncd.sandbox.running_sandbox import Sandbox
from syncd.settings import FirstRun, Secret, StreamSettings
from syncd.spark.jdbc import session_setup_statement
from syncd.tables.sort_order import resolve_order
from tests.integration.planner.chains import Stream, Told, passage
from tests.integration.planner.servers import Server, rows_of
from tests.services.clients import eventually
from watermarks.batch import BatchKind
from watermarks.batch_states import BatchState

pytestmark = pytest.mark.services

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def run_sql(server: Server, *statements: str) -> None:
    with server.admin() as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
        for statement in statements:
            cursor.execute(statement)


def make(server: Server, columns: str, table: str = "s", options: str = "ENGINE=InnoDB") -> None:
    run_sql(server, f"DROP VIEW IF EXISTS {table}_view", f"DROP TABLE IF EXISTS {table}")
    run_sql(server, f"CREATE TABLE {table} ({columns}) {options}")


def wanted(**more: object) -> StreamSettings:
    return replace(StreamSettings(source="lab", database="lab", table="s", settle=timedelta(0)), **more)  # type: ignore[arg-type]  # each test passes fields of its own


def test_a_table_is_told_with_its_columns_and_indexes(server: Server) -> None:
    make(
        server,
        "`Id` BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, name VARCHAR(30) CHARACTER SET latin1, at DATETIME(3),"
        " d DECIMAL(12,3) NOT NULL DEFAULT 0, b BIT(9), g INT AS (1 + 1) VIRTUAL, `odd``name` INT,"
        " PRIMARY KEY (`Id`), UNIQUE KEY one (name, at), KEY cut (name(3), at), KEY whole (at)",
    )

    table = server.source().describe_table("lab", "s")

    assert [column.name for column in table.columns] == ["Id", "name", "at", "d", "b", "g", "odd`name"]
    assert table.primary_key == ("Id",)
    key, name, at, decimal, bits, made, _ = table.columns
    assert (key.is_unsigned, "auto_increment" in key.extra, key.nullable) == (True, True, False)
    assert (name.charset, name.length, at.fraction, decimal.precision, decimal.scale) == ("latin1", 30, 3, 12, 3)
    assert (bits.data_type, bits.precision, made.is_generated) == ("bit", 9, True)
    held = {index.name: index for index in table.indexes}
    assert (held["one"].columns, held["one"].unique, held["one"].whole) == (("name", "at"), True, True)
    assert (held["cut"].columns, held["cut"].whole) == ((), False)
    assert held["whole"].columns == ("at",)
    assert table.created
    assert (table.engine, table.kind, table.partitioned) == ("InnoDB", "BASE TABLE", False)


def test_indexes_whose_names_differ_by_an_accent_are_two(server: Server) -> None:
    """MariaDB sorts their names as one: their columns come by turns."""
    make(server, "a INT NOT NULL, b INT NOT NULL, c INT, UNIQUE KEY `é` (a, b), KEY `e` (c, b)")

    held = [(index.name, index.columns, index.unique) for index in server.source().describe_table("lab", "s").indexes]

    assert sorted(held) == [("e", ("c", "b"), False), ("é", ("a", "b"), True)]


def test_a_statement_that_made_a_table_is_told_whatever_bytes_its_defaults_hold(server: Server) -> None:
    make(server, "id INT PRIMARY KEY, `grün` VARBINARY(4) NOT NULL DEFAULT X'FFFE0041'")

    told = server.source().show_create_table("lab", "s")

    assert "`grün` varbinary(4) NOT NULL DEFAULT" in told


def test_a_hidden_index_serves_nothing(server: Server) -> None:
    make(server, "id INT PRIMARY KEY, update_at DATETIME, KEY k (update_at)")
    run_sql(server, f"ALTER TABLE s ALTER INDEX k {'IGNORED' if server.name == 'mariadb' else 'INVISIBLE'}")

    with pytest.raises(SourceUnfit, match="no index on"):
        resolve_order(server.source().describe_table("lab", "s"), wanted())


def test_the_server_says_what_it_is_and_does_not_waver(server: Server) -> None:
    source = server.source()
    first = source.get_server_info()

    # Long enough for the clock and the uptime to tick apart, if they could.
    until = datetime.now(UTC) + timedelta(seconds=2.2)
    seen = set()
    while datetime.now(UTC) < until:
        seen.add(source.get_server_info())

    assert seen == {first}
    assert first.mariadb is (server.name == "mariadb")
    assert first.version > (9, 0, 0)
    assert not first.read_only


def test_the_identity_is_one_expression_for_any_connection(server: Server) -> None:
    mariadb = server.name == "mariadb"
    identity = server.source().get_server_info().identity
    with server.admin() as connection:
        [(told,)] = rows_of(
            connection,
            f"SELECT 1 FROM DUAL WHERE {identity_sql(mariadb=mariadb)} = '{identity}'",
        )
    assert told == 1


@pytest.mark.parametrize(
    ("columns", "settings", "said", "hint"),
    [
        ("id INT, update_at DATETIME, KEY (update_at)", {}, "no primary key", "ADD PRIMARY KEY"),
        ("id INT NOT NULL, update_at DATETIME, UNIQUE u (id)", {}, "no primary key", "key: [id]"),
        ("id INT PRIMARY KEY, at DATETIME", {}, "no column update_at", "cursor"),
        ("id INT PRIMARY KEY, at DATETIME", {"cursor": "seen_at"}, "no column seen_at", "id, at"),
        ("id INT PRIMARY KEY, update_at DATETIME", {}, "no index on (update_at, id)", "(`update_at`)"),
        (
            "id INT PRIMARY KEY, k INT NOT NULL, update_at DATETIME, UNIQUE (k), KEY (update_at)",
            {"key": ("k",)},
            "no index on (update_at, k)",
            "(`update_at`, `k`)",
        ),
        ("id INT PRIMARY KEY, k INT, update_at DATETIME, UNIQUE (k)", {"key": ("k",)}, "may be NULL", "NOT NULL"),
        ("id INT PRIMARY KEY, k INT NOT NULL, update_at DATETIME", {"key": ("k",)}, "not unique", "UNIQUE INDEX"),
        ("id INT PRIMARY KEY, k INT NOT NULL", {"key": ("nil",)}, "no column nil", "id, k"),
        ("id INT PRIMARY KEY, update_at DATETIME, KEY (update_at DESC)", {}, "no index on", "CREATE INDEX"),
    ],
)
def test_an_unfit_table_is_refused_with_what_to_do(
    server: Server, columns: str, settings: dict[str, object], said: str, hint: str
) -> None:
    make(server, columns)

    with pytest.raises(SourceUnfit) as refused:
        resolve_order(server.source().describe_table("lab", "s"), wanted(**settings))

    assert said in str(refused.value)
    assert hint in refused.value.hint


def test_the_index_that_a_hint_makes_is_the_one_that_was_missing(server: Server) -> None:
    make(server, "id INT PRIMARY KEY, k INT NOT NULL, update_at DATETIME, UNIQUE (k)")
    with pytest.raises(SourceUnfit) as refused:
        resolve_order(server.source().describe_table("lab", "s"), wanted(key=("k",)))

    run_sql(server, refused.value.hint)

    assert resolve_order(server.source().describe_table("lab", "s"), wanted(key=("k",))).index == "syncd_update_at"


def test_a_view_is_refused_as_one(server: Server) -> None:
    make(server, "id INT PRIMARY KEY, update_at DATETIME, KEY (update_at)")
    run_sql(server, "CREATE VIEW s_view AS SELECT * FROM s")

    with pytest.raises(SourceUnfit, match="is a view") as refused:
        resolve_order(server.source().describe_table("lab", "s_view"), wanted())

    assert "query" in refused.value.hint


def test_a_missing_table_is_named(server: Server) -> None:
    with pytest.raises(SourceUnfit, match="nowhere") as refused:
        server.source().describe_table("lab", "nowhere")

    assert "Check the table name" in refused.value.hint


@pytest.fixture
def poor(server: Server) -> Iterator[Server]:
    """A user who may see one column of one table."""
    make(server, "id INT PRIMARY KEY, secret INT")
    run_sql(
        server,
        "DROP USER IF EXISTS poor@'%'",
        "CREATE USER poor@'%' IDENTIFIED BY 'Poor-1'",
        "GRANT SELECT (id) ON lab.s TO poor@'%'",
    )
    yield server
    run_sql(server, "DROP USER poor@'%'")


def test_missing_rights_are_named_with_their_grant(poor: Server) -> None:
    source = poor.source(replace(poor.settings, user="poor", password=Secret("Poor-1")))
    make(poor, "id INT PRIMARY KEY", table="hidden")

    for table in ("s", "hidden"):
        with pytest.raises(SourceUnfit, match="refused") as refused:
            source.describe_table("lab", table)
        assert refused.value.hint == "GRANT SELECT ON lab.* TO poor"


def test_a_wrong_password_is_told_and_not_shown(server: Server) -> None:
    source = server.source(replace(server.settings, password=Secret("no-such-secret")))

    with pytest.raises(SourceUnfit, match="refused") as refused:
        source.get_server_info()

    assert "no-such-secret" not in f"{refused.value!r} {refused.value.hint}"


def test_a_connection_that_was_cut_between_two_questions_is_replaced(server: Server) -> None:
    source = server.source()
    source.fetch_rows("SELECT 1")

    server.sandbox.mysql.cut_connections()

    assert source.fetch_rows("SELECT 2") == ((2,),)


def test_a_question_that_is_wrong_is_not_asked_twice(server: Server) -> None:
    with pytest.raises(SourceUnfit, match="no_such_column"):
        server.source().fetch_rows("SELECT no_such_column FROM DUAL")


def test_a_question_that_takes_too_long_is_ended_at_the_server_and_asked_once(server: Server) -> None:
    source = server.source(replace(server.settings, silence=timedelta(seconds=2)))
    slow = "SELECT COUNT(*) AS too_long FROM " + ", ".join(f"information_schema.COLLATIONS c{n}" for n in range(5))

    with pytest.raises(SourceDown):
        source.fetch_rows(slow)

    with server.admin() as connection:
        asked = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT COUNT(*) AS too_long%'"
        assert eventually(lambda: rows_of(connection, asked) == [(0,)])


def test_a_question_that_was_given_up_is_not_sent_again(server: Server) -> None:
    """No limit of MySQL's ends it in time, and so it is at work there still; MariaDB ends it as if all were well."""
    source = server.source(replace(server.settings, silence=timedelta(seconds=3)))
    first = source.get_server_info()
    with server.admin() as connection:
        rows_of(connection, "SELECT GET_LOCK('syncd_test', 1)")
        with nullcontext() if server.name == "mariadb" else pytest.raises(SourceDown):
            source.fetch_rows("DO GET_LOCK('syncd_test', 30)")
        waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'DO GET_LOCK%'"
        assert rows_of(connection, waiting)[0][0] <= 1

    assert source.get_server_info() == first


@pytest.mark.parametrize("session", ["read", "asked"])
def test_no_session_sees_what_is_not_committed_or_an_answer_that_is_cut(server: Server, session: str) -> None:
    name = "tx_isolation" if server.name == "mariadb" else "transaction_isolation"
    with server.admin() as admin:
        rows_of(admin, f"SET GLOBAL {name} = 'READ-UNCOMMITTED', GLOBAL sql_select_limit = 2")
        try:
            with server.admin() if session == "read" else connect(server.settings) as connection:
                if session == "read":
                    rows_of(
                        connection, session_setup_statement(server.settings, server.source().get_server_info().identity)
                    )
                [(isolation, limit)] = rows_of(connection, f"SELECT @@{name}, @@sql_select_limit")
        finally:
            rows_of(admin, f"SET GLOBAL {name} = 'REPEATABLE-READ', GLOBAL sql_select_limit = DEFAULT")

    assert (isolation, limit) == ("REPEATABLE-READ", 2**64 - 1)


@pytest.mark.parametrize("session", ["read", "asked"])
def test_no_session_sees_a_versioned_table_as_it_once_was(server: Server, session: str) -> None:
    if server.name != "mariadb":
        pytest.skip("only MariaDB has versioned tables")
    with server.admin() as admin:
        rows_of(admin, "CREATE OR REPLACE TABLE versioned (id INT PRIMARY KEY) WITH SYSTEM VERSIONING")
        rows_of(admin, "INSERT INTO versioned VALUES (1)")
        rows_of(admin, "SET GLOBAL system_versioning_asof = '2020-01-01 00:00:00'")
        try:
            with server.admin() if session == "read" else connect(server.settings) as connection:
                if session == "read":
                    rows_of(
                        connection, session_setup_statement(server.settings, server.source().get_server_info().identity)
                    )
                found = rows_of(connection, "SELECT id FROM lab.versioned")
        finally:
            rows_of(admin, "SET GLOBAL system_versioning_asof = DEFAULT")

    assert found == [(1,)]


def test_how_busy_the_server_is_can_be_asked(server: Server) -> None:
    assert server.source().find_overload() is None
    assert "more than 0" in str(server.source(replace(server.settings, max_threads_running=0)).find_overload())


ROWS = (passage("id"),)


def lab(server: Server, **more: object) -> Stream:
    return Stream(server, wanted(**more), ROWS, Told(server, bound=NEW_YEAR))


def test_a_column_added_between_plan_and_read_makes_a_new_plan(server: Server) -> None:
    make(server, "id INT PRIMARY KEY, update_at DATETIME, KEY (update_at)")
    run_sql(server, "INSERT INTO s VALUES (1, '2025-01-01')")
    stream = lab(server)
    rows = stream.rows()
    propose = rows.propose_batch

    def altered(watermark: object) -> object:
        draft = propose(watermark)  # type: ignore[arg-type]  # a bound method that the test replaces
        if len(rows.drafts) == 1:
            run_sql(server, "ALTER TABLE s ADD COLUMN more INT")
        return draft

    rows.propose_batch = altered  # type: ignore[method-assign,assignment]  # the test replaces the method
    stream.run(rows)

    assert [turn.state for turn in stream.turns] == [BatchState.ABANDONED, BatchState.DONE, None]
    assert len(rows.rows) == 1


ALTERED = {
    "dropped": ("DROP INDEX k", "k", "k2"),
    "made of other columns": ("DROP INDEX k, ADD INDEX k (v)", "k", "k2"),
    "hidden": ("ALTER INDEX k {hidden}", "k", "k2"),
}


@pytest.mark.parametrize("change", ALTERED)
def test_an_index_altered_between_plan_and_read_makes_a_new_plan(server: Server, change: str) -> None:
    statement, first, then = ALTERED[change]
    make(
        server,
        "id INT NOT NULL PRIMARY KEY, v INT NOT NULL, update_at DATETIME NOT NULL,"
        " KEY k (update_at), KEY k2 (update_at, id, v)",
    )
    run_sql(server, "INSERT INTO s VALUES (1, 1, '2025-01-01'), (2, 2, '2025-01-01')")
    stream = lab(server, first_run=FirstRun.FROM, start=NEW_YEAR - timedelta(days=3650))
    rows = stream.rows()
    propose = rows.propose_batch

    def altered(watermark: object) -> object:
        draft = propose(watermark)  # type: ignore[arg-type]  # a bound method that the test replaces
        if len(rows.drafts) == 2:
            hidden = "IGNORED" if server.name == "mariadb" else "INVISIBLE"
            run_sql(server, f"ALTER TABLE s {statement.format(hidden=hidden)}")
        return draft

    rows.propose_batch = altered  # type: ignore[method-assign,assignment]  # the test replaces the method
    stream.run(rows)

    assert [turn.state for turn in stream.turns] == [BatchState.NOOP, BatchState.ABANDONED, BatchState.DONE, None]
    assert [draft.body["index"] for draft in rows.drafts[1:]] == [first, then]
    assert len(rows.rows) == 2


def test_a_table_made_anew_or_gone_between_plan_and_read_is_not_read(server: Server) -> None:
    make(server, "id INT PRIMARY KEY, update_at DATETIME, KEY (update_at)")
    run_sql(server, "INSERT INTO s VALUES (1, '2025-01-01')")
    stream = lab(server, first_run=FirstRun.FROM, start=NEW_YEAR - timedelta(days=3650))
    rows = stream.run()
    plan = rows.batches[-1][0]

    held = rows.is_plan_current(plan)
    run_sql(server, "DROP TABLE s")

    assert held
    assert plan.draft.kind is BatchKind.INCREMENT
    assert not rows.is_plan_current(plan)


def test_a_table_made_anew_with_smaller_ids_goes_on_by_its_stamps(server: Server) -> None:
    columns = "id INT PRIMARY KEY, update_at DATETIME, KEY (update_at)"
    make(server, columns)
    run_sql(server, "INSERT INTO s VALUES (100, '2025-01-01')")
    stream = lab(server)
    stream.run()
    make(server, columns)
    run_sql(server, "INSERT INTO s VALUES (1, '2026-01-02')")
    stream.horizons.bound = NEW_YEAR + timedelta(days=10)

    assert [row[0] for row in stream.run().rows] == [1]


@pytest.fixture(scope="module")
def lone(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of one's own kind, to restart."""
    environ = dict(server.sandbox._environ)
    with Sandbox(tmp_path_factory.mktemp("lone"), services=["mysql"], environ=environ) as sandbox:
        running = Server(sandbox, server.name)
        with running.admin("") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE lab")
        yield running


def test_a_restarted_server_is_itself(lone: Server) -> None:
    make(lone, "id INT PRIMARY KEY, update_at DATETIME, KEY (update_at)")
    run_sql(lone, "INSERT INTO s VALUES (1, '2025-01-01')")
    stream = lab(lone)
    rows = stream.run()
    source = rows.planner.source
    before = source.get_server_info().identity
    numbers = table_ids_sql("lab", "s", mariadb=lone.name == "mariadb", partitioned=False)
    assert numbers
    numbered = source.fetch_rows(numbers)

    lone.sandbox.restart("mysql")

    assert source.get_server_info().identity == before
    assert source.fetch_rows(numbers) == numbered
    assert rows.is_plan_current(rows.batches[0][0])
