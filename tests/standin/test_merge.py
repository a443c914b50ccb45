"""MERGE: its exact grammar, and what it does with duplicate keys; the classic way beside it."""

import pytest

from tests.standin.clients import Client

pytestmark = [pytest.mark.services, pytest.mark.fact("11.9")]
UPSERT = "when matched then update set v = s.v when not matched then insert (k, v) values (s.k, s.v)"


@pytest.fixture
def tables(client: Client) -> tuple[str, str]:
    target, source = client.table("k integer, v varchar(9)"), client.table("k integer, v varchar(9)")
    client.run(f"insert into {target} values (1, 'old'), (2, 'kept')")
    client.run(f"insert into {source} values (1, 'new'), (3, 'added')")
    return target, source


def content(client: Client, table: str) -> list[list[object]]:
    return client.rows(f"select k, v from {table} order by k, v")


@pytest.mark.parametrize("source", ["{s} s", "{s} as s", "(select k, v from {s}) s", "(select k, v from {s}) as s"])
def test_updates_and_inserts(client: Client, tables: tuple[str, str], source: str) -> None:
    t, s = tables

    client.run(f"merge into {t} using {source.format(s=s)} on {t}.k = s.k {UPSERT}")

    assert content(client, t) == [[1, "new"], [2, "kept"], [3, "added"]]


def test_deletes_what_matches(client: Client, tables: tuple[str, str]) -> None:
    t, s = tables

    client.run(
        f"merge into {t} using {s} s on {t}.k = s.k when matched then delete when not matched then insert values (s.k, s.v)"
    )

    assert content(client, t) == [[2, "kept"], [3, "added"]]


@pytest.mark.parametrize(
    "sql",
    [
        "merge into {t} as x using {s} s on x.k = s.k " + UPSERT,
        "merge into {t} x using {s} s on x.k = s.k " + UPSERT,
        "with w as (select 1) merge into {t} using {s} s on {t}.k = s.k " + UPSERT,
        "merge into {t} using {s} s on {t}.k = s.k when matched then update set v = s.v",
        "merge into {t} using {s} s on {t}.k = s.k when not matched then insert (k, v) values (s.k, s.v)",
        "merge into {t} using {s} s on {t}.k = s.k when not matched then insert (k) values (s.k) when matched then delete",
        "merge into {t} using {s} s on {t}.k = s.k when matched and s.v = 'x' then delete when not matched then insert (k) values (s.k)",
        "merge into {t} using {s} s on {t}.k = s.k when matched then do nothing when not matched then insert (k) values (s.k)",
        "merge into {t} using {s} s on {t}.k = s.k " + UPSERT + " returning k",
        "merge into {t} using {s} s on {t}.k = s.k when matched then update set {t}.v = s.v when not matched then insert (k) values (s.k)",
        "merge into {t} using {s} s on {t}.k = s.k when matched then delete when matched then delete when not matched then insert (k) values (s.k)",
        "merge into {t} using {s} s on {t}.k > s.k " + UPSERT,
        "merge into {t} using {s} s on {t}.k = s.k or {t}.k = 2 " + UPSERT,
        "merge into {t} using {s} s on {t}.k = s.k and s.v = 'new' " + UPSERT,
        "merge into {t} using {s} s on k = s.k " + UPSERT,
        "merge into {t} using {t} s on {t}.k = s.k " + UPSERT,
        "merge into {t} using (select k, v from {t}) s on {t}.k = s.k " + UPSERT,
        "merge into only {t} using {s} s on {t}.k = s.k " + UPSERT,
    ],
)
def test_any_other_form_is_refused(client: Client, tables: tuple[str, str], sql: str) -> None:
    t, s = tables

    client.refused(sql.format(t=t, s=s))

    assert content(client, t) == [[1, "old"], [2, "kept"]]


def test_subquery_that_reads_the_target_has_its_sentence(client: Client, tables: tuple[str, str]) -> None:
    t, _ = tables

    refused = client.refused(f"merge into {t} using (select k, v from {t}) s on {t}.k = s.k {UPSERT}")

    assert refused["M"] == "Source view/subquery in Merge statement cannot reference target table."


def test_bind_parameter_inside_the_source_fails(client: Client, tables: tuple[str, str]) -> None:
    t, s = tables

    refused = client.refused(
        f"merge into {t} using (select k, v from {s} where k = %s) s on {t}.k = s.k {UPSERT}", (1,)
    )

    assert refused["C"] == "XX000"
    assert "queryVoltDecorrCSQ" in refused["M"]


def test_two_source_rows_for_a_target_row_are_refused(client: Client, tables: tuple[str, str]) -> None:
    t, s = tables
    client.run(f"insert into {s} values (1, 'twice')")

    refused = client.refused(f"merge into {t} using {s} s on {t}.k = s.k {UPSERT}")

    assert refused["M"] == "Found multiple matches to update the same tuple."
    assert content(client, t) == [[1, "old"], [2, "kept"]]


def test_two_source_rows_for_no_target_row_are_both_inserted(client: Client, tables: tuple[str, str]) -> None:
    t, s = tables
    client.run(f"insert into {s} values (3, 'twice')")

    client.run(f"merge into {t} using {s} s on {t}.k = s.k {UPSERT}")

    assert content(client, t)[-2:] == [[3, "added"], [3, "twice"]]


def test_null_keys_never_match(client: Client, tables: tuple[str, str]) -> None:
    t, s = tables
    client.run(f"insert into {t} values (null, 'old')")
    client.run(f"insert into {s} values (null, 'new')")

    client.run(f"merge into {t} using {s} s on {t}.k = s.k {UPSERT}")

    assert content(client, t)[-2:] == [[None, "new"], [None, "old"]]


def test_remove_duplicates_replaces_and_collapses(client: Client, tables: tuple[str, str]) -> None:
    t, s = tables
    client.run(f"insert into {t} values (1, 'older')")

    client.run(f"merge into {t} using {s} s on {t}.k = s.k remove duplicates")

    assert content(client, t) == [[1, "new"], [2, "kept"], [3, "added"]]


@pytest.mark.stricter
def test_remove_duplicates_refuses_a_source_with_duplicates_as_in_doubt(
    client: Client, tables: tuple[str, str]
) -> None:
    t, s = tables
    client.run(f"insert into {s} values (3, 'twice')")

    client.refused(f"merge into {t} using {s} s on {t}.k = s.k remove duplicates")

    assert content(client, t) == [[1, "old"], [2, "kept"]]


@pytest.mark.fact("5")
def test_delete_using_and_insert_in_one_transaction(client: Client, tables: tuple[str, str]) -> None:
    t, s = tables

    client.run("begin")
    assert client.run(f"delete from {t} using {s} where {t}.k = {s}.k") == 1
    assert client.run(f"insert into {t} select * from {s}") == 2
    client.run("commit")

    assert content(client, t) == [[1, "new"], [2, "kept"], [3, "added"]]


@pytest.mark.fact("5")
def test_update_takes_an_alias_and_picks_one_of_several_matches(client: Client, tables: tuple[str, str]) -> None:
    t, s = tables
    client.run(f"insert into {s} values (1, 'other')")

    assert client.run(f"update {t} x set v = s.v from {s} s where x.k = s.k") == 1


@pytest.mark.fact("5")
@pytest.mark.parametrize(
    "update",
    [
        "update {t} set v = s.v from {s} s where {t}.k = s.k",
        "update {t} x set v = s.v from {s} s where x.k = s.k",
        "update {t} set v = 'all' from {s} s, {s} r where {t}.k = s.k and s.k = r.k",
        "update {t} set v = r.v from (select k, max(v) as v from {s} group by k, v) r where {t}.k = r.k",
        "update {t} set v = 'all' from {s}",
    ],
)
def test_update_that_matches_a_row_several_times_is_refused_where_the_session_wants_that(
    client: Client, tables: tuple[str, str], update: str
) -> None:
    t, s = tables
    client.run(f"insert into {s} values (1, 'other')")
    before = content(client, t)
    client.run("set error_on_nondeterministic_update to true")

    assert client.refused(update.format(t=t, s=s))["M"] == "Found multiple matches to update the same tuple."
    assert content(client, t) == before

    client.run("reset error_on_nondeterministic_update")
    client.run(update.format(t=t, s=s))


@pytest.mark.fact("5")
@pytest.mark.parametrize("wanted", ["true", "off"])
def test_update_tells_its_count_whatever_the_session_wants(
    client: Client, tables: tuple[str, str], wanted: str
) -> None:
    t, s = tables
    client.run(f"set error_on_nondeterministic_update to {wanted}")

    assert client.run(f"update {t} set v = s.v from {s} s where {t}.k = s.k and s.v = %s", ["new"]) == 1
    assert client.run(f"update {t} set v = upper(v)") == 2
    assert client.run(f"update {t} set v = (select max(v) from {s}) where k = 2") == 1

    assert content(client, t) == [[1, "NEW"], [2, "new"]]


@pytest.mark.stricter
def test_setting_for_updates_is_on_or_off(client: Client) -> None:
    assert "requires a Boolean value" in client.refused("set error_on_nondeterministic_update to 'sometimes'")["M"]


@pytest.mark.stricter
@pytest.mark.fact("5")
@pytest.mark.parametrize("name", ["enable_large_strings_opt_in", "describe_field_name_in_uppercase"])
def test_setting_that_would_change_an_answer_is_not_taken_in_silence(client: Client, name: str) -> None:
    client.run(f"set {name} to off")

    for value in ("true", "on", "t", "1", "'yes'"):
        assert "not carried out by the stand-in" in client.refused(f"set {name} to {value}")["M"]


def test_remove_duplicates_wants_as_many_columns_on_both_sides(client: Client, tables: tuple[str, str]) -> None:
    t, _ = tables
    for columns in ("k integer", "k integer, v varchar(10), w integer"):
        source = client.table(columns)
        client.run(f"insert into {source} (k) values (1)")
        before = content(client, t)

        client.refused(f"merge into {t} using {source} s on {t}.k = s.k remove duplicates")

        assert content(client, t) == before


@pytest.mark.parametrize(("target", "source"), [("{t}", "public.{t} x"), ("public.{t}", "{t} x")])
def test_source_that_is_the_target_by_another_name_is_refused(
    client: Client, tables: tuple[str, str], target: str, source: str
) -> None:
    t, _ = tables
    left, right = target.format(t=t), source.format(t=t)

    refused = client.refused(f"merge into {left} using {right} on {t}.k = x.k {UPSERT.replace('s.', 'x.')}")

    assert refused["M"] == "Source view/subquery in Merge statement cannot reference target table."
