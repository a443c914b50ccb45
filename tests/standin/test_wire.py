"""What the driver is told: tags, counts, notices, types of results, errors of connecting."""

import datetime as dt
import gc
import socket
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from redshift_connector.error import IntegrityError, InterfaceError, ProgrammingError

from syncd.sandbox.redshift import RedshiftStandIn
from tests.standin.clients import Bucket, Client, Clients

pytestmark = [pytest.mark.services, pytest.mark.fact("11.13")]


def test_version_is_redshifts_with_a_nul_at_its_end(client: Client) -> None:
    version = client.value("select version()")

    assert version.startswith("PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC ")
    assert ", Redshift 1.0." in version
    assert version.endswith("\0")


def test_driver_hears_of_server_8_0_2(client: Client) -> None:
    assert (b"server_version", b"8.0.2") in client.connection.parameter_statuses
    assert (b"client_encoding", b"UNICODE") in client.connection.parameter_statuses
    assert not any(name == b"server_protocol_version" for name, _ in client.connection.parameter_statuses)


def test_row_counts_of_writes(client: Client) -> None:
    table = client.table("a integer")

    assert client.run(f"insert into {table} values (1), (2), (3)") == 3
    assert client.run(f"update {table} set a = 5 where a > 1") == 2
    assert client.run(f"delete from {table}") == 3


@pytest.mark.fact("correction 2")
def test_copy_tells_the_driver_no_count_and_a_notice(client: Client, bucket: Bucket) -> None:
    table = client.table("a integer")
    manifest = bucket.manifest_of(pa.table({"a": pa.array([1, 2], pa.int32())}))

    count = client.run(f"copy {table} from '{manifest}' iam_role default format as parquet manifest")

    assert count == -1
    notice = client.connection.notices[-1]
    assert notice[b"S"] == b"INFO"
    assert notice[b"M"].decode() == f"Load into table '{table}' completed, 2 record(s) loaded successfully."
    assert client.value("select pg_last_copy_count()") == 2


def test_values_come_back_as_the_drivers_types(client: Client) -> None:
    row = client.rows(
        "select cast(1 as smallint), cast(2 as integer), cast(3 as bigint), cast(1.5 as real), cast(2.5 as float),"
        " cast(1.25 as decimal(10,2)), true, cast('2024-02-29' as date),"
        " cast('2024-02-29 01:02:03.000004' as timestamp),"
        " cast('2024-02-29 01:02:03+02' as timestamptz), cast('é' as varchar(9)), cast('a' as char(3)), null"
    )[0]

    assert row == [
        1,
        2,
        3,
        1.5,
        2.5,
        Decimal("1.25"),
        True,
        dt.date(2024, 2, 29),
        dt.datetime(2024, 2, 29, 1, 2, 3, 4),  # noqa: DTZ001  # without a zone
        dt.datetime(2024, 2, 28, 23, 2, 3, tzinfo=dt.UTC),
        "é",
        "a  ",
        None,
    ]


def test_description_has_redshifts_type_numbers(client: Client) -> None:
    client.run("create temp table typed (v varchar(9), c char(3), n decimal(18,2), s super, b varbyte(7), t text)")
    cursor = client.connection.cursor()
    cursor.execute("select v, c, n, s, b, t, version() from typed")

    fields = [(f["type_oid"], f["type_modifier"]) for f in cursor.ps["row_desc"]]

    expected = [(1043, 13), (1042, 7), (1700, (18 << 16 | 2) + 4), (4000, 16384000), (6551, 11), (1043, 260)]
    assert fields[:-1] == expected
    assert fields[-1][0] == 1043


def test_varbyte_and_super_read_as_the_driver_expects(client: Client) -> None:
    client.run("create temp table typed (b varbyte(7), s super)")
    client.run("insert into typed values ('abc'::varbyte, json_parse('{\"a\": [1]}'))")

    assert client.rows("select b, s, to_hex(b) from typed") == [["abc", '{"a":[1]}', "616263"]]


@pytest.mark.parametrize("value", [1, 2**40, -1, 1.5, Decimal("1.10"), "é'\\", True, None, dt.date(2024, 1, 1)])
def test_parameters_arrive(client: Client, value: object) -> None:
    assert client.value("select %s as x", (value,)) == value


def test_many_parameters_and_rows_in_one_insert(client: Client) -> None:
    table = client.table("a integer, b varchar(20)")
    rows = [(i, f"row {i}") for i in range(500)]
    values = ", ".join(["(%s, %s)"] * len(rows))

    assert client.run(f"insert into {table} values {values}", [cell for row in rows for cell in row]) == 500
    assert client.value(f"select sum(a) from {table}") == sum(range(500))


@pytest.mark.parametrize("kept", [0, 1000])
def test_statements_are_prepared_once_or_always(clients: Clients, kept: int) -> None:
    client = clients(max_prepared_statements=kept)
    table = client.table("a integer")
    for number in range(3):
        client.run(f"insert into {table} values (%s)", (number,))
        assert client.value(f"select count(*) from {table}") == number + 1
        assert client.value(f"select a from {table} where a = %s", (number,)) == number


def test_prepared_statement_survives_truncate_and_change(clients: Clients) -> None:
    client = clients()
    table = client.table("a integer")
    for _ in range(2):
        client.run(f"insert into {table} values (1)")
        assert client.value(f"select count(*) from {table}") == 1
        client.run(f"truncate {table}")


def test_count_of_the_last_copy_is_fresh_in_a_prepared_statement(client: Client, bucket: Bucket) -> None:
    table = client.table("a integer")
    for rows in (1, 3, 2):
        manifest = bucket.manifest_of(pa.table({"a": pa.array(range(rows), pa.int32())}))

        assert client.copy(table, manifest) == rows


def test_driver_begins_a_transaction_by_itself(clients: Clients) -> None:
    client, reader = clients(autocommit=False), clients()
    table = reader.table("a integer")

    client.run(f"insert into {table} values (1)")
    before = reader.value(f"select count(*) from {table}")
    client.connection.commit()

    assert (before, reader.value(f"select count(*) from {table}")) == (0, 1)


def test_wide_results_come_whole(client: Client) -> None:
    table = client.table("a varchar(60000)")
    client.run(f"insert into {table} values (repeat('x', 60000))")
    for _ in range(5):
        client.run(f"insert into {table} select a from {table}")

    assert sum(len(row[0]) for row in client.rows(f"select a from {table}")) == 32 * 60000


def turned_away(clients: Clients, **options: Any) -> tuple[type[Exception], str]:  # the driver's
    """The error of connecting; the socket that the driver then forgets is collected here."""
    try:
        clients(**options)
    except (InterfaceError, ProgrammingError) as error:
        found = type(error), str(error)
    else:
        raise AssertionError("it was let in")
    gc.collect()
    return found


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("options", [{"password": "wrong"}, {"user": "nobody"}])
def test_wrong_password_or_user_is_turned_away(clients: Clients, options: dict[str, str]) -> None:
    kind, sentence = turned_away(clients, **options)

    assert kind is InterfaceError
    assert "password authentication failed" in sentence


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_unknown_database_is_turned_away(clients: Clients) -> None:
    kind, sentence = turned_away(clients, database="nowhere")

    assert kind is ProgrammingError
    assert "3D000" in sentence


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning", "ignore:ssl:DeprecationWarning"
)
def test_tls_is_refused_so_that_a_client_must_say_that_it_wants_none(clients: Clients) -> None:
    assert "refuses SSL" in turned_away(clients, ssl=True)[1]


def test_nothing_but_loopback_is_listened_on(server: RedshiftStandIn) -> None:
    own = socket.gethostbyname(socket.gethostname())

    if not own.startswith("127."):
        with pytest.raises(OSError, match="refused"), socket.create_connection((own, server.port), timeout=2):
            pass
    assert server.host == "127.0.0.1"


def test_errors_have_redshifts_fields(client: Client) -> None:
    fields = client.refused("select * from no_such_table")

    assert fields["C"] == "42P01"
    assert "does not exist" in fields["M"]
    assert set(fields) <= set("SCMDHPFLR")


def test_unenforced_keys_never_raise_the_drivers_integrity_error(client: Client) -> None:
    table = client.table("a integer unique")
    try:
        client.run(f"insert into {table} values (1), (1)")
    except IntegrityError as error:
        raise AssertionError("a key was enforced") from error


@pytest.mark.parametrize(
    "view",
    ["stl_load_errors", "stl_loaderror_detail", "stl_error", "svl_s3log", "stl_load_commits"],
)
def test_ordinary_user_reads_no_stl_view(client: Client, view: str) -> None:
    fields = client.refused(f"select * from {view}")

    assert fields["C"] == "42501"
    assert fields["M"] == f"permission denied for relation {view}"


def test_superuser_of_a_provisioned_cluster_reads_them(s3_url: str) -> None:
    with RedshiftStandIn(superuser=True) as server:
        clients = Clients(server)
        assert clients().rows("select * from stl_load_errors") == []
        clients.close()


def test_load_history_tells_every_load_and_hides_those_of_others(
    clients: Clients, client: Client, bucket: Bucket
) -> None:
    table = client.table("a integer")
    manifest = bucket.manifest_of(pa.table({"a": pa.array([1], pa.int32())}))
    client.copy(table, manifest)
    client.copy_refused(table, bucket.manifest_of(pa.table({"a": ["x"]})))

    history = (
        f"select status, loaded_rows, source_file_count, data_source from sys_load_history where table_name = '{table}'"
    )

    assert client.rows(history + " order by query_id")[0] == ["completed", 1, 1, manifest]
    assert client.rows(history + " order by query_id")[1][0] == "aborted"
    other = clients(user="other", password="Other1")
    assert other.rows(history) == []
    assert other.rows("select * from sys_load_error_detail") == []


def test_load_errors_outlive_the_rollback(clients: Clients, bucket: Bucket) -> None:
    client = clients(autocommit=False)
    table = client.table("a integer")
    client.connection.commit()

    client.copy_refused(table, bucket.manifest_of(pa.table({"a": ["x"]})))
    client.connection.rollback()

    assert "incompatible Parquet schema" in client.load_error()


def test_table_info_counts_rows_and_tells_the_widest_varchar(client: Client) -> None:
    table = client.table("a varchar(30) sortkey, b varchar(77)")
    client.run(f"insert into {table} values ('x', 'y')")

    sql = f'select "table", tbl_rows, max_varchar, sortkey1 from svv_table_info where "table" = \'{table}\''

    assert client.rows(sql) == [[table, 1, 77, "a"]]


def test_columns_are_listed_with_their_widths(client: Client) -> None:
    table = client.table("a varchar(30), b decimal(20,3), c super")

    sql = (
        "select column_name, data_type, character_maximum_length, numeric_precision, numeric_scale from {}"
        f" where table_name = '{table}' order by ordinal_position"
    )

    expected = [
        ["a", "character varying", 30, None, None],
        ["b", "numeric", None, 20, 3],
        ["c", "super", None, None, None],
    ]
    assert client.rows(sql.format("svv_columns")) == expected
    assert client.rows(sql.format("information_schema.columns")) == expected


@pytest.mark.parametrize("name", ["query_group", "wlm_query_slot_count", "enable_result_cache_for_session"])
def test_redshifts_own_settings_are_kept(client: Client, name: str) -> None:
    client.run(f"set {name} to 5")

    assert client.value(f"show {name}") == "5"
    client.run(f"reset {name}")
    assert client.value(f"show {name}") != "5"


def test_case_sensitive_identifiers_are_not_offered(client: Client) -> None:
    client.run("set enable_case_sensitive_identifier to off")
    client.refused("set enable_case_sensitive_identifier to true")
    client.refused("set no_such_setting to 1")


@pytest.mark.parametrize("values", ["(%s,%s)", "(%s,%s),(%s,%s)", "( %s ,%s )"])
def test_parameters_may_stand_without_spaces(client: Client, values: str) -> None:
    table = client.table("a integer, b integer")
    rows = values.count("(")

    assert client.run(f"insert into {table}(a,b)values{values}", [1, 2] * rows) == rows
    assert client.value(f"select count(*) from {table} where a=%s and b=%s", (1, 2)) == rows


def test_every_way_to_ask_for_the_version_tells_the_same(client: Client) -> None:
    assert client.value("show server_version") == "8.0.2"
    assert client.value("select current_setting('server_version')") == "8.0.2"


@pytest.mark.parametrize("name", ["latin1", "win1252", "sql_ascii"])
def test_encoding_of_the_session_stays_unicode(client: Client, name: str) -> None:
    client.refused(f"set client_encoding to '{name}'")
    client.run("set client_encoding to 'utf8'")
    client.run("set client_encoding to unicode")

    assert client.value("select 'é'") == "é"
