"""Options that several commands share, and their types."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from watermarks.batch import BatchId


PRESET_DAYS: Final = {"now": 0, "1day": 1, "1week": 7, "1month": 30}
"""Days before now."""


class InstantType(click.ParamType[datetime]):
    """An instant; UTC where it names no zone."""

    name = "instant"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        from syncd.config.value_parsers import parse_lenient_instant

        try:
            return parse_lenient_instant(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class PresetType(InstantType):
    """`now`, `1day`, `1week` or `1month` (30 days) ago; or any instant."""

    name = "preset"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, str) and value in PRESET_DAYS:
            return datetime.now(UTC) - timedelta(days=PRESET_DAYS[value])
        return super().convert(value, param, ctx)


class DurationType(click.ParamType[timedelta]):
    """A duration, such as 60s or 5m."""

    name = "duration"

    def __init__(self, *, positive: bool = False) -> None:
        self._positive = positive

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        from syncd.config.value_parsers import parse_duration, parse_positive_duration

        if isinstance(value, timedelta):
            return value
        try:
            return parse_positive_duration(value) if self._positive else parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class PercentType(click.ParamType[float]):
    """A percentage such as 5%, as a fraction of 1."""

    name = "percent"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            fraction = float(str(value).removesuffix("%")) / 100
        except ValueError:
            fraction = 0.0
        if not 0 < fraction <= 1:
            self.fail(f"{value} is not a percentage above 0: write it like 5%", param, ctx)
        return fraction


class BatchType(click.ParamType["BatchId"]):
    """The number of a batch, such as 1-42."""

    name = "batch"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> "BatchId":
        from watermarks.batch import BatchId
        from watermarks.errors import Misuse

        if isinstance(value, BatchId):
            return value
        try:
            return BatchId.from_text(str(value))
        except Misuse as error:
            self.fail(error.message, param, ctx)


class TableNameType(click.types.StringParamType):
    """A table; shells complete it from the configuration."""

    name = "table"

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002  # part of click's interface
        incomplete: str,
    ) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        from syncd.config.yaml_reader import read_table_names

        names = read_table_names(str(ctx.params.get("config") or "syncd.yaml"))
        fit = [name for name in names if name.startswith(incomplete) or name.rpartition(".")[2].startswith(incomplete)]
        return [CompletionItem(name) for name in fit]


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
        help="A table; repeat the option for more tables.",
    )
    return some(every(command))


def wait_option(default: str, help_: str) -> Callable[[Command], Command]:
    return click.option("--wait", type=DurationType(), default=default, show_default=True, help=help_)


def stage_options(command: Command) -> Command:
    """Add the options that restrict a change to one stage."""
    extract = click.option(
        "--mysql-only", is_flag=True, help="Change only the extracted mark: where reading MySQL continues."
    )
    load = click.option(
        "--redshift-only", is_flag=True, help="Change only the loaded mark: where loading into Redshift continues."
    )
    return extract(load(command))


def consent_options(command: Command) -> Command:
    """Add the options by which an operator previews, confirms and explains a change."""
    reason = click.option("--reason", default="", help="Reason of the change, kept in the history.")
    yes = click.option("--yes", "--force", "yes", is_flag=True, help="Do not ask for confirmation.")
    dry_run = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
    return reason(yes(dry_run(command)))
