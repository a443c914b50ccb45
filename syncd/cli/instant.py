"""An instant as an option of a command."""

from datetime import datetime

import click


class InstantType(click.ParamType[datetime]):
    """An instant, in UTC unless it says otherwise."""

    name = "instant"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        from syncd.config.value_parsers import parse_lenient_instant

        try:
            return parse_lenient_instant(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
