"""How a command shows its result: a table for people, one JSON document for programs."""

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence

import click

_COLUMN_GAP = "  "


def show_json(result: Mapping[str, object]) -> None:
    """One document on stdout; its fields are listed in docs/reference/cli-json.md and only grow."""
    click.echo(json.dumps(result, indent=2, default=str))


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, optional: Sequence[str] = ()) -> None:
    """Columns as wide as their widest value, the last one as wide as it likes.

    Where that is wider than the terminal, the columns that can be spared are left out, the first named first, and that
    is said; elsewhere nothing is.
    """
    texts = [[str(value) if value not in (None, "") else "-" for value in row] for row in rows]
    widths = [max(len(line[place]) for line in (list(columns), *texts)) for place in range(len(columns))]
    kept = _columns_that_fit(columns, widths, optional)
    for line in (columns, *texts):
        click.echo(_COLUMN_GAP.join(line[place].ljust(widths[place]) for place in kept).rstrip())
    left = [name for place, name in enumerate(columns) if place not in kept]
    if left:
        print_message(f"(too narrow for: {', '.join(left)}; --json shows all)")


def _columns_that_fit(columns: Sequence[str], widths: Sequence[int], optional: Sequence[str]) -> list[int]:
    """The places of the columns that are shown."""
    kept, room = list(range(len(columns))), terminal_width()
    for name in optional:
        if room is None or sum(widths[place] for place in kept) + len(_COLUMN_GAP) * (len(kept) - 1) <= room:
            break
        kept.remove(columns.index(name))
    return kept


def terminal_width() -> int | None:
    """The columns of whoever reads, as a terminal or COLUMNS says; none where nobody said, as in a file."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return None
    return shutil.get_terminal_size().columns


def print_message(line: str) -> None:
    """A word on how it goes, on stderr."""
    click.echo(line, err=True)
