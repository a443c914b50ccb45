"""Renew the generated parts of the documentation: `make reference`.

Prose stands in the pages; only what lies between `<!-- NAME:begin -->` and `<!-- NAME:end -->` comes from code.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from docs.generate.blocks import replace_block
from docs.generate.commands import command_reference, exit_table
from docs.generate.metric_tables import metric_table, metrics_from_zero
from docs.generate.module_tables import folder_rows
from docs.generate.type_tables import policy_rows, type_rows
from syncd.observe.metric_table import BOARD_METRICS, CALL_METRICS, EVENT_METRICS
from watermarks.batch_states import render_diagram

DOCS: Final = Path(__file__).parents[1]

PAGES: Final[Mapping[str, Mapping[str, Callable[[], str]]]] = {
    "reference/cli.md": {"commands": command_reference},
    "reference/exit-codes.md": {"exits": exit_table},
    "reference/metrics.md": {
        "from-zero": metrics_from_zero,
        "events": lambda: metric_table(EVENT_METRICS),
        "calls": lambda: metric_table(CALL_METRICS),
        "gauges": lambda: metric_table(BOARD_METRICS),
    },
    "reference/types.md": {
        "types": lambda: "\n".join(type_rows()),
        "policies": lambda: "\n".join(policy_rows()),
    },
    "explanation/architecture.md": {
        "moves": lambda: f"```mermaid\n{render_diagram().strip()}\n```",
        "folders": lambda: "\n".join(folder_rows()),
    },
}
"""The blocks of each page, with the function that generates each of them."""


def renew(page: str) -> str:
    """Return the page with every generated block renewed."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for name, generate in PAGES[page].items():
        text = replace_block(text, name, generate())
    return text


def main() -> None:
    for page in PAGES:
        (DOCS / page).write_text(renew(page), encoding="utf-8")


if __name__ == "__main__":
    main()
