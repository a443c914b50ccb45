"""`syncd daemon` as an operator has it: one process, real servers, signals. One daemon, for a JVM starts slowly."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from syncd.sandbox.running_sandbox import Sandbox
from tests.integration.daemon.conftest import Place
from tests.services.daemon import DaemonProcess, until

pytestmark = pytest.mark.services

WORSE = "  shop.more: {every: '61 * * * *'}\n  shop.other: {after: [nobody]}\n"


def syncd(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "syncd", *words], capture_output=True, text=True, check=False, timeout=600
    )


@pytest.fixture(scope="module")
def place(box: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(box=box, directory=tmp_path_factory.mktemp("place"))
    made.table(rows=5)
    made.table(rows=3)
    yield made
    for one in made.daemons:
        one.kill()


@pytest.fixture(scope="module")
def daemon(place: Place) -> DaemonProcess:
    return place.daemon()


def test_what_is_written_arrives_on_both_sides_by_itself(place: Place, daemon: DaemonProcess) -> None:
    place.comes_equal()

    place.insert(place.tables[0], 4)
    place.sql(f"UPDATE {place.tables[1]} SET body = 'changed' WHERE id = 2")

    place.comes_equal()


def test_a_file_changed_for_the_worse_is_refused_and_work_goes_on(place: Place, daemon: DaemonProcess) -> None:
    place.write(more=WORSE)

    asked = syncd("reload", "-c", str(place.config))
    daemon.signal(signal.SIGHUP)

    assert asked.returncode == 2, asked.stderr
    assert "'61' is not a valid minute" in asked.stderr
    assert "no table 'nobody' is configured" in asked.stderr
    assert "refused" in asked.stdout
    until(lambda: daemon.has_said("the current one stays in force", times=2), "the word on SIGHUP")
    place.insert(place.tables[0], 1)
    place.comes_equal()
    place.write()


@pytest.mark.slow
def test_a_table_that_is_added_is_kept_too_after_a_reload(place: Place, daemon: DaemonProcess) -> None:
    place.table(rows=2)

    asked = syncd("reload", "-c", str(place.config), "--json")

    assert asked.returncode == 0, asked.stderr
    assert '"changed": true' in asked.stdout
    place.comes_equal()


@pytest.mark.slow
def test_a_killed_jvm_is_followed_by_another(place: Place, daemon: DaemonProcess) -> None:
    place.insert(place.tables[0], 1)
    place.comes_equal()
    # The one of before the reload may be writing its archive of classes still.
    until(lambda: len(daemon.java) == 1, "one JVM alone")
    [java] = daemon.java

    os.kill(java, signal.SIGKILL)
    place.insert(place.tables[0], 1)

    place.comes_equal()
    assert daemon.process.poll() is None


def test_a_mark_that_a_person_moves_is_taken_at_the_next_batch(place: Place, daemon: DaemonProcess) -> None:
    table = place.tables[0]
    place.sql("SET time_zone = '+00:00'", f"UPDATE {table} SET body = 'unseen', update_at = '2020-01-01' WHERE id = 1")

    done = syncd(
        "watermark", "set", "-t", table, "-c", str(place.config), "--mysql-only", "--timestamp", "2019-12-31",
        "--reason", "a row was stamped by hand", "--yes",
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    place.comes_equal()
    assert place.watermark(table).required_extract_progress.generation == 2


def test_a_source_that_restarts_is_waited_for(place: Place, daemon: DaemonProcess) -> None:
    place.box.restart("mysql", kill=True)

    place.insert(place.tables[1], 2)

    place.comes_equal()


def test_a_stop_gives_everything_back(place: Place, daemon: DaemonProcess) -> None:
    daemon.signal(signal.SIGTERM)

    assert daemon.ends() == 0, daemon.said
    assert json.loads(daemon.lines[-1])["message"] == "stopped"
    asked = syncd("reload", "-c", str(place.config))
    assert asked.returncode == 2
    assert "no daemon of" in asked.stderr
