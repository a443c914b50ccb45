"""What PostgreSQL has and Redshift has not: each is refused, and nothing happens."""

import datetime as dt

import pytest

from tests.standin.clients import Client

pytestmark = [pytest.mark.services, pytest.mark.fact("11.8")]


@pytest.fixture
def table(client: Client) -> str:
    table = client.table("a integer primary key, b varchar(10) unique")
    client.run(f"insert into {table} values (1, 'x')")
    return table


def test_declared_keys_are_not_enforced(client: Client, table: str) -> None:
    client.run(f"insert into {table} values (1, 'x')")

    assert client.value(f"select count(*) from {table}") == 2


def test_primary_key_column_takes_no_null(client: Client, table: str) -> None:
    assert client.refused(f"insert into {table} values (null, 'x')")["M"] == "Cannot insert a NULL value into column a"


@pytest.mark.parametrize(
    "sql",
    [
        "insert into {t} values (1, 'y') on conflict do nothing",
        "insert into {t} values (1, 'y') on conflict (a) do update set b = 'z'",
        "insert into {t} values (1, 'y') returning a",
        "delete from {t} returning a",
        "update {t} set a = 2 returning a",
        "savepoint s",
        "rollback to savepoint s",
        "select count(*) filter (where a > 0) from {t}",
        "select distinct on (a) a, b from {t}",
        "select * from generate_series(1, 3)",
        "select a from {t}, lateral (select 1) l",
        "select a from {t} cross join lateral (select 1) l",
        "select array[1, 2]",
        "select array_agg(a) from {t}",
        "select string_agg(b, ',') from {t}",
        "select a from {t} where a is distinct from 2",
        "select * from (values (1), (2)) v",
        "values (1)",
        "select pg_advisory_lock(1)",
        "select pg_sleep(0)",
        "select gen_random_uuid()",
        "select now()",
        "select to_jsonb(a) from {t}",
        "select encode('a', 'hex')",
        "select overlay('abc' placing 'x' from 1)",
        "select format('%%s', 'a')",
        "select a from {t} for update",
        "select row_number() over (order by a nulls first) from {t}",
        "with w as (delete from {t} returning a) select * from w",
        "with w as (with v as (select 1) select * from v) select * from w",
        "with w as (select 1 as a) delete from {t} using w where w.a = {t}.a",
        "with w as (select 1 as a) insert into {t} select a, 'x' from w",
        "delete from {t} as x where x.a = 1",
        "update {t} set b = 'z' from {t} y left join {t} z on y.a = z.a where {t}.a = y.a",
        "select '{{}}'::jsonb",
        "select 'a'::uuid",
        "select b -> 'x' from {t}",
        "select $$dollar$$",
        "listen channel",
        "notify channel",
        "do 'begin end'",
        "declare c cursor for select 1",
        "create index i on {t} (a)",
        "create unique index i on {t} (a)",
        "create sequence s",
        "create trigger tr before insert on {t} execute procedure f()",
        "create extension pgcrypto",
        "create type mood as enum ('sad')",
        "create table x (a serial)",
        "create table x (a bigserial)",
        "create table x (a integer[])",
        "create table x (a jsonb)",
        "create table x (a uuid)",
        "create table x (a bytea)",
        "create table x (a tinyint)",
        "create table x (a integer check (a > 0))",
        "create table x (a integer, exclude (a with =))",
        "create table x (a integer default (select 1))",
        "create unlogged table x (a integer)",
        "create table x (a integer) partition by range (a)",
        "select a, count(*) from {t} group by a limit 1 with ties",
        "select 1; select 2",
        "select sum(a) over w from {t} window w as (order by a)",
        "select a from {t} fetch first 1 rows only",
        "update {t} set (a, b) = (2, 'y')",
        "delete from only {t}",
        "select a from {t} except all select 1",
        "select a from {t} intersect all select 1",
        "insert into {t} as x values (2, 'y')",
        "select count(distinct (a, b)) from {t}",
        "select a from {t} group by distinct a",
        "select 0x1F",
        "select 1_000",
        "table {t}",
        "set enable_seqscan to off",
        "reindex table {t}",
    ],
)
def test_is_refused(client: Client, table: str, sql: str) -> None:
    client.refused(sql.format(t=table))

    assert client.rows(f"select a, b from {table}") == [[1, "x"]]


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("select nvl(null, 3)", 3),
        ("select len('é')", 1),
        ("select sha2('a', 256)", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"),
        ("select md5('a')", "0cc175b9c0f1b6a831c399e269772661"),
        ("select datediff(day, '2024-02-28'::timestamp, '2024-03-01'::timestamp)", 2),
        ("select to_char(dateadd(hour, 2, '2024-01-01'::timestamp), 'YYYY-MM-DD HH24')", "2024-01-01 02"),
        ("select strtol('ff', 16)", 255),
        ("select strtol('fffffffffffffff', 16)", 2**60 - 1),
        ("select strtol('7fffffffffffffff', 16)", 2**63 - 1),
        ("select case when getdate() <= sysdate then 1 else 1 end", 1),
        ("select count(*) from (select 1 as a minus select 1) m", 0),
        ("select 'a\\'b'", "a'b"),
        ("select json_serialize(json_parse('[1, 2]'))", "[1,2]"),
        ("select to_hex('ab'::varbyte)", "6162"),
        ("select to_hex(substring('abcd'::varbyte, 2, 2))", "6263"),
        ("select to_hex(substring('abcd'::varbyte, 9, 2))", ""),
    ],
)
def test_redshifts_own_words_work(client: Client, sql: str, value: object) -> None:
    assert client.value(sql) == value


@pytest.mark.parametrize("text", ["8000000000000000", "ffffffffffffffff", "fg", ""])
def test_what_strtol_cannot_hold_or_read_is_refused(client: Client, text: str) -> None:
    if text:
        client.refused(f"select strtol('{text}', 16)")
    else:
        assert client.value("select strtol('', 16)") == 0


def test_window_functions_find_the_newest_of_each_key(client: Client) -> None:
    table = client.table("k integer, v integer")
    client.run(f"insert into {table} values (1, 1), (1, 2), (2, 5)")

    numbered = f"select k, v, row_number() over (partition by k order by v desc) as r from {table}"

    assert client.rows(f"select k, v from ({numbered}) x where r = 1 order by k") == [[1, 2], [2, 5]]


@pytest.mark.stricter
def test_words_of_doubt_are_refused_by_name(client: Client, table: str) -> None:
    for sql in (
        f"select top 1 a from {table}",
        f"select listagg(b, ',') from {table}",
        "unload ('select 1') to 's3://x'",
    ):
        assert "not carried out by the stand-in" in client.refused(sql)["M"]


@pytest.mark.parametrize(
    "sql",
    [
        "select pg_catalog.pg_advisory_lock(1)",
        'select "pg_advisory_lock"(1)',
        'select pg_catalog."pg_advisory_lock"(1)',
        'select "pg_catalog"."gen_random_uuid"()',
        "select * from pg_catalog.generate_series(1, 3)",
        'select a from {t}, "generate_series"(1, 3)',
        "select pg_catalog.now()",
        "insert into {t} (a) select pg_catalog.pg_backend_pid() from pg_catalog.generate_series(1, 3)",
    ],
)
def test_no_spelling_of_its_name_makes_a_foreign_function_known(client: Client, table: str, sql: str) -> None:
    assert client.refused(sql.format(t=table))["C"] in {"42883", "42601"}

    assert client.value(f'select "count"(*) from "public"."{table}"') == 1


@pytest.mark.parametrize("value", [[1, 2], (1, 2), [1.5], [True]])
def test_parameter_of_a_type_that_redshift_has_not_is_refused(client: Client, table: str, value: object) -> None:
    assert client.refused(f"select a from {table} where a = any(%s)", (value,))["C"] == "0A000"
    assert client.refused("select %s", (value,))["C"] == "0A000"


@pytest.mark.parametrize(
    "sql",
    [
        "select jsonb '{{\"a\": 1}}'",
        "select uuid 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
        "select int4range '[1,2)'",
        "select bytea 'x'",
        "select a from {t} where a between symmetric 2 and 0",
        "with w as materialized (select a from {t}) select a from w",
        "with w as not materialized (select a from {t}) select a from w",
        "select b is normalized from {t}",
        "select b is json from {t}",
        "select sum(a) over (order by a range between 1 preceding and current row) from {t}",
        "select sum(a) over (order by a groups 1 preceding) from {t}",
        "select sum(a) over (order by a rows between 1 preceding and current row exclude current row) from {t}",
        "select to_timestamp(0)",
        "select concat('a', 'b', 'c')",
    ],
)
def test_newer_postgresql_grammar_is_refused(client: Client, table: str, sql: str) -> None:
    client.refused(sql.format(t=table))


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("select concat('a', null)", None),
        ("select concat('a', 'b')", "ab"),
        ("select regexp_replace('aaa', 'a', 'b')", "bbb"),
        ("select date '2024-01-01'", dt.date(2024, 1, 1)),
    ],
)
def test_functions_answer_as_redshifts(client: Client, sql: str, value: object) -> None:
    assert client.value(sql) == value


@pytest.mark.stricter
@pytest.mark.parametrize("part", ["month", "mon", "quarter", "year", "decade"])
def test_months_are_not_added_by_postgresqls_rule(client: Client, part: str) -> None:
    """Redshift keeps the last day of a month the last day; PostgreSQL does not."""
    assert (
        "the stand-in has no DATEADD by" in client.refused(f"select dateadd({part}, 1, '2024-02-29'::timestamp)")["M"]
    )
