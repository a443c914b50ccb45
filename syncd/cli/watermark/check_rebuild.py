"""`syncd watermark check | rebuild`: consistency of the watermarks, and their reconstruction."""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.option_types import common_options, consent_options, selection_options
from syncd.cli.output import error_to_json, print_message, show_json
from syncd.cli.stream_selection import (
    SelectedStream,
    collect_from_streams,
    exit_with_errors,
    exit_with_result_errors,
    open_operator_context,
    select_streams,
)
from syncd.cli.views.formats import marks_to_json
from syncd.error_classes import ExitCode
from syncd.observe.formatting import format_count
from watermarks.document import Watermark
from watermarks.errors import HintedError
from watermarks.history import Journal
from watermarks.operator import Operator

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext
    from syncd.cli.stream_selection import StreamResult
    from syncd.operations.consistency_check import MarkCheckResult
    from syncd.operations.watermark_rebuild import HistoryState


@click.command()
@selection_options
@click.option("--full", is_flag=True, help="Check all entries and batches, not only the newest 1,000.")
@click.option("--lake-only", is_flag=True, help="Do not read the warehouse.")
@common_options
def check(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Compare marks, history, manifests, files, ledger and target; changes nothing.

    Exit 7: an inconsistency was found. Exit 12: a watermark cannot be read.
    """
    check_stream = partial(_check_stream, full=options["full"], ask_warehouse=not options["lake_only"])
    results = collect_from_streams(options, check_stream, read_only=False)
    if options["as_json"]:
        show_json({"streams": [_check_to_json(result) for result in results]})
    else:
        for result in results:
            if result.value is not None:
                _show_check(result.name, result.value)
    doubts = (ExitCode.DOUBT for result in results if result.value is not None and result.value.findings)
    exit_with_result_errors(results, codes=doubts)


def _check_stream(
    context: "OperatorContext", selected: SelectedStream, *, full: bool, ask_warehouse: bool
) -> "MarkCheckResult":
    from syncd.operations.consistency_check import MarkCheck
    from syncd.operations.mark_change import require_known_stream

    stream = selected.stream
    watermark = require_known_stream(context.journal.read_newest(stream.stem), stream)
    ledger = context.ledger_reader(selected.settings) if ask_warehouse and selected.settings is not None else None
    mark_check = MarkCheck(stream=stream, journal=context.journal, lake=context.lake, ledger=ledger, check_all=full)
    return mark_check.run(watermark)


def _show_check(name: str, result: "MarkCheckResult") -> None:
    ledger = "the warehouse was not read"
    if result.ledger_entries is not None:
        ledger = f"{result.ledger_entries:,} ledger entries"
    files = format_count(result.files, "file") + (f" ({result.cleaned:,} of them cleaned)" if result.cleaned else "")
    scope = f"{result.entries:,} history entries, {format_count(result.batches, 'batch')}, {files}, {ledger}"
    only = "" if result.is_complete else " (the newest; to check all: --full)"
    verdict = format_count(len(result.findings), "finding") if result.findings else "consistent"
    click.echo(f"{name}: {verdict}: {scope}{only}")
    for finding in result.findings:
        click.echo(f"  {finding.about}: {finding.message}")
        click.echo(f"    next: {finding.remedy}")


def _check_to_json(result: "StreamResult[MarkCheckResult]") -> dict[str, Any]:
    check_ = result.value
    findings = check_.findings if check_ else ()
    return result.selected.to_json() | {
        "consistent": check_ is not None and not findings,
        "entries": check_.entries if check_ else None,
        "batches": check_.batches if check_ else None,
        "files": check_.files if check_ else None,
        "removed_files": check_.cleaned if check_ else None,
        "ledger_entries": check_.ledger_entries if check_ else None,
        "complete": check_.is_complete if check_ else None,
        "findings": [
            {"subject": finding.about, "message": finding.message, "next_step": finding.remedy} for finding in findings
        ],
        "error": error_to_json(result.error),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildOutcome:
    """One stream with the evidence for its marks, and the watermark that was or would be written."""

    selected: SelectedStream
    history: "HistoryState | None" = None
    ledger: str | None = None
    """Evidence of the ledger, as text; None where it was not read."""
    after: Watermark | None = None
    """The rebuilt watermark; None where nothing has to be written."""
    error: HintedError | None = None


@click.command()
@selection_options
@click.option("--from-ledger", is_flag=True, help="Rebuild the loaded mark from the warehouse's ledger.")
@consent_options
@common_options
def rebuild(**options: Any) -> None:  # noqa: ANN401  # as above
    """Rebuild a watermark from its history; with --from-ledger, rebuild its loaded mark from the ledger.

    Without --yes, shows the evidence and what would be written, and changes nothing.
    """
    writes = options["yes"] and not options["dry_run"]
    with open_operator_context(options["config"]) as context:
        selected = select_streams(context.settings, options["tables"], all_=options["all_"])
        outcomes = [_rebuild_stream(context, one, options, write=False) for one in selected]
        if not options["as_json"]:
            for outcome in outcomes:
                _show_rebuild(outcome)
        if writes:
            outcomes = [
                outcome
                if outcome.error or not outcome.after
                else _rebuild_stream(context, outcome.selected, options, write=True)
                for outcome in outcomes
            ]
            for outcome in outcomes:
                if outcome.after is not None and outcome.error is None:
                    print_message(f"{outcome.selected.name}: written as revision {outcome.after.revision}")
    if options["as_json"]:
        show_json({"written": writes, "streams": [_rebuild_to_json(outcome) for outcome in outcomes]})
    elif not writes and any(outcome.after for outcome in outcomes):
        print_message("nothing was written: to write, add --yes")
    exit_with_errors((outcome.selected.name, outcome.error) for outcome in outcomes)


def _rebuild_stream(
    context: "OperatorContext", selected: SelectedStream, options: dict[str, Any], *, write: bool
) -> RebuildOutcome:
    from syncd.operations.watermark_rebuild import read_history_state
    from watermarks.stores.memory import OverlayStore

    store = context.store if write else OverlayStore(context.store)
    journal = Journal(store, Watermark, clock=context.clock)
    outcome = RebuildOutcome(selected=selected)
    try:
        if options["from_ledger"]:
            return _rebuild_from_ledger(context, outcome, journal, options)
        history = read_history_state(journal, selected.stream)
        outcome = replace(outcome, history=history)
        return outcome if history.is_same else replace(outcome, after=journal.rebuild(selected.stream.stem))
    except HintedError as error:
        return replace(outcome, error=error)


def _rebuild_from_ledger(
    context: "OperatorContext", outcome: RebuildOutcome, journal: Journal[Watermark], options: dict[str, Any]
) -> RebuildOutcome:
    from syncd.app.operator_context import current_operator
    from syncd.errors import ConfigError
    from syncd.operations.watermark_rebuild import rebuild_loaded_mark

    ledger = context.ledger_reader(outcome.selected.require_settings())
    if ledger is None:
        raise ConfigError(f"{outcome.selected.name} has no warehouse", hint="Add `warehouse:` to the configuration.")
    reason = options["reason"] or "what the ledger proves"
    operator = Operator(journal=journal, author=current_operator(), reason=reason)
    rebuilt = rebuild_loaded_mark(journal, outcome.selected.stream, ledger, operator=operator)
    if rebuilt.after is None:
        return replace(
            outcome, ledger=f"the ledger has {rebuilt.entries:,} entries, and the loaded mark agrees with them"
        )
    comparison = rebuilt.comparison
    if comparison.lost:
        lost = format_count(len(comparison.lost), "batch")
        difference = f"{lost} loaded according to the mark, but not in the ledger"
    else:
        ahead = format_count(len(comparison.ahead), "batch")
        difference = f"{ahead} in the ledger, but not loaded according to the mark"
    proof = f"the ledger proves everything up to batch {comparison.proven_upto}: {difference}"
    return replace(outcome, ledger=proof, after=rebuilt.after)


def _show_rebuild(outcome: RebuildOutcome) -> None:
    if outcome.error is not None:
        return
    if outcome.history is not None:
        history = outcome.history
        state = "the document agrees"
        if not history.is_same:
            state = f"stored document: {history.current_document}"
        click.echo(
            f"{outcome.selected.name}: {history.entries:,} history entries are complete up to revision"
            f" {history.revision}; {state}"
        )
    if outcome.ledger is not None:
        click.echo(f"{outcome.selected.name}: {outcome.ledger}")
    if outcome.after is not None:
        extracted, loaded = outcome.after.required_extract_progress, outcome.after.load_progress
        click.echo(f"  to write: batch {extracted.last_batch} extracted, batch {loaded.last_batch} loaded")
    else:
        click.echo("  nothing to write")


def _rebuild_to_json(outcome: RebuildOutcome) -> dict[str, Any]:
    history = outcome.history
    return outcome.selected.to_json() | {
        "history": history
        and {
            "revision": history.revision,
            "entries": history.entries,
            "stored_document": history.current_document,
            "matches_history": history.is_same,
        },
        "ledger": outcome.ledger,
        "after": marks_to_json(outcome.after) if outcome.after else None,
        "error": error_to_json(outcome.error),
    }
