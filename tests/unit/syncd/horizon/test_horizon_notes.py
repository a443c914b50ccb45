import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from syncd.horizon import HorizonNotes, IdCandidate
from syncd.horizon.horizon_notes import FORMAT, MAX_CANDIDATES, VERSION, thin_candidates
from syncd.ports.source import ServerTimeBreak, TableName
from watermarks.codec import encode
from watermarks.errors import StateUnreadable

T0 = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
ORDERS = TableName(database="shop", table="orders")
FULL = HorizonNotes(
    identity="one",
    t0=T0,
    statement_starts={7: T0, 9: datetime.min.replace(tzinfo=UTC)},
    first_stamps={"4711": T0, "4712": None},
    proven_bounds={ORDERS: T0},
    tables=frozenset({ORDERS}),
    candidates={ORDERS: (IdCandidate(t0=T0, highest=42),)},
    is_break_open=True,
    local_time=T0 + timedelta(seconds=1),
    breaks=(
        ServerTimeBreak(id="one, two", is_other_server=True),
        ServerTimeBreak(id="two, two", clock_reset_to=T0),
        ServerTimeBreak(id="how far?"),
    ),
)


@pytest.mark.parametrize("notes", [FULL, HorizonNotes(identity="one", t0=T0)])
def test_notes_come_back_as_they_were(notes: HorizonNotes) -> None:
    assert HorizonNotes.from_bytes(notes.to_bytes(), at="notes/shop.json") == notes


def test_notes_of_the_first_form_know_of_no_breaks() -> None:
    fields = json.loads(FULL.to_bytes())
    for name in ("digest", "format", "format_version", "here", "breaks"):
        del fields[name]

    assert HorizonNotes.from_bytes(encode(FORMAT, 1, fields), at="notes/shop.json") == replace(
        FULL, local_time=None, breaks=()
    )


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
        HorizonNotes.from_bytes(encode(FORMAT, VERSION, {**fields, field: value}), at="notes/shop.json")


def test_too_many_candidates_lose_every_second_but_not_the_ends() -> None:
    many = tuple(IdCandidate(t0=T0 + timedelta(seconds=n), highest=n) for n in range(MAX_CANDIDATES + 1))

    left = thin_candidates(many)

    assert len(left) < MAX_CANDIDATES
    assert (left[0], left[-1]) == (many[0], many[-1])
    assert thin_candidates(many[1:]) == many[1:]
