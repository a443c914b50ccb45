"""`syncd watermark`: how far every stream is, and what only a person does to that."""

import click

from syncd.cli.watermark.changing import reset, set_, undo
from syncd.cli.watermark.importing import import_
from syncd.cli.watermark.listing import history, list_
from syncd.cli.watermark.mending import check, rebuild
from syncd.cli.watermark.showing import export, get


@click.group()
def watermark() -> None:
    """See how far every stream is; set, reset, undo, check and rebuild its marks."""


for _command in (get, list_, history, export, set_, reset, undo, import_, check, rebuild):
    watermark.add_command(_command)
