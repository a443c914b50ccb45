"""How a command shows its result: a table for people, one JSON document for programs."""

import json
from collections.abc import Mapping, Sequence

import click


def show_json(result: Mapping[str, object]) -> None:
    """One document on stdout; its fields are listed in docs/cli-json.md and only grow."""
    click.echo(json.dumps(result, indent=2, default=str))


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as their widest value, the last one as wide as it likes."""
    texts = [[str(value) if value not in (None, "") else "-" for value in row] for row in rows]
    widths = [max(len(line[place]) for line in (list(columns), *texts)) for place in range(len(columns))]
    for line in (columns, *texts):
        click.echo("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def say(line: str) -> None:
    """A word on how it goes, on stderr."""
    click.echo(line, err=True)
