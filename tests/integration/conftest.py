"""Of a test with several cases, CI runs the first on each server; `make test-all` runs every case."""

from pathlib import Path

import pytest

ONE_CASE_FOLDERS = frozenset({"desk", "load", "sandbox", "stage", "verify", "ways"})
"""Folders whose cases take seconds each. A case that is left out can fail alone: run `make test-all` as well."""


@pytest.hookimpl(tryfirst=True)  # before the selection by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every case but the first on each server as slow; a server that is not installed skips its case."""
    here, seen = Path(__file__).parent, set[tuple[str, str]]()
    for item in items:
        if item.path.is_relative_to(here) and item.path.relative_to(here).parts[0] in ONE_CASE_FOLDERS:
            if item.get_closest_marker("long") or item.get_closest_marker("slow"):
                continue
            name, _, case = item.nodeid.partition("[")
            server = next((word for word in case.rstrip("]").split("-") if word in {"mariadb", "mysql"}), "")
            if (name, server) in seen:
                item.add_marker(pytest.mark.slow)
            seen.add((name, server))
