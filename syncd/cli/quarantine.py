"""`syncd quarantine`: list, show and replay rows that were put aside."""

import os
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.option_types import BatchType, Command, common_options, debug_option, tables_option, wait_option
from syncd.cli.output import print_message
from syncd.cli.stage_service import open_stage_service, require_warehouses
from syncd.cli.stream_selection import exit_with_errors, select_configured_streams
from syncd.cli.views.quarantine_view import show_quarantined_files, show_replays, show_rows
from syncd.error_classes import ExitCode
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncd.app.stage_services import StageService
    from syncd.extract.extract_pass import ExtractOutcome
    from syncd.lake.quarantine import QuarantinedRow
    from syncd.load.load_pass import LoadOutcome
    from syncd.load.quarantine_listing import QuarantineListing
    from syncd.settings import Settings, StreamSettings
    from watermarks.batch import BatchId


@click.group()
def quarantine() -> None:
    """List, show and replay the rows in quarantine."""


@contextmanager
def _open_read_only_service(settings: "Settings") -> "Iterator[StageService]":
    from syncd.app.dry_run import open_previewer
    from syncd.app.operator_context import OperatorContext
    from syncd.concurrency.response_monitor import ResponseMonitor

    with (
        OperatorContext(settings, read_only=True, response_monitor=ResponseMonitor(print_message)) as context,
        open_previewer(context, os.environ) as previewer,
    ):
        yield previewer.service


def _quarantine_options(command: Command) -> Command:
    batch_option = click.option("--batch", type=BatchType(), help="Only rows of this batch, such as 1-42.")
    return tables_option(batch_option(debug_option(common_options(command))))


@quarantine.command(name="list")
@_quarantine_options
def list_(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """List the files in quarantine: their rows, and whether they were replayed."""
    settings, streams = _select_streams(options)
    listings: list[tuple[StreamSettings, QuarantineListing]] = []
    errors: list[tuple[StreamSettings, HintedError]] = []
    with _open_read_only_service(settings) as service:
        for stream in streams:
            with _collect_error(stream, errors):
                listings.append((stream, service.quarantine(stream).list_files(options["batch"])))
    show_quarantined_files(listings, errors, as_json=options["as_json"])
    missing = any(file.is_missing and file.replayed_by is None for _, listing in listings for file in listing.files)
    _exit(errors, doubt=missing, debug=options["debug"])


@quarantine.command()
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="Number of rows to show."
)
@click.option("--lines", is_flag=True, help="Print all rows, each as one line of JSON.")
@_quarantine_options
def show(**options: Any) -> None:  # noqa: ANN401  # as above
    """Show rows that wait in quarantine: reason, column, length and values."""
    settings, streams = _select_streams(options)
    errors: list[tuple[StreamSettings, HintedError]] = []
    with _open_read_only_service(settings) as service:
        rows = _read_rows(service, streams, options["batch"], errors)
        limit = None if options["lines"] else options["limit"]
        show_rows(islice(rows, limit), errors, lines=options["lines"], as_json=options["as_json"])
    _exit(errors, doubt=False, debug=options["debug"])


def _read_rows(
    service: "StageService",
    streams: "list[StreamSettings]",
    batch: "BatchId | None",
    errors: "list[tuple[StreamSettings, HintedError]]",
) -> "Iterator[tuple[StreamSettings, QuarantinedRow]]":
    from syncd.lake.manifest import Manifest

    for stream in streams:
        with _collect_error(stream, errors):
            listing = service.quarantine(stream)
            for file in listing.list_files(batch).files:
                if file.replayed_by is None and not file.is_missing:
                    manifest = Manifest.from_link(listing.chain.require_link(file.batch))
                    for row in service.quarantine_reader.read_refused_rows(file, manifest):
                        yield stream, row


@quarantine.command()
@click.option("--extract-only", is_flag=True, help="Only create the batches; a later run loads them.")
@click.option("--dry-run", is_flag=True, help="Show which batch would be replayed first, and write nothing.")
@click.option("--strict", is_flag=True, help="Exit 7 when rows stay in quarantine.")
@wait_option("60s", "How long to wait for the lease of a process that may be dead.")
@_quarantine_options
def replay(**options: Any) -> None:  # noqa: ANN401  # as above
    """Load the quarantined rows that are accepted now.

    Each row is loaded once, and never replaces a newer version of the row.
    """
    from syncd.app.pass_factory import PassOptions

    settings, streams = _select_streams(options)
    loads = not options["extract_only"]
    if loads:
        require_warehouses(streams)
    pass_options = PassOptions(horizon_wait=options["wait"], dry_run=options["dry_run"])
    replays: list[tuple[StreamSettings, ExtractOutcome, LoadOutcome | None]] = []
    with open_stage_service(settings, quiet=options["as_json"]) as service:
        for stream in streams:
            extracted = service.replay(stream, pass_options, batch=options["batch"], will_load=loads)
            loads_now = loads and not options["dry_run"] and extracted.error is None
            replays.append((stream, extracted, service.load(stream, pass_options) if loads_now else None))
    show_replays(replays, as_json=options["as_json"], dry_run=options["dry_run"])
    errors = [(stream, done.error) for stream, *stages in replays for done in stages if done and done.error]
    rows_stay = any(
        extracted.quarantined or extracted.wait_reason or (loaded and loaded.quarantined)
        for _, extracted, loaded in replays
    )
    _exit(errors, doubt=options["strict"] and rows_stay, debug=options["debug"])


@contextmanager
def _collect_error(stream: "StreamSettings", errors: "list[tuple[StreamSettings, HintedError]]") -> "Iterator[None]":
    """Keep the error of one stream, so that the others are still shown."""
    try:
        yield
    except HintedError as error:
        errors.append((stream, error))


def _select_streams(options: dict[str, Any]) -> "tuple[Settings, list[StreamSettings]]":
    from syncd.config.check import read_settings

    settings = read_settings(options["config"], os.environ)
    streams = select_configured_streams(settings, options["tables"], all_=not options["tables"])
    if options["batch"] is not None and len(streams) != 1:
        raise click.UsageError("--batch names a batch of one table: name the table with -t")
    return settings, streams


def _exit(errors: "list[tuple[StreamSettings, HintedError]]", *, doubt: bool, debug: bool) -> None:
    codes = [ExitCode.DOUBT] if doubt else []
    exit_with_errors([(stream.name, error) for stream, error in errors], codes=codes, debug=debug)
