"""What the API tells: its fields are those that docs/reference/http.md lists, and are all there."""

import re
from functools import cache, partial
from pathlib import Path
from typing import Any

from syncd.observe.json_fields import board_to_json, stream_detail_to_json
from syncd.observe.mark_history import read_mark_history
from tests.builders import NOON, ORDERS, make_chain, make_watermark
from tests.services.board_story import Story
from watermarks.document import Watermark
from watermarks.history import ChangeKind, ChangeNote, Journal
from watermarks.stores.memory import MemoryStore
from watermarks.testing import ManualClock

DOCS = (Path(__file__).parents[4] / "docs" / "reference" / "http.md").read_text()


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
    told = board_to_json(story().board.view())
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
    told = stream_detail_to_json(one, at=seen.at)

    assert keys(told) <= documented("stream")
    assert keys(told["runs"][0]) <= documented("run")
    assert keys(told["batches"][0]) <= documented("batch")
    assert keys(told["notices"][0]) <= documented("notice")


def test_history_is_read_newest_first_with_the_fields_of_the_command() -> None:
    journal = Journal(MemoryStore(), Watermark, clock=ManualClock(NOON))
    for count in (1, 2, 3):
        note = ChangeNote(change=ChangeKind.EXTRACT, author="me", stage="extract", epoch=1)
        journal.commit(ORDERS.stem, partial(stood, count), note)

    newest, older = (
        read_mark_history(journal, ORDERS, limit=2, before=None),
        read_mark_history(journal, ORDERS, limit=5, before=2),
    )

    assert [(move.revision, move.last_extracted, move.last_loaded) for move in newest] == [
        (3, "1-3", "1-2"),
        (2, "1-2", "1-1"),
    ]
    assert [move.revision for move in older] == [1]
    assert keys(newest[0].to_json()) <= documented("entry")
    assert read_mark_history(journal, ORDERS.with_target("other"), limit=5, before=None) == []
