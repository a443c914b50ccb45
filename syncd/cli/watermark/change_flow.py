"""A change of marks on its way: weighed, shown, agreed to, made, told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output import say, show_json, show_table
from syncd.cli.stream_options import Named, agreed, error_fields, leave, told
from syncd.cli.views.mark_format import marks, position
from watermarks.document import Stage, Watermark
from watermarks.errors import HintedError
from watermarks.operator import Operator

if TYPE_CHECKING:
    from syncd.app.operator_context import Desk
    from syncd.operations.change_impact import Heap
    from syncd.operations.mark_change import Act, Preview


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One stream's marks, before and after, and what comes of it."""

    what: str
    named: Named
    act: "Act"
    seen: "Preview"
    rows: int | None = None
    """About how many rows will be read; None where nobody knows."""
    trouble: str = ""
    """Why nobody knows."""
    at_work: dict[str, str] = field(default_factory=dict[str, str])
    """The processes that hold a stage of it now."""
    made: Watermark | None = None
    error: HintedError | None = None
    """Why it was not made, though it was agreed to."""

    @property
    def after(self) -> Watermark:
        return self.made or self.seen.after


def carry_out(
    desk: "Desk", what: str, named: Sequence[Named], words: dict[str, Any], act_of: Callable[[Named], "Act"]
) -> None:
    """Show what a change would bring to each stream; make it, where that is agreed to.

    A stream whose change cannot be made any more keeps no other from its own.

    Raises:
        Misuse: nobody is there to be asked.
        Abort: the answer is no.
    """
    from syncd.app.operator_context import who

    person = Operator(journal=desk.journal, who=who(), why=words["reason"])
    changes = [_weighed(desk, what, one, act_of(one), person) for one in named]
    if not words["as_json"]:
        for change in changes:
            _show(change)
    if not words["dry_run"]:
        agreed(f"{what.capitalize()} {'this' if len(changes) == 1 else f'these {len(changes)}'}?", yes=words["yes"])
        changes = [_made(change, person) for change in changes]
    for change in (each for each in changes if each.error is None):
        for stage, process in change.at_work.items():
            say(f"{change.named.name}: {stage} is at work ({process}), and takes a change at its next batch")
    if words["as_json"]:
        asked = {"dry_run": words["dry_run"], "who": person.who, "reason": person.why}
        show_json({**asked, "streams": [_fields(change) for change in changes]})
    leave([told(change.named.name, change.error) for change in changes if change.error is not None])


def _made(change: Change, person: Operator) -> Change:
    """The change once it is made, which is said at once."""
    from syncd.operations.mark_change import done

    name = change.named.name
    try:
        made = done(change.seen, person, change.act)
    except HintedError as error:
        return replace(change, error=error)
    back = "" if change.what == "undo" else f"; to take it back: syncd watermark undo -t {name}"
    say(f"{name}: {change.what} as revision {made.revision}{back}")
    return replace(change, made=made)


def _weighed(desk: "Desk", what: str, one: Named, act: "Act", person: Operator) -> Change:
    from syncd.operations.mark_change import preview

    seen = preview(desk.journal, desk.lake, one.stream, person, act)
    working = {str(stage): process for stage in Stage if (process := desk.at_work(one.stream, stage)) is not None}
    change = Change(what=what, named=one, act=act, seen=seen, at_work=working)
    if not seen.reads_on:
        return replace(change, rows=0)
    if one.settings is None:
        return replace(change, trouble="it is not configured")
    asked = desk.asked(one.settings, behind=seen.after.chain.cursor)
    return replace(change, rows=asked.rows, trouble=asked.trouble)


def _show(change: Change) -> None:
    before, after, weight = change.seen.before, change.seen.after, change.seen.weight
    half, old = after.chain, before.chain
    click.echo(change.named.name)
    show_table(
        ("  ", "before", "after"),
        [
            ("  generation", old.generation, half.generation),
            ("  read on behind", position(old.cursor) or "the start", position(half.cursor) or "the start"),
            ("  load generation", before.loaded.load_generation, after.loaded.load_generation),
            ("  load on behind", before.loaded.last, after.loaded.last),
            ("  loaded mark", position(before.loaded.cursor), position(after.loaded.cursor)),
        ],
    )
    if change.seen.reads_on:
        click.echo(f"  to read: {_rows(change)}")
    again = f"; again, of these: {_heap(weight.again)}" if weight.again.batches else ""
    click.echo(f"  to land: {_heap(weight.due)}{again}")
    if weight.left_out.batches:
        click.echo(f"  left out: {_heap(weight.left_out)}")
    click.echo("  all files stay in the lake")


def _rows(change: Change) -> str:
    if change.rows is not None:
        return f"about {change.rows:,} rows, as MySQL guesses"
    return f"nobody knows how many rows: {change.trouble or 'MySQL tells no number'}"


def _heap(heap: "Heap") -> str:
    if not heap.batches:
        return "nothing"
    rows = "" if heap.rows is None else f", {heap.rows:,} rows"
    return f"{heap.batches:,} batch{'' if heap.batches == 1 else 'es'}{rows}"


def _fields(change: Change) -> dict[str, Any]:
    weight = change.seen.weight
    return {
        "table": change.named.name,
        "source": change.named.stream.source,
        "change": change.what,
        "made": change.made is not None,
        "before": marks(change.seen.before),
        "after": marks(change.after),
        "rows_to_read": change.rows,
        "unknown_because": change.trouble or None,
        "to_land": _heap_fields(weight.due),
        "to_land_again": _heap_fields(weight.again),
        "left_out": _heap_fields(weight.left_out),
        "at_work": change.at_work,
        "error": error_fields(change.error),
    }


def _heap_fields(heap: "Heap") -> dict[str, int | None]:
    return {"batches": heap.batches, "rows": heap.rows}
