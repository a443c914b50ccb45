"""`syncd config`: text, JSON and exit code."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from syncd.cli.main import syncd
from syncd.error_classes import ExitCode

GOOD = """\
source: {url: "mysql://sync:${MYSQL_PASSWORD}@db/shop"}
lake: {url: "s3://acme-lake"}
tables: {orders: , lines: }
"""
MODES = "'upsert', 'append', 'history' or 'replace'"
BAD = GOOD.replace("orders: ", "orders: {mode: upset, password: hunter2}")


def said(tmp_path: Path, body: str, *words: str) -> tuple[int, str, str]:
    path = tmp_path / "syncd.yaml"
    path.write_text(body)
    done = CliRunner().invoke(syncd, ["config", "check", "-c", str(path), *words], env={"MYSQL_PASSWORD": "hunter2"})
    assert "hunter2" not in done.output
    return done.exit_code, done.stdout.replace(str(tmp_path), ""), done.stderr.replace(str(tmp_path), "")


def test_a_good_file_is_called_good(tmp_path: Path) -> None:
    assert said(tmp_path, GOOD) == (0, "/syncd.yaml: no mistakes: 1 source, 0 warehouses, 2 tables\n", "")


def test_mistakes_are_the_result(tmp_path: Path) -> None:
    code, out, err = said(tmp_path, BAD)

    assert (code, err) == (ExitCode.USAGE, "error: /syncd.yaml has 2 mistakes\n")
    assert out.splitlines() == [
        "/syncd.yaml:3:25: tables.orders.mode: must be " + MODES + "; found 'upset' (Do you mean `upsert`?)",
        "/syncd.yaml:3:32: tables.orders.password: is not a known key (Remove it.)",
    ]


def test_json_of_both(tmp_path: Path) -> None:
    good, bad = (json.loads(said(tmp_path, body, "--json")[1]) for body in (GOOD, BAD))

    assert good == {
        "file": "/syncd.yaml", "valid": True, "mistakes": [], "sources": ["mysql"], "warehouses": [],
        "tables": ["shop.orders", "shop.lines"],
    }  # fmt: skip
    assert bad["valid"] is False
    assert bad["mistakes"][0] == {
        "line": 3, "column": 25, "key": "tables.orders.mode", "value": "upset", "remedy": "Do you mean `upsert`?",
        "message": "must be " + MODES,
    }  # fmt: skip


def test_a_file_that_is_not_there_is_a_mistake_of_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    done = CliRunner().invoke(syncd, ["config", "check"])

    assert "syncd.yaml does not exist" in str(done.exception)


def test_the_schema_is_printed_as_it_is() -> None:
    done = CliRunner().invoke(syncd, ["config", "schema"])

    assert done.exit_code == 0
    assert json.loads(done.stdout)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
