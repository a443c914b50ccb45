import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from syncd.horizon import Candidate, Notes
from syncd.horizon.notes import FORMAT, MOST_CANDIDATES, VERSION, thinned
from syncd.ports.source import Break, TableName
from watermarks.codec import seal
from watermarks.errors import StateUnreadable

T0 = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
ORDERS = TableName(database="shop", table="orders")
FULL = Notes(
    identity="one",
    t0=T0,
    running={7: T0, 9: datetime.min.replace(tzinfo=UTC)},
    writers={"4711": T0, "4712": None},
    answers={ORDERS: T0},
    tables=frozenset({ORDERS}),
    candidates={ORDERS: (Candidate(t0=T0, highest=42),)},
    replaced=True,
    here=T0 + timedelta(seconds=1),
    breaks=(Break(id="one, two", other=True), Break(id="two, two", low=T0), Break(id="how far?")),
)


@pytest.mark.parametrize("notes", [FULL, Notes(identity="one", t0=T0)])
def test_notes_come_back_as_they_were(notes: Notes) -> None:
    assert Notes.of_bytes(notes.to_bytes(), at="notes/shop.json") == notes


def test_notes_of_the_first_form_know_of_no_breaks() -> None:
    fields = json.loads(FULL.to_bytes())
    for name in ("digest", "format", "format_version", "here", "breaks"):
        del fields[name]

    assert Notes.of_bytes(seal(FORMAT, 1, fields), at="notes/shop.json") == replace(FULL, here=None, breaks=())


def test_unknown_writers_are_told() -> None:
    assert FULL.unknown_writers
    assert not Notes(identity="one", t0=T0, writers={"1": T0}).unknown_writers


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("t0", "noon"),
        ("running", {"seven": "2026-03-01T12:00:00.000000Z"}),
        ("writers", {"4711": 5}),
        ("answers", [["shop"]]),
        ("tables", {"found": []}),
        ("candidates", [["shop", "orders", [1]]]),
        ("candidates", [1]),
        ("replaced", None),
        ("breaks", [["one"]]),
        ("breaks", [["one", "noon", False]]),
        ("strange", 1),
    ],
)
def test_notes_of_another_shape_are_damage(field: str, value: object) -> None:
    fields = json.loads(FULL.to_bytes())
    del fields["digest"], fields["format"], fields["format_version"]

    with pytest.raises(StateUnreadable):
        Notes.of_bytes(seal(FORMAT, VERSION, {**fields, field: value}), at="notes/shop.json")


def test_too_many_candidates_lose_every_second_but_not_the_ends() -> None:
    many = tuple(Candidate(t0=T0 + timedelta(seconds=n), highest=n) for n in range(MOST_CANDIDATES + 1))

    left = thinned(many)

    assert len(left) < MOST_CANDIDATES
    assert (left[0], left[-1]) == (many[0], many[-1])
    assert thinned(many[1:]) == many[1:]
