"""`set`, `reset` and `undo`: shown before they are done, agreed to, recorded, and each half for itself."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.integration.load.conftest import Loader, Reader
from tests.integration.marks.conftest import Marks
from tests.services.prepared import Prepared, row
from watermarks.batch import BatchId
from watermarks.document import Watermark
from watermarks.history import ChangeKind
from watermarks.names import SYSTEM_STEM
from watermarks.operator import Operator

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]
Make = Callable[..., Marks]


@pytest.fixture
def orders(prepared: Prepare, loader: Loader) -> Prepared:
    """Three batches, the first two of them loaded."""
    made = prepared()
    made.increment(row(1, 1), row(2, 2))
    made.increment(row(3, 3))
    loader.load(made)
    made.increment(row(4, 4))
    return made


def state_of(orders: Prepared) -> Watermark:
    state = orders.journal.read_newest(orders.stream.stem)
    assert state is not None
    return state


def everything(orders: Prepared) -> dict[str, Any]:
    return {found.key: found for found in orders.lake.list_objects("")}


@pytest.mark.parametrize(
    "words",
    [
        ("set", "--timestamp", "2026-01-01"),
        ("set", "--preset", "1week", "--redshift-only"),
        ("reset",),
        ("reset", "--redshift-only"),
        ("undo",),
        ("set", "--default", "--preset", "1month"),
        ("reset", "--default"),
    ],
)
def test_without_consent_nothing_is_done(marks: Make, orders: Prepared, words: tuple[str, ...]) -> None:
    made = marks(orders)
    if words == ("undo",):
        assert made("reset", "-t", orders.table, "--yes").code == 0
    table = () if "--default" in words else ("-t", orders.table)
    before = everything(orders)

    alone = made(*words, *table)
    wrote_alone = made.wrote
    tried = made(*words, *table, "--dry-run", "--yes")
    wrote_tried = made.wrote
    made.said = "n\n"
    declined = made(*words, *table)

    assert (alone.code, tried.code, declined.code) == (2, 0, 130)
    assert "add --yes" in alone.err
    assert (wrote_alone, wrote_tried, made.wrote) == (set(), set(), set())
    assert everything(orders) == before


def test_whoever_sits_at_a_terminal_is_asked(marks: Make, orders: Prepared) -> None:
    made = marks(orders)
    made.said = "y\n"

    done = made("reset", "-t", orders.table, "--mysql-only", "--reason", "made anew")

    assert done.code == 0, done.err
    assert "Reset this table? [y/N]" in done.err
    assert "to read: an unknown number of rows: MySQL at 127.0.0.1:9" in done.out
    entry = orders.journal.read_entry(orders.stream.stem, state_of(orders).revision)
    assert entry is not None
    assert (entry.note.change, entry.note.reason) == (ChangeKind.RESET, "made anew")
    assert "@" in entry.note.author


def test_the_fields_of_a_change(marks: Make, orders: Prepared) -> None:
    done = marks(orders)("reset", "-t", orders.table, "--redshift-only", "--yes", "--reason", "again", "--json")

    told = json.loads(done.out)
    assert set(told) == {"dry_run", "author", "reason", "streams"}
    [one] = told["streams"]
    assert {name: one[name] for name in one if name not in {"before", "after"}} == {
        "table": f"shop.{orders.table}",
        "source": "shop",
        "change": "reset",
        "applied": True,
        "rows_to_read": 0,
        "rows_unknown_reason": None,
        "to_load": {"batches": 3, "rows": 4},
        "to_reload": {"batches": 2, "rows": 3},
        "to_skip": {"batches": 0, "rows": 0},
        "processes": {"extract": f"extract-{orders.table}"},
        "error": None,
    }
    assert (one["before"]["load_generation"], one["after"]["load_generation"]) == (1, 2)
    assert (one["before"]["loaded"], one["after"]["loaded"]) == ("1-2", "1-0")
    assert one["before"]["mark"] == one["after"]["mark"]
    assert "the change applies at its next batch" in done.err


def test_setting_one_half_or_one_part_keeps_the_other(marks: Make, orders: Prepared) -> None:
    made = marks(orders)
    before = state_of(orders)

    assert made("set", "-t", orders.table, "--id", "2", "--mysql-only", "--yes").code == 0
    keyed = state_of(orders)
    assert made("set", "-t", orders.table, "--after", "1-1", "--redshift-only", "--yes").code == 0
    both = state_of(orders)

    assert keyed.load_progress == before.load_progress
    assert keyed.required_extract_progress.cursor.to_texts() == [
        before.required_extract_progress.cursor.to_texts()[0],
        "int:2",
    ]
    assert (both.required_extract_progress.cursor, both.required_extract_progress.generation) == (
        keyed.required_extract_progress.cursor,
        2,
    )
    assert (both.load_progress.last_batch, both.load_progress.load_generation) == (BatchId(1, 1), 2)


def test_an_instant_alone_passes_over_no_row_of_it(marks: Make, orders: Prepared) -> None:
    """The key of the mark belongs to the mark's own instant: kept at another, it would leave rows out."""
    made = marks(orders)
    own = state_of(orders).required_extract_progress.cursor

    assert made("set", "-t", orders.table, "--timestamp", "2026-09-21 14:13:22", "--mysql-only", "--yes").code == 0
    elsewhere = state_of(orders).required_extract_progress.cursor
    assert made("undo", "-t", orders.table, "--yes").code == 0
    assert made("set", "-t", orders.table, "--timestamp", "2026-09-21 14:13:24", "--mysql-only", "--yes").code == 0

    assert elsewhere.to_texts() == ["wall:2026-09-21T14:13:22.000000"]
    assert state_of(orders).required_extract_progress.cursor == own


def test_undo_takes_back_both_halves_at_once(marks: Make, orders: Prepared) -> None:
    made = marks(orders)
    before = state_of(orders)

    assert made("reset", "-t", orders.table, "--yes").code == 0
    done = made("undo", "-t", orders.table, "--yes", "--json")

    after = state_of(orders)
    [told] = json.loads(done.out)["streams"]
    assert (after.required_extract_progress.cursor, after.load_progress.last_batch) == (
        before.required_extract_progress.cursor,
        before.load_progress.last_batch,
    )
    assert (after.required_extract_progress.generation, after.load_progress.load_generation) == (3, 3)
    assert (told["change"], told["after"]["extracted"], told["after"]["loaded"]) == ("undo", "3-0", "1-2")


def test_an_undo_takes_back_what_was_shown_and_nothing_else(marks: Make, orders: Prepared) -> None:
    made = marks(orders)
    assert made("reset", "-t", orders.table, "--yes").code == 0
    person = Operator(journal=orders.journal, author="bob", reason="at the same time")
    made.said, made.meanwhile = "y\n", lambda: person.skip_batches(orders.stream, BatchId(1, 3))

    done = made("undo", "-t", orders.table)

    assert (done.code, made.wrote) == (2, {"PutObject"}), "bob's own"
    assert "another operator has changed" in done.err
    assert state_of(orders).load_progress.last_batch == BatchId(1, 3)


def test_a_stream_that_somebody_else_changed_meanwhile_keeps_no_other_from_its_change(
    marks: Make, orders: Prepared, prepared: Prepare
) -> None:
    others = prepared()
    others.increment(row(1, 1))
    made = marks(orders, others)
    made.said = "y\n"
    other = Operator(journal=orders.journal, author="bob", reason="was first")
    made.meanwhile = lambda: other.reset_marks(orders.stream, reset_extract=False)

    done = made("reset", "--all", "--redshift-only", "--json")

    assert done.code == 2, done.err
    one, two = json.loads(done.out)["streams"]
    assert (one["applied"], one["error"]["exit"], two["applied"], two["error"]) == (False, 2, True, None)
    assert f"error: shop.{orders.table}: another operator has changed" in done.err
    assert (state_of(orders).load_progress.load_generation, state_of(others).load_progress.load_generation) == (2, 2)


def test_nothing_to_undo_is_told(marks: Make, orders: Prepared) -> None:
    done = marks(orders)("undo", "-t", orders.table, "--yes")

    assert done.code == 2
    assert "was never changed by hand" in done.err
    assert f"syncd watermark history -t shop.{orders.table}" in done.err


REFUSED = (
    (("set",), "name a position"),
    (("set", "--id", "1", "--mysql-only", "--redshift-only"), "exclude each other"),
    (("set", "--timestamp", "2026-01-01", "--preset", "now"), "exclude each other"),
    (("set", "--after", "1-1"), "use it with --redshift-only"),
    (("set", "--after", "one", "--redshift-only"), "is not the number of a batch"),
    (("set", "--after", "1-9", "--redshift-only"), "has no batch 1-9"),
    (("set", "--after", "1-1", "--id", "1", "--redshift-only"), "--after names a batch"),
    (("set", "--timestamp", "2999-01-01"), "is in the future"),
    (("set", "--timestamp", "soon"), "write an instant"),
    (("set", "--id", "1", "--id", "2", "--mysql-only"), "2 key values were given"),
    (("set", "--id", "one", "--mysql-only"), "is not an integer"),
    (("set", "--default"), "name the instant"),
    (("reset", "--mysql-only", "--redshift-only"), "exclude each other"),
)


def test_what_means_nothing_is_refused(marks: Make, orders: Prepared) -> None:
    made = marks(orders)

    for words, said in REFUSED:
        done = made(*words, "-t", orders.table, "--yes")

        assert (done.code, said in done.err, made.wrote) == (2, True, set()), (words, done.err)


def test_a_stream_that_never_ran_has_nothing_to_reset(marks: Make, prepared: Prepare) -> None:
    fresh = prepared()
    fresh.lake.delete_objects([f"watermarks/{fresh.stream.stem}.json", f"history/{fresh.stream.stem}/1.json"])
    made = marks(fresh)

    reset = made("reset", "--all", "--yes")
    loaded = made("set", "--all", "--redshift-only", "--preset", "now", "--yes")
    unknown = made("set", "--all", "--preset", "now", "--yes")

    assert [one.code for one in (reset, loaded)] == [2, 2]
    assert "has never run" in reset.err + loaded.err
    assert (unknown.code, "because MySQL does not answer" in unknown.err) == (4, True)


def test_a_load_is_not_reset_over_files_that_are_gone(marks: Make, orders: Prepared) -> None:
    gone = orders.journal.store.read(f"batches/{orders.stream.stem}/1-1.json")
    assert gone is not None
    orders.lake.delete_objects(json.loads(gone.body)["files"])
    made = marks(orders)

    done = made("reset", "-t", orders.table, "--redshift-only", "--yes")

    assert done.code == 7
    assert "the last of these is batch 1-1" in done.err
    assert f"syncd watermark reset -t shop.{orders.table} --mysql-only" in done.err
    assert made.wrote == set()
    behind = made("set", "-t", orders.table, "--redshift-only", "--after", "1-1", "--yes")
    assert behind.code == 0, behind.err


def test_the_system_wide_default_is_set_shown_and_taken_away(marks: Make, orders: Prepared) -> None:
    made = marks(orders)

    done = made("set", "--default", "--timestamp", "2025-01-01", "--yes", "--reason", "a new year", "--json")
    shown, listed = made("get"), made("list", "--json")
    refused = made("set", "--default", "-t", orders.table, "--preset", "now", "--yes")
    gone = made("reset", "--default", "--yes")

    told = json.loads(done.out)
    assert set(told) == {"dry_run", "author", "reason", "before", "after"}
    assert (told["before"]["start"], told["after"]["start"]) == (None, "2025-01-01T00:00:00.000000Z")
    assert "begin at 2025-01-01 00:00:00 UTC" in shown.out
    assert json.loads(listed.out)["default"] == told["after"]
    assert refused.code == 2
    assert gone.code == 0
    history = json.loads(made("history", "--default", "--json").out)["streams"][0]["entries"]
    assert [(one["change"], one["start"], one["reason"]) for one in history] == [
        ("set", None, ""),
        ("set", "2025-01-01T00:00:00.000000Z", "a new year"),
    ]
    assert orders.journal.store.read(f"watermarks/{SYSTEM_STEM}.json") is not None


# The rules of a mark that a person set for the load.


def test_only_files_written_after_the_instant_land_and_the_rest_is_left_out(
    marks: Make, prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared()
    for key in (1, 2):
        orders.increment(row(key, key))
    instant = datetime.now(UTC)
    links = [orders.increment(row(key, key)) for key in (3, 4)]
    assert links[0].made_at > instant
    made = marks(orders)

    done = made("set", "-t", orders.table, "--redshift-only", "--timestamp", instant.isoformat(), "--yes", "--json")
    loader.load(orders)

    [told] = json.loads(done.out)["streams"]
    assert (told["to_load"], told["to_skip"]) == ({"batches": 2, "rows": 2}, {"batches": 2, "rows": 2})
    assert told["after"]["skipped"] == [["1-0", "1-2"]]
    assert warehouse.rows(orders) == [(3, "row 3"), (4, "row 4")]
    fields = state_of(orders).to_fields()
    assert (fields["backup_strategy"], fields["metadata"]["manual_watermark"]) == ("manual_cli", True)
    files = json.loads(made("get", "-t", orders.table, "--show-files", "--json").out)["streams"][0]["files"]
    assert [file["state"] for file in files] == ["left out", "left out", "loaded", "loaded"]


@pytest.mark.parametrize("change", ["set", "reset", "set and undo"])
def test_what_was_left_out_stays_so_across_a_new_generation(
    marks: Make, prepared: Prepare, loader: Loader, warehouse: Reader, change: str
) -> None:
    orders = prepared()
    orders.increment(row(1, 1), row(2, 2))
    made = marks(orders)
    assert made("set", "-t", orders.table, "--redshift-only", "--preset", "now", "--yes").code == 0

    wish = ("reset",) if change == "reset" else ("set", "--timestamp", "2026-09-21 14:13:22")
    assert made(*wish, "-t", orders.table, "--mysql-only", "--yes").code == 0
    if change == "set and undo":
        assert made("undo", "-t", orders.table, "--yes").code == 0
    again = {"set": (2, 2), "reset": (1, 1), "set and undo": (3, 3)}[change]
    orders.increment(row(*again), row(9, 9))
    loader.load(orders)

    assert warehouse.rows(orders) == [(again[0], f"row {again[0]}"), (9, "row 9")]
    assert state_of(orders).load_progress.skipped_batches[0].up_to == BatchId(1, 1)


def test_a_position_leaves_out_what_holds_nothing_above_it(
    marks: Make, prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    events = prepared(cursor="id")
    for key in (1, 3, 5):
        events.increment(row(key, key), row(key + 1, key + 1))
    made = marks(events)

    done = made("set", "-t", events.table, "--redshift-only", "--id", "3", "--yes", "--json")
    loader.load(events)

    assert done.code == 0, done.err
    assert [key for key, _ in warehouse.rows(events)] == [3, 4, 5, 6]
    assert made("set", "-t", events.table, "--mysql-only", "--preset", "now", "--yes").code == 2
    assert made("set", "-t", events.table, "--mysql-only", "--id", "2", "--yes").code == 0
    assert state_of(events).required_extract_progress.cursor.to_texts() == ["int:2"]
