"""Generated parts of the documentation are current."""

import re

import pytest

from docs.generate.blocks import BlockMissing, replace_block
from docs.generate.reference import DOCS, PAGES, renew
from syncd.error_classes import ExitCode


@pytest.mark.parametrize("page", PAGES)
def test_generated_blocks_of_a_page_are_current(page: str) -> None:
    assert (DOCS / page).read_text(encoding="utf-8") == renew(page), "make reference"


def test_every_exit_code_has_a_meaning() -> None:
    page = (DOCS / "reference" / "exit-codes.md").read_text(encoding="utf-8")

    assert {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == {*ExitCode}


def test_every_module_that_the_architecture_page_names_exists() -> None:
    page = (DOCS / "explanation" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:syncd|watermarks)/[\w/]+\.py)`", page)

    assert len(named) > 60
    assert [path for path in named if not (DOCS.parent / path).exists()] == []


def test_a_page_without_its_block_is_refused() -> None:
    with pytest.raises(BlockMissing, match="moves"):
        replace_block("# A page", "moves", "text")
