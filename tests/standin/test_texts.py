"""Text: default widths, bytes, trailing spaces; numbers: default precision."""

from decimal import Decimal

import pytest

from tests.standin.clients import Client

pytestmark = [pytest.mark.services, pytest.mark.fact("11.15")]


@pytest.mark.parametrize(
    ("declared", "kept"),
    [
        ("text", "character varying(256)"),
        ("varchar", "character varying(256)"),
        ("nvarchar(7)", "character varying(7)"),
        ("varchar(max)", "character varying(65535)"),
        ("character varying(9)", "character varying(9)"),
        ("char", "character(1)"),
        ("nchar(4)", "character(4)"),
        ("bpchar", "character(256)"),
        ("numeric", "numeric(18,0)"),
        ("decimal(5)", "numeric(5,0)"),
        ("float", "double precision"),
        ("float4", "real"),
        ("int2", "smallint"),
        ("int8", "bigint"),
        ("varbyte", "varbyte(64000)"),
        ("varbinary(5)", "varbyte(5)"),
        ("timestamptz", "timestamp with time zone"),
        ("timestamp with time zone", "timestamp with time zone"),
    ],
)
def test_declared_type_is_kept_as(client: Client, declared: str, kept: str) -> None:
    table = client.table(f"c {declared}")

    assert client.value(f"select type from pg_table_def where tablename = '{table}'") == kept


def test_casts_have_the_same_defaults(client: Client) -> None:
    table = client.table("c varchar(1000)")
    client.run(f"insert into {table} values (repeat('x', 300))")

    assert client.rows(f"select len(c::varchar), len(cast(c as text)), cast(2.5 as numeric) from {table}") == [
        [256, 256, 3]
    ]


@pytest.mark.fact("11.5")
def test_stored_text_counts_bytes(client: Client) -> None:
    table = client.table("c varchar(3), d char(2)")

    assert client.refused(f"insert into {table} (c) values ('éé')")["C"] == "22001"
    assert client.refused(f"insert into {table} (c) values (%s)", ("abcd",))["C"] == "22001"
    assert client.refused(f"insert into {table} (d) values ('é')")["C"] == "22021"
    assert client.refused(f"insert into {table} (d) values ('abc')")["C"] == "22001"
    client.run(f"insert into {table} values ('aé', 'ab')")
    assert client.refused(f"update {table} set c = c || 'b'")["C"] == "22001"


@pytest.mark.fact("3")
def test_spaces_that_are_too_many_are_dropped(client: Client) -> None:
    table = client.table("c varchar(3)")

    client.run(f"insert into {table} values ('ab     ')")

    assert client.value(f"select octet_length(c) from {table}") == 3


@pytest.mark.fact("11.5")
def test_explicit_cast_cuts_at_a_characters_border(client: Client) -> None:
    assert client.value("select 'aéé'::varchar(4)") == "aé"


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("select count(*) from {t} where v = 'a'", 2),
        ("select count(*) from {t} where v in ('a     ')", 2),
        ("select count(distinct v) from {t}", 2),
        ("select count(*) from (select v from {t} group by v) g", 2),
        ("select count(*) from {t} x join {t} y on x.v = y.v", 5),
        ("select max(r) from (select row_number() over (partition by v order by v) as r from {t}) w", 2),
        ("select count(*) from (select v from {t} union select 'a   ') u", 2),
        ("select count(*) from {t} where v <> 'a'", 1),
        ("select count(*) from {t} where upper(v) = 'A'", 2),
        ("select count(*) from {t} where v between 'a' and 'a'", 2),
    ],
)
def test_trailing_spaces_make_no_difference(client: Client, sql: str, found: int) -> None:
    table = client.table("v varchar(9)")
    client.run(f"insert into {table} values ('a'), ('a  '), (' a')")

    assert client.value(sql.format(t=table)) == found


def test_trailing_spaces_are_kept_all_the_same(client: Client) -> None:
    table = client.table("v varchar(9)")
    client.run(f"insert into {table} values ('a  ')")

    assert client.rows(f"select v, len(v), md5(v) = md5('a') from {table}") == [["a  ", 3, False]]


def test_keys_that_differ_by_spaces_alone_match_in_a_delete(client: Client) -> None:
    target, scratch = client.table("k varchar(9)"), client.table("k varchar(9)")
    client.run(f"insert into {target} values ('a ')")
    client.run(f"insert into {scratch} values ('a')")

    assert client.run(f"delete from {target} using {scratch} where {target}.k = {scratch}.k") == 1


@pytest.mark.fact("3")
def test_excess_scale_is_rounded_and_excess_digits_refused(client: Client) -> None:
    table = client.table("n decimal(5,2)")
    client.run(f"insert into {table} values (1.005), (1.004)")

    assert [str(r[0]) for r in client.rows(f"select n from {table} order by n")] == ["1.00", "1.01"]
    assert client.refused(f"insert into {table} values (1000)")["C"] == "22003"


@pytest.mark.fact("3")
def test_decimals_of_19_digits_end_where_eight_bytes_end(client: Client) -> None:
    table = client.table("a decimal(19,0), b decimal(19,4)")
    client.run(f"insert into {table} values (9223372036854775807, -922337203685477.5807)")

    for values in ("(9223372036854775808, 0)", "(0, 922337203685477.5808)", "(-9999999999999999999, 0)"):
        assert client.refused(f"insert into {table} values {values}")["C"] == "22003"
    client.refused(f"insert into {table} values (%s, 0)", (2**63,))
    client.refused(f"update {table} set b = b * 2")
    client.refused("select cast('9999999999999999999' as decimal(19,0))")

    assert client.value("select cast('9999999999999999999' as decimal(20,0))") == 9999999999999999999
    assert client.value(f"select count(*) from {table}") == 1


@pytest.mark.stricter
@pytest.mark.fact("3")
def test_decimal_is_always_a_number(client: Client) -> None:
    table = client.table("a decimal(10,2)")

    client.refused(f"insert into {table} values ('NaN')")
    client.refused(f"insert into {table} values (%s)", (Decimal("NaN"),))
    client.refused("select cast('NaN' as decimal(10,2))")


@pytest.mark.fact("3")
def test_text_becomes_its_own_bytes_and_is_never_read_as_hexadecimal(client: Client) -> None:
    table = client.table("c varbyte(20)")
    client.run(f"insert into {table} values (%s)", ("\\x6162",))

    assert client.value(f"select to_hex(c) from {table}") == b"\\x6162".hex()
    assert client.value("select to_hex(cast('\\\\x6162' as varbyte))") == b"\\x6162".hex()
