"""Runs, told from entries alone."""

from datetime import timedelta
from typing import Any

from syncd.operations.run_history import group_runs
from tests.builders import NOON
from watermarks.history import ChangeKind, ChangeNote, HistoryEntry


def entry(  # one line an entry
    number: int, change: ChangeKind, stage: str, run: str, rows: int, *, who: str = "one", why: str = ""
) -> HistoryEntry:
    """An entry after which so many rows were counted, by one stage, in all."""
    side = "mysql" if stage == "extract" else "redshift"
    names = {"extract": "mysql_rows_extracted_total", "load": "redshift_rows_loaded_total"}
    after: dict[str, Any] = {
        f"{side}_run": run,
        names[stage]: rows,
        f"{side}_batches_total": number,
        f"{side}_milliseconds_total": number * 500,
    }
    return HistoryEntry(
        document="shop/shop.orders",
        revision=number,
        nonce="n",
        recorded_at=NOON + timedelta(seconds=number),
        note=ChangeNote(change=change, author=who, reason=why, stage=stage),
        before={},
        after=after,
    )


def test_entries_of_one_run_are_one_run() -> None:
    entries = [entry(number, ChangeKind.EXTRACT, "extract", "r1", number * 10) for number in (3, 2, 1)]

    [run] = group_runs(entries)

    assert (run.run, run.batches, run.rows, run.milliseconds) == ("r1", 3, 30, 1500)
    assert (run.started_at, run.ended_at) == (NOON + timedelta(seconds=0.5), NOON + timedelta(seconds=3))


def test_another_name_or_process_is_another_run() -> None:
    entries = [
        entry(3, ChangeKind.EXTRACT, "extract", "r2", 30, who="two"),
        entry(2, ChangeKind.EXTRACT, "extract", "r2", 20),
        entry(1, ChangeKind.EXTRACT, "extract", "r1", 10),
    ]

    assert [(run.run, run.rows) for run in group_runs(entries)] == [("r2", 10), ("r2", 10), ("r1", 10)]


def test_a_failure_ends_the_run_that_it_befell() -> None:
    entries = [
        entry(4, ChangeKind.EXTRACT, "extract", "r2", 20),
        entry(3, ChangeKind.FAIL, "extract", "r1", 10, why="away"),
        entry(2, ChangeKind.EXTRACT, "extract", "r1", 10),
    ]

    newest, failed = group_runs(entries)

    assert (newest.run, newest.failures) == ("r2", ())
    assert (failed.run, failed.rows, failed.failures) == ("r1", 10, ("away",))


def test_a_hand_on_the_marks_is_no_run() -> None:
    assert list(group_runs([entry(1, ChangeKind.SET, "extract", "r1", 0)])) == []


def test_nothing_is_asked_for_beyond_the_runs_that_are_wanted() -> None:
    asked: list[int] = []

    def entries() -> Any:
        for number in range(100, 0, -1):
            asked.append(number)
            yield entry(number, ChangeKind.EXTRACT, "extract", f"r{number}", number)

    assert next(group_runs(entries())).run == "r100"
    assert len(asked) < 5
