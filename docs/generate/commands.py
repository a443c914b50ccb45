"""The command reference and the table of exit codes, generated from the commands."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import click

from docs.generate.manual import _EXIT_STATUSES
from syncd.cli.main import syncd
from syncd.error_classes import ExitCode

_SAID_ONCE: Final = frozenset({"--json", "--config", "--debug", "--table", "--all"})
"""Options that the page explains once for all commands."""


def command_reference() -> str:
    """Return a section for each command, in the order of `syncd --help`."""
    context = click.Context(syncd, info_name="syncd")
    return "\n".join(line for name in syncd.list_commands(context) for line in _command(syncd, context, name, depth=2))


def exit_table() -> str:
    meanings = {int(code): meaning for code, meaning in _EXIT_STATUSES}
    rows = "\n".join(f"| {code.value} | {meanings[code.value]} |" for code in ExitCode)
    return f"| Code | Meaning |\n|---|---|\n{rows}"


def _command(group: click.Group, outer: click.Context, name: str, *, depth: int) -> Iterator[str]:
    command = group.get_command(outer, name)
    assert command is not None
    context = click.Context(command, info_name=name, parent=outer)
    yield f"{'#' * depth} {context.command_path}\n"
    if isinstance(command, click.Group):
        yield from _group(command, context, depth=depth)
    else:
        yield from _leaf(command, context, shared=frozenset())


def _group(group: click.Group, context: click.Context, *, depth: int) -> Iterator[str]:
    """Yield the group's sentence, the options that several of its commands share, and each command."""
    yield f"{_paragraphs(group.help or '')[0]}\n"
    inner = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    contexts = [(command, click.Context(command, info_name=name, parent=context)) for name, command in inner if command]
    uses = Counter(option for command, own in contexts for option in _options(command, own))
    shared = frozenset(option for option, count in uses.items() if count > 1)
    if shared:
        yield from (f"- `{_text(names)}`: {_text(meaning)}" for names, meaning in uses if (names, meaning) in shared)
        yield ""
    for command, own in contexts:
        yield f"{'#' * (depth + 1)} {own.command_path}\n"
        yield from _leaf(command, own, shared=shared)


def _leaf(command: click.Command, context: click.Context, *, shared: frozenset[tuple[str, str]]) -> Iterator[str]:
    arguments = " ".join(param.make_metavar(context) for param in command.params if isinstance(param, click.Argument))
    if arguments:
        yield f"`{context.command_path} {arguments}`\n"
    yield from (f"{paragraph}\n" for paragraph in _paragraphs(command.help or ""))
    options = _options(command, context)
    yield from (f"- `{_text(names)}`: {_text(meaning)}" for names, meaning in options if (names, meaning) not in shared)
    also = [f"`{names.split(',')[0].split()[0]}`" for names, meaning in options if (names, meaning) in shared]
    if also:
        yield f"- also {', '.join(also)}"
    yield ""


def _options(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    """Return names and meaning of the options that the page does not explain once for all commands."""
    records = [
        param.get_help_record(context)
        for param in command.params
        if isinstance(param, click.Option) and not _SAID_ONCE & {*param.opts}
    ]
    return [record for record in records if record is not None]


def _paragraphs(text: str) -> list[str]:
    """Return the summary of a help text and what it says of exit codes; `--help` prints examples and details."""
    first, *others = text.split("\n\n")
    return [_text(first), *(_text(part) for part in others if part.lstrip().startswith("Exit "))]


def _text(text: str) -> str:
    words = " ".join(text.replace(" RANGE", "").split())
    return words.replace("<", "&lt;").replace("*", "\\*")
