"""`syncd init` on a live schema: what it proposes and why, that its file is good, and that it reads no table whole."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from syncd.config.check import read_settings
from syncd.mysql.connection import connect
from syncd.mysql.source import MySqlSource
from syncd.mysql.table_survey import TIE_SAMPLE_ENTRIES, WIDTH_SAMPLE_ROWS, survey_tables
from syncd.sandbox.running_sandbox import Sandbox
from syncd.settings import Mode
from tests.services.guarded import sandbox_of, settings_of
from tests.services.servers import BOTH

pytestmark = pytest.mark.services

ROWS = 40_000
STAMPED = "DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)"
SCHEMA = (
    f"CREATE TABLE orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, note TEXT, update_at {STAMPED}, KEY (update_at))",
    "CREATE TABLE order_lines (a INT, b INT, PRIMARY KEY (a, b), updated_at TIMESTAMP NULL, KEY (updated_at))",
    "CREATE TABLE countries (code CHAR(2) PRIMARY KEY)",
    "CREATE TABLE heap (x INT)",
    f"CREATE TABLE `odd: # name` (id INT PRIMARY KEY, update_at {STAMPED}, KEY (update_at))",
    "CREATE TABLE syncd_ledger (id INT PRIMARY KEY)",
    "CREATE VIEW shown AS SELECT id FROM orders",
)


@pytest.fixture(scope="module", params=BOTH)
def box(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with sandbox_of(request.param, tmp_path_factory.mktemp("init"), []) as found:
        digits = "(SELECT 0 d" + "".join(f" UNION ALL SELECT {d}" for d in range(1, 10)) + ")"
        numbers = ", ".join(f"{digits} t{place}" for place in range(5))
        with found.mysql.connect() as connection, connection.cursor() as cursor:
            for statement in SCHEMA:
                cursor.execute(statement)
            cursor.execute(f"INSERT INTO orders (note) SELECT REPEAT('n', 10) FROM {numbers} LIMIT {ROWS}")
            cursor.execute("INSERT INTO orders (note) VALUES (REPEAT('w', 777))")
            connection.commit()
            cursor.execute("ANALYZE TABLE orders")
        yield found


def ran(box: Sandbox, output: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "syncd", "init", box.mysql.url, "-o", str(output), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=dict(os.environ))
    assert box.mysql.password not in done.stdout + done.stderr
    return done


def test_its_file_is_good_and_says_why(box: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "syncd.yaml"

    done = ran(box, path, "--lake", "s3://acme-lake/x", "--warehouse", "redshift://l:secret@h/dev", "--json")

    assert done.returncode == 0, done.stderr
    body = path.read_text()
    assert box.mysql.password not in body
    assert "secret" not in body
    settings = read_settings(path, {"MYSQL_PASSWORD": "x", "REDSHIFT_PASSWORD": "y"})
    streams = {stream.table: stream for stream in settings.streams}
    assert set(streams) == {"orders", "order_lines", "countries", "heap", "odd: # name"}
    assert (streams["orders"].cursor, streams["orders"].mode) == ("update_at", Mode.UPSERT)
    assert streams["order_lines"].cursor == "updated_at"
    assert {streams[table].mode for table in ("countries", "heap")} == {Mode.REPLACE}
    for evidence in (
        "the server stamps it at every insert and update",
        "update_at is never NULL",
        "widest text among some of the newest rows, in bytes: note 777",
        "rows for each stamp among the newest 1,000",
        "# not proven: that updated_at is set at every insert and update",
    ):
        assert evidence in body
    told: dict[str, Any] = json.loads(done.stdout)
    assert {one["table"].partition(".")[2] for one in told["left_out"]} == {"syncd_ledger", "shown"}


def test_it_overwrites_nothing(box: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "syncd.yaml"
    path.write_text("mine")

    done = ran(box, path)

    assert done.returncode == 2
    assert "already exists and is never overwritten" in done.stderr
    assert path.read_text() == "mine"


def test_it_reads_no_table_whole(box: Sandbox) -> None:
    settings = settings_of(box)
    with closing(MySqlSource(settings, lambda: connect(settings))) as source:
        before = entries(source)
        found = survey_tables(source, "shop")
        read = entries(source) - before

    assert any(one.table == "shop.orders" for one in found.proposals)
    assert read < 4 * (TIE_SAMPLE_ENTRIES + WIDTH_SAMPLE_ROWS) < ROWS / 8


def entries(source: MySqlSource) -> int:
    """Entries of tables and indexes that this session has read so far; those of temporary results count as well."""
    names = "'Handler_read_next', 'Handler_read_prev', 'Handler_read_rnd_next', 'Handler_read_rnd', 'Handler_read_key'"
    return sum(
        int(str(count)) for _, count in source.fetch_rows(f"SHOW SESSION STATUS WHERE Variable_name IN ({names})")
    )
