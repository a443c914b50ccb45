"""Output of `syncd watermark import`: the comparison of each table, and the proposed marks."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import click

from syncd.cli.output import error_to_json, show_table
from syncd.cli.stream_selection import SelectedStream
from syncd.cli.views.formats import format_position, marks_to_json
from syncd.cli.views.verify_view import DIFFERENCE_KINDS, count_differences, describe_left_out, left_out_to_json
from watermarks.document import Watermark
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.operations.adoption_rules import ImportCheck, LegacyDocument
    from syncd.operations.mark_change import ChangePreview


class ImportState(StrEnum):
    """Outcome for one table."""

    IMPORTED = "taken over"
    READY = "ready"
    """The table can be taken over, and was not confirmed."""
    ALREADY_IMPORTED = "taken over already"
    DIFFERENT = "different"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableImport:
    """Takeover of one table: comparison, preview and outcome."""

    selected: SelectedStream
    legacy_document: "LegacyDocument | None" = None
    comparison: "ImportCheck | None" = None
    preview: "ChangePreview | None" = None
    rows: int | None = None
    """Estimated rows that the next run reads; None where unknown."""
    written: Watermark | None = None
    error: HintedError | None = None

    @property
    def is_already_imported(self) -> bool:
        """True where both marks are at the compared position already."""
        if self.preview is None or self.comparison is None:
            return False
        before = self.preview.before
        return before.required_extract_progress.cursor == before.load_progress.cursor == self.comparison.mark

    @property
    def is_importable(self) -> bool:
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
    """Print the comparison and the proposed marks; errors are printed elsewhere."""
    click.echo(table_import.selected.name)
    if table_import.legacy_document is not None:
        legacy = table_import.legacy_document.legacy
        upto = f"{legacy.timestamp:%Y-%m-%d %H:%M:%S}" if legacy.timestamp else f"key {legacy.last_id}"
        click.echo(f"  document: {table_import.legacy_document.location} ({legacy.form}), read up to {upto}")
    check = table_import.comparison
    if check is None:
        return
    result = check.comparison
    counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(count_differences(result).items()) if count)
    click.echo(
        f"  compared: {result.rows:,} rows with {check.target},"
        f" up to {format_position(check.mark)}: {counts or 'equal'}"
    )
    for line in _describe_comparison(check):
        click.echo(f"  {line}")
    if table_import.preview is None or table_import.is_already_imported:
        click.echo("  both marks are already set there" if table_import.is_already_imported else "  no mark is set")
        return
    before, after = table_import.preview.before, table_import.preview.after
    read_before, read_after = (format_position(state.required_extract_progress.cursor) for state in (before, after))
    load_before, load_after = (format_position(state.load_progress.cursor) for state in (before, after))
    rows = [("  read on after", read_before or "the start", read_after), ("  loaded mark", load_before, load_after)]
    show_table(("  ", "before", "after"), rows)
    estimate = "an unknown number of rows"
    if table_import.rows is not None:
        estimate = f"about {table_import.rows:,} rows, as MySQL estimates"
    click.echo(f"  the next run reads {estimate}; no row is copied now")


_BASIS_WORDS: Final = {"asked": "option"}
"""Words for values that the evidence in the lake has under another name."""
_LIMIT_TEXTS: Final = {
    "document": "the earlier tool read up to there, as its document shows",
    "asked": "the command line sets this limit",
    "horizon": "newer rows can still change",
}


def _describe_comparison(check: "ImportCheck") -> Iterator[str]:
    if (reason := _LIMIT_TEXTS.get(check.basis)) is not None:
        yield f"the comparison ends there: {reason}"
    yield from describe_left_out(check.comparison)
    if check.extra_columns:
        yield f"only the target has {', '.join(check.extra_columns)}: rows loaded from now on have NULL there"
    if not check.source_bound.proven:
        reason = check.source_bound.reason or "no reason given"
        yield f"the source is not proven to be complete up to there: {reason}"


def import_to_json(table_import: TableImport) -> dict[str, Any]:
    check, preview, document = table_import.comparison, table_import.preview, table_import.legacy_document
    result = check.comparison if check else None
    after = table_import.written or (preview.after if preview else None)
    return table_import.selected.to_json() | {
        "state": table_import.state,
        "document": document and _document_to_json(document),
        "target": check.target if check else None,
        "mark": check.mark.to_texts() if check else None,
        "limited_by": _BASIS_WORDS.get(check.basis, check.basis) if check else None,
        "rows": result.rows if result else None,
        **(count_differences(result) if result else dict.fromkeys(DIFFERENCE_KINDS)),
        "kept_ghosts": result.kept_ghosts if result else None,
        "left_out": left_out_to_json(result) if result else None,
        "compared_in_fetched_rows": [
            {"column": column.name, "reason": column.reason} for column in (result.uncomparable if result else ())
        ],
        "only_in_target": list(check.extra_columns) if check else [],
        "proven": check.proven if check else False,
        "run": check.run if check else None,
        "rows_to_read": table_import.rows,
        "before": marks_to_json(preview.before) if preview else None,
        "after": marks_to_json(after) if after else None,
        "error": error_to_json(table_import.error),
    }


def _document_to_json(document: "LegacyDocument") -> dict[str, object]:
    legacy = document.legacy
    return {
        "location": document.location,
        "format": legacy.form,
        "timestamp": legacy.timestamp.isoformat() if legacy.timestamp else None,
        "key": legacy.last_id,
    }
