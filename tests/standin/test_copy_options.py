"""What COPY may say, and the sentence for each word it may not."""

import pyarrow as pa
import pytest

from tests.standin.clients import Bucket, Client, Clients, entry, ints

pytestmark = pytest.mark.services
NUMBERS = pa.table({"a": pa.array([1, 2], pa.int32())})
KEYS = "access_key_id 'a' secret_access_key 'b'"


@pytest.fixture
def table(client: Client) -> str:
    return client.table("a integer")


@pytest.fixture(scope="module")
def manifest(bucket: Bucket) -> str:
    return bucket.manifest_of(NUMBERS)


@pytest.mark.fact("11.1")
@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("REGION", "region 'us-east-1'"),
        ("COMPUPDATE", "compupdate off"),
        ("COMPROWS", "comprows 1000"),
        ("TRUNCATECOLUMNS", "truncatecolumns"),
        ("ACCEPTANYDATE", "acceptanydate"),
        ("DELIMITER", "delimiter '|'"),
        ("GZIP", "gzip"),
        ("NULL", "null as 'x'"),
        ("TIMEFORMAT", "timeformat 'auto'"),
        ("DATEFORMAT", "dateformat 'auto'"),
        ("EMPTYASNULL", "emptyasnull"),
        ("BLANKSASNULL", "blanksasnull"),
        ("ESCAPE", "escape"),
        ("IGNOREHEADER", "ignoreheader 1"),
        ("IGNOREALLERRORS", "ignoreallerrors"),
        ("ROUNDEC", "roundec"),
        ("ENCODING", "encoding utf8"),
        ("NOLOAD", "noload"),
        ("MAXERROR", "maxerror 1"),
    ],
)
def test_word_that_parquet_does_not_take_is_refused_by_name(
    client: Client, table: str, manifest: str, word: str, text: str
) -> None:
    refused = client.copy_refused(table, manifest, words=f"format as parquet manifest {text}")

    assert refused["C"] == "0A000"
    assert refused["M"] == f"{word} argument is not supported for PARQUET based COPY"


@pytest.mark.fact("11.1")
@pytest.mark.parametrize(
    "words",
    [
        "format as parquet manifest",
        "format parquet manifest",
        "parquet manifest",
        "manifest format as parquet",
        "format as parquet manifest statupdate off",
        "format as parquet manifest statupdate on",
        "format as parquet manifest maxerror 0",
        "format as parquet manifest fillrecord",
        "format as parquet manifest serializetojson",
        "format as parquet manifest explicit_ids",
        "format as parquet manifest acceptinvchars",
        "format as parquet manifest acceptinvchars as '^'",
    ],
)
def test_every_spelling_in_use_loads(client: Client, table: str, manifest: str, words: str) -> None:
    assert client.copy(table, manifest, words=words) == 2


@pytest.mark.fact("11.1")
def test_unknown_word_is_a_syntax_error(client: Client, table: str, manifest: str) -> None:
    assert client.copy_refused(table, manifest, words="format as parquet manifest quickly")["C"] == "42601"


@pytest.mark.fact("11.2")
@pytest.mark.parametrize(
    "role",
    [
        "iam_role default",
        "iam_role 'arn:aws:iam::123456789012:role/a,arn:aws:iam::123456789012:role/b'",
        "credentials 'aws_iam_role=arn:aws:iam::123456789012:role/a'",
        "credentials 'aws_access_key_id=a;aws_secret_access_key=b'",
        "credentials 'aws_access_key_id=a;aws_secret_access_key=b;token=c'",
        KEYS,
        f"{KEYS} session_token 'c'",
    ],
)
def test_every_form_of_authorisation_loads(client: Client, table: str, manifest: str, role: str) -> None:
    assert client.copy(table, manifest, role=role) == 2


@pytest.mark.fact("11.2")
@pytest.mark.parametrize(
    "role",
    [
        "",
        "iam_role 'load'",
        "credentials 'aws_iam_role=load'",
        "credentials 'aws_access_key_id=a; aws_secret_access_key=b'",
        f"iam_role default {KEYS}",
    ],
)
def test_missing_malformed_or_double_authorisation_is_refused(
    client: Client, table: str, manifest: str, role: str
) -> None:
    client.copy_refused(table, manifest, role=role)

    assert client.value(f"select count(*) from {table}") == 0


@pytest.mark.fact("11.8")
def test_copy_from_stdin_is_refused(client: Client, table: str) -> None:
    assert client.refused(f"copy {table} from stdin")["C"] == "0A000"


@pytest.mark.stricter
@pytest.mark.fact("1.1")
def test_other_formats_are_refused_and_not_guessed(client: Client, table: str, manifest: str) -> None:
    client.copy_refused(table, manifest, words="format as csv")
    client.copy_refused(table, manifest, words="")


@pytest.mark.stricter
@pytest.mark.fact("1.5")
def test_copy_job_is_refused(client: Client, table: str, manifest: str) -> None:
    client.copy_refused(table, manifest, words="format as parquet job create j auto on")


@pytest.mark.fact("1.3")
def test_location_must_be_on_s3(client: Client, table: str) -> None:
    client.copy_refused(table, "s3a://lake/x.manifest")
    client.copy_refused(table, "emr://lake/x.manifest")


@pytest.mark.fact("1.5")
def test_copy_without_the_right_to_insert_is_refused(
    clients: Clients, client: Client, table: str, manifest: str
) -> None:
    other = clients(user="other", password="Other1")

    refused = other.copy_refused(table, manifest)

    assert refused["C"] == "42501"
    assert refused["M"].startswith("permission denied for relation")
    assert client.value(f"select count(*) from {table}") == 0


@pytest.mark.fact("1.3")
def test_manifest_without_the_word_is_read_as_data_and_fails(client: Client, table: str, manifest: str) -> None:
    assert client.copy_refused(table, manifest, words="format as parquet")["M"] == "Spectrum Scan Error"


@pytest.mark.fact("1.3")
def test_prefix_takes_its_neighbour_too(client: Client, bucket: Bucket, table: str) -> None:
    location, size = bucket.parquet(NUMBERS)
    bucket.put(
        location.removeprefix(bucket.at("")) + ".bak",
        bucket.get(location),
    )
    assert size > 0

    assert client.copy(table, location, words="format as parquet") == 4


@pytest.mark.stricter
@pytest.mark.fact("1.3")
def test_prefix_that_matches_nothing_is_refused(client: Client, bucket: Bucket, table: str) -> None:
    assert "does not exist" in client.copy_refused(table, bucket.at("nothing/"), words="format as parquet")["M"]


@pytest.mark.fact("1.3")
def test_stray_object_under_a_prefix_fails_the_load(client: Client, bucket: Bucket, table: str) -> None:
    location, _ = bucket.parquet(NUMBERS)
    folder = location.removeprefix(bucket.at("")).rpartition("/")[0]
    bucket.put(f"{folder}/_SUCCESS", b"")

    client.copy_refused(table, bucket.at(f"{folder}/"), words="format as parquet")

    assert "invalid version number" in client.load_error()
    assert client.value(f"select count(*) from {table}") == 0


@pytest.mark.fact("1.4")
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd"])
def test_codecs_that_are_known_to_be_read(client: Client, bucket: Bucket, table: str, codec: str) -> None:
    assert client.copy(table, bucket.manifest_of(NUMBERS, compression=codec)) == 2


@pytest.mark.stricter
@pytest.mark.fact("1.4")
@pytest.mark.parametrize(
    "options",
    [
        {"compression": "brotli"},
        {"compression": "lz4"},
        {"data_page_version": "2.0"},
        {"use_dictionary": False, "column_encoding": {"a": "DELTA_BINARY_PACKED"}},
    ],
)
def test_codec_encoding_or_page_without_evidence_is_refused(
    client: Client, bucket: Bucket, table: str, options: dict[str, object]
) -> None:
    client.copy_refused(table, bucket.manifest_of(NUMBERS, **options))

    assert "Unsupported" in client.load_error()


@pytest.mark.stricter
@pytest.mark.fact("1.4")
def test_file_packed_as_a_whole_is_refused(client: Client, bucket: Bucket, table: str) -> None:
    location, size = bucket.parquet(NUMBERS)
    body = bucket.get(location)
    packed = bucket.put("packed/part.parquet.gz", body)

    client.copy_refused(table, bucket.manifest([entry(packed, size)]))


def test_words_are_read_in_any_case_and_with_a_semicolon(client: Client, table: str, manifest: str) -> None:
    client.run(f"COPY {table.upper()} FROM '{manifest}' IAM_ROLE DEFAULT FORMAT AS PARQUET MANIFEST;")

    assert client.value(f"select count(*) from {table}") == 2


@pytest.mark.fact("1.1")
@pytest.mark.parametrize("words", ["statupdate off", "statupdate on", "statupdate"])
def test_statupdate_is_for_the_owner(clients: Clients, client: Client, table: str, manifest: str, words: str) -> None:
    client.run(f"grant insert on {table} to other")
    other = clients(user="other", password="Other1")

    refused = other.copy_refused(table, manifest, words=f"format as parquet manifest {words}")

    assert (refused["C"], refused["M"]) == ("42501", f"must be owner of relation {table}")
    assert other.copy(table, manifest) == 2


@pytest.mark.fact("1.5")
def test_count_of_the_last_copy_is_left_by_one_without_the_right(
    clients: Clients, bucket: Bucket, table: str, manifest: str
) -> None:
    other = clients(user="other", password="Other1")
    other.copy(other.table("a integer"), bucket.manifest_of(ints(a=1), ints(a=2)))

    other.copy_refused(table, manifest)

    assert other.value("select pg_last_copy_count()") == 2
