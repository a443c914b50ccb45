"""`syncd verify --repair`: what differs is read again or buried, landed, and compared once more."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from syncd.cli.output import print_message
from syncd.cli.views.verify_view import VerifyOutcome
from syncd.observe.formatting import format_count

if TYPE_CHECKING:
    from syncd.app import PassOptions, StageService
    from syncd.app.verification_setup import ComparisonOptions, StreamVerifier
    from syncd.operations.repair_batches import RepairPlan
    from syncd.verify.result import ComparisonResult

MAX_REPAIR_ROWS: Final = 50_000
"""Rows of one table that one repair mends."""


def preview_repair(outcome: VerifyOutcome) -> None:
    """Say what a repair would do."""
    repair = _plan_repair(outcome)
    if repair is not None:
        print_message(f"{outcome.stream.name}: {_describe_repair(repair, outcome.result)}; to do it: --repair --yes")


def repair_stream(
    outcome: VerifyOutcome,
    *,
    service: "StageService",
    verifying: "StreamVerifier",
    wanted: "ComparisonOptions",
    load_options: "PassOptions",
) -> VerifyOutcome:
    """The stream after a repair; as it was where there was nothing to mend."""
    repair = _plan_repair(outcome)
    if repair is None:
        return outcome
    print_message(f"{outcome.stream.name}: {_describe_repair(repair, outcome.result)}")
    stream = outcome.stream
    made = service.repair_rows(stream, load_options, repair)
    loaded = service.load(stream, load_options) if made.error is None else None
    error = made.error or (loaded.error if loaded else None)
    if error is not None:
        return replace(outcome, result=replace(outcome.result, error=error), before_repair=outcome.result)
    again = verifying.verify(stream, wanted)
    return replace(outcome, result=replace(again, repaired=True), before_repair=outcome.result)


def _plan_repair(outcome: VerifyOutcome) -> "RepairPlan | None":
    from syncd.operations.repair_batches import plan_repair

    if not outcome.result.differences or outcome.result.error is not None:
        return None
    return plan_repair(outcome.result, outcome.stream, compared_at=datetime.now(UTC))


def _describe_repair(repair: "RepairPlan", verdict: "ComparisonResult") -> str:
    found: list[str] = []
    if again := len(repair.reread_keys):
        found.append(f"{format_count(again, 'row')} {'is' if again == 1 else 'are'} read again")
    if gone := repair.deleted_count:
        found.append(f"{format_count(gone, 'row')} that {'is gone is' if gone == 1 else 'are gone are'} buried")
    rows = ", ".join(found)
    left = verdict.counts.total() - len(verdict.differences)
    return f"{rows}; {left:,} more need another repair" if left else rows
