"""The pages as they are sent: readable as they stand, and no word of others is ever markup."""

import time
from datetime import timedelta
from html.parser import HTMLParser

import pytest

from syncd.errors import WarehouseDown
from syncd.events import ColumnIncomplete
from syncd.observe.board import Board
from syncd.observe.dashboard.overview_page import overview_page
from syncd.observe.dashboard.page_frame import Markup, tag
from syncd.observe.dashboard.stream_page import history_error_page, history_page, stream_page
from syncd.observe.dashboard.stream_parts import sparkline
from syncd.observe.formatting import format_bytes, format_cursor, format_duration, format_number, format_time_until
from syncd.observe.stream_state import ConfiguredStream
from tests.builders import NOON, ORDERS, at
from tests.services.board_story import ODD, Story
from tests.unit.syncd.observe.stories import EXTRACT, LOAD, ended, extracted, held_back, make_board, tell
from watermarks.batch import BatchId
from watermarks.cursor import Cursor
from watermarks.names import StreamName
from watermarks.testing import ManualClock

VOID = {"meta", "input", "link"}
DOWN = WarehouseDown("away", hint="Is it up?")


class Reader(HTMLParser):
    """Reads a page: its elements, its text, and whether all that opens is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in {"style", "script"}:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())

    def elements(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.seen if tag == name]


def test_a_stream_in_trouble_says_why_and_what_would_help() -> None:
    board = make_board(promised_lag=timedelta(seconds=30))
    tell(board, ended(EXTRACT, behind=4), held_back(EXTRACT, "no place is free", until=NOON), ended(LOAD, error=DOWN))

    page = Reader(overview_page(board.view()))

    assert "load failed at 12:00:00: away" in page.text
    assert "Is it up?" in page.text
    assert "extract is held back: no place is free (until 12:00:00)" in page.text
    assert "11:59:56" in page.text
    assert "4 s behind · proven" in page.text


def test_what_is_not_proven_is_said() -> None:
    board = make_board()
    tell(board, ended(EXTRACT, behind=4, proven=False))

    assert "not proven" in Reader(overview_page(board.view())).text
    assert "not proven" in Reader(stream_page(board.view().streams[0], now=NOON)).text


@pytest.mark.parametrize(
    "evil", [ODD, "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</main></script>"]
)
def test_no_word_of_others_becomes_markup(evil: str) -> None:
    stream = StreamName(source="main", database=evil, table=evil)
    board = Board([ConfiguredStream(stream=stream, target=evil, schedule=evil)], clock=ManualClock(NOON))
    error = WarehouseDown(evil, hint=evil)
    incomplete = ColumnIncomplete(stream=stream, column=evil, since=BatchId(1, 1), reason=evil, hint=evil)
    mark = Cursor.from_values(NOON, evil)
    tell(board, extracted(1, stream=stream, kind=evil, mark=mark), held_back(EXTRACT, evil, stream=stream), incomplete)
    tell(board, ended(LOAD, stream=stream, error=error, mark=mark, reason=evil, state=evil))
    seen = board.view()

    pages = (
        overview_page(seen, search=evil),
        overview_page(seen),
        stream_page(seen.streams[0], now=NOON),
        history_page(stream, Story(ManualClock(NOON)).history(stream, 3, None), now=NOON),
        history_error_page(stream, evil, evil),
    )

    for page in pages:
        read = Reader(page)
        assert " ".join(evil.split()) in read.text
        assert not read.elements("img")
        assert not read.elements("b") or all(not attributes for attributes in read.elements("b"))
        assert len(read.elements("script")) == 1
        assert all(not name.startswith("on") for _, attributes in read.seen for name in attributes)


def test_every_page_works_without_a_script() -> None:
    board = make_board()

    for page in (overview_page(board.view()), stream_page(board.view().streams[0], now=NOON)):
        read = Reader(page)
        assert {"http-equiv": "refresh", "content": "10"} in read.elements("meta")
        assert read.elements("html") == [{"lang": "en"}]
        assert read.elements("title")


def test_every_field_has_a_label_and_every_drawing_a_title() -> None:
    story = Story(ManualClock(NOON))
    story.play(22)
    read = Reader(overview_page(story.board.view()))

    labels = {attributes.get("for") for attributes in read.elements("label")}
    assert all(attributes["id"] in labels for attributes in read.elements("input"))
    drawings = read.elements("svg")
    assert drawings
    assert all(attributes.get("aria-label") for attributes in drawings)


def test_a_stream_is_found_by_name_and_by_state() -> None:
    story = Story(ManualClock(NOON))
    story.play(22)
    seen = story.board.view()

    def found(words: str) -> list[str | None]:
        return [one["id"] for one in Reader(overview_page(seen, search=words)).elements("tbody") if one.get("id")]

    assert found("FAILED pric") == ["stream main/shop.prices"]
    assert len(found("order")) == 2
    assert found("no such stream") == []


def test_five_hundred_streams_are_one_page_that_is_quickly_made() -> None:
    story = Story(ManualClock(NOON), more=488)
    story.play(0.4)
    seen = story.board.view()

    began = time.process_time()
    page = overview_page(seen)

    assert time.process_time() - began < 2.0
    assert len([one for one in Reader(page).elements("tbody") if one.get("id")]) == 500


def test_a_line_of_lag_has_gaps_and_never_leaves_its_frame() -> None:
    drawn = sparkline([None, 1.0, 2.0, None, 500.0], points=60, promised=60.0, width=120, height=28)

    paths = [one["d"] or "" for one in Reader(drawn).elements("path")]
    numbers = [float(part) for path in paths for part in path.strip("MZ").replace("L", " ").split()]
    assert len(paths) == 4
    assert all(-1 <= number <= 120 for number in numbers)


def test_a_stream_of_which_nothing_is_known_has_no_line() -> None:
    assert "<svg" not in sparkline([None, None], points=60)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (0.44, "0.4 s"), (8, "8 s"), (59.4, "59 s"), (200, "3 min 20 s"), (7_500, "2 h 5 min"), (-5, "0 s")],
)
def test_spans_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert format_duration(seconds) == said


def test_amounts_are_said_as_people_say_them() -> None:
    assert (format_number(1_234_567), format_bytes(0), format_bytes(999), format_bytes(12_345_678)) == (
        "1,234,567",
        "0 B",
        "999 B",
        "12.3 MB",
    )
    assert format_time_until(NOON + timedelta(seconds=70), now=NOON) == "in 1 min 10 s"
    assert format_time_until(NOON - timedelta(seconds=70), now=NOON) == "now"
    assert format_cursor(at(1, 7)) == "2026-01-31 12:00:01Z, 7"


def test_only_markup_of_ours_passes_as_it_is() -> None:
    made = tag("a", "<b>", tag("i", "&"), href='"x"', data_it=True, hidden=False, title=None)

    assert made == '<a href="&quot;x&quot;" data-it>&lt;b&gt;<i>&amp;</i></a>'
    assert isinstance(made, Markup)


def test_a_stream_without_a_target_says_so() -> None:
    board = Board([ConfiguredStream(stream=ORDERS)], clock=ManualClock(NOON))
    tell(board, ended(EXTRACT, behind=1))

    assert "to the lake only" in Reader(stream_page(board.view().streams[0], now=NOON)).text
