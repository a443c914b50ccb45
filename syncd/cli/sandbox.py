"""`syncd sandbox`: real servers on this machine, up, down, and how they stand."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output import say, show_json, show_table
from syncd.cli.signals import ended_by_sigterm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncd.sandbox.supervisor import Standing

Command = Callable[..., None]
_ANY_KEY = "AWS_ACCESS_KEY_ID=sandbox AWS_SECRET_ACCESS_KEY=sandbox"


@click.group()
def sandbox() -> None:
    """Run the whole system on this machine: MySQL with a small shop, S3, Redshift's stand-in."""


def _common(command: Command) -> Command:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
        click.option(
            "--dir",
            "directory",
            type=click.Path(file_okay=False, path_type=Path),
            help="Where the sandbox keeps its data; default: a directory under XDG_STATE_HOME.",
            envvar="SYNCD_SANDBOX_DIR",
        ),
    ):
        command = option(command)
    return command


_patient = click.option(
    "--wait", type=click.FloatRange(0), default=60.0, show_default=True, help="Seconds for another command to end."
)


@sandbox.command()
@click.option("--mysql-port", type=click.IntRange(1, 65535), help="Default: any free port.")
@click.option("--s3-port", type=click.IntRange(1, 65535), help="Default: any free port.")
@click.option("--redshift-port", type=click.IntRange(1, 65535), help="Default: any free port.")
@click.option("--orders", type=click.IntRange(0), default=1000, show_default=True, help="Size of a new shop.")
@click.option("--seed", type=int, default=1, show_default=True, help="A new shop's rows follow from it.")
@_patient
@_common
def up(
    directory: Path | None,
    mysql_port: int | None,
    s3_port: int | None,
    redshift_port: int | None,
    orders: int,
    seed: int,
    wait: float,
    as_json: bool,
) -> None:
    """Start what does not run, wait until it serves, fill the shop if it is new."""
    from syncd.sandbox.running_sandbox import Sandbox
    from syncd.sandbox.service_table import given
    from syncd.sandbox.shop.shop_setup import stand_up

    asked = {"mysql": mysql_port, "s3": s3_port, "redshift": redshift_port}
    ports = {name: port for name, port in asked.items() if port is not None}
    with ended_by_sigterm():
        box = Sandbox(directory, ports=ports, wait=wait, tell=say)
        with box.starting() as standing:
            theirs = given("mysql", os.environ)
            shop = stand_up(box.directory, box.mysql, orders=orders, seed=seed, given=theirs, tell=say)
            if not shop.seeded_now and not any(found.started_now for found in standing):
                say("the sandbox was already up")
            _show(box.directory, standing, shop=shop.rows, as_json=as_json)


@sandbox.command()
@_patient
@_common
def down(directory: Path | None, wait: float, as_json: bool) -> None:
    """End the sandbox's own processes; its data stays."""
    from syncd.sandbox.sandbox_dirs import find_places
    from syncd.sandbox.supervisor import take_down

    place = find_places(os.environ, directory=directory).directory
    ended = take_down(place, wait=wait)
    if as_json:
        show_json({"directory": str(place), "ended": ended})
    else:
        click.echo(f"ended {', '.join(ended)}" if ended else f"nothing runs in {place}")


@sandbox.command()
@_common
def status(directory: Path | None, as_json: bool) -> None:
    """How each service stands, asked now."""
    from syncd.sandbox.running_sandbox import Sandbox

    box = Sandbox(directory)
    _show(box.directory, box.status(), as_json=as_json)


def _show(
    directory: Path, standing: "Sequence[Standing]", *, shop: Mapping[str, int] | None = None, as_json: bool
) -> None:
    if as_json:
        document: dict[str, Any] = {"directory": str(directory), "services": [_fields(found) for found in standing]}
        show_json(document | ({} if shop is None else {"shop": dict(shop)}))
        return
    show_table(
        ("service", "state", "address", "pid", "says", "log"),
        [(f.name, f.stand.value, f.url, f.pid, f.about, f.log) for f in standing],
        spare=("log", "says", "pid"),
    )
    own = next((f.url for f in standing if f.name == "s3" and f.pid is not None), "")
    if own:
        click.echo(f"S3 takes any key: export AWS_ENDPOINT_URL_S3={own} {_ANY_KEY}")
    if shop:
        click.echo("shop: " + ", ".join(f"{rows} {table}" for table, rows in shop.items()))


def _fields(found: "Standing") -> dict[str, object]:
    return {
        "name": found.name,
        "state": found.stand.value,
        "url": found.url,
        "port": found.port,
        "pid": found.pid,
        "says": found.about,
        "log": found.log,
        "started_now": found.started_now,
    }
