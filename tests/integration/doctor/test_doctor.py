"""`syncd doctor` on real servers: what it finds, that what it tells to paste helps, and that it leaves nothing."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from syncd.ports.preflight import CheckedSide, CheckSheet, CheckStatus
from syncd.s3.preflight import RACE_COUNT, check_lake
from syncd.sandbox.process import LOOPBACK
from tests.integration.doctor.conftest import PASSWORD, Ward

pytestmark = pytest.mark.services

DOCS = (Path(__file__).parents[3] / "docs" / "reference" / "cli-json.md").read_text()
LAKE = {
    "bucket", "clock", "region", "write", "create once", "replace if unchanged", "unfinished uploads", "remove",
}  # fmt: skip
BOTH = pytest.mark.parametrize("ward", ["mariadb", "mysql"], indirect=True)
NOWHERE = f"{LOOPBACK}:9"


@BOTH
def test_where_all_is_well_it_says_so_and_leaves_nothing(ward: Ward) -> None:
    done = ward.examine(ward.config(tables="fit: "), "--json")

    assert done.code == 0, done.out + done.err
    assert {one["state"] for one in done.checks.values()} <= {"pass", "warn"}
    assert set(done.states("lake")) == LAKE
    assert done.states("source")["shop.fit"] == "pass"
    assert done.states("warehouse")["copy"] == "pass"
    assert done.states("warehouse")["collation"] == "pass"
    assert ward.lake.list_objects("doctor/") == []
    with ward.box.redshift.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'syncd%'")
        assert list(cursor.fetchall()) == []
    entry = next(entry for entry in DOCS.split("\n- ") if entry.startswith("`doctor`"))
    told: dict[str, Any] = json.loads(done.out)
    for name in (*told, *told["checks"][0]):
        assert f"`{name}`" in entry


@BOTH
def test_what_it_tells_to_paste_helps(ward: Ward) -> None:
    """A user who may little: each grant and statement of the findings, run as they stand, and all is well."""
    ward.sql(
        f"CREATE USER few@'%' IDENTIFIED BY '{PASSWORD}'",
        "GRANT SELECT ON shop.unindexed TO few@'%'",
        "GRANT SELECT ON shop.unstamped TO few@'%'",
    )
    mysql = ward.box.mysql
    source = f"mysql://few:{PASSWORD}@{mysql.host}:{mysql.port}/shop"
    config = ward.config(tables="fit: , unindexed: , unstamped: ", source=source)
    try:
        before = ward.examine(config, "--json")
        remedies = [one["remedy"] for one in before.checks.values() if one["side"] == "source" and one["remedy"]]
        ward.sql(*(remedy.rstrip(";") for remedy in remedies if not remedy.startswith("INSTALL")))
        after = ward.examine(config, "--json")
    finally:
        ward.sql("DROP USER few@'%'")

    assert before.code == 4
    assert any_state(before, "shop.fit", "shop.unindexed") == {"fail"}
    assert before.states("source")["horizon"] == before.states("source")["shop.unstamped"] == "warn"
    assert "GRANT PROCESS ON *.* TO 'few'@'%'" in before.checks["source", "horizon"]["remedy"]
    assert after.code == 0, after.out
    assert any_state(after, "shop.fit", "shop.unindexed", "shop.unstamped") == {"pass"}
    assert "right" not in after.checks["source", "horizon"]["finding"]


def any_state(done: Any, *tables: str) -> set[str]:
    states = done.states("source")
    return {states[table] for table in tables}


def test_no_side_that_is_down_hides_another(ward: Ward) -> None:
    config = ward.config(
        tables="fit: ",
        source=f"mysql://few:{PASSWORD}@{NOWHERE}/shop",
        lake=f"http://{NOWHERE}",
        warehouse=f"redshift://few:{PASSWORD}@{NOWHERE}/dev",
    )

    done = ward.examine(config, "--json")

    failed = {(one["side"], one["check"]) for one in done.checks.values() if one["state"] == "fail"}
    assert failed == {("source", "login"), ("lake", "bucket"), ("warehouse", "login")}
    assert done.code == 6
    assert all(one["remedy"] for one in done.checks.values() if one["state"] == "fail")


def test_people_read_a_block_for_each_side(ward: Ward) -> None:
    done = ward.examine(ward.config(tables="bare: "))

    assert done.code == 4
    assert re.findall(r"^(\w.*):$", done.out, re.MULTILINE) == ["host", "source mysql", "lake", "warehouse redshift"]
    assert re.search(r"fail  shop.bare +.*no index on \(update_at, id\)", done.out)
    assert re.search(r"-> CREATE INDEX `syncd_update_at` ON", done.out)
    assert done.err == "error: 1 check failed\n"


@pytest.mark.parametrize(("ignored", "check"), [("If-None-Match", "create once"), ("If-Match", "replace if unchanged")])
def test_a_server_that_ignores_conditions_is_found_out(ward: Ward, ignored: str, check: str) -> None:
    """The real server, to which a condition does not come through."""
    lake, sheet = ward.lake, CheckSheet(side=CheckedSide.LAKE)

    def drop(request: Any, **_: object) -> None:
        del request.headers[ignored]

    lake.client.meta.events.register("before-sign.s3.PutObject", drop)
    check_lake(lake, sheet, nonce="ignoring")

    [failed] = [one for one in sheet.results if one.status is CheckStatus.FAIL]
    assert failed.check == check
    assert ignored in failed.message
    assert lake.list_objects("doctor/") == []


def test_a_lost_race_is_found_out(ward: Ward) -> None:
    """A server that looks and then writes: the second of two that race is let through once."""
    lake, sheet, seen = ward.lake, CheckSheet(side=CheckedSide.LAKE), set[str]()

    def drop(request: Any, **_: object) -> None:
        if "/race" in request.url and request.url in seen:
            del request.headers["If-None-Match"]
        seen.add(request.url)

    lake.client.meta.events.register("before-sign.s3.PutObject", drop)
    check_lake(lake, sheet, nonce="racing")

    [failed] = [one for one in sheet.results if one.status is CheckStatus.FAIL]
    assert (failed.check, "both of two racing writes succeeded" in failed.message) == ("create once", True)
    assert RACE_COUNT > 1
    assert lake.list_objects("doctor/") == []


def test_what_is_wrong_at_the_warehouse_is_told_with_its_statement(ward: Ward) -> None:
    config = ward.config(tables="fit: ")
    config.write_text(config.read_text().replace("iam_role", "schema: nowhere, iam_role"))

    done = ward.examine(config, "--json")

    assert done.code == 6
    assert done.states("warehouse")["create"] == "fail"
    assert "CREATE SCHEMA nowhere" in done.checks["warehouse", "create"]["remedy"]
    assert ward.lake.list_objects("doctor/") == []
