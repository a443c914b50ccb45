"""Everything killed at once, again and again: no process left, no broken state, nothing acknowledged lost."""

import signal
from pathlib import Path

import pytest
import redshift_connector

from syncd.concurrency.thread_helpers import wait_until
from syncd.sandbox.process import ProcessId, find_marked
from syncd.sandbox.running_sandbox import Sandbox
from syncd.sandbox.shop.shop_setup import ensure_shop
from syncd.sandbox.shop.writer import ShopWriter
from syncd.sandbox.supervisor import ServiceState
from syncd.sandbox.warehouse import RedshiftAddress

pytestmark = pytest.mark.services


def marked(directory: Path) -> list[ProcessId]:
    return [process for _, process in find_marked(f"@{directory}")]


def kill_everything(directory: Path) -> None:
    processes = marked(directory)
    for process in processes:
        process.send(signal.SIGKILL)
    assert wait_until(lambda: not any(process.is_alive() for process in processes), timeout_seconds=60)
    assert marked(directory) == []


def landed(warehouse: RedshiftAddress, number: int) -> list[int]:
    """The rounds that the warehouse remembers; then this one is committed too."""
    with redshift_connector.connect(
        host=warehouse.host,
        port=warehouse.port,
        user=warehouse.user,
        password=warehouse.password,
        database=warehouse.database,
        ssl=False,
    ) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE IF NOT EXISTS rounds (number INT)")
        cursor.execute("SELECT number FROM rounds ORDER BY number")
        found = [row[0] for row in cursor.fetchall()]
        cursor.execute("INSERT INTO rounds VALUES (%s)", (number,))
        connection.commit()
    return found


def play(directory: Path, environ: dict[str, str], rounds: int) -> None:
    box = Sandbox(directory, environ=environ)
    rows = 0
    for number in range(rounds):
        assert all(found.started_now for found in box.up())
        shop = ensure_shop(box.directory, box.mysql, orders=200, seed=1, is_external=False)
        assert shop.seeded_now is (number == 0)
        with box.mysql.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE IF NOT EXISTS rounds (number INT PRIMARY KEY)")
            cursor.execute("SELECT number FROM rounds ORDER BY number")
            assert [row[0] for row in cursor.fetchall()] == list(range(number))
            cursor.execute("INSERT INTO rounds VALUES (%s)", (number,))
            cursor.execute("SELECT COUNT(*) FROM orders")
            (count,) = cursor.fetchone()
        assert count >= rows
        assert landed(box.redshift, number) == list(range(number))
        client = box.s3.make_client()
        listed = client.list_objects_v2(Bucket=box.s3.bucket).get("Contents", [])
        assert [item["Key"] for item in listed] == [f"round/{n:02}" for n in range(number)]
        client.put_object(Bucket=box.s3.bucket, Key=f"round/{number:02}", Body=b"x" * number)
        with ShopWriter(box.mysql, rate=500, seed=number) as writer:
            assert wait_until(lambda: writer.summary().transactions >= 20, timeout_seconds=120)
            kill_everything(box.directory)
            done = writer.stop()
        assert {found.state for found in box.status()} == {ServiceState.KILLED}
        rows = count + done.inserted.get("orders", 0) - done.deleted.get("orders", 0)
        rows -= done.unknown  # each of them may have deleted one
    box.up()
    box.down()
    assert marked(box.directory) == []


@pytest.mark.slow
def test_two_rounds(tmp_path: Path, environ: dict[str, str]) -> None:
    play(tmp_path / "box", environ, rounds=2)


@pytest.mark.long
def test_twenty_rounds(tmp_path: Path, environ: dict[str, str]) -> None:
    play(tmp_path / "box", environ, rounds=20)


@pytest.mark.slow
def test_rounds_of_mysql_itself(own: Sandbox) -> None:
    for number in range(3):
        with own.mysql.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE IF NOT EXISTS rounds (number INT PRIMARY KEY)")
            cursor.execute("INSERT INTO rounds VALUES (%s)", (number,))
        kill_everything(own.directory)

        own.up()

        with own.mysql.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM rounds")
            assert cursor.fetchone() == (number + 1,)
