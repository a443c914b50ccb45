"""Values: widths in bytes, characters, instants, NULL, nested ones."""

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.standin.clients import Bucket, Client, Clients, entry

pytestmark = pytest.mark.services
JSON = "format as parquet manifest serializetojson"


def texts(*values: str | None) -> pa.Table:
    return pa.table({"c": pa.array(values, pa.string())})


@pytest.mark.fact("11.5")
def test_width_counts_bytes_not_characters(client: Client, bucket: Bucket) -> None:
    table = client.table("c varchar(4)")

    assert client.copy(table, bucket.manifest_of(texts("éé"))) == 1
    refused = client.copy_refused(table, bucket.manifest_of(texts("ab", "ééé")))

    assert (refused["C"], refused["M"]) == ("XX000", "Spectrum Scan Error")
    assert "15007" in refused["D"]
    sentence = (
        "The length of the data column c is longer than the length defined in the table. Table: 4, Data: 6, File name: "
    )
    assert client.load_error().startswith(sentence + "https://")
    assert client.rows(f"select c from {table}") == [["éé"]]


@pytest.mark.fact("11.5")
def test_four_byte_characters_fit_by_their_bytes(client: Client, bucket: Bucket) -> None:
    table = client.table("c varchar(4)")

    assert client.copy(table, bucket.manifest_of(texts("😀"))) == 1
    client.copy_refused(table, bucket.manifest_of(texts("😀a")))


@pytest.mark.fact("11.5")
def test_longest_varchar_is_full_at_65535_bytes(client: Client, bucket: Bucket) -> None:
    table = client.table("c varchar(max)")

    assert client.copy(table, bucket.manifest_of(texts("x" * 65535))) == 1
    client.copy_refused(table, bucket.manifest_of(texts("x" * 65536)))


@pytest.mark.fact("11.5")
def test_trailing_spaces_count_in_a_load(client: Client, bucket: Bucket) -> None:
    client.copy_refused(client.table("c varchar(3)"), bucket.manifest_of(texts("abc ")))


@pytest.mark.fact("11.5")
def test_char_takes_seven_bit_characters_only(client: Client, bucket: Bucket) -> None:
    table = client.table("c char(4)")

    assert client.copy(table, bucket.manifest_of(texts("abcd", "a"))) == 2
    client.copy_refused(table, bucket.manifest_of(texts("é")))

    sentence = "Multibyte character not supported for CHAR (Hint: Try using VARCHAR). Invalid char: c3 a9"
    assert client.load_error() == sentence
    client.copy_refused(table, bucket.manifest_of(texts("abcde")))


@pytest.mark.fact("11.5")
def test_varbyte_counts_its_bytes(client: Client, bucket: Bucket) -> None:
    table = client.table("c varbyte(2)")

    client.copy(table, bucket.manifest_of(pa.table({"c": pa.array([b"\x00\xff", None, b""], pa.binary())})))
    client.copy_refused(table, bucket.manifest_of(pa.table({"c": pa.array([b"abc"], pa.binary())})))

    assert client.rows(f"select to_hex(c) from {table} order by 1") == [[""], ["00ff"], [None]]


@pytest.mark.fact("11.5")
def test_null_and_empty_text_stay_apart(client: Client, bucket: Bucket) -> None:
    table = client.table("n integer, c varchar(10)")
    file = pa.table({"n": pa.array([1, 2, 3, 4, 5], pa.int32()), "c": ["", None, "NULL", "\\N", '""']})

    client.copy(table, bucket.manifest_of(file))

    assert client.rows(f"select c from {table} order by n") == [[""], [None], ["NULL"], ["\\N"], ['""']]


@pytest.mark.fact("11.5")
def test_every_awkward_character_survives(client: Client, bucket: Bucket) -> None:
    table = client.table("n integer, c varchar(100)")
    awkward = ["a,b", 'say "x"', "line\nline", "cr\r\n", "tab\t", "\\.", "\\", "'", "\x01", "\u2028", "é😀\ufffe"]
    file = pa.table({"n": pa.array(range(len(awkward)), pa.int32()), "c": awkward})

    client.copy(table, bucket.manifest_of(file))

    assert [row[0] for row in client.rows(f"select c from {table} order by n")] == awkward


@pytest.mark.stricter
@pytest.mark.fact("3")
def test_nul_in_a_string_is_refused_as_in_doubt(client: Client, bucket: Bucket) -> None:
    client.copy_refused(client.table("c varchar(10)"), bucket.manifest_of(texts("a\0b")))

    assert "NUL" in client.load_error()


def invalid_utf8(bucket: Bucket) -> str:
    """A manifest of a file whose string column holds the bytes 61 a4 62."""
    array = pa.array([b"a\xa4b"], pa.binary())
    strings = pa.Array.from_buffers(pa.string(), 1, array.buffers())
    return bucket.manifest_of(pa.table({"c": strings}))


@pytest.mark.fact("2.3")
def test_invalid_utf8_is_refused_with_its_bytes(client: Client, bucket: Bucket) -> None:
    client.copy_refused(client.table("c varchar(10)"), invalid_utf8(bucket))

    expected = "String contains invalid or unsupported UTF-8 codepoints. Bad UTF-8 hex sequence: a4 (error 3)"
    assert client.load_error() == expected


@pytest.mark.fact("3")
@pytest.mark.parametrize(("words", "stored"), [("acceptinvchars", "a?b"), ("acceptinvchars as '^'", "a^b")])
def test_acceptinvchars_replaces_byte_by_byte(client: Client, bucket: Bucket, words: str, stored: str) -> None:
    table = client.table("c varchar(10)")

    client.copy(table, invalid_utf8(bucket), words=f"format as parquet manifest {words}")

    assert client.value(f"select c from {table}") == stored


@pytest.mark.fact("2.1")
def test_numbers_and_times_arrive_exactly(client: Client, bucket: Bucket) -> None:
    row: dict[str, Any] = {
        "a": -(2**15),
        "b": 2**31 - 1,
        "c": -(2**63),
        "d": 0.1,
        "e": Decimal("-12345678901234567890123456.7890123456"),
        "f": dt.date(1, 1, 1),
        "g": dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
        "h": True,
    }
    kinds = [
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float64(),
        pa.decimal128(38, 10),
        pa.date32(),
        pa.timestamp("us", "UTC"),
        pa.bool_(),
    ]
    table = client.table(
        "a smallint, b integer, c bigint, d double precision, e decimal(38,10), f date, g timestamp, h boolean"
    )

    client.copy(
        table,
        bucket.manifest_of(pa.table([pa.array([v], k) for v, k in zip(row.values(), kinds, strict=True)], list(row))),
    )

    expected = [v.replace(tzinfo=None) if isinstance(v, dt.datetime) else v for v in row.values()]
    assert client.rows(f"select * from {table}") == [expected]


@pytest.mark.fact("2.1")
def test_int96_keeps_microseconds(client: Client, bucket: Bucket) -> None:
    table = client.table("c timestamp")
    instant = dt.datetime(2023, 9, 11, 1, 2, 3, 456789)  # noqa: DTZ001  # INT96 has no zone
    file = pa.table({"c": pa.array([instant], pa.timestamp("us"))})

    client.copy(table, bucket.manifest_of(file, use_deprecated_int96_timestamps=True))

    assert client.value(f"select c from {table}") == instant


@pytest.mark.stricter
@pytest.mark.fact("3")
@pytest.mark.parametrize("micros", [253402300800000000, -62135596800000001])
def test_instant_outside_the_years_1_to_9999_is_refused_as_in_doubt(
    client: Client, bucket: Bucket, micros: int
) -> None:
    file = pa.table({"c": pa.array([micros], pa.int64()).cast(pa.timestamp("us", "UTC"))})

    client.copy_refused(client.table("c timestamp"), bucket.manifest_of(file))


@pytest.mark.fact("3")
def test_not_a_number_and_infinities_load(client: Client, bucket: Bucket) -> None:
    table = client.table("c double precision")
    file = pa.table({"c": [float("nan"), float("inf"), float("-inf"), -0.0]})

    client.copy(table, bucket.manifest_of(file))

    assert (
        str(sorted(map(str, (r[0] for r in client.rows(f"select c from {table}"))))) == "['-0.0', '-inf', 'inf', 'nan']"
    )


@pytest.mark.stricter
@pytest.mark.fact("1.4")
def test_row_longer_than_four_megabytes_is_refused(client: Client, bucket: Bucket) -> None:
    columns = 65
    table = client.table(", ".join(f"c{i} varchar(max)" for i in range(columns)))
    file = pa.table({f"c{i}": ["x" * 65535] for i in range(columns)})

    client.copy_refused(table, bucket.manifest_of(file))

    assert "a row is longer than 4194304 bytes" in client.load_error()


@pytest.mark.fact("11.6")
def test_super_needs_serializetojson(client: Client, bucket: Bucket) -> None:
    client.copy_refused(client.table("c super"), bucket.manifest_of(texts("x")))

    assert client.load_error() == "SUPER column in COPY query requires SERIALIZETOJSON option"


@pytest.mark.fact("11.6")
def test_string_becomes_a_string_scalar_and_not_json(client: Client, bucket: Bucket) -> None:
    table = client.table("n integer, c super")
    file = pa.table({"n": pa.array([1, 2], pa.int32()), "c": ['{"a": 1}', None]})

    client.copy(table, bucket.manifest_of(file), words=JSON)

    assert client.rows(f"select c from {table} order by n") == [['"{\\"a\\": 1}"'], [None]]
    assert client.value(f"select json_typeof(c) from {table} where n = 1") == "string"


@pytest.mark.fact("11.6")
def test_nested_values_become_json(client: Client, bucket: Bucket) -> None:
    table = client.table("s super, l super, m super")
    file = pa.table(
        {
            "s": pa.array([{"a": 1, "b": "é"}], pa.struct([("a", pa.int32()), ("b", pa.string())])),
            "l": pa.array([[1, None, 2]], pa.list_(pa.int32())),
            "m": pa.array([[("k", True)]], pa.map_(pa.string(), pa.bool_())),
        }
    )

    client.copy(table, bucket.manifest_of(file), words=JSON)

    found = [json.loads(cell) for cell in client.rows(f"select s, l, m from {table}")[0]]
    assert found == [{"a": 1, "b": "é"}, [1, None, 2], {"k": True}]


@pytest.mark.fact("11.6")
def test_string_inside_super_is_at_most_65535_bytes(client: Client, bucket: Bucket) -> None:
    table = client.table("c super")

    assert client.copy(table, bucket.manifest_of(texts("x" * 65535)), words=JSON) == 1
    refused = client.copy_refused(table, bucket.manifest_of(texts("é" * 32768)), words=JSON)

    assert "1224" in refused["D"]
    assert client.load_error() == "String value exceeds the max size of 65535 bytes"


@pytest.mark.fact("3")
def test_json_parse_reads_text_and_bytes_and_refuses_the_rest(client: Client, bucket: Bucket) -> None:
    table = client.table("v varchar(max), b varbyte(1000)")
    document = '{"b": [1, 2.50, "x y"],\n "a": null}'
    client.copy(table, bucket.manifest_of(pa.table({"v": [document], "b": pa.array([document.encode()], pa.binary())})))

    compact = '{"b":[1,2.50,"x y"],"a":null}'
    assert client.rows(f"select json_parse(v), json_parse(b) from {table}") == [[compact, compact]]
    refused = client.refused("select json_parse('{\"a')")
    assert (refused["C"], refused["M"]) == ("XX000", "Invalid input")
    assert "8001" in refused["D"]


@pytest.mark.fact("3")
def test_json_parse_caps_each_string_and_not_the_document(client: Client, bucket: Bucket) -> None:
    table = client.table("c super, v varchar(max), w varchar(max)")
    client.copy(f"{table} (v, w)", bucket.manifest_of(pa.table({"v": ["x" * 60000], "w": ["y" * 60000]})))

    client.run(f"update {table} set c = json_parse('[\"' || v || '\",\"' || w || '\"]')")

    assert client.refused(f"select json_parse('[\"' || v || w || '\"]') from {table}")["M"].startswith(
        "String value exceeds"
    )


@pytest.mark.stricter
@pytest.mark.fact("11.6")
def test_text_constant_never_becomes_json_by_itself(client: Client) -> None:
    table = client.table("c super")

    client.refused(f"insert into {table} values ('{{\"a\": 1}}')")
    client.refused(f"insert into {table} values (%s)", ("{}",))
    client.run(f"insert into {table} values (json_parse(%s))", ("{}",))

    assert client.rows(f"select c from {table}") == [["{}"]]


@pytest.mark.fact("1.5")
def test_counts_of_the_last_copy(client: Client, bucket: Bucket) -> None:
    table = client.table("c varchar(3)")
    client.copy(table, bucket.manifest_of(texts("a", "b")))
    first = client.value("select pg_last_copy_id()")

    client.refused(f"copy {table} from 's3://lake/x' iam_role default format as parquet gzip")
    assert client.value("select pg_last_copy_count()") == 2
    assert client.value("select pg_last_copy_id()") == first

    client.copy_refused(table, bucket.manifest_of(texts("long")))
    assert client.value("select pg_last_copy_count()") == 0
    assert client.value("select pg_last_copy_id()") > first


@pytest.mark.fact("1.5")
def test_copy_rolls_back_with_the_statements_beside_it(clients: Clients, bucket: Bucket) -> None:
    client = clients(autocommit=False)
    manifest = bucket.manifest_of(texts("a"))

    client.run("create table rolled_back (c varchar(3))")
    client.copy("rolled_back", manifest)
    client.connection.rollback()

    assert client.value("select count(*) from pg_table_def where tablename = 'rolled_back'") == 0


@pytest.mark.fact("1.5")
def test_failed_copy_fails_its_transaction(clients: Clients, bucket: Bucket) -> None:
    client = clients()
    table = client.table("c varchar(3)")
    client.run("begin")
    client.run(f"insert into {table} values ('a')")

    client.copy_refused(table, bucket.manifest_of(texts("long")))

    assert client.refused("select 1")["C"] == "25P02"
    client.run("rollback")
    assert client.value(f"select count(*) from {table}") == 0


@pytest.mark.fact("1.5")
def test_copied_rows_are_seen_by_others_only_after_commit(clients: Clients, bucket: Bucket) -> None:
    client, reader = clients(), clients()
    table = client.table("c varchar(3)")
    client.run("begin")
    client.copy(table, bucket.manifest_of(texts("a", "b")))

    before = reader.value(f"select count(*) from {table}")
    client.run("commit")

    assert (before, reader.value(f"select count(*) from {table}")) == (0, 2)


@pytest.mark.fact("2.3")
def test_s3_out_of_reach_is_an_error_to_try_again(client: Client, bucket: Bucket) -> None:
    location, size = bucket.parquet(texts("a"))
    gone = bucket.manifest([entry(location.replace("lake", "no-such-bucket"), size)])

    assert client.copy_refused(client.table("c varchar(3)"), gone)["M"].startswith("Spectrum Scan Error")


@pytest.mark.fact("3")
def test_decimal_of_19_digits_holds_what_eight_bytes_hold(client: Client, bucket: Bucket) -> None:
    def file(*values: str) -> pa.Table:
        return pa.table({"c": pa.array([Decimal(v) for v in values], pa.decimal128(19, 4))})

    table = client.table("c decimal(19,4)")

    assert client.copy(table, bucket.manifest_of(file("922337203685477.5807", "-922337203685477.5807"))) == 2
    client.copy_refused(table, bucket.manifest_of(file("1", "922337203685477.5808")))
    client.copy_refused(table, bucket.manifest_of(file("-999999999999999.9999")))

    assert "out of range" in client.load_error()


@pytest.mark.fact("2.1")
@pytest.mark.parametrize("column", ["timestamp", "timestamptz"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+05:30"])
def test_zone_that_only_arrow_knows_changes_no_instant(client: Client, bucket: Bucket, column: str, zone: str) -> None:
    """The file holds microseconds in UTC; the zone stands in pyarrow's own note, which Redshift does not read."""
    table = client.table(f"c {column}")
    file = pa.table({"c": pa.array([dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC)], pa.timestamp("us", zone))})

    client.copy(table, bucket.manifest_of(file))

    assert client.value(f"select to_char(c, 'YYYY-MM-DD HH24:MI') from {table}") == "2024-07-01 12:00"


@pytest.mark.fact("3")
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_zone_of_the_session_changes_no_instant(client: Client, bucket: Bucket, zone: str | None) -> None:
    table = client.table("c timestamptz")
    kind = pa.timestamp("us", zone)
    file = pa.table({"c": pa.array([1_719_835_200_000_000], pa.int64()).cast(kind)})
    client.run("set timezone to 'Europe/Berlin'")

    client.copy(table, bucket.manifest_of(file, use_deprecated_int96_timestamps=zone is None))

    assert client.value(f"select c from {table}") == dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC)


@pytest.mark.fact("2.1")
@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array(["a", "b"], pa.large_string()),
        pa.array(["a", "b"], pa.string_view()),
    ],
)
def test_note_of_arrow_on_a_string_is_not_read(client: Client, bucket: Bucket, array: pa.Array) -> None:
    table = client.table("c varchar(1)")

    assert client.copy(table, bucket.manifest_of(pa.table({"c": array}))) == 2
    assert client.rows(f"select c from {table} order by c") == [["a"], ["b"]]


@pytest.mark.stricter
@pytest.mark.fact("11.6")
@pytest.mark.parametrize(
    "array",
    [
        pa.array([{"x": float("nan")}]),
        pa.array([[float("inf")]]),
        pa.array([{"x": "a\0b"}]),
        pa.array([[(1, 2)]], pa.map_(pa.int32(), pa.int32())),
        pa.array([[{"y": [(True, "z")]}]], pa.list_(pa.struct([("y", pa.map_(pa.bool_(), pa.string()))]))),
        pa.array([{"x": b"bytes"}]),
    ],
)
def test_nested_value_that_json_cannot_say_is_refused(client: Client, bucket: Bucket, array: pa.Array) -> None:
    client.copy_refused(client.table("c super"), bucket.manifest_of(pa.table({"c": array})), words=JSON)

    assert client.value("select 1") == 1


@pytest.mark.fact("2.3")
def test_invalid_utf8_inside_a_nested_value_is_refused(client: Client, bucket: Bucket) -> None:
    strings = pa.Array.from_buffers(pa.string(), 1, pa.array([b"a\xa4b"], pa.binary()).buffers())
    file = pa.table({"c": pa.StructArray.from_arrays([strings], ["x"])})

    client.copy_refused(client.table("c super"), bucket.manifest_of(file), words=JSON)

    assert "invalid or unsupported UTF-8" in client.load_error()


@pytest.mark.fact("11.6")
def test_map_without_entries_is_an_object(client: Client, bucket: Bucket) -> None:
    table = client.table("n integer, c super")
    maps = pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int32()))

    client.copy(table, bucket.manifest_of(pa.table({"n": pa.array([1, 2, 3], pa.int32()), "c": maps})), words=JSON)

    assert client.rows(f"select c from {table} order by n") == [['{"k":1}'], ["{}"], [None]]


@pytest.mark.fact("1.4")
def test_row_of_bytes_is_measured_in_bytes(client: Client, bucket: Bucket) -> None:
    table = client.table("c varbyte(16777216)")

    client.copy(table, bucket.manifest_of(pa.table({"c": pa.array([b"x" * (4 << 20)], pa.binary())})))
    client.copy_refused(table, bucket.manifest_of(pa.table({"c": pa.array([b"x" * ((4 << 20) + 1)], pa.binary())})))

    assert client.value(f"select octet_length(c) from {table}") == 4 << 20


@pytest.mark.fact("1.4")
def test_numbers_count_in_the_length_of_a_row(client: Client, bucket: Bucket) -> None:
    file = pa.table({"n": pa.array([1], pa.int64()), "c": pa.array([b"x" * ((4 << 20) - 7)], pa.binary())})

    client.copy_refused(client.table("n bigint, c varbyte(16777216)"), bucket.manifest_of(file))

    assert "a row is longer than 4194304 bytes" in client.load_error()


@pytest.mark.fact("11.12")
def test_a_copy_that_fails_in_a_transaction_says_why_and_lets_it_fail(client: Client, bucket: Bucket) -> None:
    table = client.table("c varchar(1)")
    location = bucket.manifest_of(texts("ab"))
    client.run("begin")

    refused = client.copy_refused(table, location)

    assert refused["M"] == "Spectrum Scan Error"
    assert client.copy_refused(table, location)["C"] == "25P02"
    client.run("rollback")
