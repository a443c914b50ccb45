"""What `syncd watermark import` shows of each table: what was compared, and where the marks would stand."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import click

from syncd.cli.output import show_table
from syncd.cli.stream_options import Named, error_fields
from syncd.cli.views.mark_format import marks, position
from watermarks.document import Watermark
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.operations.adoption_rules import Found, Inherited
    from syncd.operations.mark_change import Preview

KINDS: Final = ("lost", "stale", "different", "ghost", "doubled")


class State(StrEnum):
    """How it ended for one table, in a word or two."""

    TAKEN = "taken over"
    READY = "ready"
    """It can be taken over, and was not: nobody agreed yet."""
    THERE = "taken over already"
    DIFFERENT = "different"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """One table on its way."""

    named: Named
    inherited: "Inherited | None" = None
    found: "Found | None" = None
    seen: "Preview | None" = None
    rows: int | None = None
    """About how many rows the next run will read; None where nobody knows."""
    made: Watermark | None = None
    error: HintedError | None = None

    @property
    def stands(self) -> bool:
        """Whether both marks stand there already."""
        if self.seen is None or self.found is None:
            return False
        before = self.seen.before
        return before.chain.cursor == before.loaded.cursor == self.found.mark

    @property
    def is_open(self) -> bool:
        """Whether it can be taken over now."""
        return self.error is None and self.seen is not None and not self.stands

    @property
    def state(self) -> State:
        from syncd.operations.adoption_rules import Differs

        if self.error is not None:
            return State.DIFFERENT if isinstance(self.error, Differs) else State.FAILED
        if self.made is not None:
            return State.TAKEN
        return State.THERE if self.stands else State.READY


def show(one: Adoption) -> None:
    """In lines for people; what stands in the way is told elsewhere."""
    click.echo(one.named.name)
    if one.inherited is not None:
        legacy = one.inherited.legacy
        upto = f"{legacy.timestamp:%Y-%m-%d %H:%M:%S}" if legacy.timestamp else f"key {legacy.key}"
        click.echo(f"  document: {one.inherited.at} ({legacy.form}), read up to {upto}")
    found = one.found
    if found is None:
        return
    verdict = found.verdict
    counts = ", ".join(f"{verdict.counts[kind]:,} {kind}" for kind in sorted(verdict.counts) if verdict.counts[kind])
    click.echo(
        f"  compared: {verdict.rows:,} rows with {found.target}, up to {position(found.mark)}: {counts or 'equal'}"
    )
    for line in _words(found):
        click.echo(f"  {line}")
    if one.seen is None or one.stands:
        click.echo("  both marks stand there already" if one.stands else "  nothing is set")
        return
    before, after = one.seen.before, one.seen.after
    show_table(
        ("  ", "before", "after"),
        [
            ("  read on behind", position(before.chain.cursor) or "the start", position(after.chain.cursor)),
            ("  loaded mark", position(before.loaded.cursor), position(after.loaded.cursor)),
        ],
    )
    rows = f"about {one.rows:,} rows, as MySQL guesses" if one.rows is not None else "nobody knows how many rows"
    click.echo(f"  the next run reads {rows}; no row is copied for it now")


_LEFT: Final = {
    "above_mark": "stand above the mark, and come with the next run",
    "before_start": "stand before where the configuration begins",
    "without_stamp": "have no stamp: nothing is promised of them",
    "marked_gone": "of the target are marked as gone",
    "earlier_versions": "of the target are earlier versions",
}
_BY: Final = {
    "document": "the document says no more was read",
    "asked": "so it was asked",
    "horizon": "what is newer can still change",
}


def _words(found: "Found") -> list[str]:
    verdict = found.verdict
    said: list[str] = []
    if (why := _BY.get(found.by)) is not None:
        said.append(f"no further: {why}")
    said += [
        f"{count:,} rows {_LEFT[name]}" for name, count in verdict.left_out.told.items() if count and name in _LEFT
    ]
    if verdict.kept:
        said.append(f"{verdict.kept:,} rows are gone at the source and stay, for `deletes` is ignore")
    said += [f"{one.name} is compared in fetched rows only: {one.reason}" for one in verdict.unlike]
    if found.strangers:
        said.append(
            f"only the target has {', '.join(found.strangers)}: rows that are loaded from now on have NULL there"
        )
    if not found.closed.proven:
        said.append(
            f"that the source is complete up to there is not proven: {found.closed.reason or 'it tells nothing'}"
        )
    return said


def fields(one: Adoption) -> dict[str, Any]:
    found, seen = one.found, one.seen
    legacy = one.inherited.legacy if one.inherited else None
    after = one.made or (seen.after if seen else None)
    return {
        "table": one.named.name,
        "source": one.named.stream.source,
        "state": one.state,
        "document": {
            "at": one.inherited.at,
            "form": legacy.form,
            "timestamp": legacy.timestamp.isoformat() if legacy.timestamp else None,
            "key": legacy.key,
        }
        if one.inherited and legacy
        else None,
        "target": found.target if found else None,
        "mark": found.mark.texts() if found else None,
        "limited_by": found.by if found else None,
        "rows": found.verdict.rows if found else None,
        **{kind: _count(found, kind) if found else None for kind in KINDS},
        "kept": found.verdict.kept if found else None,
        "left_out": found.verdict.left_out.told if found else None,
        "fetched_only": [{"column": each.name, "reason": each.reason} for each in found.verdict.unlike]
        if found
        else [],
        "only_in_target": list(found.strangers) if found else [],
        "proven": found.proven if found else False,
        "run": found.run if found else None,
        "rows_to_read": one.rows,
        "before": marks(seen.before) if seen else None,
        "after": marks(after) if after else None,
        "error": error_fields(one.error),
    }


def _count(found: "Found", kind: str) -> int:
    from syncd.verify.result import Kind

    return found.verdict.counts.get(Kind(kind), 0)
