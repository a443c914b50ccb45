from typing import Any

import pytest

from watermarks import document
from watermarks.document import FORMAT_VERSION, upgrade_fields


def rename_job(fields: dict[str, Any]) -> dict[str, Any]:
    return {"stream" if name == "job" else name: value for name, value in fields.items()}


def add_zone(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "zone": f"UTC for {fields['stream']}"}


@pytest.fixture
def two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "UPGRADE_STEPS", {1: rename_job, 2: add_zone})


def test_a_current_document_is_left_as_it_is() -> None:
    fields = {"format_version": FORMAT_VERSION, "stream": "orders"}

    assert upgrade_fields(fields) == {"format_version": FORMAT_VERSION, "stream": "orders"}


def test_every_older_version_has_a_step_and_no_step_leads_beyond_the_current_one() -> None:
    """Forgotten, it would leave documents that no version can read."""
    assert set(document.UPGRADE_STEPS) == set(range(1, FORMAT_VERSION))


@pytest.mark.usefixtures("two_steps")
def test_an_older_document_goes_through_every_step_in_turn() -> None:
    assert upgrade_fields({"format_version": 1, "job": "orders"}) == {
        "format_version": 3,
        "stream": "orders",
        "zone": "UTC for orders",
    }


@pytest.mark.usefixtures("two_steps")
def test_a_document_between_two_versions_goes_through_the_later_step_alone() -> None:
    assert upgrade_fields({"format_version": 2, "stream": "orders", "job": "kept"}) == {
        "format_version": 3,
        "stream": "orders",
        "job": "kept",
        "zone": "UTC for orders",
    }


@pytest.mark.usefixtures("two_steps")
def test_an_upgrade_leaves_what_was_read_untouched() -> None:
    fields = {"format_version": 1, "job": "orders"}

    upgrade_fields(fields)

    assert fields == {"format_version": 1, "job": "orders"}
