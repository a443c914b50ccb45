"""`syncd sandbox`: MySQL, S3 and a Redshift stand-in on this machine."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.option_types import Command, json_option
from syncd.cli.output import print_message, show_json, show_table
from syncd.cli.stage_service import interrupt_on_sigterm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncd.sandbox.supervisor import ServiceStatus

_SANDBOX_CREDENTIALS = "AWS_ACCESS_KEY_ID=sandbox AWS_SECRET_ACCESS_KEY=sandbox"


@click.group()
def sandbox() -> None:
    """Run MySQL with a small shop, S3 and a Redshift stand-in on this machine."""


def _common_options(command: Command) -> Command:
    directory_option = click.option(
        "--dir",
        "directory",
        type=click.Path(file_okay=False, path_type=Path),
        help="The data directory; default: a directory under XDG_STATE_HOME.",
        envvar="SYNCD_SANDBOX_DIR",
    )
    return directory_option(json_option(command))


_wait_option = click.option(
    "--wait",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    help="Seconds to wait for another command to end.",
)


@sandbox.command()
@click.option("--mysql-port", type=click.IntRange(1, 65535), help="Default: any free port.")
@click.option("--s3-port", type=click.IntRange(1, 65535), help="Default: any free port.")
@click.option("--redshift-port", type=click.IntRange(1, 65535), help="Default: any free port.")
@click.option(
    "--orders", type=click.IntRange(0), default=1000, show_default=True, help="Number of orders in a new shop."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the rows of a new shop.")
@_wait_option
@_common_options
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
    """Start the servers, wait until they answer, and fill a new shop."""
    from syncd.sandbox.running_sandbox import Sandbox
    from syncd.sandbox.shop.shop_setup import ensure_shop

    chosen = {"mysql": mysql_port, "s3": s3_port, "redshift": redshift_port}
    ports = {name: port for name, port in chosen.items() if port is not None}
    with interrupt_on_sigterm():
        box = Sandbox(directory, ports=ports, wait=wait, report=print_message)
        with box.up_or_undo() as statuses:
            shop = ensure_shop(
                box.directory,
                box.mysql,
                orders=orders,
                seed=seed,
                is_external=box.is_external("mysql"),
                report=print_message,
            )
            if not shop.seeded_now and not any(service.started_now for service in statuses):
                print_message("the sandbox was already up")
            _show(box.directory, statuses, shop=shop.rows, as_json=as_json)


@sandbox.command()
@_wait_option
@_common_options
def down(directory: Path | None, wait: float, as_json: bool) -> None:
    """Stop the sandbox's own processes; the data stays."""
    from syncd.sandbox.sandbox_dirs import find_paths
    from syncd.sandbox.supervisor import stop_services

    place = find_paths(os.environ, directory=directory).directory
    stopped = stop_services(place, wait=wait)
    if as_json:
        show_json({"directory": str(place), "stopped": stopped})
    else:
        click.echo(f"stopped {', '.join(stopped)}" if stopped else f"nothing runs in {place}")


@sandbox.command()
@_common_options
def status(directory: Path | None, as_json: bool) -> None:
    """Check each service now, and show its status."""
    from syncd.sandbox.running_sandbox import Sandbox

    box = Sandbox(directory)
    _show(box.directory, box.status(), as_json=as_json)


def _show(
    directory: Path, statuses: "Sequence[ServiceStatus]", *, shop: Mapping[str, int] | None = None, as_json: bool
) -> None:
    if as_json:
        document: dict[str, Any] = {
            "directory": str(directory),
            "services": [_to_json(service) for service in statuses],
        }
        show_json(document | ({} if shop is None else {"shop": dict(shop)}))
        return
    show_table(
        ("service", "state", "address", "pid", "version", "log"),
        [(f.name, f.state.value, f.url, f.pid, f.about, f.log) for f in statuses],
        optional=("log", "version", "pid"),
    )
    own = next((f.url for f in statuses if f.name == "s3" and f.pid is not None), "")
    if own:
        click.echo(f"S3 accepts any keys: export AWS_ENDPOINT_URL_S3={own} {_SANDBOX_CREDENTIALS}")
    if shop:
        click.echo("shop: " + ", ".join(f"{rows} {table}" for table, rows in shop.items()))


def _to_json(service: "ServiceStatus") -> dict[str, object]:
    return {
        "name": service.name,
        "state": service.state.value,
        "url": service.url,
        "port": service.port,
        "pid": service.pid,
        "version": service.about,
        "log": service.log,
        "started_now": service.started_now,
    }
