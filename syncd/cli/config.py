"""`syncd config`: check of the configuration, and its JSON Schema."""

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from syncd.cli.option_types import common_options, json_option
from syncd.cli.output import print_message, show_json
from syncd.error_classes import ExitCode
from syncd.observe.formatting import format_count

if TYPE_CHECKING:
    from syncd.config.mistakes import ConfigMistake
    from syncd.settings import Settings


@click.group()
def config() -> None:
    """Check the configuration, or print its JSON Schema.

    \b
    Examples:
      syncd config check
      syncd config schema > syncd.schema.json
    """


@config.command()
@common_options
def check(config: Path, as_json: bool) -> None:
    """Show all mistakes of the configuration, each with its line and its remedy.

    \b
    Examples:
      syncd config check
      syncd config check --config /etc/syncd/syncd.yaml --json

    Connects to no server: for that, use `syncd doctor`. The variables that the file refers to must be set.
    """
    from syncd.config.check import read_settings
    from syncd.config.mistakes import Misconfigured

    try:
        settings = read_settings(config, os.environ)
    except Misconfigured as error:
        _report_mistakes(config, error.mistakes, as_json=as_json)
        sys.exit(ExitCode.USAGE)
    if as_json:
        show_json({"file": str(config), "valid": True, "mistakes": [], **_configured_names(settings)})
    else:
        click.echo(f"{config}: no mistakes: {_describe_settings(settings)}")


@config.command()
@json_option
def schema(as_json: bool) -> None:  # noqa: ARG001  # every command accepts it; a schema is JSON anyway
    """Print the JSON Schema (2020-12) of the configuration, for editors.

    \b
    Examples:
      syncd config schema > syncd.schema.json
      then, as the first line of syncd.yaml:  # yaml-language-server: $schema=syncd.schema.json
    """
    from syncd.config.json_schema import SHIPPED_SCHEMA_PATH

    click.echo(SHIPPED_SCHEMA_PATH.read_text(encoding="utf-8"), nl=False)


def _report_mistakes(path: Path, mistakes: "tuple[ConfigMistake, ...]", *, as_json: bool) -> None:
    if as_json:
        show_json({"file": str(path), "valid": False, "mistakes": [asdict(mistake) for mistake in mistakes]})
    else:
        for mistake in mistakes:
            click.echo(mistake.format_with_location(str(path)))
    print_message(f"error: {path} has {format_count(len(mistakes), 'mistake')}")


def _configured_names(settings: "Settings") -> dict[str, list[str]]:
    return {
        "sources": [source.name for source in settings.sources],
        "warehouses": [warehouse.name for warehouse in settings.warehouses],
        "tables": [stream.name for stream in settings.streams],
    }


def _describe_settings(settings: "Settings") -> str:
    names = _configured_names(settings)
    return ", ".join(format_count(len(names[f"{word}s"]), word) for word in ("source", "warehouse", "table"))
