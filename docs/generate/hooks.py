"""MkDocs hook: list the decision records in the navigation, so that a new one needs no entry in mkdocs.yml."""

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace `decisions: []` below Explanation by the records of docs/decisions."""
    records = sorted(path.name for path in (Path(config.docs_dir) / "decisions").glob("*.md"))
    nav: list[Any] = list(config.nav or [])
    for section in nav:
        for title, pages in section.items():
            if title == "Explanation":
                pages.append({"Decisions": [f"decisions/{name}" for name in records]})
    config.nav = nav
    return config
