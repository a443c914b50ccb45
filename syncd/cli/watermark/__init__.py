"""`syncd watermark`: positions of the streams, and the changes that operators make to them."""

import click

from syncd.cli.watermark.check_rebuild import check, rebuild
from syncd.cli.watermark.get_export import export, get
from syncd.cli.watermark.import_command import import_
from syncd.cli.watermark.list_history import history, list_
from syncd.cli.watermark.set_reset_undo import reset, set_, undo


@click.group()
def watermark() -> None:
    """Show the position of every stream; set, reset, undo, check and rebuild its marks."""


for _command in (get, list_, history, export, set_, reset, undo, import_, check, rebuild):
    watermark.add_command(_command)
