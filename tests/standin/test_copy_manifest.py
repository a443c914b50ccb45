"""What a manifest must say, and what COPY makes of its files."""

import json

import pyarrow as pa
import pytest

from tests.standin.clients import Bucket, Client, entry

pytestmark = [pytest.mark.services, pytest.mark.fact("11.2")]
NUMBERS = pa.table({"a": pa.array([1, 2], pa.int32())})


@pytest.fixture
def table(client: Client) -> str:
    return client.table("a integer")


def test_entry_without_meta_is_refused_with_the_servers_sentence(client: Client, bucket: Bucket, table: str) -> None:
    location, _ = bucket.parquet(NUMBERS)

    refused = client.copy_refused(table, bucket.manifest([{"url": location, "mandatory": True}]))

    assert refused["C"] == "XX000"
    assert refused["M"] == "Spectrum Scan Error"
    assert "code:      15003" in refused["D"]
    assert "File entry does not have 'meta' key." in refused["D"]
    assert "spectrum_manifest.cpp" in refused["D"]


@pytest.mark.parametrize("meta", [{}, {"content_length": "12"}, {"content_length": True}, None])
def test_entry_without_a_length_is_refused(client: Client, bucket: Bucket, table: str, meta: object) -> None:
    location, _ = bucket.parquet(NUMBERS)

    refused = client.copy_refused(table, bucket.manifest([{"url": location, "mandatory": True, "meta": meta}]))

    assert "15003" in refused["D"]


@pytest.mark.stricter
@pytest.mark.parametrize("wrong", [-1, 1])
def test_wrong_length_is_refused_though_redshift_is_silent_on_it(
    client: Client, bucket: Bucket, table: str, wrong: int
) -> None:
    location, size = bucket.parquet(NUMBERS)

    client.copy_refused(table, bucket.manifest([entry(location, size + wrong)]))

    assert client.value(f"select count(*) from {table}") == 0


def test_missing_mandatory_file_loads_no_row(client: Client, bucket: Bucket, table: str) -> None:
    location, size = bucket.parquet(NUMBERS)
    entries = [entry(location, size), entry(bucket.at("absent.parquet"), 10)]

    refused = client.copy_refused(table, bucket.manifest(entries))

    assert (refused["C"], refused["M"]) == ("XX000", "Spectrum Scan Error: File not found")
    assert client.value(f"select count(*) from {table}") == 0


def test_missing_optional_file_is_passed_over(client: Client, bucket: Bucket, table: str) -> None:
    location, size = bucket.parquet(NUMBERS)
    entries = [entry(bucket.at("absent.parquet"), 10, mandatory=False), entry(location, size)]

    assert client.copy(table, bucket.manifest(entries)) == 2


def test_mandatory_is_false_unless_said(client: Client, bucket: Bucket, table: str) -> None:
    location, size = bucket.parquet(NUMBERS)
    absent = {"url": bucket.at("absent.parquet"), "meta": {"content_length": 10}}

    assert client.copy(table, bucket.manifest([absent, entry(location, size)])) == 2


def test_no_file_found_at_all_is_an_error(client: Client, bucket: Bucket, table: str) -> None:
    client.copy_refused(table, bucket.manifest([entry(bucket.at("absent.parquet"), 10, mandatory=False)]))
    client.copy_refused(table, bucket.manifest([]))


def test_file_named_twice_is_loaded_twice(client: Client, bucket: Bucket, table: str) -> None:
    location, size = bucket.parquet(NUMBERS)

    assert client.copy(table, bucket.manifest([entry(location, size)] * 2)) == 4


@pytest.mark.parametrize("url", ["s3a://lake/a.parquet", "s3n://lake/a.parquet", "lake/a.parquet", "", None])
def test_address_must_be_a_full_s3_address(client: Client, bucket: Bucket, table: str, url: object) -> None:
    client.copy_refused(table, bucket.manifest([{"url": url, "mandatory": True, "meta": {"content_length": 1}}]))


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b'{"entries": {}}', b'{"entries": [1]}', json.dumps({"entries": []}).encode("utf-16")],
)
def test_malformed_manifest_fails_the_copy(client: Client, bucket: Bucket, table: str, body: bytes) -> None:
    client.copy_refused(table, bucket.put("copy/malformed.manifest", body))


def test_missing_manifest_fails_the_copy(client: Client, bucket: Bucket, table: str) -> None:
    assert "NoSuchKey" in client.copy_refused(table, bucket.at("copy/absent.manifest"))["M"]


def test_double_slash_in_a_key_is_another_key(client: Client, bucket: Bucket, table: str) -> None:
    location, size = bucket.parquet(NUMBERS)

    refused = client.copy_refused(table, bucket.manifest([entry(location.replace("data/", "data//"), size)]))

    assert refused["M"] == "Spectrum Scan Error: File not found"


def test_equals_sign_of_a_key_is_escaped_in_messages(client: Client, bucket: Bucket, table: str) -> None:
    client.copy_refused(table, bucket.manifest([entry(bucket.at("day=1/a.parquet"), 9)]))

    assert "/day%3D1/a.parquet" in client.load_error()


def test_several_files_load_as_one(client: Client, bucket: Bucket, table: str) -> None:
    assert client.copy(table, bucket.manifest_of(NUMBERS, NUMBERS, NUMBERS)) == 6


def test_failure_in_a_later_file_loads_nothing_of_the_first(client: Client, bucket: Bucket, table: str) -> None:
    wrong = pa.table({"a": pa.array([1], pa.int64())})

    client.copy_refused(table, bucket.manifest_of(NUMBERS, wrong))

    assert client.value(f"select count(*) from {table}") == 0
