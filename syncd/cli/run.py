"""`syncd run`: one pass over the selected streams, with an exit code for schedulers."""

import os
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.option_types import InstantType, common_options, debug_option, selection_options, wait_option
from syncd.cli.stage_service import open_stage_service, require_warehouses
from syncd.cli.stream_selection import exit_with_errors, select_configured_streams
from syncd.cli.views.run_view import StreamRunOutcome, exit_code_for_run, show

if TYPE_CHECKING:
    from syncd.app.pass_factory import PassOptions
    from syncd.app.stage_services import StageService
    from syncd.settings import StreamSettings


@click.command()
@selection_options
@click.option("--extract-only", "--backup-only", is_flag=True, help="Only extract from MySQL to S3.")
@click.option("--load-only", "--redshift-only", is_flag=True, help="Only load from S3 into Redshift.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Extract at most N rows of each table; load batches of at most N rows together, and at least one batch.",
)
@click.option(
    "--from", "start", type=InstantType(), help="With --until: extract this range again, without moving the mark."
)
@click.option("--until", type=InstantType(), help="Extract rows before this instant only.")
@wait_option("60s", "How long to wait for the lease of a process that may be dead, and for old transactions.")
@click.option("--strict", is_flag=True, help="Exit 7 when rows went into quarantine.")
@click.option("--dry-run", is_flag=True, help="Show what would be extracted and loaded, and write nothing.")
@debug_option
@common_options
def run(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Bring the lake up to date with MySQL, and Redshift with the lake, once."""
    from syncd.app.pass_factory import PassOptions
    from syncd.config.check import read_settings
    from syncd.extract.plan_rules import ExtractRequest

    settings = read_settings(options["config"], os.environ)
    streams = select_configured_streams(settings, options["tables"], all_=options["all_"])
    _check_options(options)
    extracts, loads, dry_run = not options["load_only"], not options["extract_only"], options["dry_run"]
    if loads:
        require_warehouses(streams)
    request = ExtractRequest(limit=options["limit"], since=options["start"], until=options["until"])
    pass_options = PassOptions(request=request, horizon_wait=options["wait"], dry_run=dry_run)
    with open_stage_service(settings, quiet=options["as_json"], dry_run=dry_run) as service:
        outcomes = [_run_stream(service, stream, pass_options, extracts=extracts, loads=loads) for stream in streams]
    show(outcomes, as_json=options["as_json"], dry_run=dry_run, strict=options["strict"])
    errors = [(outcome.name, error) for outcome in outcomes for error in outcome.errors]
    codes = [exit_code_for_run(outcomes, strict=options["strict"])]
    exit_with_errors(errors, codes=codes, debug=options["debug"])


def _check_options(options: dict[str, Any]) -> None:
    if options["extract_only"] and options["load_only"]:
        raise click.UsageError("--extract-only and --load-only exclude each other: without either, both stages run")
    if options["start"] and not options["until"]:
        raise click.UsageError("--from needs --until: a range to extract again has two ends")
    if options["start"] and options["start"] > options["until"]:
        raise click.UsageError("--from is later than --until: the range is empty")
    if options["load_only"] and options["until"]:
        raise click.UsageError("--from and --until apply to the extraction: leave them out with --load-only")


def _run_stream(
    service: "StageService", stream: "StreamSettings", options: "PassOptions", *, extracts: bool, loads: bool
) -> StreamRunOutcome:
    """Run the stages of one stream. The load runs even where the extraction failed: earlier batches may wait."""
    return StreamRunOutcome(
        database=stream.database,
        table=stream.table,
        source=stream.source,
        extract=service.extract(stream, options) if extracts else None,
        load=service.load(stream, options) if loads else None,
    )
