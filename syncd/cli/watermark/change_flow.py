"""A change of marks on its way: weighed, shown, agreed to, made, told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output import print_message, show_json, show_table
from syncd.cli.stream_options import SelectedStream, error_to_json, exit_with_worst, report_error, require_confirmation
from syncd.cli.views.mark_format import format_position, marks_to_json
from watermarks.document import Stage, Watermark
from watermarks.errors import HintedError
from watermarks.operator import Operator

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext
    from syncd.operations.change_impact import BatchCount
    from syncd.operations.mark_change import ChangePreview, MarkChange


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMarkChange:
    """One stream's marks, before and after, and what comes of it."""

    action: str
    selected: SelectedStream
    apply: "MarkChange"
    preview: "ChangePreview"
    rows: int | None = None
    """About how many rows will be read; None where nobody knows."""
    rows_unknown_because: str = ""
    """Why nobody knows."""
    busy_stages: dict[str, str] = field(default_factory=dict[str, str])
    """The processes that hold a stage of it now."""
    written: Watermark | None = None
    error: HintedError | None = None
    """Why it was not made, though it was agreed to."""

    @property
    def after(self) -> Watermark:
        return self.written or self.preview.after


def change_marks(
    context: "OperatorContext",
    action: str,
    selected: Sequence[SelectedStream],
    options: dict[str, Any],
    make_act: Callable[[SelectedStream], "MarkChange"],
) -> None:
    """Show what a change would bring to each stream; make it, where that is agreed to.

    A stream whose change cannot be made any more keeps no other from its own.

    Raises:
        Misuse: nobody is there to be asked.
        Abort: the answer is no.
    """
    from syncd.app.operator_context import current_operator

    person = Operator(journal=context.journal, author=current_operator(), reason=options["reason"])
    changes = [_preview_change(context, action, one, make_act(one), person) for one in selected]
    if not options["as_json"]:
        for change in changes:
            _show(change)
    if not options["dry_run"]:
        require_confirmation(
            f"{action.capitalize()} {'this' if len(changes) == 1 else f'these {len(changes)}'}?", yes=options["yes"]
        )
        changes = [_apply_change(change, person) for change in changes]
    for change in (each for each in changes if each.error is None):
        for stage, process in change.busy_stages.items():
            print_message(
                f"{change.selected.name}: {stage} is at work ({process}), and takes a change at its next batch"
            )
    if options["as_json"]:
        asked = {"dry_run": options["dry_run"], "who": person.author, "reason": person.reason}
        show_json({**asked, "streams": [_to_json(change) for change in changes]})
    exit_with_worst(
        [report_error(change.selected.name, change.error) for change in changes if change.error is not None]
    )


def _apply_change(change: PlannedMarkChange, operator: Operator) -> PlannedMarkChange:
    """The change once it is made, which is said at once."""
    from syncd.operations.mark_change import apply_change

    name = change.selected.name
    try:
        made = apply_change(change.preview, operator, change.apply)
    except HintedError as error:
        return replace(change, error=error)
    back = "" if change.action == "undo" else f"; to take it back: syncd watermark undo -t {name}"
    print_message(f"{name}: {change.action} as revision {made.revision}{back}")
    return replace(change, written=made)


def _preview_change(
    context: "OperatorContext", action: str, selected: SelectedStream, act: "MarkChange", operator: Operator
) -> PlannedMarkChange:
    from syncd.operations.mark_change import preview_change

    seen = preview_change(context.journal, context.lake, selected.stream, operator, act)
    working = {
        str(stage): process
        for stage in Stage
        if (process := context.find_active_owner(selected.stream, stage)) is not None
    }
    change = PlannedMarkChange(action=action, selected=selected, apply=act, preview=seen, busy_stages=working)
    if not seen.changes_read_position:
        return replace(change, rows=0)
    if selected.settings is None:
        return replace(change, rows_unknown_because="it is not configured")
    asked = context.query_source(selected.settings, after=seen.after.required_extract_progress.cursor)
    return replace(change, rows=asked.rows_behind, rows_unknown_because=asked.problem)


def _show(change: PlannedMarkChange) -> None:
    before, after, weight = change.preview.before, change.preview.after, change.preview.impact
    half, old = after.required_extract_progress, before.required_extract_progress
    click.echo(change.selected.name)
    show_table(
        ("  ", "before", "after"),
        [
            ("  generation", old.generation, half.generation),
            (
                "  read on behind",
                format_position(old.cursor) or "the start",
                format_position(half.cursor) or "the start",
            ),
            ("  load generation", before.load_progress.load_generation, after.load_progress.load_generation),
            ("  load on behind", before.load_progress.last_batch, after.load_progress.last_batch),
            (
                "  loaded mark",
                format_position(before.load_progress.cursor),
                format_position(after.load_progress.cursor),
            ),
        ],
    )
    if change.preview.changes_read_position:
        click.echo(f"  to read: {_describe_rows(change)}")
    again = f"; again, of these: {_describe_batches(weight.to_reload)}" if weight.to_reload.batches else ""
    click.echo(f"  to land: {_describe_batches(weight.to_load)}{again}")
    if weight.to_skip.batches:
        click.echo(f"  left out: {_describe_batches(weight.to_skip)}")
    click.echo("  all files stay in the lake")


def _describe_rows(change: PlannedMarkChange) -> str:
    if change.rows is not None:
        return f"about {change.rows:,} rows, as MySQL guesses"
    return f"nobody knows how many rows: {change.rows_unknown_because or 'MySQL tells no number'}"


def _describe_batches(batches: "BatchCount") -> str:
    if not batches.batches:
        return "nothing"
    rows = "" if batches.rows is None else f", {batches.rows:,} rows"
    return f"{batches.batches:,} batch{'' if batches.batches == 1 else 'es'}{rows}"


def _to_json(change: PlannedMarkChange) -> dict[str, Any]:
    weight = change.preview.impact
    return {
        "table": change.selected.name,
        "source": change.selected.stream.source,
        "change": change.action,
        "made": change.written is not None,
        "before": marks_to_json(change.preview.before),
        "after": marks_to_json(change.after),
        "rows_to_read": change.rows,
        "unknown_because": change.rows_unknown_because or None,
        "to_land": _batches_to_json(weight.to_load),
        "to_land_again": _batches_to_json(weight.to_reload),
        "left_out": _batches_to_json(weight.to_skip),
        "at_work": change.busy_stages,
        "error": error_to_json(change.error),
    }


def _batches_to_json(batches: "BatchCount") -> dict[str, int | None]:
    return {"batches": batches.batches, "rows": batches.rows}
