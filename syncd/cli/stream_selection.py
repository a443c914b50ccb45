"""Streams that a command is about: their selection, and the results that it collects from each."""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click

from syncd.cli.output import print_error, print_message
from syncd.error_classes import ExitCode, exit_code_for, worst_exit_code
from syncd.errors import ConfigError
from syncd.suggestions import did_you_mean
from watermarks.errors import HintedError, Misuse
from watermarks.names import BadName, StreamName

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext
    from syncd.settings import Settings, StreamSettings

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedStream:
    """One stream that a command is about; without settings where it is not configured any more."""

    stream: StreamName
    settings: "StreamSettings | None"

    @property
    def name(self) -> str:
        return self.stream.table_name

    def to_json(self) -> dict[str, object]:
        return {"table": self.name, "source": self.stream.source}

    def require_settings(self) -> "StreamSettings":
        """Return the settings.

        Raises:
            ConfigError: the stream is not configured.
        """
        if self.settings is None:
            raise ConfigError(f"{self.stream} is not configured", hint="Add it under `tables:`.")
        return self.settings


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamResult(Generic[T]):
    """Result of a command for one stream: a value, or the error that prevented it."""

    selected: SelectedStream
    value: T | None = None
    error: HintedError | None = None

    @property
    def name(self) -> str:
        return self.selected.name


def collect_result(selected: SelectedStream, function: Callable[[SelectedStream], T]) -> StreamResult[T]:
    """Call the function for a stream, and keep its error, so that other streams are still served."""
    try:
        return StreamResult(selected=selected, value=function(selected))
    except HintedError as error:
        return StreamResult(selected=selected, error=error)


def collect_from_streams(
    options: dict[str, Any], function: "Callable[[OperatorContext, SelectedStream], T]", *, read_only: bool = True
) -> list[StreamResult[T]]:
    """Call the function for each stream that the options select."""
    all_ = options.get("all_", not options["tables"])
    with open_operator_context(options["config"], read_only=read_only) as context:
        selected = select_streams(context.settings, options["tables"], all_=all_)
        return [collect_result(one, partial(function, context)) for one in selected]


def open_operator_context(
    config: Path, *, read_only: bool = False, connections: int | None = None
) -> "OperatorContext":
    from syncd.app.operator_context import MAX_LAKE_CONNECTIONS, OperatorContext
    from syncd.concurrency.response_monitor import ResponseMonitor
    from syncd.config.check import read_settings

    return OperatorContext(
        read_settings(config, os.environ),
        read_only=read_only,
        max_connections=connections or MAX_LAKE_CONNECTIONS,
        response_monitor=ResponseMonitor(print_message),
    )


def select_streams(settings: "Settings", names: Sequence[str], *, all_: bool) -> list[SelectedStream]:
    """Return the named streams: by their names in the configuration, or as `source/database.table` of any stream.

    Raises:
        UsageError: no table is named, or `--all` is combined with names.
        ConfigError: a name means no stream, or several.
    """
    if all_ == bool(names):
        raise click.UsageError("name tables with -t, or use --all" if not names else "--all and -t exclude each other")
    configured = configured_streams(settings)
    if all_:
        return configured
    selected: list[SelectedStream] = []
    for name in names:
        one = _find_stream(configured, name)
        if one not in selected:
            selected.append(one)
    return selected


def configured_streams(settings: "Settings") -> list[SelectedStream]:
    return [SelectedStream(stream=stream.stream_name, settings=stream) for stream in settings.streams]


def select_configured_streams(settings: "Settings", names: Sequence[str], *, all_: bool) -> "list[StreamSettings]":
    """Return the settings of the named streams; each must be configured."""
    return [selected.require_settings() for selected in select_streams(settings, names, all_=all_)]


def _find_stream(configured: Sequence[SelectedStream], name: str) -> SelectedStream:
    matches = [one for one in configured if name in {one.stream.table, one.name, one.stream.stem}]
    if len(matches) == 1:
        return matches[0]
    if matches:
        stems = ", ".join(one.stream.stem for one in matches)
        raise ConfigError(f"{name} matches {len(matches)} tables: {stems}", hint="Write source/database.table.")
    if "/" not in name:
        raise ConfigError(f"no table {name} is configured", hint=did_you_mean(name, [one.name for one in configured]))
    try:
        return SelectedStream(stream=StreamName.from_stem(name).default_stream, settings=None)
    except BadName as error:
        raise ConfigError(f"{name} is not the name of a stream", hint="Write source/database.table.") from error


def require_confirmation(question: str, *, yes: bool) -> None:
    """Ask for confirmation on the terminal.

    Raises:
        Misuse: there is no terminal, and `--yes` is not given.
        Abort: the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Misuse("no terminal to ask for confirmation: nothing was changed", hint="To confirm, add --yes.")
    click.confirm(question, abort=True, err=True)


def exit_with_errors(
    errors: Iterable[tuple[str, HintedError | None]], *, codes: Iterable[ExitCode] = (), debug: bool = False
) -> None:
    """Print the errors, each with the name of its table, and exit with the worst code."""
    found = [(name, error) for name, error in errors if error is not None]
    for name, error in found:
        print_error(error, name=name, debug=debug)
    code = worst_exit_code((ExitCode.DONE, *codes, *(exit_code_for(error) for _, error in found)))
    if code is not ExitCode.DONE:
        sys.exit(code)


def exit_with_result_errors(results: Iterable[StreamResult[T]], *, codes: Iterable[ExitCode] = ()) -> None:
    exit_with_errors([(result.name, result.error) for result in results], codes=codes)
