"""Manual page, generated from the commands.

python -m docs.generate.manual > docs/man/syncd.1
"""

import sys
from collections.abc import Iterator

import click

from syncd.cli.main import syncd

_ENVIRONMENT = (
    ("SYNCD_CONFIG", "configuration file, instead of syncd.yaml in the working directory"),
    ("SYNCD_<COMMAND>_<OPTION>", "any option, such as SYNCD_RUN_LIMIT"),
    ("SYNCD_CACHE", "cache directory of the Java archives"),
    ("NO_COLOR", "no colours, not even on a terminal"),
)
_EXIT_STATUSES = (
    ("0", "done"),
    ("1", "a bug in syncd"),
    ("2", "wrong usage or configuration"),
    ("4", "failure at the source (MySQL)"),
    ("5", "failure at the lake (S3)"),
    ("6", "failure at the warehouse (Redshift)"),
    ("7", "data in doubt, or verification failed"),
    ("8", "the schema changed and an operator must act"),
    ("11", "another process owns the stream"),
    ("12", "a watermark or other state cannot be read"),
    ("130", "interrupted"),
)


def render_manual() -> str:
    """Render the page in roff."""
    context = click.Context(syncd, info_name="syncd")
    lines = [
        '.TH SYNCD 1 "" "syncd" "User Commands"',
        ".SH NAME",
        "syncd \\- keep Amazon Redshift equal to MySQL, through Parquet files on S3",
        ".SH SYNOPSIS",
        ".B syncd\n.I COMMAND\n[OPTIONS]",
        ".SH COMMANDS",
        *(line for name in syncd.list_commands(context) for line in _render_command(syncd, context, name)),
        ".SH ENVIRONMENT",
        *(f".TP\n.B {_escape(name)}\n{_escape(text)}" for name, text in _ENVIRONMENT),
        ".SH EXIT STATUS",
        *(f".TP\n.B {code}\n{_escape(text)}" for code, text in _EXIT_STATUSES),
    ]
    return "\n".join(lines) + "\n"


def _render_command(group: click.Group, context: click.Context, name: str) -> Iterator[str]:
    command = group.get_command(context, name)
    assert command is not None
    inner = click.Context(command, info_name=name, parent=context)
    if isinstance(command, click.Group):
        for inner_name in command.list_commands(inner):
            yield from _render_command(command, inner, inner_name)
        return
    arguments = " ".join(param.make_metavar(inner) for param in command.params if isinstance(param, click.Argument))
    yield f".SS {_escape(f'{inner.command_path} {arguments}'.strip())}"
    yield from _render_paragraphs(command.help or "")
    for param in command.params:
        record = param.get_help_record(inner)
        if record is not None:
            yield f".TP\n.B {_escape(record[0])}\n{_escape(record[1])}"


def _render_paragraphs(text: str) -> Iterator[str]:
    for block in text.split("\n\n"):
        if block.lstrip().startswith("\b"):
            lines = [_escape(line) for line in block.splitlines() if line.strip("\b ")]
            yield "\n".join((".PP", ".nf", *lines, ".fi"))
        else:
            yield f".PP\n{_escape(' '.join(block.split()))}"


def _escape(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    sys.stdout.write(render_manual())
