"""Identifiers, reserved words, limits of tables and statements."""

import pytest

from tests.standin.clients import Client, Clients, numbers

pytestmark = [pytest.mark.services, pytest.mark.fact("11.7")]


def test_quoted_names_fold_to_lower_case_too(client: Client) -> None:
    client.run('create table "Folded" ("Id" integer, "MiXed" integer)')

    client.run('insert into FOLDED ("ID", mixed) values (1, 2)')

    assert client.rows('select "iD", "MIXED" from "FOLDED"') == [[1, 2]]
    client.run("drop table folded")


def test_columns_that_differ_by_case_collide(client: Client) -> None:
    assert client.refused('create table x ("a" integer, "A" integer)')["C"] == "42701"


@pytest.mark.parametrize("length", [63, 64, 100, 127])
def test_long_names_hold_up_to_127_bytes(client: Client, length: int) -> None:
    name = f"{next(numbers)}".rjust(length, "n")
    client.run(f'create table "{name}" ("{name}" integer)')
    client.run(f'insert into "{name}" values (1)')

    cursor = client.connection.cursor()
    cursor.execute(f'select * from "{name}"')

    assert cursor.description[0][0] == name
    assert client.value(f"select \"column\" from pg_table_def where tablename = '{name}'") == name
    client.run(f'drop table "{name}"')


def test_names_longer_than_127_bytes_are_cut(client: Client) -> None:
    client.run(f'create table x ("{"c" * 130}" integer)')

    assert client.value("select \"column\" from pg_table_def where tablename = 'x'") == "c" * 127
    client.run("drop table x")


def test_two_long_names_with_one_beginning_stay_apart(client: Client) -> None:
    first, second = "c" * 100 + "1", "c" * 100 + "2"
    client.run(f'create table x ("{first}" integer, "{second}" integer)')
    client.run(f'insert into x ("{second}") values (2)')

    assert client.rows(f'select "{first}", "{second}" from x') == [[None, 2]]
    client.run("drop table x")


@pytest.mark.parametrize(
    "word",
    [
        "tag",
        "raw",
        "open",
        "delta",
        "backup",
        "snapshot",
        "percent",
        "partition",
        "oid",
        "new",
        "old",
        "explicit",
        "user",
    ],
)
def test_reserved_word_must_be_quoted(client: Client, word: str) -> None:
    assert client.refused(f"create table x ({word} integer)")["C"] in {"42601", "42701"}


@pytest.mark.parametrize("word", ["tag", "raw", "percent", "order", "user", "timestamp"])
def test_reserved_word_works_in_quotes(client: Client, word: str) -> None:
    table = client.table(f'"{word}" integer')
    client.run(f'insert into {table} ("{word}") values (3)')

    assert client.rows(f'select "{word}" from {table} where "{word}" = 3') == [[3]]


def test_reserved_word_in_a_query_is_refused(client: Client) -> None:
    table = client.table('"tag" integer')

    assert client.refused(f"select tag from {table}")["C"] == "42601"


@pytest.mark.parametrize("name", ["ctid", "xmin", "tableoid", "oid"])
def test_system_columns_name_no_column(client: Client, name: str) -> None:
    client.refused(f'create table x ("{name}" integer)')


def test_system_columns_cannot_be_read(client: Client) -> None:
    table = client.table("a integer")

    assert client.refused(f"select ctid from {table}")["C"] == "42703"


def test_tables_have_at_most_1600_columns(client: Client) -> None:
    client.run(f"create table wide ({', '.join(f'c{i} smallint' for i in range(1600))})")
    client.run("drop table wide")

    refused = client.refused(f"create table wide ({', '.join(f'c{i} smallint' for i in range(1601))})")
    assert refused["M"] == "tables can have at most 1600 columns"


def test_statement_of_more_than_16_megabytes_is_refused(client: Client) -> None:
    refused = client.refused("select '" + "x" * (16 * 1024 * 1024) + "'")

    assert refused["M"].startswith("Statement is too large. Statement Size: 167772")


def test_name_that_begins_with_a_hash_is_a_temporary_table(clients: Clients, client: Client) -> None:
    client.run("create table #scratch (a integer)")
    client.run("insert into #scratch values (1)")

    assert client.rows("select a from #scratch") == [[1]]
    clients().refused("select a from #scratch")


@pytest.mark.stricter
def test_row_too_wide_for_the_server_behind_is_refused_by_name(client: Client) -> None:
    table = client.table(", ".join(f"c{i} bigint" for i in range(1600)))

    refused = client.refused(f"insert into {table} values ({', '.join(['1'] * 1600)})")

    assert refused["C"] == "0A000"
    assert refused["M"].endswith("is not carried out by the stand-in")
