"""The dashboard in a browser: with a script it keeps itself fresh, without one it says as much."""

import pytest

from syncd.events import PassEnded
from syncd.observe.board import Board
from syncd.observe.stream_state import ConfiguredStream
from tests.builders import NOON
from tests.services.board_story import ODD, Story, stream_of
from tests.services.chromium import dumped
from tests.services.http import served, told
from tests.unit.syncd.observe.stories import EXTRACT, ended
from watermarks.names import StreamName
from watermarks.testing import ManualClock

pytestmark = pytest.mark.services

NO_SCRIPT = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What makes a browser run no script of a page; to look at it from outside it has to be able to."""
LOOKS = "--virtual-time-budget=9000"
"""Long enough, in the browser's own time, for two looks."""


@pytest.fixture
def no_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syncd.daemon.routes.POLICY", NO_SCRIPT)


@pytest.mark.usefixtures("no_script")
def test_without_a_script_everything_is_there() -> None:
    with served(told().answers()) as server:
        page = dumped(server.url)

    assert "data-looked" not in page
    for said in (
        "extract failed",
        "Run in the warehouse: ALTER TABLE",
        "held by transaction 4711",
        "not proven",
        "shop.carts",
    ):
        assert said in page
    assert page.count('class="spark"') == 11


def test_with_a_script_what_happens_is_seen_without_loading_anew() -> None:
    story = told()
    answers, looks = story.answers(), 0
    view = Board.view

    class Watched:
        """The board, which tells of a new event once it has been looked at."""

        def view(self) -> object:
            nonlocal looks
            looks += 1
            if looks == 2:
                story.tell(_good())
            return view(story.board)

    answers._board = Watched()  # type: ignore[assignment]  # it does what is asked of a board
    with served(answers) as server:
        page = dumped(server.url, LOOKS)

    assert looks >= 2
    assert 'data-looked="' in page
    assert "The daemon does not answer" in page
    assert '<p id="gone" role="status" hidden="">' in page
    assert "column `amount` was decimal" not in page, "the failure that is over is gone"


def _good() -> PassEnded:
    return ended(EXTRACT, stream=stream_of("prices"), behind=1)


def test_a_page_whose_daemon_is_gone_says_so() -> None:
    story = told()
    answers = story.answers()
    real, asked = answers.respond, 0

    def to(target: str, *, trusted: bool) -> object:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise RuntimeError("gone")
        return real(target, trusted=trusted)

    answers.respond = to  # type: ignore[method-assign, assignment]  # from the second look on it answers nothing sensible
    with served(answers) as server:
        page = dumped(server.url, LOOKS)

    assert '<p id="gone" role="status">' in page
    assert "shop.orders" in page


def test_a_name_that_looks_like_markup_is_a_name_in_a_browser_too() -> None:
    stream = StreamName(source="main", database="shop", table=ODD)
    evil = StreamName(source="main", database="shop", table="<img src=x onerror=document.title='owned'>")
    story = Story(ManualClock(NOON))
    story.board.set_streams([ConfiguredStream(stream=stream, target=ODD), ConfiguredStream(stream=evil)])
    story.tell(ended(EXTRACT, stream=evil, reason="<script>document.title='owned'</script>"))
    with served(story.answers()) as server:
        page = dumped(server.url, LOOKS)

    assert "owned</title>" not in page
    assert "<img" not in page
    assert "&lt;b&gt;odd&lt;/b&gt;" in page


def test_a_stream_and_its_history_open_from_the_board() -> None:
    with served(told().answers()) as server:
        board = dumped(server.url)
        assert 'href="/streams/main%2Fshop.orders"' in board
        one = dumped(f"{server.url}streams/main%2Fshop.orders", LOOKS)
        history = dumped(f"{server.url}streams/main%2Fshop.orders/history")

    assert "S3 to Redshift" in one
    assert 'data-looked="' in one
    assert "read August again" in history
    assert "before=25" in history


def test_five_hundred_streams_can_be_searched() -> None:
    story = Story(ManualClock(), more=488)
    story.play(0.4)
    with served(story.answers()) as server:
        whole = dumped(server.url, LOOKS)
        found = dumped(f"{server.url}?find=archive_48")

    assert whole.count("<tbody id=") == 500
    assert found.count("<tbody id=") == 8
