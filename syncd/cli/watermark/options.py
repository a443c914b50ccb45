"""Options of the commands that change watermarks."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import click

from syncd.cli.instant import InstantType

Command = Callable[..., None]

PRESET_DAYS: Final = {"now": 0, "1day": 1, "1week": 7, "1month": 30}
"""Days before now."""


class PresetType(InstantType):
    """`now`, `1day`, `1week` or `1month` (30 days) ago; or any instant."""

    name = "preset"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, str) and value in PRESET_DAYS:
            return datetime.now(UTC) - timedelta(days=PRESET_DAYS[value])
        return super().convert(value, param, ctx)


def stage_options(command: Command) -> Command:
    """Which half of a watermark it is about."""
    for option in (
        click.option("--redshift-only", is_flag=True, help="Only from where S3 is loaded into Redshift."),
        click.option("--mysql-only", is_flag=True, help="Only from where MySQL is read."),
    ):
        command = option(command)
    return command


def consent_options(command: Command) -> Command:
    """How a change is agreed to."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Say what it would bring; change nothing."),
        click.option("--yes", "--force", "yes", is_flag=True, help="Do not ask."),
        click.option("--reason", default="", help="Why; it stays in the history."),
    ):
        command = option(command)
    return command
