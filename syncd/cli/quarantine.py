"""`syncd quarantine`: rows that were put aside: which, why, and how they come back."""

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.exit_codes import Exit, exit_for, worst
from syncd.cli.output import say
from syncd.cli.run import chosen, progress_of, require_warehouses, tell_error
from syncd.cli.signals import ended_by_sigterm
from syncd.cli.stream_options import CONFIG
from syncd.cli.views.quarantine_view import show_asides, show_replays, show_rows
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from syncd.app import Service
    from syncd.extract.extract_pass import Outcome
    from syncd.load.load_pass import LoadOutcome
    from syncd.load.quarantine_listing import Lying
    from syncd.settings import Settings, StreamSettings
    from watermarks.batch import BatchId

Command = Callable[..., None]


class BatchType(click.ParamType["BatchId"]):
    """The number of a batch, such as 1-42."""

    name = "batch"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> "BatchId":
        from watermarks.batch import BatchId
        from watermarks.errors import Misuse

        try:
            return BatchId.of_text(str(value))
        except Misuse as error:
            self.fail(error.message, param, ctx)


@click.group()
def quarantine() -> None:
    """Look at the rows that were put aside, and bring them back."""


@contextmanager
def _looking(settings: "Settings") -> "Iterator[Service]":
    from syncd.app.operator_context import Desk
    from syncd.app.preview import looking
    from syncd.concurrency.response_monitor import Silences

    with Desk(settings, looks=True, silences=Silences(say)) as desk, looking(desk, os.environ) as service:
        yield service


def _common(command: Command) -> Command:
    for option in (
        click.option(
            "-c", "--config", type=click.Path(path_type=Path), default=CONFIG, show_default=True, help="The file."
        ),
        click.option("--debug", is_flag=True, help="Show where in the code an error came up."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
        click.option("--batch", type=BatchType(), help="Only of this batch, such as 1-42."),
        click.option("-t", "--table", "tables", multiple=True, metavar="TABLE", help="A table; default: every one."),
    ):
        command = option(command)
    return command


@quarantine.command(name="list")
@_common
def list_(**words: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """List the files in quarantine: how many rows each has, and whether they were brought back."""
    settings, streams = _streams(words)
    found: list[tuple[StreamSettings, Lying]] = []
    errors: list[tuple[StreamSettings, HintedError]] = []
    with _looking(settings) as service:
        for stream in streams:
            with _noted(stream, errors):
                found.append((stream, service.quarantine(stream).look(words["batch"])))
    show_asides(found, errors, as_json=words["as_json"])
    gone = any(aside.gone and aside.replayed_by is None for _, lying in found for aside in lying.asides)
    _leave(errors, doubt=gone, debug=words["debug"])


@quarantine.command()
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="Rows to show.")
@click.option("--lines", is_flag=True, help="Print every row whole, as one line of JSON each.")
@_common
def show(**words: Any) -> None:  # noqa: ANN401  # as above
    """Show rows in quarantine that wait: why they lie there, column, length and values."""
    from itertools import islice

    from syncd.lake.manifest import Manifest

    settings, streams = _streams(words)
    errors: list[tuple[StreamSettings, HintedError]] = []
    with _looking(settings) as service:

        def rows() -> "Any":  # noqa: ANN401  # rows with their streams
            for stream in streams:
                with _noted(stream, errors):
                    lies = service.quarantine(stream)
                    for aside in lies.look(words["batch"]).asides:
                        if aside.replayed_by is None and not aside.gone:
                            manifest = Manifest.of_link(lies.chain.required(aside.batch))
                            yield from ((stream, row) for row in service.restorer.shown(aside, manifest))

        limit = None if words["lines"] else words["limit"]
        show_rows(islice(rows(), limit), errors, lines=words["lines"], as_json=words["as_json"])
    _leave(errors, doubt=False, debug=words["debug"])


@quarantine.command()
@click.option("--extract-only", is_flag=True, help="Make the batches, and leave it to the loader to land them.")
@click.option("--dry-run", is_flag=True, help="Say which batch would be brought back first; write nothing.")
@click.option("--strict", is_flag=True, help="Exit 7 when rows stay in quarantine.")
@click.option("--wait", default="60s", show_default=True, help="How long to wait for an owner that may be gone.")
@_common
def replay(**words: Any) -> None:  # noqa: ANN401  # as above
    """Bring rows back that pass by now; each once, and never over a newer version."""
    from syncd.app import Pass, Service
    from syncd.concurrency.response_monitor import Silences
    from syncd.config.value_parsers import duration

    settings, streams = _streams(words)
    lands = not words["extract_only"]
    if lands:
        require_warehouses(streams)
    try:
        wanted = Pass(wait=duration(words["wait"]), dry=words["dry_run"])
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--wait") from error
    with ended_by_sigterm(), ExitStack() as stack:
        progress = stack.enter_context(progress_of(quiet=words["as_json"]))
        silences = stack.enter_context(Silences(progress.say))
        service = stack.enter_context(
            Service(settings, environ=os.environ, tell=progress, one_shot=True, silences=silences)
        )
        done: list[tuple[StreamSettings, Outcome, LoadOutcome | None]] = []
        for stream in streams:
            made = service.replay(stream, wanted, batch=words["batch"], lands=lands)
            loads = lands and not wanted.dry and made.error is None
            done.append((stream, made, service.load(stream, wanted) if loads else None))
    show_replays(done, as_json=words["as_json"], dry_run=wanted.dry)
    errors = [(stream, one.error) for stream, *both in done for one in both if one and one.error]
    stay = any(made.quarantined or made.reason or (landed and landed.quarantined) for _, made, landed in done)
    _leave(errors, doubt=words["strict"] and stay, debug=words["debug"])


@contextmanager
def _noted(stream: "StreamSettings", errors: "list[tuple[StreamSettings, HintedError]]") -> "Iterator[None]":
    """Note what is wrong with one stream: it keeps no other from being looked at."""
    try:
        yield
    except HintedError as error:
        errors.append((stream, error))


def _streams(words: dict[str, Any]) -> "tuple[Settings, list[StreamSettings]]":
    from syncd.config.check import read_settings

    settings = read_settings(words["config"], os.environ)
    streams = chosen(settings, words["tables"], all_=not words["tables"])
    if words["batch"] is not None and len(streams) != 1:
        raise click.UsageError("--batch is a batch of one table: name it with -t")
    return settings, streams


def _leave(errors: "Sequence[tuple[StreamSettings, HintedError]]", *, doubt: bool, debug: bool) -> None:
    codes = [Exit.DOUBT] if doubt else [Exit.DONE]
    for stream, error in errors:
        codes.append(exit_for(error))
        tell_error(f"{stream.database}.{stream.table}", error, debug=debug)
    if (code := worst(codes)) is not Exit.DONE:
        sys.exit(code)
