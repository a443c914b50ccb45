"""What `get`, `list`, `history` and `export` say, to people and to programs."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.load.conftest import Loader
from tests.integration.marks.conftest import Marks
from tests.integration.run.conftest import PROGRAM
from tests.services.prepared import Prepared, row
from watermarks.operator import Operator

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]
Make = Callable[..., Marks]

SEEDED = {
    "table_name", "last_mysql_extraction_time", "last_mysql_data_timestamp", "mysql_rows_extracted", "mysql_status",
    "last_redshift_load_time", "redshift_rows_loaded", "redshift_status", "backup_strategy", "s3_file_count",
    "processed_s3_files", "last_error", "created_at", "updated_at", "metadata", "last_mysql_key", "generation",
    "load_generation", "extracted_seq", "loaded_seq", "proven", "source_identity",
}  # fmt: skip
"""The names that users of the earlier tool know, and those that stand beside them."""


@pytest.fixture
def two_landed(prepared: Prepare, loader: Loader) -> Prepared:
    """Three batches, the first two of them loaded."""
    orders = prepared()
    orders.increment(row(1, 1), row(2, 2))
    orders.increment(row(3, 3), parts=1)
    loader.load(orders)
    orders.increment(row(4, 4))
    return orders


def test_a_watermark_is_shown_in_the_words_that_people_know(marks: Make, two_landed: Prepared) -> None:
    done = marks(two_landed)("get", "-t", two_landed.table)

    assert done.code == 0, done.err
    assert "S3 to Redshift" in done.out
    assert re.search(r"pending +1 batch\n", done.out)
    assert re.search(r"MySQL to S3 +success\n +mark +2026-09-21 14:13:24, 4\n", done.out)
    assert "1-3, sequential" in done.out
    assert f"extract is running: extract-{two_landed.table}" in done.out


def test_the_fields_of_get(marks: Make, two_landed: Prepared) -> None:
    done = marks(two_landed)("get", "-t", two_landed.table, "--json")

    [told] = json.loads(done.out)["streams"]
    assert set(told) == {"table", "source", "watermark", "unproven_reason", "pending_batches", "processes", "error"}
    assert set(told["watermark"]) >= SEEDED
    assert (told["watermark"]["extracted_seq"], told["watermark"]["loaded_seq"], told["pending_batches"]) == (3, 2, 1)
    assert set(told["processes"]) == {"extract", "load"}
    assert told["processes"]["load"] is None


def test_files_are_listed_with_what_became_of_each(marks: Make, two_landed: Prepared) -> None:
    made = marks(two_landed)

    [told] = json.loads(made("get", "-t", two_landed.table, "--show-files", "--json").out)["streams"]

    assert [(file["batch"], file["rows"], file["state"]) for file in told["files"]] == [
        ("1-1", 2, "loaded"),
        ("1-2", 1, "loaded"),
        ("1-3", 1, "waiting"),
    ]
    assert all(file["file"].startswith("s3://") and file["bytes"] > 0 for file in told["files"])


def test_nothing_is_written_by_looking(marks: Make, two_landed: Prepared) -> None:
    made = marks(two_landed)

    for words in (("get",), ("get", "--all", "--show-files"), ("list",), ("history", "--all"), ("export", "--all")):
        assert made(*words).code == 0
        assert made.wrote == set()
        assert made.requests


def test_a_stream_that_never_ran_says_so(marks: Make, prepared: Prepare) -> None:
    orders = prepared(table="never_ran")
    fresh = prepared(table="fresh")
    orders.lake.delete_objects([f"watermarks/shop/shop.{fresh.table}.json", f"history/shop/shop.{fresh.table}/1.json"])

    done = marks(fresh)("get", "--all")

    assert (done.code, done.out) == (0, "shop.fresh: has never run\n")


def test_a_list_has_streams_that_are_configured_and_streams_that_are_not(
    marks: Make, two_landed: Prepared, prepared: Prepare
) -> None:
    other = prepared()
    other.increment(row(1, 1))

    done = marks(two_landed)("list", "--json")

    told = json.loads(done.out)
    assert set(told) == {"default", "streams"}
    assert [(one["table"], one["configured"], one["pending_batches"]) for one in told["streams"]] == [
        (f"shop.{two_landed.table}", True, 1),
        (f"shop.{other.table}", False, 1),
    ]
    assert set(told["streams"][0]["marks"]) == {
        "revision", "generation", "extracted", "mark", "manual", "load_generation", "loaded", "loaded_mark", "skipped",
    }  # fmt: skip
    text = marks(two_landed)("list").out
    assert f"shop/shop.{other.table} (not configured)" in text
    assert "no system-wide default" in text


def test_a_stream_that_is_not_configured_any_more_is_reached_by_its_whole_name(
    marks: Make, two_landed: Prepared, prepared: Prepare
) -> None:
    other = prepared()
    other.increment(row(1, 1))

    done = marks(two_landed)("get", "-t", other.stream.stem)

    assert done.code == 0
    assert "1-1" in done.out


def test_history_tells_who_and_why(marks: Make, two_landed: Prepared) -> None:
    person = Operator(journal=two_landed.journal, author="ann@desk", reason="read again")
    person.reset_marks(two_landed.stream, reset_load=False)
    made = marks(two_landed)

    [told] = json.loads(made("history", "-t", two_landed.table, "--json", "--limit", "3").out)["streams"]

    assert len(told["entries"]) == 3
    newest = told["entries"][0]
    assert set(newest) == {
        "revision", "at", "change", "author", "reason", "stage", "epoch", "extracted", "last_mysql_data_timestamp",
        "last_mysql_key", "load_generation", "loaded", "start",
    }  # fmt: skip
    assert (newest["change"], newest["author"], newest["reason"]) == ("reset", "ann@desk", "read again")
    assert (newest["extracted"], newest["loaded"]) == ("2-0", "1-2")
    assert "read again" in made("history", "-t", two_landed.table).out


def test_a_history_is_told_as_far_as_it_can_be_read_and_stops_no_other(
    marks: Make, two_landed: Prepared, prepared: Prepare
) -> None:
    holed = prepared()
    holed.increment(row(1, 1))
    holed.increment(row(2, 2))
    holed.lake.delete_objects([f"history/{holed.stream.stem}/2.json"])

    done = marks(holed, two_landed)("history", "--all", "--json")

    assert done.code == 12
    one, two = json.loads(done.out)["streams"]
    assert ([entry["revision"] for entry in one["entries"]], one["error"]["exit"]) == ([3], 12)
    assert (len(two["entries"]) > 3, two["error"]) == (True, None)
    assert f"error: shop.{holed.table}: history/{holed.stream.stem}/2.json is missing" in done.err


def test_an_export_holds_the_documents_as_they_are(marks: Make, two_landed: Prepared, tmp_path: Path) -> None:
    made = marks(two_landed)
    out = tmp_path / "out.json"

    assert made("export", "--all", "--out", str(out)).code == 0
    again = made("export", "--all", "--out", str(out))

    documents = json.loads(out.read_text())["documents"]
    stored = two_landed.lake.read(f"watermarks/{two_landed.stream.stem}.json")
    assert documents == {two_landed.stream.stem: json.loads(stored)}
    assert (again.code, "exists already" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("get", "-t", "nothing"), "no table nothing is configured"),
        (("get", "-t", "a/b"), "a/b is not the name of a stream"),
        (("history",), "name tables with -t, or use --all"),
        (("history", "--all", "-t", "x"), "exclude each other"),
    ],
)
def test_what_names_no_stream_is_refused(marks: Make, two_landed: Prepared, words: tuple[str, ...], said: str) -> None:
    done = marks(two_landed)(*words)

    assert done.code == 2
    assert said in done.err


def test_a_document_that_cannot_be_read_is_told_and_stops_no_other(
    marks: Make, two_landed: Prepared, prepared: Prepare
) -> None:
    broken = prepared()
    broken.increment(row(1, 1))
    settings = broken.lake.settings
    broken.lake.client.put_object(
        Bucket=settings.bucket, Key=broken.lake.object_name(f"watermarks/{broken.stream.stem}.json"), Body=b"{"
    )

    done = marks(two_landed, broken)("list")

    assert done.code == 12
    assert "cannot be read" in done.out
    assert "syncd watermark rebuild" in done.err
    assert f"shop.{two_landed.table}" in done.out


def test_a_look_loads_no_driver_that_it_does_not_need(marks: Make, two_landed: Prepared) -> None:
    made = marks(two_landed)
    program = PROGRAM.replace(
        "import sys\n", f"import sys\nsys.argv[1:1] = ['watermark', 'get', '-t', {two_landed.table!r}]\n", 1
    )
    command = [sys.executable, "-c", program, "--config", str(made.config)]

    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)

    loaded = set(done.stderr.splitlines()[-1].split()[1:])
    assert "S3 to Redshift" in done.stdout
    assert loaded.isdisjoint({"pyspark", "pymysql", "redshift_connector", "pyarrow", "pandas", "numpy", "asyncssh"})
