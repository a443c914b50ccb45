"""`syncd verify`: comparison of warehouse and source, and repair of the differences."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from syncd.cli.option_types import PercentType, common_options, debug_option, selection_options
from syncd.cli.output import print_message
from syncd.cli.stage_service import interrupt_on_sigterm, open_stage_service, require_warehouses
from syncd.cli.stream_selection import exit_with_errors, select_configured_streams
from syncd.cli.views.verify_view import VerifyOutcome, show
from syncd.error_classes import ExitCode
from syncd.observe.formatting import format_count

if TYPE_CHECKING:
    from syncd.app.stage_services import StageService
    from syncd.app.verification_setup import ComparisonOptions, StreamVerifier
    from syncd.operations.repair_batches import RepairPlan
    from syncd.verify.result import ComparisonResult
    from syncd.verify.verification import Sample

MAX_REPAIR_ROWS: Final = 50_000
"""Rows of one table that one repair corrects."""


@click.command()
@selection_options
@click.option("--sample", type=PercentType(), metavar="P%", help="Compare this share of the ranges, chosen at random.")
@click.option("--seed", type=int, metavar="N", help="With --sample: one seed always chooses the same ranges.")
@click.option(
    "--limit", type=click.IntRange(min=0), default=100, show_default=True, metavar="N", help="Differences to show."
)
@click.option(
    "--repair", is_flag=True, help="Show how to correct the differences; with --yes correct them, and compare again."
)
@click.option("--yes", is_flag=True, help="With --repair: correct the differences.")
@click.option("--show-values", is_flag=True, help="Show the values that differ, instead of digests of their rows.")
@debug_option
@common_options
def verify(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Compare MySQL and Redshift by ranges of the key; exit 7 where they differ.

    \b
    Examples:
      syncd verify --all
      syncd verify -t orders --sample 5%
      syncd verify -t orders --repair
    """
    from syncd.app.verification_setup import ComparisonOptions, StreamVerifier
    from syncd.concurrency.response_monitor import ResponseMonitor
    from syncd.config.check import read_settings

    settings = read_settings(options["config"], os.environ)
    streams = select_configured_streams(settings, options["tables"], all_=options["all_"])
    require_warehouses(streams)
    if options["seed"] is not None and options["sample"] is None:
        raise click.UsageError("--seed repeats a sample: use it with --sample")
    if options["yes"] and not options["repair"]:
        raise click.UsageError("--yes confirms --repair: without it nothing is written")
    most = max(options["limit"], MAX_REPAIR_ROWS) if options["repair"] else options["limit"]
    comparison = ComparisonOptions(sample=_sample_options(options), max_differences=most)
    with interrupt_on_sigterm(), ExitStack() as stack:
        response_monitor = stack.enter_context(ResponseMonitor(print_message))
        verifier = stack.enter_context(StreamVerifier(settings, response_monitor=response_monitor))
        outcomes = [VerifyOutcome(stream=stream, result=verifier.verify(stream, comparison)) for stream in streams]
        if options["repair"] and options["yes"] and any(outcome.result.differences for outcome in outcomes):
            service = stack.enter_context(open_stage_service(settings, quiet=options["as_json"]))
            outcomes = [_repair_stream(outcome, service, verifier, comparison) for outcome in outcomes]
    show(outcomes, as_json=options["as_json"], show_values=options["show_values"], limit=options["limit"])
    if options["repair"] and not options["yes"]:
        for outcome in outcomes:
            _preview_repair(outcome)
    _exit(outcomes, debug=options["debug"])


def _sample_options(options: dict[str, Any]) -> "Sample":
    import random

    from syncd.verify.verification import Sample

    if options["sample"] is None:
        return Sample()
    seed = options["seed"] if options["seed"] is not None else random.SystemRandom().randrange(10**9)
    return Sample(share=options["sample"], seed=seed)


def _preview_repair(outcome: VerifyOutcome) -> None:
    repair = _plan_repair(outcome)
    if repair is not None:
        description = _describe_repair(repair, outcome.result)
        print_message(f"{outcome.stream.name}: {description}; to do so, add --yes")


def _repair_stream(
    outcome: VerifyOutcome, service: "StageService", verifier: "StreamVerifier", comparison: "ComparisonOptions"
) -> VerifyOutcome:
    """Repair a stream and compare it again; return the outcome unchanged where there is nothing to repair."""
    from syncd.app.pass_factory import PassOptions

    repair = _plan_repair(outcome)
    if repair is None:
        return outcome
    stream, pass_options = outcome.stream, PassOptions()
    print_message(f"{stream.name}: {_describe_repair(repair, outcome.result)}")
    extracted = service.repair_rows(stream, pass_options, repair)
    loaded = service.load(stream, pass_options) if extracted.error is None else None
    error = extracted.error or (loaded.error if loaded else None)
    if error is not None:
        return replace(outcome, result=replace(outcome.result, error=error), before_repair=outcome.result)
    result = verifier.verify(stream, comparison)
    return replace(outcome, result=replace(result, repaired=True), before_repair=outcome.result)


def _plan_repair(outcome: VerifyOutcome) -> "RepairPlan | None":
    from syncd.operations.repair_batches import plan_repair

    if not outcome.result.differences or outcome.result.error is not None:
        return None
    return plan_repair(outcome.result, outcome.stream, compared_at=datetime.now(UTC))


def _describe_repair(repair: "RepairPlan", result: "ComparisonResult") -> str:
    steps: list[str] = []
    if reread := len(repair.reread_keys):
        steps.append(f"{format_count(reread, 'row')} will be read again")
    if deleted := repair.deleted_count:
        steps.append(f"{format_count(deleted, 'deleted row')} will be removed from the target")
    text = ", ".join(steps)
    remaining = result.counts.total() - len(result.differences)
    return f"{text}; {remaining:,} more rows need another repair" if remaining else text


def _exit(outcomes: Sequence[VerifyOutcome], *, debug: bool) -> None:
    different = [outcome for outcome in outcomes if outcome.result.counts.total()]
    if different:
        rows = sum(outcome.result.counts.total() for outcome in different)
        verb = "differs" if rows == 1 else "differ"
        print_message(f"error: {format_count(rows, 'row')} of {format_count(len(different), 'table')} {verb}")
        tables = " ".join(f"-t {outcome.stream.name}" for outcome in different)
        print_message(f"hint: To correct them: syncd verify {tables} --repair --yes")
    errors = [(outcome.stream.name, outcome.result.error) for outcome in outcomes]
    exit_with_errors(errors, codes=[ExitCode.DOUBT] * bool(different), debug=debug)
