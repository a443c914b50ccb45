"""Output of commands: a table for people, one JSON document for programs, errors in two lines."""

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence

import click

from syncd.error_classes import exit_code_for
from watermarks.errors import HintedError

_COLUMN_GAP = "  "


def show_json(result: Mapping[str, object]) -> None:
    """Print one document on stdout. docs/reference/cli-json.md lists its fields; fields are only ever added."""
    click.echo(json.dumps(result, indent=2, default=str))


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, optional: Sequence[str] = ()) -> None:
    """Print a table on stdout.

    On a terminal that is too narrow, the optional columns are left out in the given order, and a message says so.
    """
    texts = [[str(value) if value not in (None, "") else "-" for value in row] for row in rows]
    widths = [max(len(line[place]) for line in (list(columns), *texts)) for place in range(len(columns))]
    shown = _columns_that_fit(columns, widths, optional)
    for line in (columns, *texts):
        click.echo(_COLUMN_GAP.join(line[place].ljust(widths[place]) for place in shown).rstrip())
    hidden = [name for place, name in enumerate(columns) if place not in shown]
    if hidden:
        print_message(f"(too narrow for: {', '.join(hidden)}; --json shows all)")


def _columns_that_fit(columns: Sequence[str], widths: Sequence[int], optional: Sequence[str]) -> list[int]:
    shown, room = list(range(len(columns))), terminal_width()
    for name in optional:
        if room is None or sum(widths[place] for place in shown) + len(_COLUMN_GAP) * (len(shown) - 1) <= room:
            break
        shown.remove(columns.index(name))
    return shown


def terminal_width() -> int | None:
    """Return the width of the terminal or of COLUMNS; None where neither is set, as in a file."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return None
    return shutil.get_terminal_size().columns


def print_message(line: str) -> None:
    """Print a message on stderr."""
    click.echo(line, err=True)


def print_error(error: HintedError, *, name: str = "", debug: bool = False) -> None:
    """Print an error, of the table `name` where given, in two lines on stderr."""
    if debug:
        import traceback

        print_message("".join(traceback.format_exception(error)))
    print_message(f"error: {name}: {error.message}" if name else f"error: {error.message}")
    if error.hint:
        print_message(f"hint: {error.hint}")


def error_to_json(error: HintedError | None) -> dict[str, object] | None:
    if error is None:
        return None
    return {"message": error.message, "hint": error.hint or None, "exit": exit_code_for(error)}
