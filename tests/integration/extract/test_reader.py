"""The reader against real servers: every row as it is, or an error that says whose fault it is."""

import io
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from syncd.concurrency.thread_helpers import wait_until
from syncd.errors import LakeDown, LakeUnfit, RowOutsideWindow, SchemaDrift, SourceDown, SourceReplaced, SourceUnfit
from syncd.lake.read_requests import Part, ReadRequest, WindowQuery
from syncd.s3.lake_client import S3Lake
from syncd.sandbox.faults.s3 import S3Fault, S3FaultKind, S3Proxy, S3Request
from syncd.sandbox.faults.tcp import TcpProxy
from syncd.settings import LakeSettings, Secret
from syncd.spark import reader as reader_module
from syncd.spark.pyspark_gateway import narrow_row_session
from syncd.spark.reader import SparkReader
from syncd.spark.spark_session import WarmSparkSession
from tests.services.orders import Orders
from watermarks.cursor import START_CURSOR
from watermarks.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.services

ROWS = 200_000
ReaderOf: TypeAlias = Callable[..., SparkReader]


@pytest.fixture
def reading(orders: Orders, nonce: str) -> ReadRequest:
    return orders.reading(nonce)


def rows_of(lake: S3Lake, parts: Iterable[Part]) -> pa.Table:
    def one(part: Part) -> pa.Table:
        body = lake.client.get_object(Bucket=lake.settings.bucket, Key=lake.object_name(part.key))["Body"].read()
        assert len(body) == part.bytes
        return pq.read_table(io.BytesIO(body))

    return pa.concat_tables([one(part) for part in parts])


def plain(value: Any) -> Any:
    """The same value, whichever way it was read: wall clocks without a zone, documents as text."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return value.decode() if isinstance(value, bytes) else value


def told_by_pymysql(orders: Orders) -> dict[str, list[Any]]:
    names = [passage.column for passage in orders.passages]
    shown = {"flags": "flags + 0", "deliver_by": "CAST(deliver_by AS CHAR)", "details": "CAST(details AS CHAR)"}
    with orders.address.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(shown.get(name, name) for name in names)} FROM orders ORDER BY id")
        return dict(zip(names, map(list, zip(*cursor.fetchall(), strict=True)), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["mysql", pytest.param("mariadb", marks=pytest.mark.long)])
def test_every_row_arrives_as_pymysql_reads_it(
    driver: str, reader_of: ReaderOf, orders: Orders, lake: S3Lake, nonce: str
) -> None:
    reader = reader_of(driver=driver)
    heard: list[int] = []

    read = reader.read(orders.reading(nonce), tell=heard.append)

    found = rows_of(lake, read.parts).sort_by("id")
    for name, values in told_by_pymysql(orders).items():
        column = found.column(name).to_pylist()
        assert list(map(plain, column)) == list(map(plain, values)), name
    assert heard[-1] == found.num_rows == ROWS


def test_windows_read_side_by_side_make_parts_that_abut(reader: SparkReader, orders: Orders, nonce: str) -> None:
    read = reader.read(orders.reading(nonce))

    first, second = read.parts
    assert first.rows + second.rows == ROWS
    assert first.high == orders.ends[0] < second.low
    assert second.high == orders.ends[1]
    assert [part.key.split("/")[-1].startswith(f"{at:05d}.000-{nonce}-") for at, part in enumerate(read.parts)] == [
        True
    ] * 2


def test_a_window_rolls_to_the_next_part_when_one_is_large(
    reader: SparkReader, orders: Orders, lake: S3Lake, nonce: str
) -> None:
    read = reader.read(orders.reading(nonce, part_bytes=1 << 20))

    assert len(read.parts) > 4
    assert max(part.bytes for part in read.parts) < 3 << 20
    assert all(left.high < right.low for left, right in zip(read.parts, read.parts[1:], strict=False))
    assert rows_of(lake, read.parts).num_rows == ROWS


def test_wide_rows_among_narrow_ones_are_read_and_from_then_on_all_are_weighed(
    reader: SparkReader, orders: Orders, lake: S3Lake, nonce: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that travel in more bytes than a narrow row may have end a reading that weighs none."""
    [note] = [passage.select for passage in orders.passages if passage.name == "note"]
    wide = f"IF(id % 1000 = 0, REPEAT('w', 60000), {note}) AS `note`"
    query = orders.query(Window(START_CURSOR, orders.ends[1]))
    statement = query.sql.replace(f"{note} AS `note`", wide)
    assert statement != query.sql
    began = list[object]()

    def counted(spark: "SparkSession") -> "SparkSession":
        began.append(spark)
        return narrow_row_session(spark)

    monkeypatch.setattr(reader_module, "narrow_row_session", counted)
    reading = orders.reading(nonce, queries=(replace(query, sql=statement),))

    found = rows_of(lake, reader.read(reading).parts)
    again = reader.read(replace(reading, nonce=f"{nonce}a"))

    notes = dict(zip(found.column("id").to_pylist(), found.column("note").to_pylist(), strict=True))
    assert len(notes) == ROWS
    assert {key for key, note in notes.items() if note == "w" * 60_000} == {*map(Decimal, range(1000, ROWS + 1, 1000))}
    assert sum(part.rows for part in again.parts) == ROWS
    assert len(began) == 1
    assert "Uploads" not in lake.client.list_multipart_uploads(Bucket=lake.settings.bucket)


def test_a_window_without_rows_has_no_part(reader: SparkReader, orders: Orders, nonce: str) -> None:
    whole = Window(START_CURSOR, orders.ends[1])
    nothing = WindowQuery(window=whole, sql=f"{orders.query(whole).sql} AND update_at < '2000-01-01'")

    read = reader.read(orders.reading(nonce, queries=(nothing,)))

    assert read.parts == ()


def test_a_statement_with_limit_is_read_as_it_is(reader: SparkReader, orders: Orders, nonce: str) -> None:
    statement = orders.query(Window(START_CURSOR, orders.ends[1])).sql
    query = WindowQuery(window=None, sql=f"{statement} ORDER BY update_at LIMIT 7")

    read = reader.read(orders.reading(nonce, queries=(query,)))

    assert [part.rows for part in read.parts] == [7]


def test_a_row_outside_of_its_window_is_an_error(reader: SparkReader, orders: Orders, nonce: str) -> None:
    whole, half = Window(START_CURSOR, orders.ends[1]), Window(START_CURSOR, orders.ends[0])

    with pytest.raises(RowOutsideWindow, match="outside the window"):
        reader.read(orders.reading(nonce, queries=(orders.query(whole, told=half),)))


def test_another_server_is_known_on_the_reading_connection(reader: SparkReader, orders: Orders, nonce: str) -> None:
    for other in ("elsewhere:3306:1763480000", "30d038d9-0000-0000-0000-02fc00000001"):
        with pytest.raises(SourceReplaced):
            reader.read(orders.reading(nonce, server_identity=other))


def test_a_column_that_is_gone_is_drift(reader: SparkReader, orders: Orders, nonce: str) -> None:
    query = WindowQuery(window=None, sql="SELECT CAST(no_such AS SIGNED) AS id FROM shop.orders")

    with pytest.raises(SchemaDrift, match="no_such"):
        reader.read(orders.reading(nonce, queries=(query,)))


def test_a_wrong_password_is_told_without_being_shown(reader_of: ReaderOf, orders: Orders, nonce: str) -> None:
    reader = reader_of(password=Secret("not-the-0ne"))

    with pytest.raises(SourceUnfit) as caught:
        reader.read(orders.reading(nonce))

    assert "not-the-0ne" not in f"{caught.value!r} {caught.value.hint} {caught.value.facts}"


def test_a_connection_killed_while_it_is_read_is_an_error_and_leaves_no_upload_open(
    reader: SparkReader, orders: Orders, lake: S3Lake, nonce: str
) -> None:
    def kill() -> None:
        assert wait_until(lambda: _kill_readers(orders) > 0, timeout_seconds=60)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(SourceDown):
        reader.read(orders.reading(nonce))
    killer.join()

    assert lake.abort_uploads(f"data/orders/{nonce}/", mine=lambda key: nonce in key) == 0


def _kill_readers(orders: Orders) -> int:
    with orders.address.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM information_schema.processlist"
            " WHERE info LIKE 'SELECT %FORCE%AS q%' AND info NOT LIKE '%WHERE 1=0%' AND id <> CONNECTION_ID()"
        )
        found = [row[0] for row in cursor.fetchall()]
        for one in found:
            cursor.execute(f"KILL {one:d}")
        return len(found)


def test_a_line_that_goes_dead_ends_after_the_silence_that_is_allowed(
    reader_of: ReaderOf, orders: Orders, nonce: str
) -> None:
    with TcpProxy(orders.address.port) as line:
        reader = reader_of(port=line.port, silence=timedelta(seconds=3))
        line.freeze()

        with pytest.raises(SourceDown):
            reader.read(orders.reading(nonce))


def test_a_reading_that_takes_too_long_is_given_up_by_the_server(
    reader_of: ReaderOf, orders: Orders, nonce: str
) -> None:
    reader = reader_of(longest_read=timedelta(seconds=1))
    # Of one row, MySQL would make a constant while Spark only asks for the names: bounded by `silence` alone.
    pairs = "shop.orders AS a JOIN shop.orders AS b ON a.note > b.note"
    slow = WindowQuery(window=None, sql=f"SELECT CAST(a.id AS SIGNED) AS id FROM {pairs} ORDER BY b.note LIMIT 2")

    with pytest.raises(SourceDown, match=r"(?i)max|interrupted"):
        reader.read(orders.reading(nonce, queries=(slow,)))


def _writes(request: S3Request) -> bool:
    return request.method in {"PUT", "POST"}


@pytest.mark.parametrize(
    ("fault", "group"),
    [
        (S3Fault(kind=S3FaultKind.ERROR, status=503, code="SlowDown", matches=_writes, times=99), LakeDown),
        (S3Fault(kind=S3FaultKind.CUT, matches=_writes, times=99), LakeDown),
        (S3Fault(kind=S3FaultKind.ERROR, status=403, code="AccessDenied", matches=_writes, times=99), LakeUnfit),
        (S3Fault(kind=S3FaultKind.ERROR, status=404, code="NoSuchBucket", matches=_writes, times=99), LakeUnfit),
    ],
    ids=["slow down", "cut", "denied", "no bucket"],
)
def test_a_lake_that_refuses_is_told_by_its_group(
    fault: S3Fault, group: type[Exception], reader_of: ReaderOf, reading: ReadRequest, settings: LakeSettings
) -> None:
    with S3Proxy(str(settings.endpoint)) as proxy:
        proxy.inject(fault)

        with pytest.raises(group):
            reader_of(lake=S3Lake.from_settings(replace(settings, endpoint=proxy.endpoint))).read(reading)


def test_a_lost_answer_to_the_last_write_is_settled_by_looking(
    reader_of: ReaderOf, reading: ReadRequest, settings: LakeSettings, lake: S3Lake
) -> None:
    with S3Proxy(str(settings.endpoint)) as proxy:
        lost = proxy.inject(S3Fault(kind=S3FaultKind.LOST, matches=_writes, times=2))

        read = reader_of(lake=S3Lake.from_settings(replace(settings, endpoint=proxy.endpoint))).read(reading)

    assert len(lost.matched_requests) == 2
    assert rows_of(lake, read.parts).num_rows == ROWS


def _at(settings: LakeSettings, proxy: S3Proxy) -> LakeSettings:
    return LakeSettings(bucket=settings.bucket, prefix=settings.prefix, region=settings.region, endpoint=proxy.endpoint)


def test_the_password_is_on_no_command_line_and_in_no_log(
    reader: SparkReader, session: WarmSparkSession, orders: Orders, nonce: str
) -> None:
    reader.read(orders.reading(nonce, windows=[Window(START_CURSOR, orders.ends[0])]))
    password = orders.address.password

    assert password not in session.jvm_output
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        told = process.read_bytes() if process.exists() else b""
        if b"SparkSubmit" in told or b"pyspark" in told:
            assert password.encode() not in told
