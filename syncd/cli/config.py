"""`syncd config`: what is wrong with the configuration, and what an editor has to know of it."""

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from syncd.cli.output import print_message, show_json
from syncd.cli.stream_options import DEFAULT_CONFIG_PATH
from syncd.error_classes import ExitCode

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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "-c",
    "--config",
    "path",
    type=click.Path(path_type=Path),
    default=DEFAULT_CONFIG_PATH,
    show_default=True,
    help="The file.",
)
def check(path: Path, as_json: bool) -> None:
    """Tell every mistake of the configuration at once, each with its line and what would mend it.

    \b
    Examples:
      syncd config check
      syncd config check --config /etc/syncd/syncd.yaml --json

    No server is asked: that is `syncd doctor`. The variables that the file refers to have to be set.
    """
    from syncd.config.check import read_settings
    from syncd.config.mistakes import Misconfigured

    try:
        settings = read_settings(path, os.environ)
    except Misconfigured as refused:
        _report_mistakes(path, refused.mistakes, as_json=as_json)
        sys.exit(ExitCode.USAGE)
    if as_json:
        show_json({"file": str(path), "good": True, "mistakes": [], **_configured_names(settings)})
    else:
        click.echo(f"{path}: no mistake: {_describe_settings(settings)}")


@config.command()
@click.option("--json", "as_json", is_flag=True, help="As it is: a schema is a JSON document.")
def schema(as_json: bool) -> None:  # noqa: ARG001  # every command has it
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
        show_json({"file": str(path), "good": False, "mistakes": [asdict(mistake) for mistake in mistakes]})
    else:
        for mistake in mistakes:
            click.echo(mistake.format_with_location(str(path)))
    several = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    print_message(f"error: {path} has {several}")


def _configured_names(settings: "Settings") -> dict[str, list[str]]:
    return {
        "sources": [source.name for source in settings.sources],
        "warehouses": [warehouse.name for warehouse in settings.warehouses],
        "tables": [stream.name for stream in settings.streams],
    }


def _describe_settings(settings: "Settings") -> str:
    words = (("source", "sources"), ("warehouse", "warehouses"), ("table", "tables"))
    counts = _configured_names(settings)
    return ", ".join(f"{len(counts[many])} {one if len(counts[many]) == 1 else many}" for one, many in words)
