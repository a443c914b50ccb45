"""`syncd status`: one row for each stream, the worst first; from the lake alone."""

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.exit_codes import Exit
from syncd.cli.output_pipe import anybody
from syncd.cli.stream_options import Named, chosen, common, leave, open_desk, told
from syncd.cli.views.status_view import head, show, status_fields
from watermarks.errors import Transient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncd.app.operator_context import Desk
    from syncd.operations.status_query import Standings, Stood, Stream
    from watermarks.errors import HintedError

HOME_AND_CLEAR = "\x1b[H\x1b[2J"


@click.command()
@click.option("-t", "--table", "tables", multiple=True, metavar="TABLE", help="A table; default: every one.")
@click.option("--watch", is_flag=True, help="Look again and again, until Ctrl-C.")
@click.option("--every", default="2s", show_default=True, help="With --watch: how often.")
@common
def status(**words: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Show how every table stands, the worst first; asks the lake and nobody else.

    Exit 12: a watermark cannot be read.
    """
    from syncd.cli.output import show_json
    from syncd.operations.status_query import AT_ONCE, Standings

    if words["watch"] and words["as_json"]:
        raise click.UsageError("--json prints one document: leave out --watch, and call again")
    every = _every(words["every"])
    with open_desk(words["config"], looks=True, connections=AT_ONCE) as desk:
        names = chosen(desk, words["tables"], all_=not words["tables"])
        streams = [_stream(desk, name) for name in names]
        standings = Standings(journal=desk.journal, parts=desk.lake)
        if words["watch"]:
            watch(lambda: _block(desk, standings, streams), every=every.total_seconds())
            return
        stood = standings.all(streams, now=desk.clock.now())
        if words["as_json"]:
            show_json(status_fields(stood, at=desk.clock.now()))
        else:
            show(stood, at=desk.clock.now())
    leave(_told(stood))


def watch(block: Callable[[], None], *, every: float, pause: Callable[[float], None] = time.sleep) -> None:
    """Draw a block again and again: over the last one on a terminal, below it elsewhere.

    Ends by an interrupt, or where nobody reads it.
    """
    while anybody():
        if sys.stdout.isatty():
            click.echo(HOME_AND_CLEAR, nl=False)
        block()
        sys.stdout.flush()
        pause(every)


def _block(desk: "Desk", standings: "Standings", streams: "Sequence[Stream]") -> None:
    now = desk.clock.now()
    try:
        stood = standings.all(streams, now=now)
    except Transient as error:  # the lake may be back the next time
        click.echo(f"{head(now)}: {error.message}")
        return
    click.echo(head(now))
    show(stood, at=now)
    click.echo()


def _stream(desk: "Desk", named: Named) -> "Stream":
    from syncd.operations.status_query import Stream

    settings = named.required()
    return Stream(name=named.stream, settings=settings, zone=desk.zone(settings))


def _told(stood: "Sequence[Stood]") -> list[Exit]:
    broken: list[tuple[str, HintedError]] = [(str(one.stream.name), one.error) for one in stood if one.error]
    return [told(name, error) for name, error in broken]


def _every(text: str) -> timedelta:
    from syncd.config.value_parsers import lasting

    try:
        return lasting(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--every") from error
