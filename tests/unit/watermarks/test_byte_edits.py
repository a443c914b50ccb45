"""Stored documents under random edits: a named refusal or the right value, never another mark."""

import random
from collections.abc import Callable

import pytest

from tests.builders import NOON, ORDERS, make_chain, make_link, make_plan, make_watermark
from watermarks.batch import BatchId, BatchLink, Plan
from watermarks.codec import parse_json_object
from watermarks.document import Watermark
from watermarks.errors import HintedError, StateUnreadable
from watermarks.history import ChangeKind, ChangeNote, HistoryEntry

EDITS = 20_000
WATERMARK = make_watermark(*make_chain(3), landed=2).with_revision(3, updated_at=NOON)
ENTRY = HistoryEntry(
    document=ORDERS.stem,
    revision=3,
    nonce="n",
    recorded_at=NOON,
    note=ChangeNote(change=ChangeKind.EXTRACT, author="p1", stage="extract", epoch=1),
    before={"revision": 2, "digest": "sha256:0"},
    after=parse_json_object(WATERMARK.to_bytes(), location="here"),
)
DOCUMENTS: dict[str, tuple[object, bytes, Callable[[bytes], object]]] = {
    "watermark": (
        WATERMARK,
        WATERMARK.to_bytes(),
        lambda b: Watermark.from_bytes(b, location="here", stem=ORDERS.stem),
    ),
    "plan": (
        make_plan(),
        make_plan().to_bytes(),
        lambda b: Plan.from_bytes(b, location="here", stream=ORDERS, batch=BatchId(1, 1)),
    ),
    "link": (
        make_link(),
        make_link().to_bytes(),
        lambda b: BatchLink.from_bytes(b, location="here", stream=ORDERS, batch=BatchId(1, 1)),
    ),
    "entry": (
        ENTRY,
        ENTRY.to_bytes(),
        lambda b: HistoryEntry.from_bytes(b, location="here", stem=ORDERS.stem, revision=3),
    ),
    "watermark of an entry": (
        WATERMARK,
        ENTRY.to_bytes(),
        lambda b: Watermark.from_bytes(
            HistoryEntry.from_bytes(b, location="here", stem=ORDERS.stem, revision=3).document_bytes(),
            location="here",
            stem=ORDERS.stem,
        ),
    ),
}


def edited(body: bytes, chance: random.Random) -> bytes:
    """One to three small edits: a byte changed, a bit flipped, a piece cut out, doubled, moved or made up."""
    found = bytearray(body)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at = chance.randrange(len(found) or 1)
        size = chance.randint(1, 12)
        match chance.randrange(7):
            case 0:
                found[at : at + 1] = bytes([chance.randrange(256)])
            case 1 if found:
                found[at] ^= 1 << chance.randrange(8)
            case 2:
                del found[at : at + size]
            case 3:
                found[at:at] = found[at : at + size]
            case 4:
                piece, elsewhere = bytes(found[at : at + size]), chance.randrange(len(found) or 1)
                found[elsewhere:elsewhere] = piece
            case 5:
                found[at : at + 1] = chance.choice(b'0123456789-"{}[],: \\eE.').to_bytes(1, "big")
            case _:
                found = found[:at] if chance.random() < 0.2 else found
    return bytes(found)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_edit_is_taken_for_another_value(name: str) -> None:
    value, body, read = DOCUMENTS[name]
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201  # shown with a failure
    chance = random.Random(seed)
    refused = 0

    for _ in range(EDITS):
        wrong = edited(body, chance)
        try:
            assert read(wrong) == value, wrong
        except HintedError as error:
            assert isinstance(error, StateUnreadable), (wrong, error)
            assert error.hint, error
            refused += 1

    assert refused > EDITS / 2
