"""A daemon tells systemd, people, sensors and its log what it does, while it does it."""

import json
import re
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon.conftest import Place
from tests.integration.tell.test_webhook import TOKEN, Hook, running, says
from tests.services.daemon import DaemonProcess, until

pytestmark = pytest.mark.services


def events(daemon: DaemonProcess, name: str) -> list[dict[str, Any]]:
    """What its log says of one kind; each line that begins as a document has to be one."""
    lines = [json.loads(line) for line in list(daemon.lines) if line.startswith("{")]
    return [line for line in lines if line["event"] == name]


def test_everybody_is_told(place: Place, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, running(says(200)) as hook:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(120)
        place.daemon_words = f"stop_timeout: 20s, markers: true, notify: ['{hook.url.value}']"
        table = place.table(3)
        daemon = place.daemon(wait=False, NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="30000000")

        told = [manager.recv(4096).decode()]
        while not told[-1].startswith("STATUS="):
            told.append(manager.recv(4096).decode())
        place.comes_equal()
        until(lambda: marker(place, table) is not None, "a marker")
        place.sql(f"RENAME TABLE {table} TO {table}_gone")
        hook.wait_for(1)
        daemon.signal(signal.SIGTERM)
        assert daemon.ends() == 0, daemon.said

    assert told[0] == "READY=1"
    assert {"WATCHDOG=1", "STATUS=1 tables, 0 incidents open"} <= set(told)
    landed = [line for line in events(daemon, "pass.ended") if line["stage"] == "load" and line["rows"] == 3]
    assert landed
    assert landed[0]["complete_up_to"]
    found = marker(place, table)
    assert found is not None
    assert (found["batch"] or "")[:2] == "1-"
    assert (hook.sent[0]["state"], hook.sent[0]["cause"]) == ("opened", "source_unfit")
    assert hook.sent[0]["streams"] == [f"mysql/shop.{table}"]
    assert events(daemon, "incident.opened")
    assert TOKEN not in daemon.said


@pytest.mark.slow
def test_whoever_keeps_a_promise_from_being_kept_is_named_until_it_is_over(place: Place) -> None:
    with running(says(200)) as hook, place.box.mysql.connect(database="shop") as writer:
        place.daemon_words = f"stop_timeout: 20s, notify: ['{hook.url.value}']"
        place.words = "every: 500ms, fresh_within: 5s"
        table = place.table(3)
        place.daemon()
        place.comes_equal()
        sent = len(hook.sent)  # a promise may have been broken until there was something
        writer.begin()
        with writer.cursor() as cursor:
            cursor.execute(f"UPDATE {table} SET body = 'late' WHERE id = 1")
            cursor.execute("SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1)")
            [(user,)] = cursor.fetchall()
        until(lambda: bool(held(hook, sent)), "an incident that names a transaction")
        place.insert(table, 1)
        opened = held(hook, sent)[0]
        assert re.search(rf"held by transaction \d+, user {user}, since ", opened["message"]), opened
        assert opened["component"] == "source mysql"
        writer.commit()
        until(lambda: "closed" in {one["state"] for one in held(hook, sent)}, "its end")
        place.comes_equal()


def held(hook: Hook, after: int) -> list[dict[str, Any]]:
    return [one for one in hook.sent[after:] if one["cause"] == "held_transaction"]


def marker(place: Place, table: str) -> dict[str, Any] | None:
    """What the newest marker of a table says."""
    s3 = place.box.s3
    client = s3.make_client()
    key = f"daemon{place.number}/markers/mysql/shop.{table}/latest.json"
    found = client.list_objects_v2(Bucket=s3.bucket, Prefix=key)
    if not found["KeyCount"]:
        return None
    told: dict[str, Any] = json.loads(client.get_object(Bucket=s3.bucket, Key=key)["Body"].read())
    return told
