"""What the API tells: its fields are those that docs/http.md lists, and are all there."""

import re
from functools import cache, partial
from pathlib import Path
from typing import Any

from syncd.observe.json_fields import board_fields, one_fields
from syncd.observe.mark_history import moves_of
from tests.builders import NOON, ORDERS, make_chain, make_watermark
from tests.services.board_story import Story
from watermarks.document import Watermark
from watermarks.history import Change, Journal, Note
from watermarks.stores.memory import MemoryStore
from watermarks.testing import ManualClock

DOCS = (Path(__file__).parents[4] / "docs" / "http.md").read_text()


def documented(name: str) -> set[str]:
    """The fields of one part of the page."""
    found = re.search(rf"^\*\*{name}\*\*:(.*?)(?:\n\n|\Z)", DOCS, re.DOTALL | re.MULTILINE)
    assert found, name
    return set(re.findall(r"`([a-z_]+)`", found[1]))


@cache
def story() -> Story:
    told = Story(ManualClock(NOON))
    told.play(22)
    return told


def stood(count: int, _before: Watermark | None) -> Watermark:
    """The watermark of a stream after so many batches, all but the last one landed."""
    return make_watermark(*make_chain(count), landed=count - 1)


def keys(told: Any) -> set[str]:
    return set(told)


def test_all_fields_of_the_list_are_documented_and_no_others() -> None:
    told = board_fields(story().board.view())
    stream = told["streams"][0]

    assert keys(told) <= documented("streams")
    assert keys(stream) <= documented("stream")
    assert keys(stream["stages"]["extract"]) <= documented("stage")
    assert keys(stream["complete"]) <= documented("complete")
    assert keys(stream["stages"]["extract"]["error"]) <= documented("error")


def test_all_fields_of_one_stream_are_documented() -> None:
    seen = story().board.view()
    one = seen.find("orders")
    assert one is not None
    told = one_fields(one, at=seen.at)

    assert keys(told) <= documented("stream")
    assert keys(told["runs"][0]) <= documented("run")
    assert keys(told["batches"][0]) <= documented("batch")
    assert keys(told["notices"][0]) <= documented("notice")


def test_history_is_read_newest_first_with_the_fields_of_the_command() -> None:
    journal = Journal(MemoryStore(), Watermark, clock=ManualClock(NOON))
    for count in (1, 2, 3):
        note = Note(change=Change.EXTRACT, who="me", stage="extract", epoch=1)
        journal.commit(ORDERS.stem, partial(stood, count), note)

    newest, older = (
        moves_of(journal, ORDERS, limit=2, before=None),
        moves_of(journal, ORDERS, limit=5, before=2),
    )

    assert [(move.revision, move.extracted, move.loaded) for move in newest] == [(3, "1-3", "1-2"), (2, "1-2", "1-1")]
    assert [move.revision for move in older] == [1]
    assert keys(newest[0].fields()) <= documented("entry")
    assert moves_of(journal, ORDERS.at("other"), limit=5, before=None) == []
