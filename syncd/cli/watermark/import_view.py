"""What `syncd watermark import` shows of each table: what was compared, and where the marks would stand."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import click

from syncd.cli.output import show_table
from syncd.cli.stream_options import SelectedStream, error_to_json
from syncd.cli.views.mark_format import format_position, marks_to_json
from watermarks.document import Watermark
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.operations.adoption_rules import ImportCheck, LegacyDocument
    from syncd.operations.mark_change import ChangePreview

DIFFERENCE_KINDS: Final = ("lost", "stale", "different", "ghost", "doubled")


class ImportState(StrEnum):
    """How it ended for one table, in a word or two."""

    IMPORTED = "taken over"
    READY = "ready"
    """It can be taken over, and was not: nobody agreed yet."""
    ALREADY_IMPORTED = "taken over already"
    DIFFERENT = "different"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableImport:
    """One table on its way."""

    selected: SelectedStream
    legacy_document: "LegacyDocument | None" = None
    comparison: "ImportCheck | None" = None
    preview: "ChangePreview | None" = None
    rows: int | None = None
    """About how many rows the next run will read; None where nobody knows."""
    written: Watermark | None = None
    error: HintedError | None = None

    @property
    def is_already_imported(self) -> bool:
        """Whether both marks stand there already."""
        if self.preview is None or self.comparison is None:
            return False
        before = self.preview.before
        return before.required_extract_progress.cursor == before.load_progress.cursor == self.comparison.mark

    @property
    def is_importable(self) -> bool:
        """Whether it can be taken over now."""
        return self.error is None and self.preview is not None and not self.is_already_imported

    @property
    def state(self) -> ImportState:
        from syncd.operations.adoption_rules import TargetDiffers

        if self.error is not None:
            return ImportState.DIFFERENT if isinstance(self.error, TargetDiffers) else ImportState.FAILED
        if self.written is not None:
            return ImportState.IMPORTED
        return ImportState.ALREADY_IMPORTED if self.is_already_imported else ImportState.READY


def show(table_import: TableImport) -> None:
    """In lines for people; what stands in the way is told elsewhere."""
    click.echo(table_import.selected.name)
    if table_import.legacy_document is not None:
        legacy = table_import.legacy_document.legacy
        upto = f"{legacy.timestamp:%Y-%m-%d %H:%M:%S}" if legacy.timestamp else f"key {legacy.last_id}"
        click.echo(f"  document: {table_import.legacy_document.location} ({legacy.form}), read up to {upto}")
    found = table_import.comparison
    if found is None:
        return
    verdict = found.comparison
    counts = ", ".join(f"{verdict.counts[kind]:,} {kind}" for kind in sorted(verdict.counts) if verdict.counts[kind])
    click.echo(
        f"  compared: {verdict.rows:,} rows with {found.target}, up to {format_position(found.mark)}: {counts or 'equal'}"
    )
    for line in _describe_comparison(found):
        click.echo(f"  {line}")
    if table_import.preview is None or table_import.is_already_imported:
        click.echo("  both marks stand there already" if table_import.is_already_imported else "  nothing is set")
        return
    before, after = table_import.preview.before, table_import.preview.after
    show_table(
        ("  ", "before", "after"),
        [
            (
                "  read on behind",
                format_position(before.required_extract_progress.cursor) or "the start",
                format_position(after.required_extract_progress.cursor),
            ),
            (
                "  loaded mark",
                format_position(before.load_progress.cursor),
                format_position(after.load_progress.cursor),
            ),
        ],
    )
    rows = (
        f"about {table_import.rows:,} rows, as MySQL guesses"
        if table_import.rows is not None
        else "nobody knows how many rows"
    )
    click.echo(f"  the next run reads {rows}; no row is copied for it now")


_LEFT_OUT_TEXTS: Final = {
    "above_mark": "stand above the mark, and come with the next run",
    "before_start": "stand before where the configuration begins",
    "without_stamp": "have no stamp: nothing is promised of them",
    "marked_gone": "of the target are marked as gone",
    "earlier_versions": "of the target are earlier versions",
}
_LIMIT_TEXTS: Final = {
    "document": "the document says no more was read",
    "asked": "so it was asked",
    "horizon": "what is newer can still change",
}


def _describe_comparison(comparison: "ImportCheck") -> list[str]:
    verdict = comparison.comparison
    said: list[str] = []
    if (why := _LIMIT_TEXTS.get(comparison.basis)) is not None:
        said.append(f"no further: {why}")
    said += [
        f"{count:,} rows {_LEFT_OUT_TEXTS[name]}"
        for name, count in verdict.left_out.counts_by_reason.items()
        if count and name in _LEFT_OUT_TEXTS
    ]
    if verdict.kept_ghosts:
        said.append(f"{verdict.kept_ghosts:,} rows are gone at the source and stay, for `deletes` is ignore")
    said += [f"{one.name} is compared in fetched rows only: {one.reason}" for one in verdict.uncomparable]
    if comparison.extra_columns:
        said.append(
            f"only the target has {', '.join(comparison.extra_columns)}: rows that are loaded from now on have NULL there"
        )
    if not comparison.source_bound.proven:
        said.append(
            f"that the source is complete up to there is not proven: {comparison.source_bound.reason or 'it tells nothing'}"
        )
    return said


def import_to_json(table_import: TableImport) -> dict[str, Any]:
    found, seen = table_import.comparison, table_import.preview
    legacy = table_import.legacy_document.legacy if table_import.legacy_document else None
    after = table_import.written or (seen.after if seen else None)
    return {
        "table": table_import.selected.name,
        "source": table_import.selected.stream.source,
        "state": table_import.state,
        "document": {
            "at": table_import.legacy_document.location,
            "form": legacy.form,
            "timestamp": legacy.timestamp.isoformat() if legacy.timestamp else None,
            "key": legacy.last_id,
        }
        if table_import.legacy_document and legacy
        else None,
        "target": found.target if found else None,
        "mark": found.mark.to_texts() if found else None,
        "limited_by": found.basis if found else None,
        "rows": found.comparison.rows if found else None,
        **{kind: _count_differences(found, kind) if found else None for kind in DIFFERENCE_KINDS},
        "kept": found.comparison.kept_ghosts if found else None,
        "left_out": found.comparison.left_out.counts_by_reason if found else None,
        "fetched_only": [{"column": each.name, "reason": each.reason} for each in found.comparison.uncomparable]
        if found
        else [],
        "only_in_target": list(found.extra_columns) if found else [],
        "proven": found.proven if found else False,
        "run": found.run if found else None,
        "rows_to_read": table_import.rows,
        "before": marks_to_json(seen.before) if seen else None,
        "after": marks_to_json(after) if after else None,
        "error": error_to_json(table_import.error),
    }


def _count_differences(comparison: "ImportCheck", kind: str) -> int:
    from syncd.verify.result import DifferenceKind

    return comparison.comparison.counts.get(DifferenceKind(kind), 0)
