"""The first hour, played from its beginning to its end, and held against the page that shows it."""

import difflib
from pathlib import Path

import pytest

from tests.journeys.page import page
from tests.journeys.playing import play_all, stage

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "tour.md"

pytestmark = pytest.mark.services


def test_the_first_hour_is_as_its_page_says(tmp_path_factory: pytest.TempPathFactory) -> None:
    with stage(tmp_path_factory.mktemp("tour")) as on:
        fresh = page(play_all(on), places=on.places)

    differs = difflib.unified_diff(
        PAGE.read_text().splitlines(), fresh.splitlines(), str(PAGE.name), "what was printed now", lineterm="", n=2
    )
    told = "\n".join(differs)
    assert not told, f"`make tour` renews the page, where this is meant:\n{told}"
