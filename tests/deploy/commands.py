"""The commands of docs/how-to/operations.md, and whether the command line accepts given words."""

import re
from pathlib import Path
from typing import Any, Final

import click

from syncd.cli.main import syncd

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "how-to" / "operations.md").read_text()


def commands() -> list[str]:
    """Every command of the page, in its order, without the prompt."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


def require_command(words: list[str]) -> None:
    """The words are a command that there is, and it takes every one of them."""
    command: click.Command = syncd
    context = click.Context(syncd, info_name="syncd")
    rest = list(words)
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None, words
        command, context = found, click.Context(found, info_name=name, parent=context)
    parsed: Any = command.make_context(context.info_name, rest, resilient_parsing=False)
    parsed.close()
