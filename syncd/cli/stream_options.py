"""What commands about streams share: options, which streams they mean, how they ask and end."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from syncd.cli.exit_codes import Exit, exit_for, worst
from syncd.cli.output import say
from syncd.errors import ConfigError
from syncd.suggestions import meant
from watermarks.errors import HintedError, Misuse
from watermarks.names import BadName, StreamName

if TYPE_CHECKING:
    from syncd.app.operator_context import Desk
    from syncd.settings import StreamSettings

Command = Callable[..., None]

CONFIG: Final = "syncd.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """One stream that a command is about; without settings when it is not configured any more."""

    stream: StreamName
    settings: "StreamSettings | None"

    @property
    def name(self) -> str:
        return f"{self.stream.database}.{self.stream.table}"

    def required(self) -> "StreamSettings":
        """Its settings.

        Raises:
            ConfigError: it has none.
        """
        if self.settings is None:
            raise ConfigError(f"{self.stream} is not configured", hint="Add it under `tables:`.")
        return self.settings


def common(command: Command) -> Command:
    """What every command takes."""
    for option in (
        click.option(
            "-c",
            "--config",
            type=click.Path(path_type=Path),
            default=CONFIG,
            show_default=True,
            envvar="SYNCD_CONFIG",
            help="The file.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
    ):
        command = option(command)
    return command


def tables(command: Command) -> Command:
    """Which streams it is about."""
    for option in (
        click.option("--all", "all_", is_flag=True, help="Every table of the configuration."),
        click.option("-t", "--table", "tables", multiple=True, metavar="TABLE", help="A table; again for more."),
    ):
        command = option(command)
    return command


def open_desk(config: Path, *, looks: bool = False, connections: int | None = None) -> "Desk":
    from syncd.app.operator_context import CONNECTIONS, Desk
    from syncd.concurrency.response_monitor import Silences
    from syncd.config.check import read_settings

    settings = read_settings(config, os.environ)
    return Desk(settings, looks=looks, connections=connections or CONNECTIONS, silences=Silences(say))


def chosen(desk: "Desk", names: Sequence[str], *, all_: bool) -> list[Named]:
    """The streams that were named: as in the configuration, or `source/database.table` of any that ever ran.

    Raises:
        UsageError: none was named, or `--all` beside names.
        ConfigError: a name is none, or several.
    """
    if all_ == bool(names):
        raise click.UsageError("name tables with -t, or say --all" if not names else "--all and -t exclude each other")
    if all_:
        return configured(desk)
    found: list[Named] = []
    for name in names:
        one = _named(desk, name)
        if one not in found:
            found.append(one)
    return found


def configured(desk: "Desk") -> list[Named]:
    from syncd.app.operator_context import name_of

    return [Named(stream=name_of(one), settings=one) for one in desk.settings.streams]


def _named(desk: "Desk", name: str) -> Named:
    every = configured(desk)
    found = [one for one in every if name in {one.stream.table, one.name, one.stream.stem}]
    if len(found) == 1:
        return found[0]
    if len(found) > 1:
        several = ", ".join(one.stream.stem for one in found)
        raise ConfigError(f"{name} is not one table but {len(found)}: {several}", hint="Write source/database.table.")
    if "/" in name:
        return Named(stream=_of_stem(name), settings=None)
    raise ConfigError(f"no table {name} is configured", hint=meant(name, [one.name for one in every]))


def _of_stem(name: str) -> StreamName:
    try:
        return StreamName.of_stem(name).default
    except BadName as error:
        raise ConfigError(f"{name} names no stream", hint="Write source/database.table.") from error


def agreed(question: str, *, yes: bool) -> None:
    """Ask whoever sits at the terminal.

    Raises:
        Misuse: nobody does, and `--yes` was not said.
        Abort: the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Misuse("nobody is there to be asked: nothing was changed", hint="To do it, say --yes.")
    click.confirm(question, abort=True, err=True)


def told(name: str, error: HintedError) -> Exit:
    """Tell an error of one stream in two lines; the code it ends with."""
    say(f"error: {name}: {error.message}")
    if error.hint:
        say(f"hint: {error.hint}")
    return exit_for(error)


def leave(codes: Sequence[Exit]) -> None:
    """End with the worst of these codes."""
    if (code := worst([Exit.DONE, *codes])) is not Exit.DONE:
        raise SystemExit(code)


def error_fields(error: HintedError | None) -> dict[str, Any] | None:
    if error is None:
        return None
    return {"message": error.message, "hint": error.hint or None, "exit": exit_for(error)}
