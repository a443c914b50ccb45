"""Group of commands that are loaded on demand, and examples for their help."""

from collections.abc import Mapping
from importlib import import_module
from inspect import cleandoc
from typing import Any, Final

import click

from syncd.suggestions import closest_name

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "audit": ("syncd audit", "syncd audit -t shop.orders --json"),
    "daemon": ("syncd daemon --config /etc/syncd/syncd.yaml",),
    "demo": ("syncd demo --for 60s",),
    "explain": ("syncd explain shop.orders id=42",),
    "jars": ("syncd jars list", "syncd jars fetch"),
    "jars fetch": ("syncd jars fetch", "syncd jars fetch mysql-connector-j"),
    "jars list": ("syncd jars list --json",),
    "plan": ("syncd plan", "syncd plan -t shop.orders"),
    "quarantine": ("syncd quarantine list", "syncd quarantine show -t shop.orders"),
    "quarantine list": ("syncd quarantine list -t shop.orders",),
    "quarantine show": ("syncd quarantine show -t shop.orders",),
    "quarantine replay": ("syncd quarantine replay -t shop.orders --dry-run",),
    "reload": ("syncd reload --config /etc/syncd/syncd.yaml",),
    "run": ("syncd run --all", "syncd run -t shop.orders --limit 100000", "syncd run --all --dry-run"),
    "runs": ("syncd runs", "syncd runs -t shop.orders --json"),
    "s3clean": ("syncd s3clean list", "syncd s3clean clean -t shop.orders"),
    "s3clean list": ("syncd s3clean list -t shop.orders",),
    "s3clean clean": ("syncd s3clean clean -t shop.orders",),
    "sandbox": ("syncd sandbox up", "syncd sandbox down"),
    "sandbox up": ("syncd sandbox up",),
    "sandbox down": ("syncd sandbox down",),
    "sandbox status": ("syncd sandbox status --json",),
    "status": ("syncd status", "syncd status -t shop.orders --json"),
    "verify": ("syncd verify -t shop.orders", "syncd verify --all --json"),
    "watermark": ("syncd watermark get -t shop.orders", "syncd watermark check --all"),
    "watermark get": ("syncd watermark get -t shop.orders --show-files",),
    "watermark import": (
        "syncd watermark import -t shop.orders --dry-run",
        "syncd watermark import -t shop.orders --from s3://old-bucket/watermarks/ --reason 'moved to syncd'",
        "syncd watermark import --all --from s3://old-bucket/watermark/last_run_timestamp.txt",
    ),
    "watermark list": ("syncd watermark list",),
    "watermark history": ("syncd watermark history -t shop.orders",),
    "watermark export": ("syncd watermark export -t shop.orders",),
    "watermark undo": ("syncd watermark undo -t shop.orders",),
    "watermark check": ("syncd watermark check --all",),
    "watermark rebuild": ("syncd watermark rebuild -t shop.orders",),
}
"""Examples by command; a command may have them in its docstring instead."""


class LazyCommandGroup(click.Group):
    """Group that loads a command when it is called; until then it knows module and summary."""

    def __init__(self, *args: Any, known: Mapping[str, tuple[str, str]], **more: Any) -> None:  # noqa: ANN401  # click's
        super().__init__(*args, **more)
        self._lazy_commands = known

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._lazy_commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if command is None and cmd_name in self._lazy_commands:
            command = getattr(import_module(self._lazy_commands[cmd_name][0]), cmd_name)
            assert isinstance(command, click.Command)
            self.add_command(prepare_command(command))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = closest_name(args[0], self.list_commands(ctx))
            if close is None:
                raise
            raise click.UsageError(f"{error.message.removesuffix('.')}: do you mean {close}?", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, self._command_summary(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def _command_summary(self, ctx: click.Context, name: str) -> str:
        if name in self._lazy_commands:
            return self._lazy_commands[name][1]
        command = self.get_command(ctx, name)
        return command.get_short_help_str() if command else ""


def prepare_command(command: click.Command, path: str = "") -> click.Command:
    """Add the examples to the help of a command, and of all below it."""
    path = f"{path} {command.name}".strip()
    command.help = _add_examples(path, command.help or "")
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            prepare_command(inner, path)
    return command


def _add_examples(command_path: str, help_text: str) -> str:
    """Insert the examples of a command after the first sentence of its help."""
    help_text = cleandoc(help_text)
    if "Examples:" in help_text or command_path not in EXAMPLES:
        return help_text
    first, _, rest = help_text.partition("\n\n")
    examples = "\n".join(("\b", "Examples:", *(f"  {line}" for line in EXAMPLES[command_path])))
    return "\n\n".join(part for part in (first, examples, rest) if part)
