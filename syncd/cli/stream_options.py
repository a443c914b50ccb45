"""What commands about streams share: options, which streams they mean, how they ask and end."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from syncd.cli.output import print_message
from syncd.error_classes import ExitCode, exit_code_for, worst_exit_code
from syncd.errors import ConfigError
from syncd.suggestions import did_you_mean
from watermarks.errors import HintedError, Misuse
from watermarks.names import BadName, StreamName

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext
    from syncd.settings import StreamSettings

Command = Callable[..., None]

DEFAULT_CONFIG_PATH: Final = "syncd.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedStream:
    """One stream that a command is about; without settings when it is not configured any more."""

    stream: StreamName
    settings: "StreamSettings | None"

    @property
    def name(self) -> str:
        return self.stream.table_name

    def require_settings(self) -> "StreamSettings":
        """Its settings.

        Raises:
            ConfigError: it has none.
        """
        if self.settings is None:
            raise ConfigError(f"{self.stream} is not configured", hint="Add it under `tables:`.")
        return self.settings


def common_options(command: Command) -> Command:
    """What every command takes."""
    for option in (
        click.option(
            "-c",
            "--config",
            type=click.Path(path_type=Path),
            default=DEFAULT_CONFIG_PATH,
            show_default=True,
            envvar="SYNCD_CONFIG",
            help="The file.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
    ):
        command = option(command)
    return command


def table_options(command: Command) -> Command:
    """Which streams it is about."""
    for option in (
        click.option("--all", "all_", is_flag=True, help="Every table of the configuration."),
        click.option("-t", "--table", "tables", multiple=True, metavar="TABLE", help="A table; again for more."),
    ):
        command = option(command)
    return command


def open_operator_context(
    config: Path, *, read_only: bool = False, connections: int | None = None
) -> "OperatorContext":
    from syncd.app.operator_context import MAX_LAKE_CONNECTIONS, OperatorContext
    from syncd.concurrency.response_monitor import ResponseMonitor
    from syncd.config.check import read_settings

    settings = read_settings(config, os.environ)
    return OperatorContext(
        settings,
        read_only=read_only,
        max_connections=connections or MAX_LAKE_CONNECTIONS,
        response_monitor=ResponseMonitor(print_message),
    )


def select_streams(context: "OperatorContext", names: Sequence[str], *, all_: bool) -> list[SelectedStream]:
    """The streams that were named: as in the configuration, or `source/database.table` of any that ever ran.

    Raises:
        UsageError: none was named, or `--all` beside names.
        ConfigError: a name is none, or several.
    """
    if all_ == bool(names):
        raise click.UsageError("name tables with -t, or say --all" if not names else "--all and -t exclude each other")
    if all_:
        return configured_streams(context)
    found: list[SelectedStream] = []
    for name in names:
        one = _find_stream(context, name)
        if one not in found:
            found.append(one)
    return found


def configured_streams(context: "OperatorContext") -> list[SelectedStream]:

    return [SelectedStream(stream=one.stream_name, settings=one) for one in context.settings.streams]


def _find_stream(context: "OperatorContext", name: str) -> SelectedStream:
    every = configured_streams(context)
    found = [one for one in every if name in {one.stream.table, one.name, one.stream.stem}]
    if len(found) == 1:
        return found[0]
    if len(found) > 1:
        several = ", ".join(one.stream.stem for one in found)
        raise ConfigError(f"{name} is not one table but {len(found)}: {several}", hint="Write source/database.table.")
    if "/" in name:
        return SelectedStream(stream=_parse_stream_name(name), settings=None)
    raise ConfigError(f"no table {name} is configured", hint=did_you_mean(name, [one.name for one in every]))


def _parse_stream_name(name: str) -> StreamName:
    try:
        return StreamName.from_stem(name).default_stream
    except BadName as error:
        raise ConfigError(f"{name} names no stream", hint="Write source/database.table.") from error


def require_confirmation(question: str, *, yes: bool) -> None:
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


def report_error(name: str, error: HintedError) -> ExitCode:
    """Tell an error of one stream in two lines; the code it ends with."""
    print_message(f"error: {name}: {error.message}")
    if error.hint:
        print_message(f"hint: {error.hint}")
    return exit_code_for(error)


def exit_with_worst(codes: Sequence[ExitCode]) -> None:
    """End with the worst of these codes."""
    if (code := worst_exit_code([ExitCode.DONE, *codes])) is not ExitCode.DONE:
        raise SystemExit(code)


def error_to_json(error: HintedError | None) -> dict[str, Any] | None:
    if error is None:
        return None
    return {"message": error.message, "hint": error.hint or None, "exit": exit_code_for(error)}
