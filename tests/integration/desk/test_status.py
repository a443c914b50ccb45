"""`syncd status`: a row for each stream, the worst first, from the lake alone."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from syncd.error_classes import ExitCode
from syncd.horizon import HorizonNotes
from syncd.s3.lake_client import S3Lake
from syncd.settings import LakeSettings
from tests.integration.load.conftest import Loader
from tests.integration.marks.conftest import Marks
from tests.integration.run.conftest import PROGRAM
from tests.services.prepared import Prepared, moment, row
from watermarks.document import FailureRecord, Stage, Watermark
from watermarks.history import ChangeKind, ChangeNote

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]
Make = Callable[..., Marks]

FIELDS = {
    "table", "source", "state", "complete_up_to", "proven", "in_lake_up_to", "mark", "loaded_mark",
    "extract_lag_seconds", "load_lag_seconds", "pending_batches", "quarantined", "reasons", "extracted_at", "loaded_at",
    "failed_at", "last_run_at", "retry_at", "schedule", "polled_at", "poll_overdue", "error",
}  # fmt: skip


def failed(orders: Prepared, message: str) -> None:
    """The load stage notes a failure, as it does."""

    def with_failure(state: Watermark | None) -> Watermark:
        assert state
        failure = FailureRecord(message=message, attempt=2, failed_at=moment(50), retry_at=moment(60))
        return state.with_failure(Stage.LOAD, failure)

    orders.journal.commit(
        orders.stream.stem, with_failure, ChangeNote(change=ChangeKind.FAIL, author="test", stage="load")
    )


def test_a_row_says_how_a_stream_stands(syncd: Make, two_landed: Prepared) -> None:
    made = syncd(two_landed)

    done = made("status", "--json")

    told = json.loads(done.out)
    [one] = told["streams"]
    assert (done.code, set(told), set(one)) == (0, {"at", "streams"}, FIELDS), done.err
    assert (one["state"], one["pending_batches"], one["quarantined"]) == ("loading", 1, 0)
    assert (one["complete_up_to"], one["in_lake_up_to"]) == (
        "2026-09-21T14:13:23.000000Z",
        "2026-09-21T14:13:24.000000Z",
    )
    assert one["load_lag_seconds"] == 1.0
    assert one["schedule"] == "every 5m"
    assert one["retry_at"] is None
    assert one["last_run_at"] == max(one["extracted_at"], one["loaded_at"])
    assert one["reasons"] == ["1 batch waits to be loaded"]
    text = made("status").out
    assert f"shop.{two_landed.table}  loading  2026-09-21 14:13:23" in text
    assert "every 5m" in text


def test_it_asks_once_for_each_document_and_writes_nothing(
    syncd: Make, two_landed: Prepared, prepared: Prepare
) -> None:
    others = [prepared() for _ in range(3)]
    for other in others:
        other.increment(row(1, 1))
    made = syncd(two_landed, *others)

    done = made("status")

    assert (done.code, made.wrote) == (0, set())
    assert sorted(made.requests) == ["GetObject"] * 5 + ["ListObjectsV2"]  # documents, the notes of one server


def test_the_worst_comes_first(syncd: Make, two_landed: Prepared, prepared: Prepare, loader: Loader) -> None:
    broken, waits, current, fresh = (prepared() for _ in range(4))
    for one in (broken, waits, current):
        one.increment(row(1, 1))
    loader.load(current)
    failed(broken, "no way to the warehouse")
    fresh.lake.delete_objects([f"watermarks/{fresh.stream.stem}.json", f"history/{fresh.stream.stem}/1.json"])

    done = syncd(current, waits, fresh, broken)("status", "--json")

    told = {one["table"]: one for one in json.loads(done.out)["streams"]}
    assert list(told) == [f"shop.{one.table}" for one in (broken, fresh, waits, current)]
    assert [one["state"] for one in told.values()] == ["failed", "new", "loading", "current"]
    first = told[f"shop.{broken.table}"]
    assert first["reasons"][0] == "load failed, attempt 2: no way to the warehouse"
    assert first["retry_at"] == "2026-09-21T14:14:20.000000Z"


def test_a_document_that_cannot_be_believed_is_the_worst(syncd: Make, two_landed: Prepared, prepared: Prepare) -> None:
    broken = prepared()
    settings = broken.lake.settings
    broken.lake.client.put_object(
        Bucket=settings.bucket, Key=broken.lake.object_name(f"watermarks/{broken.stream.stem}.json"), Body=b"{"
    )

    done = syncd(two_landed, broken)("status", "--json")

    states = [one["state"] for one in json.loads(done.out)["streams"]]
    assert (done.code, states) == (ExitCode.STATE, ["unreadable", "loading"])
    assert "hint: " in done.err


def test_rows_in_quarantine_are_counted(syncd: Make, prepared: Prepare, loader: Loader) -> None:
    """Each at its own stream, though one name begins as another does."""
    orders, neighbour = prepared(table="wide"), prepared(table="wide_old")
    orders.increment(row(1, 1, name="a\0b"), row(2, 2))
    neighbour.increment(row(1, 1))
    loader.load(orders)
    loader.load(neighbour)

    told = {one["table"]: one for one in json.loads(syncd(orders, neighbour)("status", "--json").out)["streams"]}

    assert [(name, one["state"], one["quarantined"]) for name, one in told.items()] == [
        ("shop.wide", "quarantined", 1),
        ("shop.wide_old", "current", 0),
    ]
    assert told["shop.wide"]["reasons"] == ["1 row waits in quarantine"]


def test_what_holds_the_horizon_is_told_with_the_time_of_the_poll(syncd: Make, two_landed: Prepared) -> None:
    notes = HorizonNotes(identity="server-1", t0=moment(500), first_stamps={"4711": moment(100)})
    two_landed.journal.store.put("notes/shop.json", notes.to_bytes(), expected=None)

    done = syncd(two_landed)("status")

    assert "at 14:21:40 a transaction held the horizon, since 2026-09-21 14:15:00 at the earliest" in done.out


def test_a_source_that_nobody_polls_any_more_is_told_once(syncd: Make, two_landed: Prepared, prepared: Prepare) -> None:
    other = prepared()
    notes = HorizonNotes(identity="server-1", t0=moment(500), local_time=moment(501))
    two_landed.journal.store.put("notes/shop.json", notes.to_bytes(), expected=None)
    made = syncd(two_landed, other)

    text = made("status").out
    told = {one["table"]: one for one in json.loads(made("status", "--json").out)["streams"]}

    assert text.count("source shop was polled last at 2026-09-21 14:21:41 UTC, ") == 1
    assert "the daemon or the schedule of `syncd run`" in text
    assert told[f"shop.{other.table}"]["poll_overdue"] is True
    assert {one["polled_at"] for one in told.values()} == {"2026-09-21T14:21:41.000000Z"}


def test_a_lake_that_is_away_is_told(syncd: Make, two_landed: Prepared) -> None:
    away = S3Lake(LakeSettings(bucket="nowhere", endpoint=two_landed.lake.settings.endpoint), two_landed.lake.client)
    made = syncd(two_landed)
    made.lake = away

    done = made("status")

    assert done.code == ExitCode.LAKE
    assert done.out == ""
    assert "error: " in done.err


def test_off_a_terminal_a_watch_prints_plain_blocks_until_it_is_interrupted(syncd: Make, two_landed: Prepared) -> None:
    made = syncd(two_landed)
    command = [sys.executable, "-c", PROGRAM, "status", "--watch", "--every", "100ms", "--config", str(made.config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        heads = 0
        lines: list[str] = []
        while heads < 2:
            lines.append(process.stdout.readline())
            heads += lines[-1].endswith(" UTC\n")
            assert lines[-1] or process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)

    assert process.returncode == ExitCode.INTERRUPTED
    assert "\x1b" not in "".join(lines)
    assert any(f"shop.{two_landed.table}  loading" in line for line in lines)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--watch", "--json"), "--json prints one document"),
        (("-t", "nothing"), "no table nothing is configured"),
        (("--watch", "--every", "soon"), "--every"),
    ],
)
def test_what_means_nothing_is_refused(syncd: Make, two_landed: Prepared, words: tuple[str, ...], said: str) -> None:
    done = syncd(two_landed)("status", *words)

    assert done.code == ExitCode.USAGE
    assert said in done.err
