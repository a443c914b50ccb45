"""`syncd run` as an engineer and a scheduler meet it: words, JSON, exit codes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.stage.conftest import Pipe

pytestmark = [pytest.mark.services, pytest.mark.parametrize("box", ["mariadb"], indirect=True)]

STREAM = "mysql/shop.orders"
LOADED = """
import atexit, sys
atexit.register(lambda: sys.stderr.write(" ".join({name.partition(".")[0] for name in sys.modules})))
from syncd.cli.main import entry
entry()
"""


def syncd(*words: str, config: Path, before: str = "", **environ: str) -> "subprocess.CompletedProcess[str]":
    entry = f"{before}\nfrom syncd.cli.main import entry; entry()"
    return subprocess.run(
        [sys.executable, "-c", entry, "run", "--config", str(config), *words],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={**os.environ, **environ},
    )


def told(done: "subprocess.CompletedProcess[str]", table: str = "shop.orders") -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in json.loads(done.stdout)["streams"] if one["table"] == table)
    return found


@pytest.fixture
def shop(pipe: Pipe) -> Pipe:
    pipe.tables = "orders: "
    pipe.sql(
        "DROP TABLE IF EXISTS orders, plain",
        "CREATE TABLE plain (id INT)",
        "CREATE TABLE orders (id INT PRIMARY KEY, born DATE, update_at DATETIME(3) NOT NULL"
        " DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), KEY (update_at))",
        "INSERT INTO orders VALUES (1, '2020-01-01', '2026-01-01'), (2, NULL, '2026-01-02'), (3, NULL, '2026-01-03')",
    )
    return pipe


def test_a_first_session(shop: Pipe) -> None:
    config = shop.config

    dry = syncd("-t", "orders", "--extract-only", "--dry-run", "--json", config=config)
    assert (dry.returncode, told(dry)["state"]) == (0, "planned")
    assert told(dry)["planned"]["kind"] == "snapshot"
    assert not [key for key in shop.lake.keys("") if not key.startswith("notes/")]

    first = syncd("-t", "shop.orders", "--extract-only", config=config)
    assert first.returncode == 0, first.stderr
    assert re.search(r"shop\.orders +extracted +3 +1 ", first.stdout)
    assert "snapshot 1-1: 3 rows in 1 file" in first.stderr

    second = syncd("--all", "--extract-only", "--json", config=config)
    assert (second.returncode, told(second)["state"], told(second)["rows"]) == (0, "nothing new", 0)
    assert told(second)["proven"] is True

    again = syncd(
        "-t", "orders", "--extract-only", "--json", "--from", "2026-01-02", "--until", "2026-01-03", config=config
    )
    assert (again.returncode, told(again)["rows"]) == (0, 1), again.stderr
    assert told(again)["mark"] == told(second)["mark"]
    assert shop.lake.rows(STREAM, "id")[(2,)] == 2
    assert shop.lake.links(STREAM)[-1]["kind"] == "repair"


def test_a_run_that_finds_nothing_loads_no_library_for_work_and_starts_no_java(shop: Pipe) -> None:
    config = shop.config
    assert syncd("-t", "orders", "--extract-only", config=config).returncode == 0
    before = [key for key in shop.lake.keys("") if not key.startswith("notes/")]

    idle = subprocess.run(
        [sys.executable, "-c", LOADED, "run", "--config", str(config), "-t", "orders", "--extract-only"],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={**os.environ, "JAVA_HOME": "/nowhere"},
    )

    assert idle.returncode == 0, idle.stderr
    loaded = set(idle.stderr.split())
    assert {"botocore", "pymysql"} <= loaded
    assert loaded.isdisjoint(
        {
            *("pyspark", "py4j", "pyarrow", "pandas", "numpy", "boto3", "s3transfer", "asyncssh", "redshift_connector"),
            *("apscheduler", "rich", "prometheus_client", "structlog", "stamina"),
        }
    )
    assert [key for key in shop.lake.keys("") if not key.startswith("notes/")] == before


def test_a_limit_ends_a_run_and_the_next_one_goes_on(shop: Pipe) -> None:
    config = shop.config

    counts = [
        told(syncd("-t", "orders", "--extract-only", "--json", "--limit", "2", config=config))["rows"] for _ in range(3)
    ]

    assert counts == [2, 1, 0]
    assert set(shop.lake.rows(STREAM, "id").values()) == {1}


@pytest.mark.parametrize(
    ("words", "code", "word"),
    [
        (["-t", "orders"], 2, "add `warehouse:`"),
        (["--extract-only"], 2, "name tables with -t"),
        (["--all", "-t", "orders", "--extract-only"], 2, "exclude each other"),
        (["-t", "ordes", "--extract-only"], 2, "no table ordes is configured"),
        (["-t", "orders", "--extract-only", "--from", "2026-01-01"], 2, "--from needs --until"),
        (["-t", "orders", "--extract-only", "--from", "2026-02-01", "--until", "2026-01-01"], 2, "later than --until"),
        (["-t", "orders", "--extract-only", "--until", "tomorrow"], 2, "write an instant"),
        (["-t", "orders", "--extract-only", "--wait", "soon"], 2, "write a duration"),
        (["-t", "plain", "--extract-only"], 4, "plain has no"),
        (["-t", "gone", "--extract-only"], 4, "doesn't exist"),
        (["-t", "gone", "-t", "orders", "--extract-only"], 4, "doesn't exist"),
    ],
)
def test_what_is_wrong_is_said_in_two_lines(shop: Pipe, words: list[str], code: int, word: str) -> None:
    shop.tables = "orders: , plain: , gone: "

    done = syncd(*words, config=shop.config)

    assert done.returncode == code
    assert word in done.stderr
    assert "Traceback" not in done.stderr


def test_one_bad_stream_does_not_stop_the_others(shop: Pipe) -> None:
    shop.tables = "gone: , orders: "

    done = syncd("--all", "--extract-only", "--json", config=shop.config)

    assert done.returncode == 4
    assert told(done, "shop.gone")["error"]["exit"] == 4
    assert told(done)["rows"] == 3


STUMBLES = """
import syncd.app.pass_factory as wiring
made = wiring.map_columns
def passages(table, settings):
    return made(table, settings) if table.name != "items" else {}["a value of some row"]
wiring.map_columns = passages
"""


def test_a_bug_in_one_stream_does_not_stop_the_others(shop: Pipe) -> None:
    shop.sql("CREATE OR REPLACE TABLE items LIKE orders", "INSERT INTO items SELECT * FROM orders")
    shop.tables = "items: , orders: "

    done = syncd("--all", "--extract-only", "--json", config=shop.config, before=STUMBLES)

    assert done.returncode == 1, done.stderr
    assert told(done, "shop.items")["error"]["exit"] == 1
    assert told(done)["rows"] == 3
    assert re.search(r"error: shop\.items: a bug in syncd: KeyError at ", done.stderr)
    assert "Traceback" not in done.stderr
    assert "a value of some row" not in done.stdout + done.stderr
    again = syncd("-t", "items", "--extract-only", "--debug", config=shop.config, before=STUMBLES)
    assert again.returncode == 1
    assert "Traceback" in again.stderr
    assert "KeyError: 'a value of some row'" in again.stderr


def test_sigterm_ends_a_run_of_all_streams_and_gives_its_claim_back(shop: Pipe) -> None:
    before = """
import os, signal
import syncd.app.pass_factory as wiring
wiring.map_columns = lambda table, settings: os.kill(os.getpid(), signal.SIGTERM)
"""
    done = syncd("--all", "--extract-only", "--json", config=shop.config, before=before)

    assert (done.returncode, done.stdout) == (130, "")
    assert syncd("--all", "--extract-only", "--wait", "0s", config=shop.config).returncode == 0


def test_a_bastion_that_is_away_stops_its_own_streams_alone(shop: Pipe) -> None:
    config = shop.config
    url = shop.box.mysql.url
    body = config.read_text().split("lake:")[1].split("tables:")[0]
    config.write_text(
        f"sources: {{near: {{url: '{url}', zone: UTC}},"
        f" far: {{url: '{url}', tunnel: {{host: 127.0.0.1, port: 9, user: x}}}}}}\n"
        f"lake:{body}tables: {{shop.plain: {{source: far}}, shop.orders: {{source: near}}}}\n"
    )

    done = syncd("--all", "--extract-only", "--json", config=config)

    assert done.returncode == 4, done.stderr
    assert told(done, "shop.plain")["error"]["exit"] == 4
    assert told(done)["rows"] == 3


def test_a_source_that_is_away_is_exit_4_and_a_lake_that_is_away_exit_5(shop: Pipe) -> None:
    body = shop.config.read_text()

    away = Path(shop.directory, "away.yaml")
    away.write_text(body.replace(str(shop.box.mysql.port), "9"))
    assert syncd("-t", "orders", "--extract-only", config=away).returncode == 4
    away.write_text(body.replace(f"s3://{shop.box.s3.bucket}", "s3://no-such-bucket"))
    assert syncd("-t", "orders", "--extract-only", config=away).returncode == 5


def test_a_damaged_document_stops_the_stream_with_exit_12(shop: Pipe) -> None:
    config = shop.config
    assert syncd("-t", "orders", "--extract-only", config=config).returncode == 0
    key = f"{shop.prefix}/watermarks/{STREAM}.json"
    shop.client.put_object(Bucket=shop.box.s3.bucket, Key=key, Body=b"{}")

    done = syncd("-t", "orders", "--extract-only", config=config)

    assert done.returncode == 12
    assert "hint: " in done.stderr


def test_rows_in_quarantine_are_counted_and_strict_runs_tell_them_apart(shop: Pipe) -> None:
    shop.tables = "orders: {zero_dates: quarantine}"
    shop.sql("SET sql_mode = ''", "INSERT INTO orders (id, born) VALUES (9, '0000-00-00')")
    config = shop.config

    done = syncd("-t", "orders", "--extract-only", "--json", "--strict", config=config)

    assert (done.returncode, told(done)["rows"], told(done)["quarantined"]) == (7, 3, 1)


def test_the_password_is_in_no_output_and_in_no_object(shop: Pipe) -> None:
    config = shop.config
    secret = re.search(r"://[^:]+:([^@]+)@", config.read_text())
    assert secret is not None

    done = syncd("-t", "orders", "--extract-only", "--debug", config=config)

    assert secret[1] not in done.stdout + done.stderr
    assert not [key for key in shop.lake.keys("") if secret[1].encode() in shop.lake.bytes(key)]
