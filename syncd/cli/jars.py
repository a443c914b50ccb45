"""`syncd jars`: download of the Java archives that Spark and the sandbox need, for hosts without internet access."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from syncd.cli.option_types import json_option
from syncd.cli.output import print_message, show_json, show_table

if TYPE_CHECKING:
    from syncd.host.jar_download import Artifact


@click.group()
def jars() -> None:
    """Download the required Java archives, or list them."""


@jars.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@json_option
def fetch(names: tuple[str, ...], as_json: bool) -> None:
    """Download the named archives into the cache; by default all.

    SYNCD_CACHE sets another cache directory, SYNCD_IVY_SETTINGS an Ivy settings file for another repository.
    """
    from syncd.host.directories import find_jars
    from syncd.host.jar_download import fetch_archive as fetch_one

    cache = find_jars(os.environ)
    wanted = _select_artifacts(names)
    for artifact in wanted:
        fetch_one(artifact, cache, environ=os.environ, report=print_message)
    _show(wanted, cache, as_json=as_json)


@jars.command(name="list")
@json_option
def list_(as_json: bool) -> None:
    """List the archives and their state in the cache."""
    from syncd.host.directories import find_jars

    _show(_select_artifacts(()), find_jars(os.environ), as_json=as_json)


def _select_artifacts(names: tuple[str, ...]) -> "list[Artifact]":
    from syncd.host.jar_download import ARTIFACTS

    known = {artifact.module: artifact for artifact in ARTIFACTS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.BadParameter(f"no archive is called {unknown[0]}: choose from {', '.join(known)}")
    return [known[name] for name in names] if names else list(known.values())


def _show(artifacts: "list[Artifact]", cache: Path, *, as_json: bool) -> None:
    from syncd.host.jar_download import check_archive

    kept = [(artifact, check_archive(artifact, cache)) for artifact in artifacts]
    if as_json:
        show_json(
            {
                "directory": str(cache),
                "jars": [
                    {
                        "name": a.module,
                        "version": a.revision,
                        "file": a.file_name,
                        "bytes": a.size,
                        "sha256": a.sha256,
                        "state": state.value,
                        "purpose": a.purpose,
                    }
                    for a, state in kept
                ],
            }
        )
        return
    show_table(
        ("archive", "state", "MB", "purpose"),
        [(a.file_name, state.value, f"{a.size / 1e6:.1f}", a.purpose) for a, state in kept],
    )
    click.echo(f"in {cache}")
