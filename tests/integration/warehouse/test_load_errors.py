"""A COPY that failed, told as stream, file, column, reason and next command."""

import time
from collections.abc import Iterator
from datetime import timedelta

import pyarrow as pa
import pytest

from syncd.errors import FileRefused, RowRefused, TransactionConflict, WarehouseUnfit
from syncd.redshift.load_errors import LoadErrorReader
from syncd.redshift.session import WarehouseSession
from syncd.sandbox.redshift import CopyStorage, RedshiftStandIn
from tests.integration.warehouse.conftest import Sessions
from tests.standin.clients import Bucket, Client, Clients, entry, ints
from watermarks.errors import HintedError

pytestmark = pytest.mark.services
COPY = "copy {} from '{}' iam_role default format as parquet manifest"


def texts(**columns: str | None) -> pa.Table:
    return pa.table({name: pa.array([value], pa.string()) for name, value in columns.items()})


def failed(session: WarehouseSession, table: str, location: str) -> HintedError:
    """The error of a COPY inside a transaction that is over afterwards."""
    session.begin()
    with pytest.raises(HintedError) as caught:
        session.run(COPY.format(table, location))
    session.rollback()
    return caught.value


@pytest.fixture
def errors(session: WarehouseSession) -> LoadErrorReader:
    return LoadErrorReader(session, wait=lambda _: None, lookup_seconds=0)


def key_of(bucket: Bucket, location: str) -> str:
    return location.removeprefix(f"s3://{bucket.name}/")


def test_value_too_wide_is_told_with_file_column_and_sizes(
    session: WarehouseSession, errors: LoadErrorReader, client: Client, bucket: Bucket
) -> None:
    table = client.table("note varchar(65535)")
    location, size = bucket.parquet(texts(note="x" * 70_000))
    key = key_of(bucket, location)

    error = errors.explain(
        failed(session, table, bucket.manifest([entry(location, size)])), table="shop.orders", keys=[key]
    )

    assert isinstance(error, RowRefused)
    assert (
        error.message == f"shop.orders: file {key}, column note: value of 70,000 bytes, the column takes at most 65,535"
    )
    assert error.hint.endswith("syncd plan -t shop.orders")
    assert (error.facts["file"], error.facts["column"]) == (key, "note")


def test_null_where_none_may_be_names_the_column(
    session: WarehouseSession, errors: LoadErrorReader, client: Client, bucket: Bucket
) -> None:
    table = client.table("a integer not null")

    error = errors.explain(failed(session, table, bucket.manifest_of(ints(a=None))), table="shop.orders")

    assert isinstance(error, RowRefused)
    assert error.facts["column"] == "a"
    assert "Cannot insert a NULL value" in str(error.facts["reason"])


def test_file_of_other_types_is_told_whole_where_the_server_cuts_it(
    session: WarehouseSession, errors: LoadErrorReader, client: Client, bucket: Bucket
) -> None:
    table = client.table("a_column_of_a_long_name bigint")

    raw = failed(session, table, bucket.manifest_of(ints(a_column_of_a_long_name=1)))
    error = errors.explain(raw, table="shop.orders")

    assert isinstance(error, FileRefused)
    assert "Column type: BIGINT, Parquet schema: optional int32 a_column_of_a_long_name" in str(error.facts["reason"])
    assert error.facts["column"] == "a_column_of_a_long_name"
    assert "syncd plan -t shop.orders" in error.hint


def test_file_that_is_gone_is_told_with_its_key(
    session: WarehouseSession, errors: LoadErrorReader, client: Client, bucket: Bucket
) -> None:
    gone = bucket.at("data/gone.parquet")

    error = errors.explain(
        failed(session, client.table("a integer"), bucket.manifest([entry(gone, 100)])), table="shop.orders"
    )

    assert isinstance(error, FileRefused)
    assert error.message.startswith("shop.orders: file data/gone.parquet: File not found")
    assert error.hint.startswith("Restore the file")


def test_each_copy_is_told_its_own_file(session: WarehouseSession, client: Client, bucket: Bucket) -> None:
    errors = LoadErrorReader(session, wait=lambda _: None, lookup_seconds=0)
    table = client.table("a varchar(1)")
    keys = []
    for _ in range(3):
        location, size = bucket.parquet(texts(a="xx"))
        keys.append(key_of(bucket, location))
        error = errors.explain(
            failed(session, table, bucket.manifest([entry(location, size)])), table="t", keys=keys[-1:]
        )
        assert error.facts["file"] == keys[-1]


def test_no_file_is_blamed_for_another_that_the_view_does_not_show_yet(
    session: WarehouseSession, client: Client, bucket: Bucket, server: RedshiftStandIn
) -> None:
    errors = LoadErrorReader(session, wait=lambda _: None, lookup_seconds=0)
    table = client.table("a varchar(1)")
    failed(session, table, bucket.manifest_of(texts(a="xx")))
    server.faults.fail("^copy", "Load into table 't' failed. Check 'stl_load_errors' system table for details.")

    error = errors.explain(failed(session, table, "s3://lake/x"), table="t", keys=["data/mine/part.parquet"])

    assert isinstance(error, FileRefused)
    assert "file" not in error.facts


def test_view_that_comes_late_is_asked_again(session: WarehouseSession, client: Client, bucket: Bucket) -> None:
    table = client.table("a varchar(1)")
    asked: list[float] = []

    def wait(seconds: float) -> None:
        asked.append(seconds)
        if len(asked) == 2:
            failed(session, table, bucket.manifest_of(texts(a="xx")))

    errors = LoadErrorReader(session, wait=wait, lookup_seconds=5, now=iter(range(100)).__next__)
    error = errors.explain(RowRefused("a value", reason="a value"), table="t")

    assert len(asked) == 2
    assert error.facts["column"] == "a"


@pytest.mark.parametrize("trouble", ["closed", "lost", "slow"])
def test_without_the_view_the_error_itself_is_told(  # noqa: PLR0917  # each is a fixture or a parameter
    sessions: Sessions,
    server: RedshiftStandIn,
    client: Client,
    bucket: Bucket,
    trouble: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    session = sessions()
    errors = LoadErrorReader(session, wait=lambda _: None, lookup_seconds=0)
    table = client.table("a varchar(1)")
    raw = failed(session, table, bucket.manifest_of(texts(a="xx")))
    if trouble == "closed":
        server.faults.fail("sys_load_error_detail", "permission denied for relation x", code="42501")
    elif trouble == "lost":
        server.faults.drop("sys_load_error_detail")
    else:
        monkeypatch.setattr("syncd.redshift.load_errors.QUERY_TIMEOUT", timedelta(seconds=0.3))
        server.faults.hold("sys_load_error_detail")

    began = time.monotonic()
    error = errors.explain(raw, table="shop.orders")

    assert time.monotonic() - began < 15, "less than a statement may take"
    assert type(error) is type(raw) is RowRefused
    assert error.message.startswith("shop.orders: ")
    assert error.facts["column"] == "a"


def test_other_errors_are_left_as_they_are(errors: LoadErrorReader) -> None:
    for error in (TransactionConflict("again"), WarehouseUnfit("no right")):
        assert errors.explain(error, table="t") is error


def test_copies_of_others_are_not_looked_at(sessions: Sessions, client: Client, bucket: Bucket) -> None:
    table = client.table("a varchar(1)")
    failed(sessions(), table, bucket.manifest_of(texts(a="xx")))
    errors = LoadErrorReader(sessions(), wait=lambda _: None, lookup_seconds=0)

    error = errors.explain(FileRefused("a file", reason="a file"), table="t")

    assert "column" not in error.facts


@pytest.fixture(autouse=True)
def released(server: RedshiftStandIn) -> Iterator[None]:
    yield
    server.faults.clear()


@pytest.fixture(scope="module")
def provisioned(s3_url: str) -> Iterator[RedshiftStandIn]:
    """A cluster whose user may read the older views."""
    with RedshiftStandIn(lake=CopyStorage(endpoint=s3_url), superuser=True) as running:
        yield running


@pytest.mark.parametrize(
    ("closed", "code"),
    [("permission denied for relation sys_load_error_detail", "42501"),
     ('relation "sys_load_error_detail" does not exist', "42P01"), (None, "")],
)  # fmt: skip
def test_a_provisioned_cluster_tells_by_the_view_that_is_open(
    provisioned: RedshiftStandIn, bucket: Bucket, closed: str | None, code: str
) -> None:
    opened = Sessions(provisioned)
    clients = Clients(provisioned)
    errors = LoadErrorReader(session := opened(), wait=lambda _: None, lookup_seconds=0)
    table = clients().table("note varchar(65535), a integer not null")
    if closed:
        provisioned.faults.fail("sys_load_error_detail", closed, code=code)
    keys: list[str] = []
    told: list[HintedError] = []
    for values in ({"note": "x" * 70_000, "a": 1}, {"note": "x", "a": None}, {"note": "a\0b", "a": 1}):
        rows = pa.table({"note": pa.array([values["note"]]), "a": pa.array([values["a"]], pa.int32())})
        location, size = bucket.parquet(rows)
        keys.append(key_of(bucket, location))
        raw = failed(session, table, bucket.manifest([entry(location, size)]))
        told.append(errors.explain(raw, table="shop.orders", keys=keys[-1:]))
    provisioned.faults.clear()
    opened.close()
    clients.close()

    assert [type(error) for error in told] == [RowRefused] * 3
    assert [(error.facts["file"], error.facts["column"]) for error in told] == list(
        zip(keys, ("note", "a", "note"), strict=True)
    )
    assert (
        told[0].message
        == f"shop.orders: file {keys[0]}, column note: value of 70,000 bytes, the column takes at most 65,535"
    )
    assert "NUL byte" in told[2].message


def test_where_neither_view_is_open_the_error_itself_is_told(
    sessions: Sessions, server: RedshiftStandIn, client: Client, bucket: Bucket
) -> None:
    """As on a serverless workgroup that hides the newer one, too."""
    session = sessions()
    errors = LoadErrorReader(session, wait=lambda _: None, lookup_seconds=0)
    table = client.table("a varchar(1)")
    raw = failed(session, table, bucket.manifest_of(texts(a="xx")))
    server.faults.fail("sys_load_error_detail", "permission denied for relation x", code="42501")

    error = errors.explain(raw, table="shop.orders")

    assert (type(error), error.facts["column"]) == (RowRefused, "a")
