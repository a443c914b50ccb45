"""`syncd jars`: the Java archives that Spark and the sandbox need, fetched ahead for hosts without a network."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from syncd.cli.output import print_message, show_json, show_table

if TYPE_CHECKING:
    from syncd.host.jars import Artifact


@click.group()
def jars() -> None:
    """Fetch the Java archives that are needed, or list them."""


@jars.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def fetch(names: tuple[str, ...], as_json: bool) -> None:
    """Fetch archives into the cache: those named, else all.

    SYNCD_CACHE names another cache, SYNCD_IVY_SETTINGS a settings file of Ivy for another repository.
    """
    from syncd.host.cache_dirs import find_jars
    from syncd.host.jars import fetch_archive as fetch_one

    cache = find_jars(os.environ)
    wanted = _select_artifacts(names)
    for artifact in wanted:
        fetch_one(artifact, cache, environ=os.environ, report=print_message)
    _show(wanted, cache, as_json=as_json)


@jars.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def list_(as_json: bool) -> None:
    """List the archives, and which of them are in the cache."""
    from syncd.host.cache_dirs import find_jars

    _show(_select_artifacts(()), find_jars(os.environ), as_json=as_json)


def _select_artifacts(names: tuple[str, ...]) -> "list[Artifact]":
    from syncd.host.jars import ARTIFACTS

    known = {artifact.module: artifact for artifact in ARTIFACTS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.BadParameter(f"no archive is called {unknown[0]}; there are {', '.join(known)}")
    return [known[name] for name in names] if names else list(known.values())


def _show(artifacts: "list[Artifact]", cache: Path, *, as_json: bool) -> None:
    from syncd.host.jars import check_archive

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
