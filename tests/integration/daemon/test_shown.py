"""What a daemon at work shows over HTTP, from its first word to a reload, and that it ends where it cannot."""

import json
import re
import signal
import socket
import urllib.error
import urllib.request
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.daemon.conftest import Place
from tests.services.daemon import DaemonProcess, until

pytestmark = pytest.mark.services


def url_of(daemon: DaemonProcess) -> str:
    found = re.search(r"dashboard at (http://[^\s\"]+)", daemon.said)
    assert found, daemon.said
    return found[1]


def got(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def streams(url: str) -> dict[str, dict[str, Any]]:
    return {one["table"]: one for one in json.loads(got(f"{url}api/streams")[1])["streams"]}


def value(url: str, name: str, **labels: str) -> float:
    """The sum of a metric over all series with these labels."""
    families = text_string_to_metric_families(got(f"{url}metrics")[1])
    return sum(
        one.value
        for family in families
        for one in family.samples
        if one.name == name and labels.items() <= one.labels.items()
    )


def test_a_daemon_shows_how_it_stands_and_follows_its_file(place: Place) -> None:
    place.http = "127.0.0.1:0"
    table = place.table()
    daemon = place.daemon()
    url, name = url_of(daemon), f"shop.{table}"

    until(lambda: (streams(url)[name]["complete"] or {}).get("proven") is True, "a proven freshness")
    assert streams(url)[name]["complete"]["lag_seconds"] < 60
    assert got(f"{url}healthz") == (200, '{"status":"ok","reason":null}\n')
    assert got(f"{url}readyz")[0] == 200
    assert name in got(url)[1]
    # Proven is what the first pass read; that nothing is new, only the one after it can say.
    until(lambda: value(url, "syncd_passes_total", stage="extract", state="nothing new") > 0, "a second pass")
    assert value(url, "syncd_s3_requests_total", operation="GetObject") > 0
    assert value(url, "syncd_source_query_seconds_count", purpose="horizon") > 0
    assert value(url, "syncd_source_query_seconds_count", purpose="plan") > 0
    assert 0 <= value(url, "syncd_heartbeat_age_seconds") < 30
    assert 0 <= value(url, "syncd_horizon_held_seconds") < 30

    # Another table comes into the file, and this one goes.
    other = place.table()
    place.tables.remove(table)
    place.write()
    daemon.signal(signal.SIGHUP)
    until(lambda: list(streams(url)) == [f"shop.{other}"], "the other table, and it alone")
    until(lambda: value(url, "syncd_passes_total", stream=f"mysql/{name}") == 0, "the end of what was counted of it")


@pytest.mark.long
def test_a_daemon_shows_what_it_did(place: Place) -> None:
    place.http = "127.0.0.1:0"
    table = place.table(rows=30)
    daemon = place.daemon()
    url = url_of(daemon)

    place.comes_equal(table)
    until(lambda: streams(url)[f"shop.{table}"]["state"] != "not run yet", "its passes")
    one = json.loads(got(f"{url}api/streams/{table}")[1])
    history = json.loads(got(f"{url}api/streams/{table}/history")[1])["entries"]

    assert one["stages"]["load"]["mark"] == one["batches"][0]["mark"]
    assert {entry["change"] for entry in history} >= {"take", "extract", "load"}
    assert value(url, "syncd_rows_total", stage="extract") == value(url, "syncd_rows_total", stage="load") == 30
    assert value(url, "syncd_copies_total") >= 1
    assert value(url, "syncd_s3_requests_total", operation="PutObject", status="200") > 5
    assert value(url, "syncd_warehouse_statement_seconds_count", statement="commit") > 0


def test_a_port_in_use_ends_the_start_with_a_word_on_what_to_do(place: Place) -> None:
    place.table()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place.http = f"127.0.0.1:{taken.getsockname()[1]}"
        place.write()
        daemon = place.daemon()
        assert daemon.ends() != 0

    assert "is in use" in daemon.said
