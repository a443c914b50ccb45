"""The right sentence for a row, from what is known of it."""

from dataclasses import replace
from typing import Any

import pytest

from syncd.operations.row_status import (
    QuarantinedVersion,
    RowFacts,
    RowStatus,
    RowVersion,
    SourceRow,
    TargetRow,
    explain_row,
    format_cursor_value,
)
from tests.builders import at
from watermarks.batch import BatchId
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.progress import LoadProgress, SkippedBatches


def batch(text: str) -> BatchId:
    return BatchId.from_text(text)


def sighting(text: str = "1-2", **more: Any) -> RowVersion:
    given: dict[str, Any] = {
        "batch": batch(text),
        "first_read_by": batch(text),
        "file": "s3://f",
        "row": 7,
        "planned_at": "then",
    }
    return RowVersion(**{**given, **more})


def source(seconds: float | None) -> SourceRow:
    return SourceRow(
        was_asked=True, exists=seconds is not None, cursor=None if seconds is None else at(seconds, 42), problem=""
    )


def target(text: str | None = None, rows: int = 1, **more: Any) -> TargetRow:
    return TargetRow(was_asked=True, rows=rows, batch=batch(text) if text else None, problem="", **more)


SEEN = format_cursor_value(at(5, 42).values[0].raw)
FACTS = RowFacts(
    table="shop.orders",
    key={"id": "42"},
    mark=at(10, 9),
    load_progress=LoadProgress(last_batch=batch("1-3")),
    source=source(5),
    target=target("1-2"),
    versions=(sighting(cursor=SEEN),),
    loaded_at="12:00",
)
REFUSED = QuarantinedVersion(batch=batch("1-2"), stage="load", file="s3://q", reason="name: too long")
NOT_SEEN: dict[str, Any] = {"versions": (), "target": target(rows=0)}

CASES: dict[str, tuple[dict[str, Any], RowStatus, str, str]] = {
    "loaded": ({}, RowStatus.LOADED, "batch 1-2 read it, row 7 of s3://f, and loaded it at 12:00", "nothing"),
    "loaded, as the mark says": (
        {"target": TargetRow(problem="the warehouse could not be queried: away")},
        RowStatus.LOADED,
        "according to the mark; the warehouse could not be queried: away",
        "nothing",
    ),
    "overwritten": ({"target": target("1-3")}, RowStatus.LOADED, "a newer version, read by batch 1-3", "nothing"),
    "in a file": (
        {"load_progress": LoadProgress(last_batch=batch("1-1"))},
        RowStatus.IN_FILE,
        "the batch waits to be loaded",
        "--load-only",
    ),
    "left out": (
        {
            "load_progress": LoadProgress(
                last_batch=batch("1-3"), skipped_batches=(SkippedBatches(after=batch("1-1"), up_to=batch("1-2")),)
            )
        },
        RowStatus.LEFT_OUT,
        "an operator skipped that batch",
        "watermark history",
    ),
    "in a file that lost its rows": (
        {"target": target(rows=0)},
        RowStatus.IN_DOUBT,
        "the target has no such row",
        "syncd verify",
    ),
    "an older version in the target": (
        {"target": target("1-1")},
        RowStatus.IN_DOUBT,
        "the version of batch 1-1",
        "syncd verify",
    ),
    "not yet due": (
        {**NOT_SEEN, "source": source(11), "next_high": at(12, 1)},
        RowStatus.NOT_DUE,
        "the next batch reads it",
        "syncd run",
    ),
    "due later": (
        {**NOT_SEEN, "source": source(99), "next_high": at(12, 1)},
        RowStatus.NOT_DUE,
        "a later batch reads it",
        "syncd run",
    ),
    "changed since it was loaded": (
        {"source": source(11)},
        RowStatus.NOT_DUE,
        "an older version of it was read by batch 1-2",
        "syncd run",
    ),
    "read ahead of the mark": (
        {"source": source(11), "versions": (sighting(cursor=format_cursor_value(at(11, 42).values[0].raw)),)},
        RowStatus.LOADED,
        "loaded it",
        "nothing",
    ),
    "held": (
        {**NOT_SEEN, "source": source(11), "hold_reason": "held by transaction 4711"},
        RowStatus.HELD,
        "held by transaction 4711",
        "nothing",
    ),
    "quarantined": (
        {"quarantined": (REFUSED,)},
        RowStatus.QUARANTINED,
        "put it into quarantine: name: too long",
        "quarantine replay",
    ),
    "quarantined before, good since": (
        {"quarantined": (replace(REFUSED, batch=batch("1-1")),)},
        RowStatus.LOADED,
        "loaded it",
        "nothing",
    ),
    "brought back": (
        {"quarantined": (replace(REFUSED, replayed_by=batch("1-3")),)},
        RowStatus.LOADED,
        "loaded it",
        "nothing",
    ),
    "deleted and buried": (
        {"source": source(None), "deleted_by": batch("1-3"), "target": target(rows=0)},
        RowStatus.DELETED,
        "batch 1-3 removed it",
        "nothing",
    ),
    "deleted, and not buried yet": (
        {"source": source(None), "deleted_by": batch("1-4")},
        RowStatus.DELETED,
        "waits to be loaded",
        "--load-only",
    ),
    "deleted, and kept as such": (
        {"source": source(None), "target": target("1-2", deleted_at="yesterday")},
        RowStatus.DELETED,
        "deleted since yesterday",
        "nothing",
    ),
    "removed at both": (
        {"source": source(None), "target": target(rows=0)},
        RowStatus.DELETED,
        "MySQL has none either",
        "nothing",
    ),
    "buried, inserted again, and gone again": (
        {"source": source(None), "deleted_by": batch("1-1")},
        RowStatus.LOADED,
        "MySQL no longer has the row, but the target still has it",
        "syncd verify",
    ),
    "gone at the source alone": (
        {"source": source(None)},
        RowStatus.LOADED,
        "MySQL no longer has the row, but the target still has it",
        "syncd verify",
    ),
    "no such row": ({**NOT_SEEN, "source": source(None)}, RowStatus.NEVER_SEEN, "it was never read", "key"),
    "before the start": (
        {**NOT_SEEN, "source": source(2), "stream_start": at(3)},
        RowStatus.BEFORE_START,
        "the stream begins at",
        "--from",
    ),
    "at or below the mark, and nowhere": ({**NOT_SEEN}, RowStatus.IN_DOUBT, "at or below the mark", "syncd verify"),
    "nowhere among the newest": (
        {**NOT_SEEN, "all_files_checked": False},
        RowStatus.UNKNOWN,
        "only the newest files",
        "--all-files",
    ),
    "nowhere, and files are cleaned": (
        {**NOT_SEEN, "missing_files": 3},
        RowStatus.UNKNOWN,
        "3 files were removed",
        "search",
    ),
    "nowhere, and MySQL is away": (
        {**NOT_SEEN, "source": SourceRow(problem="MySQL could not be queried: away")},
        RowStatus.UNKNOWN,
        "MySQL could not be queried: away",
        "MySQL",
    ),
    "in the target alone": (
        {"versions": (), "target": target("1-1"), "missing_files": 1},
        RowStatus.LOADED,
        "read by batch 1-1; its file was cleaned",
        "nothing",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_row_gets_its_sentence(name: str) -> None:
    changed, place, why, next_ = CASES[name]

    said = explain_row(replace(FACTS, **changed))

    assert said.status is place, said
    assert why in said.reason
    assert next_ in said.next_step


def test_a_stream_without_a_mark_has_everything_before_it() -> None:
    said = explain_row(replace(FACTS, mark=START_CURSOR, versions=(), target=TargetRow(), source=source(1)))

    assert said.status is RowStatus.NOT_DUE
    assert "the mark of the beginning" in said.reason


def test_positions_that_only_a_database_orders_are_told_apart_by_their_time() -> None:
    mark, row = Cursor.from_values(at(1).values[0].raw, 5), at(2, 1)

    assert (
        explain_row(replace(FACTS, mark=mark, source=replace(source(2), cursor=row), **NOT_SEEN)).status
        is RowStatus.NOT_DUE
    )
