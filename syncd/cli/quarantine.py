"""`syncd quarantine`: rows that were put aside: which, why, and how they come back."""

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output import print_message
from syncd.cli.run import open_progress, print_error, require_warehouses, select_configured_streams
from syncd.cli.signals import interrupt_on_sigterm
from syncd.cli.stream_options import DEFAULT_CONFIG_PATH
from syncd.cli.views.quarantine_view import show_quarantined_files, show_replays, show_rows
from syncd.error_classes import ExitCode, exit_code_for, worst_exit_code
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from syncd.app import StageService
    from syncd.extract.extract_pass import ExtractOutcome
    from syncd.load.load_pass import LoadOutcome
    from syncd.load.quarantine_listing import QuarantineListing
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
            return BatchId.from_text(str(value))
        except Misuse as error:
            self.fail(error.message, param, ctx)


@click.group()
def quarantine() -> None:
    """Look at the rows that were put aside, and bring them back."""


@contextmanager
def _open_read_only_service(settings: "Settings") -> "Iterator[StageService]":
    from syncd.app.operator_context import OperatorContext
    from syncd.app.preview import open_previewer
    from syncd.concurrency.response_monitor import ResponseMonitor

    with (
        OperatorContext(settings, read_only=True, response_monitor=ResponseMonitor(print_message)) as desk,
        open_previewer(desk, os.environ) as previewer,
    ):
        yield previewer.service


def _common_options(command: Command) -> Command:
    for option in (
        click.option(
            "-c",
            "--config",
            type=click.Path(path_type=Path),
            default=DEFAULT_CONFIG_PATH,
            show_default=True,
            help="The file.",
        ),
        click.option("--debug", is_flag=True, help="Show where in the code an error came up."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
        click.option("--batch", type=BatchType(), help="Only of this batch, such as 1-42."),
        click.option("-t", "--table", "tables", multiple=True, metavar="TABLE", help="A table; default: every one."),
    ):
        command = option(command)
    return command


@quarantine.command(name="list")
@_common_options
def list_(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """List the files in quarantine: how many rows each has, and whether they were brought back."""
    settings, streams = _select_streams(options)
    found: list[tuple[StreamSettings, QuarantineListing]] = []
    errors: list[tuple[StreamSettings, HintedError]] = []
    with _open_read_only_service(settings) as service:
        for stream in streams:
            with _collect_error(stream, errors):
                found.append((stream, service.quarantine(stream).list_files(options["batch"])))
    show_quarantined_files(found, errors, as_json=options["as_json"])
    gone = any(aside.is_missing and aside.replayed_by is None for _, lying in found for aside in lying.files)
    _exit_with_errors(errors, doubt=gone, debug=options["debug"])


@quarantine.command()
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="Rows to show.")
@click.option("--lines", is_flag=True, help="Print every row whole, as one line of JSON each.")
@_common_options
def show(**options: Any) -> None:  # noqa: ANN401  # as above
    """Show rows in quarantine that wait: why they lie there, column, length and values."""
    from itertools import islice

    from syncd.lake.manifest import Manifest

    settings, streams = _select_streams(options)
    errors: list[tuple[StreamSettings, HintedError]] = []
    with _open_read_only_service(settings) as service:

        def rows() -> "Any":  # noqa: ANN401  # rows with their streams
            for stream in streams:
                with _collect_error(stream, errors):
                    lies = service.quarantine(stream)
                    for aside in lies.list_files(options["batch"]).files:
                        if aside.replayed_by is None and not aside.is_missing:
                            manifest = Manifest.from_link(lies.chain.require_link(aside.batch))
                            yield from (
                                (stream, row) for row in service.quarantine_reader.read_refused_rows(aside, manifest)
                            )

        limit = None if options["lines"] else options["limit"]
        show_rows(islice(rows(), limit), errors, lines=options["lines"], as_json=options["as_json"])
    _exit_with_errors(errors, doubt=False, debug=options["debug"])


@quarantine.command()
@click.option("--extract-only", is_flag=True, help="Make the batches, and leave it to the loader to land them.")
@click.option("--dry-run", is_flag=True, help="Say which batch would be brought back first; write nothing.")
@click.option("--strict", is_flag=True, help="Exit 7 when rows stay in quarantine.")
@click.option("--wait", default="60s", show_default=True, help="How long to wait for an owner that may be gone.")
@_common_options
def replay(**options: Any) -> None:  # noqa: ANN401  # as above
    """Bring rows back that pass by now; each once, and never over a newer version."""
    from syncd.app import PassOptions, StageService
    from syncd.concurrency.response_monitor import ResponseMonitor
    from syncd.config.value_parsers import parse_duration

    settings, streams = _select_streams(options)
    lands = not options["extract_only"]
    if lands:
        require_warehouses(streams)
    try:
        wanted = PassOptions(horizon_wait=parse_duration(options["wait"]), dry_run=options["dry_run"])
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--wait") from error
    with interrupt_on_sigterm(), ExitStack() as stack:
        progress = stack.enter_context(open_progress(quiet=options["as_json"]))
        silences = stack.enter_context(ResponseMonitor(progress.say))
        service = stack.enter_context(
            StageService(settings, environ=os.environ, emit=progress, one_shot=True, response_monitor=silences)
        )
        done: list[tuple[StreamSettings, ExtractOutcome, LoadOutcome | None]] = []
        for stream in streams:
            made = service.replay(stream, wanted, batch=options["batch"], will_load=lands)
            loads = lands and not wanted.dry_run and made.error is None
            done.append((stream, made, service.load(stream, wanted) if loads else None))
    show_replays(done, as_json=options["as_json"], dry_run=wanted.dry_run)
    errors = [(stream, one.error) for stream, *both in done for one in both if one and one.error]
    stay = any(made.quarantined or made.wait_reason or (landed and landed.quarantined) for _, made, landed in done)
    _exit_with_errors(errors, doubt=options["strict"] and stay, debug=options["debug"])


@contextmanager
def _collect_error(stream: "StreamSettings", errors: "list[tuple[StreamSettings, HintedError]]") -> "Iterator[None]":
    """Note what is wrong with one stream: it keeps no other from being looked at."""
    try:
        yield
    except HintedError as error:
        errors.append((stream, error))


def _select_streams(options: dict[str, Any]) -> "tuple[Settings, list[StreamSettings]]":
    from syncd.config.check import read_settings

    settings = read_settings(options["config"], os.environ)
    streams = select_configured_streams(settings, options["tables"], all_=not options["tables"])
    if options["batch"] is not None and len(streams) != 1:
        raise click.UsageError("--batch is a batch of one table: name it with -t")
    return settings, streams


def _exit_with_errors(errors: "Sequence[tuple[StreamSettings, HintedError]]", *, doubt: bool, debug: bool) -> None:
    codes = [ExitCode.DOUBT] if doubt else [ExitCode.DONE]
    for stream, error in errors:
        codes.append(exit_code_for(error))
        print_error(stream.name, error, debug=debug)
    if (code := worst_exit_code(codes)) is not ExitCode.DONE:
        sys.exit(code)
