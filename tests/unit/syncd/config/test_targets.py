"""Warehouses of the file, and the target of each table."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from syncd.config.check import build_settings
from syncd.config.mistakes import Misconfigured
from syncd.config.targets import find_table_name_problem
from syncd.config.yaml_reader import parse_document
from syncd.redshift.scratch_tables import SCRATCH_PREFIX
from syncd.settings import Deletes, MetadataColumn, Settings, TargetSettings, Tls
from syncd.verify.target_side import EXCLUDED_KEYS_TABLE

URL = "redshift://loader:${REDSHIFT_PASSWORD}@cluster:5439/dev"
ENVIRON = {"REDSHIFT_PASSWORD": "p@ss:/word"}


def body_of(warehouse: str = f"{{url: '{URL}'}}", tables: str = "{orders: {}}", *, top: str = "warehouse") -> str:
    return f"source: {{url: 'mysql://s@db/shop'}}\nlake: {{url: 's3://b'}}\n{top}: {warehouse}\ntables: {tables}\n"


def settings_of(body: str, environ: Mapping[str, str] = ENVIRON) -> Settings:
    return build_settings(parse_document(body, path="/etc/syncd/syncd.yaml", environ=environ))


def mistakes_of(body: str) -> list[tuple[str, str]]:
    with pytest.raises(Misconfigured) as refused:
        settings_of(body)
    return [(mistake.key, mistake.message) for mistake in refused.value.mistakes]


def target_of(table: str, warehouse: str = f"{{url: '{URL}'}}") -> TargetSettings:
    (stream,) = settings_of(body_of(warehouse, f"{{Orders: {table}}}")).streams
    assert stream.target is not None
    return stream.target


def test_an_address_is_enough() -> None:
    (found,) = settings_of(body_of()).warehouses

    assert (found.name, found.host, found.port, found.database) == ("redshift", "cluster", 5439, "dev")
    assert (found.user, found.password and found.password.value) == ("loader", "p@ss:/word")
    assert (found.tls, found.schema, found.silence) == (Tls.VERIFY, "public", timedelta(minutes=1))


def test_a_warehouse_says_everything() -> None:
    (found,) = settings_of(
        body_of(
            "{url: 'redshift://loader@10.0.0.1/dev', tls: verify, ca: own.pem, schema: Shop, iam_role: default,"
            " iam: {workgroup: main, region: eu-west-1}, query_group: syncd, silence: 5s, longest_statement: 2h,"
            " tunnel: {host: bastion, user: ops}}"
        )
    ).warehouses

    assert (found.port, found.password, found.ca) == (5439, None, Path("/etc/syncd/own.pem"))
    assert (found.iam_role, found.query_group, found.schema) == ("default", "syncd", "shop")
    assert found.iam is not None
    assert (found.iam.cluster, found.iam.workgroup, found.iam.region) == (None, "main", "eu-west-1")
    assert (found.silence, found.longest_statement) == (timedelta(seconds=5), timedelta(hours=2))
    assert found.tunnel is not None
    assert found.tunnel.host == "bastion"


@pytest.mark.parametrize(
    ("host", "more", "tls"),
    [
        ("localhost", "", Tls.DISABLE),
        ("127.0.0.1", "", Tls.DISABLE),
        ("127.0.0.1", ", tls: verify", Tls.VERIFY),
        ("127.0.0.1", ", tunnel: {host: bastion, user: ops}", Tls.VERIFY),
        ("cluster", "", Tls.VERIFY),
        ("cluster", ", tls: disable", Tls.DISABLE),
    ],
)
def test_only_loopback_goes_unencrypted_without_being_told(host: str, more: str, tls: Tls) -> None:
    (found,) = settings_of(body_of(f"{{url: 'redshift://l:x@{host}/dev'{more}}}")).warehouses

    assert found.tls is tls


@pytest.mark.parametrize(
    ("warehouse", "key"),
    [
        ("{url: 'postgres://l:x@h/dev'}", "warehouse.url"),
        ("{url: 'redshift://l:x@h'}", "warehouse.url"),
        ("{url: 'redshift://l:x@h/a/b'}", "warehouse.url"),
        ("{url: 'redshift://l:x@h:0/dev'}", "warehouse.url"),
        ("{url: 'redshift://h/dev'}", "warehouse.url"),
        ("{url: 'redshift://l@h/dev'}", "warehouse.url"),
        ("{url: 'redshift://:x@h/dev'}", "warehouse.url"),
        ("{url: 'redshift://l:x@h/dev', secret: s}", "warehouse.url"),
        ("{url: 'redshift://l@h/dev', secret: s, iam: {cluster: c}}", "warehouse.url"),
        ("{url: 'redshift://h/dev', iam: {cluster: c}}", "warehouse.url"),
        ("{url: 'redshift://l@h/dev', iam: {}}", "warehouse.iam"),
        ("{url: 'redshift://l@h/dev', iam: {cluster: c, workgroup: w}}", "warehouse.iam"),
        ("{url: 'redshift://l:x@h/dev', tls: require}", "warehouse.tls"),
        ("{url: 'redshift://l:x@h/dev', schema: pg_catalog}", "warehouse.schema"),
        ("{url: 'redshift://l:x@h/dev', scheme: x}", "warehouse.scheme"),
    ],
)
def test_a_warehouse_that_cannot_be_is_refused_where_it_stands(warehouse: str, key: str) -> None:
    assert [found for found, _ in mistakes_of(body_of(warehouse))] == [key]


def test_no_message_repeats_a_password() -> None:
    told = str(mistakes_of(body_of("{url: 'redshift://l:hunter2@h/dev', secret: s}")))

    assert "hunter2" not in told


@pytest.mark.parametrize(
    "warehouse",
    ["{url: 'redshift://h/dev', secret: s}", "{url: 'redshift://h/dev', iam: {workgroup: w}}"],
)
def test_no_user_is_wanted_where_somebody_else_tells_it(warehouse: str) -> None:
    assert settings_of(body_of(warehouse)).warehouses[0].user == ""


def test_without_a_warehouse_there_are_no_targets() -> None:
    body = "source: {url: 'mysql://s@db/shop'}\nlake: {url: 's3://b'}\ntables: {orders: {}}"

    assert settings_of(body).streams[0].target is None


def test_a_target_is_called_as_its_source_folded() -> None:
    target = target_of("{}")

    assert (target.warehouse, target.schema, target.table) == ("redshift", "public", "orders")
    assert (target.notes, target.deletes) == ((MetadataColumn.BATCH, MetadataColumn.LOADED_AT), Deletes.IGNORE)


def test_a_target_says_everything() -> None:
    target = target_of(
        "{target: Sales.ORDERS_2, distkey: id, sortkey: [placed, id], encode: {note: ZSTD}, deletes: soft,"
        " grants: [role analysts, bob], metadata: batch}"
    )

    assert (target.schema, target.table, target.distkey, target.sortkey) == (
        "sales",
        "orders_2",
        "id",
        ("placed", "id"),
    )
    assert (target.encode, target.grants) == ({"note": "zstd"}, ("role analysts", "bob"))
    assert (target.notes, target.deletes) == ((MetadataColumn.BATCH,), Deletes.SOFT)


def test_a_target_may_have_no_column_of_ours() -> None:
    assert target_of("{metadata: []}").notes == ()


def test_letters_beyond_ascii_are_not_folded() -> None:
    assert target_of("{target: ÄPFEL}").table == "Äpfel"


def test_the_longest_name_is_taken() -> None:
    assert target_of(f"{{target: {'ä' * 63}x}}").table == "ä" * 63 + "x"


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ("{target: " + "ä" * 64 + "}", "tables.orders.target"),
        ("{target: syncd_ledger}", "tables.orders.target"),
        ("{target: shop.Syncd_fence}", "tables.orders.target"),
        ("{target: syncd_scratch_0}", "tables.orders.target"),
        ("{target: pg_catalog.orders}", "tables.orders.target"),
        ("{target: information_schema.orders}", "tables.orders.target"),
        ("{target: '#orders'}", "tables.orders.target"),
        ("{target: a.b.c}", "tables.orders.target"),
        ("{target: '.orders'}", "tables.orders.target"),
        ("{grants: role a b}", "tables.orders.grants.0"),
        ("{encode: {note: best}}", "tables.orders.encode.note"),
        ("{encode: {note: text255}}", "tables.orders.encode.note"),
        ("{metadata: [who]}", "tables.orders.metadata.0"),
        ("{to: abroad}", "tables.orders.to"),
    ],
)
def test_a_target_that_cannot_be_is_refused_where_it_stands(table: str, key: str) -> None:
    assert [found for found, _ in mistakes_of(body_of(tables=f"{{orders: {table}}}"))] == [key]


@pytest.mark.parametrize("name", ["a" * 128, "syncd_scratch_0", "Syncd_Scratch_0", "syncd_ledger"])
def test_a_source_whose_name_no_target_can_have_wants_a_target(name: str) -> None:
    assert [key for key, _ in mistakes_of(body_of(tables=f"{{{name}: {{}}}}"))] == [f"tables.{name}"]

    (stream,) = settings_of(body_of(tables=f"{{{name}: {{target: kept}}}}")).streams
    assert (stream.table, stream.target and stream.target.table) == (name, "kept")


@pytest.mark.parametrize("name", [f"{SCRATCH_PREFIX}0", EXCLUDED_KEYS_TABLE.strip('"')])
def test_no_target_is_called_as_a_temporary_table_of_ours(name: str) -> None:
    """Redshift finds the temporary one first, and where a statement names both, neither."""
    assert f"{name} begins with syncd_" in find_table_name_problem(name)


@pytest.mark.parametrize(
    "tables",
    [
        "{orders: {}, Orders: {}}",
        "{orders: {}, shop.lines: {target: ORDERS}}",
        "{orders: {}, lines: {target: public.orders}}",
        "{orders: {target: Sales.a}, lines: {target: sales.A}}",
    ],
)
def test_two_streams_onto_one_target_are_refused(tables: str) -> None:
    (mistake,) = mistakes_of(body_of(tables=tables))

    assert "has the same target as orders" in mistake[1]


SEVERAL = f"{{a: {{url: '{URL}'}}, b: {{url: '{URL}', schema: sales}}}}"


def test_several_warehouses_want_a_name_at_each_table() -> None:
    body = body_of(SEVERAL, "{orders: {to: a}, lines: {}}", top="warehouses")

    assert [key for key, _ in mistakes_of(body)] == ["tables.lines"]


def test_one_name_in_two_warehouses_is_two_targets() -> None:
    body = body_of(SEVERAL, "{orders: {to: a}, lines: {to: b, target: orders}}", top="warehouses")

    targets = [stream.target for stream in settings_of(body).streams]

    assert [target and (target.warehouse, target.schema) for target in targets] == [("a", "public"), ("b", "sales")]


def test_warehouse_and_warehouses_exclude_each_other() -> None:
    body = body_of(tables="{orders: {to: a}}") + f"warehouses: {SEVERAL}\n"

    assert "warehouses" in [key for key, _ in mistakes_of(body)]


def test_defaults_say_what_all_targets_have() -> None:
    body = body_of() + "defaults: {metadata: [], grants: group bi, deletes: hard}\n"

    target = settings_of(body).streams[0].target

    assert target is not None
    assert (target.notes, target.grants, target.deletes) == ((), ("group bi",), Deletes.HARD)
