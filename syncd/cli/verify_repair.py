"""`syncd verify --repair`: what differs is read again or buried, landed, and compared once more."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from syncd.cli.output import say
from syncd.cli.views.verify_view import Checked
from syncd.observe.event_text import counted

if TYPE_CHECKING:
    from syncd.app import Pass, Service
    from syncd.app.verification_setup import Verifying, Wanted
    from syncd.operations.repair_batches import Repair
    from syncd.verify.result import Verdict

MOST: Final = 50_000
"""Rows of one table that one repair mends."""


def would_mend(checked: Checked) -> None:
    """Say what a repair would do."""
    repair = _repair(checked)
    if repair is not None:
        say(f"{checked.stream.name}: {_words(repair, checked.verdict)}; to do it: --repair --yes")


def mended(checked: Checked, *, service: "Service", verifying: "Verifying", wanted: "Wanted", how: "Pass") -> Checked:
    """The stream after a repair; as it was where there was nothing to mend."""
    repair = _repair(checked)
    if repair is None:
        return checked
    say(f"{checked.stream.name}: {_words(repair, checked.verdict)}")
    stream = checked.stream
    made = service.mend(stream, how, repair)
    loaded = service.load(stream, how) if made.error is None else None
    error = made.error or (loaded.error if loaded else None)
    if error is not None:
        return replace(checked, verdict=replace(checked.verdict, error=error), before=checked.verdict)
    again = verifying.verify(stream, wanted)
    return replace(checked, verdict=replace(again, repaired=True), before=checked.verdict)


def _repair(checked: Checked) -> "Repair | None":
    from syncd.operations.repair_batches import repair_of

    if not checked.verdict.differences or checked.verdict.error is not None:
        return None
    return repair_of(checked.verdict, checked.stream, at=datetime.now(UTC))


def _words(repair: "Repair", verdict: "Verdict") -> str:
    found: list[str] = []
    if again := len(repair.keys):
        found.append(f"{counted(again, 'row')} {'is' if again == 1 else 'are'} read again")
    if gone := repair.gone:
        found.append(f"{counted(gone, 'row')} that {'is gone is' if gone == 1 else 'are gone are'} buried")
    rows = ", ".join(found)
    left = verdict.counts.total() - len(verdict.differences)
    return f"{rows}; {left:,} more need another repair" if left else rows
