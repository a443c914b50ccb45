"""The right sentence for a row, from what is known of it."""

from dataclasses import replace
from typing import Any

import pytest

from syncd.operations.row_status import AtSource, Facts, InTarget, Place, Refused, Sighting, shown, verdict
from tests.builders import at
from watermarks.batch import BatchId
from watermarks.cursor import START, Cursor
from watermarks.progress import Loaded, Skipped


def batch(text: str) -> BatchId:
    return BatchId.of_text(text)


def sighting(text: str = "1-2", **more: Any) -> Sighting:
    given: dict[str, Any] = {"batch": batch(text), "rank": batch(text), "file": "s3://f", "row": 7, "made_at": "then"}
    return Sighting(**{**given, **more})


def source(seconds: float | None) -> AtSource:
    return AtSource(
        asked=True, there=seconds is not None, cursor=None if seconds is None else at(seconds, 42), trouble=""
    )


def target(text: str | None = None, rows: int = 1, **more: Any) -> InTarget:
    return InTarget(asked=True, rows=rows, batch=batch(text) if text else None, trouble="", **more)


SEEN = shown(at(5, 42).values[0].plain)
FACTS = Facts(
    table="shop.orders",
    key={"id": "42"},
    mark=at(10, 9),
    half=Loaded(last=batch("1-3")),
    source=source(5),
    target=target("1-2"),
    sightings=(sighting(cursor=SEEN),),
    landed_at="12:00",
)
REFUSED = Refused(batch=batch("1-2"), stage="load", file="s3://q", reason="name: too long")
NOT_SEEN: dict[str, Any] = {"sightings": (), "target": target(rows=0)}

CASES: dict[str, tuple[dict[str, Any], Place, str, str]] = {
    "loaded": ({}, Place.LOADED, "batch 1-2 read it, row 7 of s3://f, and it landed at 12:00", "nothing"),
    "loaded, as the mark says": (
        {"target": InTarget(trouble="the warehouse could not be asked: away")},
        Place.LOADED,
        "as the mark says; the warehouse could not be asked: away",
        "nothing",
    ),
    "overwritten": ({"target": target("1-3")}, Place.LOADED, "a newer version, read by batch 1-3", "nothing"),
    "in a file": ({"half": Loaded(last=batch("1-1"))}, Place.IN_FILE, "the batch waits to be loaded", "--load-only"),
    "left out": (
        {"half": Loaded(last=batch("1-3"), skipped=(Skipped(after=batch("1-1"), upto=batch("1-2")),))},
        Place.LEFT_OUT,
        "a person left that batch out",
        "watermark history",
    ),
    "in a file that lost its rows": (
        {"target": target(rows=0)},
        Place.IN_DOUBT,
        "the target has no such row",
        "syncd verify",
    ),
    "an older version in the target": ({"target": target("1-1")}, Place.IN_DOUBT, "the version of 1-1", "syncd verify"),
    "not yet due": (
        {**NOT_SEEN, "source": source(11), "next_high": at(12, 1)},
        Place.NOT_DUE,
        "the next batch reads it",
        "syncd run",
    ),
    "due later": (
        {**NOT_SEEN, "source": source(99), "next_high": at(12, 1)},
        Place.NOT_DUE,
        "in its turn",
        "syncd run",
    ),
    "changed since it was loaded": (
        {"source": source(11)},
        Place.NOT_DUE,
        "an older version of it was read by batch 1-2",
        "syncd run",
    ),
    "read ahead of the mark": (
        {"source": source(11), "sightings": (sighting(cursor=shown(at(11, 42).values[0].plain)),)},
        Place.LOADED,
        "it landed",
        "nothing",
    ),
    "held": (
        {**NOT_SEEN, "source": source(11), "held": "held by transaction 4711"},
        Place.HELD,
        "held by transaction 4711",
        "nothing",
    ),
    "quarantined": ({"refused": (REFUSED,)}, Place.QUARANTINED, "put it aside: name: too long", "quarantine replay"),
    "quarantined before, good since": (
        {"refused": (replace(REFUSED, batch=batch("1-1")),)},
        Place.LOADED,
        "it landed",
        "nothing",
    ),
    "brought back": ({"refused": (replace(REFUSED, replayed_by=batch("1-3")),)}, Place.LOADED, "it landed", "nothing"),
    "deleted and buried": (
        {"source": source(None), "buried": batch("1-3"), "target": target(rows=0)},
        Place.DELETED,
        "batch 1-3 buried it",
        "nothing",
    ),
    "deleted, and not buried yet": (
        {"source": source(None), "buried": batch("1-4")},
        Place.DELETED,
        "waits to be loaded",
        "--load-only",
    ),
    "deleted, and kept as such": (
        {"source": source(None), "target": target("1-2", deleted_at="yesterday")},
        Place.DELETED,
        "deleted since yesterday",
        "nothing",
    ),
    "removed at both": ({"source": source(None), "target": target(rows=0)}, Place.DELETED, "nor has MySQL", "nothing"),
    "buried, inserted again, and gone again": (
        {"source": source(None), "buried": batch("1-1")},
        Place.LOADED,
        "MySQL has no such row any more, and the target keeps it",
        "syncd verify",
    ),
    "gone at the source alone": (
        {"source": source(None)},
        Place.LOADED,
        "MySQL has no such row any more, and the target keeps it",
        "syncd verify",
    ),
    "no such row": ({**NOT_SEEN, "source": source(None)}, Place.NEVER_SEEN, "nobody has ever read it", "key"),
    "before the start": (
        {**NOT_SEEN, "source": source(2), "began": at(3)},
        Place.BEFORE_START,
        "the stream begins at",
        "--from",
    ),
    "at or below the mark, and nowhere": ({**NOT_SEEN}, Place.IN_DOUBT, "at or below the mark", "syncd verify"),
    "nowhere among the newest": ({**NOT_SEEN, "whole": False}, Place.UNKNOWN, "only the newest files", "--all-files"),
    "nowhere, and files are cleaned": (
        {**NOT_SEEN, "gone": 3},
        Place.UNKNOWN,
        "3 files are not there any more",
        "look",
    ),
    "nowhere, and MySQL is away": (
        {**NOT_SEEN, "source": AtSource(trouble="MySQL could not be asked: away")},
        Place.UNKNOWN,
        "MySQL could not be asked: away",
        "MySQL",
    ),
    "in the target alone": (
        {"sightings": (), "target": target("1-1"), "gone": 1},
        Place.LOADED,
        "read by batch 1-1; its file is cleaned",
        "nothing",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_row_gets_its_sentence(name: str) -> None:
    changed, place, why, next_ = CASES[name]

    said = verdict(replace(FACTS, **changed))

    assert said.place is place, said
    assert why in said.why
    assert next_ in said.next


def test_a_stream_without_a_mark_has_everything_before_it() -> None:
    said = verdict(replace(FACTS, mark=START, sightings=(), target=InTarget(), source=source(1)))

    assert said.place is Place.NOT_DUE
    assert "the mark of the beginning" in said.why


def test_positions_that_only_a_database_orders_are_told_apart_by_their_time() -> None:
    mark, row = Cursor.of(at(1).values[0].plain, 5), at(2, 1)

    assert verdict(replace(FACTS, mark=mark, source=replace(source(2), cursor=row), **NOT_SEEN)).place is Place.NOT_DUE
