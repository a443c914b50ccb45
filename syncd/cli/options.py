"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import click

from syncd.cli.option_types import DurationType, TableNameType

Command: TypeAlias = Callable[..., None]

DEFAULT_CONFIG_PATH: Final = "syncd.yaml"

config_option = click.option(
    "-c",
    "--config",
    type=click.Path(path_type=Path),
    default=DEFAULT_CONFIG_PATH,
    show_default=True,
    envvar="SYNCD_CONFIG",
    help="The configuration file.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
debug_option = click.option("--debug", is_flag=True, help="Print the traceback of each error.")
tables_option = click.option(
    "-t", "--table", "tables", type=TableNameType(), multiple=True, metavar="TABLE", help="A table; default: all."
)


def common_options(command: Command) -> Command:
    return json_option(config_option(command))


def selection_options(command: Command) -> Command:
    """Add `-t` and `--all`, of which a command needs one."""
    every = click.option("--all", "all_", is_flag=True, help="All tables of the configuration.")
    some = click.option(
        "-t",
        "--table",
        "tables",
        type=TableNameType(),
        multiple=True,
        metavar="TABLE",
        help="A table; repeat it for more.",
    )
    return some(every(command))


def wait_option(default: str, help_: str) -> Callable[[Command], Command]:
    return click.option("--wait", type=DurationType(), default=default, show_default=True, help=help_)


def stage_options(command: Command) -> Command:
    """Add the options that restrict a change to one stage."""
    extract = click.option("--mysql-only", is_flag=True, help="Change only where MySQL is read.")
    load = click.option("--redshift-only", is_flag=True, help="Change only where S3 is loaded into Redshift.")
    return extract(load(command))


def consent_options(command: Command) -> Command:
    """Add the options by which an operator previews, confirms and explains a change."""
    reason = click.option("--reason", default="", help="The reason; it is kept in the history.")
    yes = click.option("--yes", "--force", "yes", is_flag=True, help="Do not ask for confirmation.")
    dry_run = click.option("--dry-run", is_flag=True, help="Show the effect, and change nothing.")
    return reason(yes(dry_run(command)))
