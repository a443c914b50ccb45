"""Flow of a mark change: preview, confirmation, application, report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output import error_to_json, print_message, show_json, show_table
from syncd.cli.stream_selection import SelectedStream, exit_with_errors, require_confirmation
from syncd.cli.views.formats import format_position, marks_to_json
from syncd.observe.formatting import format_count
from watermarks.document import Stage, Watermark
from watermarks.errors import HintedError
from watermarks.operator import Operator

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext
    from syncd.operations.mark_change import ChangePreview, MarkChange
    from syncd.operations.reloadable_files import BatchCount


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMarkChange:
    """Change of one stream's marks, with its preview and its outcome."""

    action: str
    selected: SelectedStream
    apply: "MarkChange"
    preview: "ChangePreview"
    rows: int | None = None
    """Estimated rows to read; None where unknown."""
    rows_unknown_because: str = ""
    busy_stages: dict[str, str] = field(default_factory=dict[str, str])
    """Process that holds each busy stage."""
    written: Watermark | None = None
    error: HintedError | None = None
    """Error that prevented a confirmed change."""

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
    """Show the effect of a change on each stream, and apply it once the operator confirms.

    Where the change of one stream fails, the others are still applied.

    Raises:
        Misuse: there is no terminal to ask, and `--yes` is not given.
        Abort: the answer is no.
    """
    from syncd.app.operator_context import current_operator

    operator = Operator(journal=context.journal, author=current_operator(), reason=options["reason"])
    changes = [_preview_change(context, action, one, make_act(one), operator) for one in selected]
    if not options["as_json"]:
        for change in changes:
            _show(change)
    if not options["dry_run"]:
        subject = "this table" if len(changes) == 1 else f"these {len(changes)} tables"
        require_confirmation(f"{action.capitalize()} {subject}?", yes=options["yes"])
        changes = [_apply_change(change, operator) for change in changes]
    for change in changes:
        for stage, process in change.busy_stages.items() if change.error is None else ():
            print_message(
                f"{change.selected.name}: {stage} is running ({process}); the change applies at its next batch"
            )
    if options["as_json"]:
        request = {"dry_run": options["dry_run"], "author": operator.author, "reason": operator.reason}
        show_json({**request, "streams": [_to_json(change) for change in changes]})
    exit_with_errors((change.selected.name, change.error) for change in changes)


def _apply_change(change: PlannedMarkChange, operator: Operator) -> PlannedMarkChange:
    from syncd.operations.mark_change import apply_change

    name = change.selected.name
    try:
        written = apply_change(change.preview, operator, change.apply)
    except HintedError as error:
        return replace(change, error=error)
    undo = "" if change.action == "undo" else f"; to take it back: syncd watermark undo -t {name}"
    print_message(f"{name}: {change.action} as revision {written.revision}{undo}")
    return replace(change, written=written)


def _preview_change(
    context: "OperatorContext", action: str, selected: SelectedStream, act: "MarkChange", operator: Operator
) -> PlannedMarkChange:
    from syncd.operations.mark_change import preview_change

    preview = preview_change(context.journal, context.lake, selected.stream, operator, act)
    busy_stages = {
        str(stage): process
        for stage in Stage
        if (process := context.find_active_owner(selected.stream, stage)) is not None
    }
    change = PlannedMarkChange(action=action, selected=selected, apply=act, preview=preview, busy_stages=busy_stages)
    if not preview.changes_read_position:
        return replace(change, rows=0)
    if selected.settings is None:
        return replace(change, rows_unknown_because="the table is not configured")
    answer = context.query_source(selected.settings, after=preview.after.required_extract_progress.cursor)
    return replace(change, rows=answer.rows_behind, rows_unknown_because=answer.problem)


def _show(change: PlannedMarkChange) -> None:
    before, after, impact = change.preview.before, change.preview.after, change.preview.impact
    read_before, read_after = before.required_extract_progress, after.required_extract_progress
    load_before, load_after = before.load_progress, after.load_progress
    click.echo(change.selected.name)
    rows = (
        ("generation", read_before.generation, read_after.generation),
        (
            "read on after",
            format_position(read_before.cursor) or "the start",
            format_position(read_after.cursor) or "the start",
        ),
        ("load generation", load_before.load_generation, load_after.load_generation),
        ("load on after batch", load_before.last_batch, load_after.last_batch),
        ("loaded mark", format_position(load_before.cursor), format_position(load_after.cursor)),
    )
    show_table(("  ", "before", "after"), [(f"  {name}", *values) for name, *values in rows])
    if change.preview.changes_read_position:
        click.echo(f"  to read: {_describe_rows(change)}")
    reloaded = f"; of these, loaded before: {_describe_batches(impact.to_reload)}" if impact.to_reload.batches else ""
    click.echo(f"  to load: {_describe_batches(impact.to_load)}{reloaded}")
    if impact.to_skip.batches:
        click.echo(f"  to skip: {_describe_batches(impact.to_skip)}")
    click.echo("  all files stay in the lake")


def _describe_rows(change: PlannedMarkChange) -> str:
    if change.rows is not None:
        return f"about {change.rows:,} rows, as MySQL estimates"
    return f"an unknown number of rows: {change.rows_unknown_because or 'MySQL gives no estimate'}"


def _describe_batches(batches: "BatchCount") -> str:
    if not batches.batches:
        return "nothing"
    rows = "" if batches.rows is None else f", {batches.rows:,} rows"
    return f"{format_count(batches.batches, 'batch')}{rows}"


def _to_json(change: PlannedMarkChange) -> dict[str, Any]:
    impact = change.preview.impact
    return change.selected.to_json() | {
        "change": change.action,
        "applied": change.written is not None,
        "before": marks_to_json(change.preview.before),
        "after": marks_to_json(change.after),
        "rows_to_read": change.rows,
        "rows_unknown_reason": change.rows_unknown_because or None,
        "to_load": _batches_to_json(impact.to_load),
        "to_reload": _batches_to_json(impact.to_reload),
        "to_skip": _batches_to_json(impact.to_skip),
        "processes": change.busy_stages,
        "error": error_to_json(change.error),
    }


def _batches_to_json(batches: "BatchCount") -> dict[str, int | None]:
    return {"batches": batches.batches, "rows": batches.rows}
