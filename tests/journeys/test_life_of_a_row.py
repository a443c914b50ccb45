from pathlib import Path

from tests.journeys.life_of_a_row import (
    MAX_EXTRACT_CALLS,
    MAX_FILES,
    MAX_FOLDER_CHANGES,
    MAX_LOAD_CALLS,
    record_chains,
    render_page,
)

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "life-of-a-row.md"


def test_both_stages_can_be_followed_in_few_calls_and_the_page_lists_them(tmp_path: Path) -> None:
    tmp_path.chmod(0o711)

    extract, load = record_chains(tmp_path)

    assert len(extract.frames) <= MAX_EXTRACT_CALLS, extract.summary
    assert len(load.frames) <= MAX_LOAD_CALLS, load.summary
    assert max(extract.files, load.files) <= MAX_FILES
    assert max(extract.folder_changes, load.folder_changes) <= MAX_FOLDER_CHANGES
    assert PAGE.read_text(encoding="utf-8") == render_page(extract, load), "make life"
