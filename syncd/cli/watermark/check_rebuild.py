"""`syncd watermark check | rebuild`: whether everything agrees, and what is made anew from what proves it."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output import print_message, show_json
from syncd.cli.stream_options import (
    SelectedStream,
    common_options,
    error_to_json,
    exit_with_worst,
    open_operator_context,
    report_error,
    select_streams,
    table_options,
)
from syncd.cli.views.mark_format import marks_to_json
from syncd.cli.watermark.options import consent_options
from syncd.error_classes import ExitCode
from syncd.observe.formatting import format_count
from watermarks.document import Watermark
from watermarks.errors import HintedError
from watermarks.history import Journal
from watermarks.operator import Operator

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext
    from syncd.operations.consistency_check import Inconsistency, MarkCheckResult
    from syncd.operations.watermark_rebuild import HistoryState


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOutcome:
    """One stream that was checked, or why it could not be."""

    selected: SelectedStream
    result: "MarkCheckResult | None" = None
    error: HintedError | None = None

    @property
    def findings(self) -> "tuple[Inconsistency, ...]":
        return self.result.findings if self.result else ()


@click.command()
@table_options
@click.option("--full", is_flag=True, help="Look at every entry and batch, not only at the newest 1,000.")
@click.option("--lake-only", is_flag=True, help="Do not ask the warehouse.")
@common_options
def check(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Compare marks, history, manifests, files, ledger and target; nothing is changed.

    Exit 7: something does not agree. Exit 12: a watermark cannot be read.
    """
    with open_operator_context(options["config"]) as desk:
        named = select_streams(desk, options["tables"], all_=options["all_"])
        looked = [
            _check_stream(desk, one, full=options["full"], ask_warehouse=not options["lake_only"]) for one in named
        ]
    if options["as_json"]:
        show_json({"streams": [_check_to_json(one) for one in looked]})
    else:
        for one in looked:
            _show_check(one)
    codes = [report_error(one.selected.name, one.error) for one in looked if one.error is not None]
    exit_with_worst([*codes, *(ExitCode.DOUBT for one in looked if one.findings)])


def _check_stream(
    context: "OperatorContext", selected: SelectedStream, *, full: bool, ask_warehouse: bool
) -> CheckOutcome:
    from syncd.operations.consistency_check import MarkCheck
    from syncd.operations.mark_change import require_known_stream

    try:
        state = require_known_stream(context.journal.read_newest(selected.stream.stem), selected.stream)
        books = context.ledger_reader(selected.settings) if ask_warehouse and selected.settings is not None else None
        checking = MarkCheck(
            stream=selected.stream, journal=context.journal, lake=context.lake, ledger=books, check_all=full
        )
        return CheckOutcome(selected=selected, result=checking.run(state))
    except HintedError as error:
        return CheckOutcome(selected=selected, error=error)


def _show_check(outcome: CheckOutcome) -> None:
    if outcome.result is None:
        return
    seen = outcome.result
    ledger = (
        "the warehouse was not asked"
        if seen.ledger_entries is None
        else f"{seen.ledger_entries:,} entries of the ledger"
    )
    files = format_count(seen.files, "file") + (f" ({seen.cleaned:,} of them cleaned)" if seen.cleaned else "")
    what = f"{seen.entries:,} entries of history, {format_count(seen.batches, 'batch')}, {files}, {ledger}"
    only = "" if seen.is_complete else " (the newest; all of them with --full)"
    verdict = f"{len(seen.findings)} found" if seen.findings else "all agree"
    click.echo(f"{outcome.selected.name}: {verdict}: {what}{only}")
    for finding in seen.findings:
        click.echo(f"  {finding.about}: {finding.message}")
        click.echo(f"    next: {finding.remedy}")


def _check_to_json(outcome: CheckOutcome) -> dict[str, Any]:
    seen = outcome.result
    return {
        "table": outcome.selected.name,
        "source": outcome.selected.stream.source,
        "agrees": seen is not None and not seen.findings,
        "entries": seen.entries if seen else None,
        "batches": seen.batches if seen else None,
        "files": seen.files if seen else None,
        "cleaned": seen.cleaned if seen else None,
        "landed": seen.ledger_entries if seen else None,
        "whole": seen.is_complete if seen else None,
        "findings": [{"about": each.about, "message": each.message, "next": each.remedy} for each in outcome.findings],
        "error": error_to_json(outcome.error),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildOutcome:
    """One stream, what proves its marks, and what was or would be written."""

    selected: SelectedStream
    history: "HistoryState | None" = None
    ledger: str | None = None
    """What the ledger proves, in words; None where it was not asked."""
    after: Watermark | None = None
    """What stands once it is written; None where nothing has to be."""
    error: HintedError | None = None


@click.command()
@table_options
@click.option("--from-ledger", is_flag=True, help="Move the loaded mark to what the warehouse's ledger proves.")
@consent_options
@common_options
def rebuild(**options: Any) -> None:  # noqa: ANN401  # as above
    """Write a watermark anew from its history alone; with --from-ledger its loaded half from the ledger.

    Without --yes it says what is proven and what would be written, and changes nothing.
    """
    writes = options["yes"] and not options["dry_run"]
    with open_operator_context(options["config"]) as desk:
        named = select_streams(desk, options["tables"], all_=options["all_"])
        mended = [_rebuild_stream(desk, one, options, write=False) for one in named]
        if not options["as_json"]:
            for one in mended:
                _show_rebuild(one)
        if writes:
            mended = [
                one if one.error or not one.after else _rebuild_stream(desk, one.selected, options, write=True)
                for one in mended
            ]
            for one in mended:
                if one.after is not None and one.error is None:
                    print_message(f"{one.selected.name}: written, revision {one.after.revision}")
    if options["as_json"]:
        show_json({"written": writes, "streams": [_rebuild_to_json(one) for one in mended]})
    elif not writes and any(one.after for one in mended):
        print_message("nothing was written: say --yes")
    exit_with_worst([report_error(one.selected.name, one.error) for one in mended if one.error is not None])


def _rebuild_stream(
    context: "OperatorContext", selected: SelectedStream, options: dict[str, Any], *, write: bool
) -> RebuildOutcome:
    from syncd.operations.watermark_rebuild import read_history_state
    from watermarks.stores.overlay import OverlayStore

    store = context.store if write else OverlayStore(context.store)
    journal = Journal(store, Watermark, clock=context.clock)
    one = RebuildOutcome(selected=selected)
    try:
        if options["from_ledger"]:
            return _rebuild_from_ledger(context, one, journal, options)
        one = replace(one, history=read_history_state(journal, selected.stream))
        assert one.history is not None
        return one if one.history.is_same else replace(one, after=journal.rebuild(selected.stream.stem))
    except HintedError as error:
        return replace(one, error=error)


def _rebuild_from_ledger(
    context: "OperatorContext", outcome: RebuildOutcome, journal: Journal[Watermark], options: dict[str, Any]
) -> RebuildOutcome:
    from syncd.app.operator_context import current_operator
    from syncd.errors import ConfigError
    from syncd.operations.watermark_rebuild import rebuild_loaded_mark

    books = context.ledger_reader(outcome.selected.require_settings())
    if books is None:
        raise ConfigError(f"{outcome.selected.name} has no warehouse", hint="Add `warehouse:` to the configuration.")
    person = Operator(journal=journal, author=current_operator(), reason=options["reason"] or "what the ledger proves")
    followed = rebuild_loaded_mark(journal, outcome.selected.stream, books, operator=person)
    if followed.after is None:
        return replace(outcome, ledger=f"{followed.entries:,} entries, and the loaded mark agrees with them")
    held = followed.comparison
    what = (
        f"{len(held.lost)} batches that the mark says are loaded are not there"
        if held.lost
        else (f"{len(held.ahead)} batches have landed that the mark does not know of")
    )
    return replace(outcome, ledger=f"proves everything up to batch {held.proven_upto}: {what}", after=followed.after)


def _show_rebuild(outcome: RebuildOutcome) -> None:
    if outcome.error is not None:
        return
    if outcome.history is not None:
        told_of = outcome.history
        proof = f"{told_of.entries:,} entries of its history follow each other up to revision {told_of.revision}"
        stands = (
            "the document says the same"
            if told_of.is_same
            else f"in the document's place stands {told_of.current_document}"
        )
        click.echo(f"{outcome.selected.name}: {proof}; {stands}")
    if outcome.ledger is not None:
        click.echo(
            f"{outcome.selected.name}: the ledger {outcome.ledger}"
            if outcome.after
            else f"{outcome.selected.name}: {outcome.ledger}"
        )
    if outcome.after is not None:
        half = outcome.after.required_extract_progress
        click.echo(
            f"  to write: batch {half.last_batch} extracted, batch {outcome.after.load_progress.last_batch} loaded"
        )
    else:
        click.echo("  nothing has to be written")


def _rebuild_to_json(outcome: RebuildOutcome) -> dict[str, Any]:
    return {
        "table": outcome.selected.name,
        "source": outcome.selected.stream.source,
        "history": None
        if outcome.history is None
        else {
            "revision": outcome.history.revision,
            "entries": outcome.history.entries,
            "stood": outcome.history.current_document,
            "same": outcome.history.is_same,
        },
        "ledger": outcome.ledger,
        "after": marks_to_json(outcome.after) if outcome.after else None,
        "error": error_to_json(outcome.error),
    }
