"""Tables: how they are declared, changed, copied, emptied."""

import pytest

from tests.standin.clients import Client, Clients, numbers

pytestmark = [pytest.mark.services, pytest.mark.fact("11.10")]


def columns_of(client: Client, table: str) -> list[list[object]]:
    return client.rows(
        f'select "column", type, encoding, distkey, sortkey, "notnull" from pg_table_def where tablename = \'{table}\''
    )


@pytest.mark.fact("4")
def test_declaration_with_everything_is_kept(client: Client) -> None:
    name = f"t{next(numbers)}"
    client.run(
        f"create table if not exists {name} (id bigint not null encode raw, at timestamp sortkey,"
        " v varchar(20) encode zstd collate case_sensitive, primary key (id), unique (v),"
        " foreign key (id) references other (id)) backup no diststyle key distkey (id) compound sortkey (at, id)"
    )

    assert columns_of(client, name) == [
        ["id", "bigint", "none", True, 2, True],
        ["at", "timestamp without time zone", "none", False, 1, False],
        ["v", "character varying(20)", "zstd", False, 0, False],
    ]


@pytest.mark.fact("4")
@pytest.mark.parametrize(
    "sql",
    [
        "create table x (a integer) distkey (z)",
        "create table x (a integer) sortkey (z)",
        "create table x (a integer) diststyle key",
        "create table x (a integer) diststyle all distkey (a)",
        "create table x (a integer) diststyle sideways",
        "create table x (a integer encode best)",
        "create table x (a super distkey)",
        "create table x (a super sortkey)",
        "create table x (a varchar(10) identity(1,1))",
        "create table x (a varchar(65536))",
        "create table x (a char(4097))",
        "create table x (a decimal(39,0))",
        "create table x (a decimal(38,38))",
        "create table x (a varbyte(16777217))",
        "create table x (a integer, a integer)",
        "create table x (a integer primary key, b integer primary key)",
        "create table x (a integer) interleaved sortkey (a, a, a, a, a, a, a, a, a)",
        "create table x (a integer,)",
        "create table x ()",
        "create table x (a integer) tablespace t",
    ],
)
def test_declaration_that_cannot_be_is_refused(client: Client, sql: str) -> None:
    client.refused(sql)


@pytest.mark.fact("4")
def test_existing_table_is_left_with_a_notice(client: Client) -> None:
    table = client.table("a integer")

    client.run(f"create table if not exists {table} (b integer)")

    assert [c[0] for c in columns_of(client, table)] == ["a"]
    assert "already exists" in str(client.connection.notices[-1])


@pytest.mark.fact("11.11")
def test_temporary_table_takes_no_schema_and_dies_with_its_session(clients: Clients) -> None:
    first = clients()
    first.refused("create temp table public.scratch (a integer)")
    first.run("create temp table scratch (a integer)")
    first.run("insert into scratch values (1)")

    assert clients().refused("select * from scratch")["C"] == "42P01"


@pytest.mark.fact("11.11")
def test_temporary_table_may_shadow_a_permanent_one(client: Client) -> None:
    table = client.table("a integer")
    schema = client.value("select current_schema()")
    client.run(f"create temp table {table} (b integer)")
    client.run(f"insert into {table} values (7)")

    assert client.rows(f"select b from {table}") == [[7]]
    assert client.value(f"select count(*) from {schema}.{table}") == 0


@pytest.mark.fact("4")
def test_temporary_tables_are_not_encoded(client: Client) -> None:
    client.run("create temp table plain (a integer, b varchar(9))")

    assert client.rows("select encoding from pg_table_def where tablename = 'plain'") in ([], [["none"], ["none"]])


@pytest.mark.fact("11.11")
def test_like_copies_columns_not_keys_and_defaults_only_when_told(client: Client) -> None:
    parent = client.table(
        "a integer not null default 4 primary key, b varchar(9) unique encode zstd, c integer sortkey"
    )
    one, two = f"t{next(numbers)}", f"t{next(numbers)}"
    client.run(f"create table {one} (like {parent})")
    client.run(f"create table {two} (like {parent} including defaults)")

    client.run(f"insert into {two} (b) values ('x')")
    client.run(f"alter table {one} alter column b type varchar(30)")

    assert client.refused(f"insert into {one} (b) values ('x')")["M"] == "Cannot insert a NULL value into column a"
    assert client.rows(f"select a from {two}") == [[4]]
    assert [c[4] for c in columns_of(client, one)] == [0, 0, 1]
    assert columns_of(client, one)[1][2] == "zstd"


@pytest.mark.fact("11.11")
@pytest.mark.parametrize(
    "rest", ["(like {p}) distkey (a)", "like {p}", "(like {p} including all)", "(like {p}) sortkey (a)"]
)
def test_like_in_another_form_is_refused(client: Client, rest: str) -> None:
    parent = client.table("a integer")

    client.refused(f"create table x {rest.format(p=parent)}")


@pytest.mark.fact("11.11")
def test_identity_counts_and_cannot_be_added_or_given(client: Client) -> None:
    table = client.table("id bigint identity(10, 5), a integer")
    client.run(f"insert into {table} (a) values (1), (2)")

    client.refused(f"insert into {table} (id, a) values (1, 3)")
    client.refused(f"alter table {table} add column other bigint identity(1, 1)")

    assert client.rows(f"select id, a from {table} order by a") == [[10, 1], [15, 2]]


def test_one_column_is_added_at_a_time(client: Client) -> None:
    table = client.table("a integer")

    client.run(f"alter table {table} add column b varchar(9) default 'x' encode lzo")
    client.run(f"alter table {table} add c integer")
    client.refused(f"alter table {table} add column d integer, add column e integer")
    client.refused(f"alter table {table} add column if not exists d integer")

    assert [c[0] for c in columns_of(client, table)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "change",
    [
        "add column d integer primary key",
        "add column d integer unique",
        "add column d integer distkey",
        "add column d integer sortkey",
        "add column d integer not null",
        "add column d integer references other (a)",
        "alter column a set not null",
        "alter column a set default 1",
        "alter column a drop not null",
        "alter column a type bigint",
        "alter column b type varchar(20) using b",
        "rename b to c",
        "drop column k",
        "drop column s",
        "add primary key (a)",
        "set schema other",
        "disable trigger all",
    ],
)
def test_change_that_redshift_does_not_make(client: Client, change: str) -> None:
    table = client.table("k integer distkey, s integer sortkey, a integer, b varchar(9)")
    before = columns_of(client, table)

    client.refused(f"alter table {table} {change}")

    assert columns_of(client, table) == before


def test_columns_are_renamed_and_dropped(client: Client) -> None:
    table = client.table("k integer distkey, a integer, b integer")

    client.run(f"alter table {table} rename column k to key_of_it")
    client.run(f"alter table {table} drop column b restrict")
    client.refused(f"alter table {table} drop column key_of_it")
    client.run(f"alter table {table} rename to {table}_renamed")

    assert [(c[0], c[3]) for c in columns_of(client, f"{table}_renamed")] == [("key_of_it", True), ("a", False)]


def test_last_column_stays(client: Client) -> None:
    client.refused(f"alter table {client.table('a integer')} drop column a")


def test_varchar_is_widened_outside_a_block_only(client: Client) -> None:
    table = client.table("v varchar(5)")

    client.run(f"alter table {table} alter column v type varchar(10)")
    client.run("begin")
    refused = client.refused(f"alter table {table} alter column v type varchar(20)")
    client.run("rollback")

    assert refused["M"] == "ALTER TABLE ALTER COLUMN cannot run inside a transaction block"
    assert columns_of(client, table)[0][1] == "character varying(10)"


@pytest.mark.parametrize(
    ("definition", "width"),
    [
        ("v varchar(5) encode bytedict", 10),
        ("v varchar(5) encode runlength", 10),
        ("v varchar(5) encode text255", 10),
        ("v varchar(5) encode text32k", 10),
        ("v varchar(5) default 'x'", 10),
        ("v varchar(5) unique", 10),
        ("v varchar(5) primary key", 10),
        ("v varchar(5) references other (v)", 10),
        ("v varchar(5)", 4),
        ("v char(5)", 10),
        ("v integer", 10),
    ],
)
def test_conditions_on_widening(client: Client, definition: str, width: int) -> None:
    table = client.table(definition)
    client.run(f"insert into {table} values ('12345')")

    assert "cannot alter column" in client.refused(f"alter table {table} alter column v type varchar({width})")["M"]


def test_varchar_is_narrowed_down_to_its_longest_value_in_bytes(client: Client) -> None:
    table = client.table("v varchar(20)")
    client.run(f"insert into {table} values ('ééé')")

    client.refused(f"alter table {table} alter column v type varchar(5)")
    client.run(f"alter table {table} alter column v type varchar(6)")


@pytest.mark.parametrize(
    ("sql", "word"),
    [("vacuum {t}", "VACUUM"), ("alter table {t} append from {t}", "ALTER TABLE APPEND")],
)
def test_statement_that_cannot_stand_in_a_block(client: Client, sql: str, word: str) -> None:
    table = client.table("a integer")
    client.run("begin")

    refused = client.refused(sql.format(t=table))

    assert (refused["C"], refused["M"]) == ("25001", f"{word} cannot run inside a transaction block")
    assert client.refused("select 1")["C"] == "25P02"
    client.run("rollback")


@pytest.mark.parametrize("form", ["", "full", "sort only", "delete only", "reindex", "recluster"])
def test_vacuum_runs_alone(client: Client, form: str) -> None:
    client.run(f"vacuum {form} {client.table('a integer')}")


def test_truncate_commits_the_transaction_it_stands_in(clients: Clients) -> None:
    client, reader = clients(), clients()
    table, other = client.table("a integer"), client.table("a integer")
    client.run(f"insert into {table} values (1)")
    client.run("begin")
    client.run(f"insert into {other} values (2)")

    client.run(f"truncate {table}")
    client.run("rollback")

    assert reader.value(f"select count(*) from {table}") == 0
    assert reader.value(f"select count(*) from {other}") == 1


@pytest.mark.fact("4")
def test_ddl_rolls_back(client: Client) -> None:
    table = client.table("a integer")
    client.run("begin")
    client.run(f"alter table {table} rename to {table}_old")
    client.run(f"create table {table} (b integer)")
    client.run("rollback")

    assert [c[0] for c in columns_of(client, table)] == ["a"]


@pytest.mark.fact("4")
def test_four_step_change_of_type_in_one_transaction(client: Client) -> None:
    table = client.table("a integer, b integer")
    client.run(f"insert into {table} values (1, 2)")

    client.run("begin")
    client.run(f"alter table {table} add column a_new bigint")
    client.run(f"update {table} set a_new = cast(a as bigint)")
    client.run(f"alter table {table} drop column a cascade")
    client.run(f"alter table {table} rename column a_new to a")
    client.run("commit")

    assert client.rows(f"select * from {table}") == [[2, 1]]


@pytest.mark.stricter
@pytest.mark.fact("4")
def test_create_table_as_needs_a_width_for_text(client: Client) -> None:
    table = client.table("v varchar(9), n integer")
    client.run(f"insert into {table} values ('x', 1)")

    client.run(f"create temp table copied distkey (n) as select v, n from {table}")
    client.refused(f"create temp table guessed as select upper(v) as v from {table}")
    client.run(f"create temp table told as select cast(upper(v) as varchar(9)) as v from {table}")

    assert client.rows("select v from told") == [["X"]]
    assert client.rows("select v, n from copied") == [["x", 1]]


def test_drop_refuses_what_is_used_unless_told_to_cascade(client: Client) -> None:
    table = client.table("a integer")
    client.run(f"create view {table}_view as select a from {table}")

    client.refused(f"drop table {table}")
    client.run(f"drop table {table} cascade")
    client.run(f"drop table if exists {table}, {table}_more")


@pytest.mark.parametrize("width", [1, 10_485_761, 16_777_215, 16_777_216])
def test_width_of_binary_stands_in_the_catalog(client: Client, width: int) -> None:
    table = client.table(f"c varbyte({width})")

    assert client.value(f"select type from pg_table_def where tablename = '{table}'").endswith(f"({width})")
