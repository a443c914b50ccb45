"""Types of option values."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

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
