"""The commands as a whole: each is loaded when it is asked for, and what all have in common is given to it here."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.examples import add_examples
from syncd.suggestions import closest_name

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyCommandGroup(click.Group):
    """A group whose commands are known by name, module and one sentence until one of them is asked for."""

    def __init__(self, *args: Any, known: Mapping[str, tuple[str, str]], **more: Any) -> None:  # noqa: ANN401  # click's
        super().__init__(*args, **more)
        self._lazy_commands = known

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._lazy_commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name in self._lazy_commands:
            found = getattr(import_module(self._lazy_commands[cmd_name][0]), cmd_name)
            assert isinstance(found, click.Command)
            self.add_command(prepare_command(found))
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = closest_name(args[0], self.list_commands(ctx))
            if near is None:
                raise
            raise click.UsageError(f"{error.message.removesuffix('.')}: do you mean {near}?", ctx) from error

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
    """The command with examples, its file named by SYNCD_CONFIG too and its tables completed from it; and all below."""
    path = f"{path} {command.name}".strip()
    command.help = add_examples(path, command.help or "")
    for option in command.params:
        if "--config" in option.opts:
            option.envvar = "SYNCD_CONFIG"
        if "-t" in option.opts or option.name == "table":
            option.type = TableNameType()
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            prepare_command(inner, path)
    return command


class TableNameType(click.types.StringParamType):
    """A table of the configuration, as a shell completes it."""

    name = "table"

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002  # click gives it
        incomplete: str,
    ) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        from syncd.config.yaml_reader import read_table_names

        names = read_table_names(str(ctx.params.get("config") or ctx.params.get("path") or "syncd.yaml"))
        fit = [name for name in names if name.startswith(incomplete) or name.rpartition(".")[2].startswith(incomplete)]
        return [CompletionItem(name) for name in fit]
