"""Output of `syncd run`: a table of the stages of each stream, or one JSON document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from syncd.cli.output import error_to_json, print_message, show_json, show_table
from syncd.cli.views.formats import instant_to_json
from syncd.error_classes import ExitCode, exit_code_for, worst_exit_code
from syncd.observe.formatting import format_bytes

if TYPE_CHECKING:
    from syncd.extract.extract_pass import ExtractOutcome
    from syncd.load.load_pass import LoadOutcome
    from watermarks.cursor import Cursor
    from watermarks.errors import HintedError


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRunOutcome:
    """One stream with the outcomes of the stages that ran."""

    database: str
    table: str
    source: str
    extract: "ExtractOutcome | None"
    load: "LoadOutcome | None"

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}"

    @property
    def errors(self) -> "list[HintedError]":
        return [done.error for done in (self.extract, self.load) if done is not None and done.error is not None]

    @property
    def seconds(self) -> float:
        return sum(done.seconds for done in (self.extract, self.load) if done is not None)


def show(outcomes: Sequence[StreamRunOutcome], *, as_json: bool, dry_run: bool, strict: bool = False) -> None:
    """Print the result on stdout, and reasons for waiting on stderr."""
    if as_json:
        streams = [{**_to_json(outcome), "exit": exit_code_for_stream(outcome, strict=strict)} for outcome in outcomes]
        show_json({"dry_run": dry_run, "exit": exit_code_for_run(outcomes, strict=strict), "streams": streams})
        return
    with_quarantined = any(outcome.load is not None and outcome.load.quarantined for outcome in outcomes)
    columns = ("table", *_column_names(outcomes, with_quarantined=with_quarantined), "seconds")
    rows = [
        (
            outcome.name,
            *_extract_cells(outcome),
            *_load_cells(outcome, with_quarantined=with_quarantined),
            f"{outcome.seconds:.1f}",
        )
        for outcome in outcomes
    ]
    show_table(
        columns,
        rows,
        optional=[name for name in _OPTIONAL_COLUMNS if name in columns and not _is_needed(name, outcomes)],
    )
    for outcome in outcomes:
        if outcome.extract is not None and outcome.extract.wait_reason:
            print_message(f"{outcome.name}: {outcome.extract.wait_reason}")
        if dry_run and outcome.extract is not None and outcome.extract.preview is not None:
            print_message(f"{outcome.name}: {_describe_planned_extract(outcome.extract.preview)}")
        if dry_run and outcome.load is not None and outcome.load.preview is not None:
            print_message(f"{outcome.name}: {_describe_planned_load(outcome.load)}")


_OPTIONAL_COLUMNS: Final = ("mark", "files", "size", "quarantined", "seconds")
"""Columns that a narrow terminal leaves out."""


def _is_needed(column: str, outcomes: Sequence[StreamRunOutcome]) -> bool:
    if column == "quarantined" and not any(outcome.extract is not None for outcome in outcomes):
        return True  # the column of the load, which is shown only where it has rows
    return column == "quarantined" and any(
        outcome.extract is not None and outcome.extract.quarantined for outcome in outcomes
    )


def exit_code_for_stream(outcome: StreamRunOutcome, *, strict: bool) -> ExitCode:
    """Return the exit code of a run of this stream alone."""
    codes = [ExitCode.DONE, *map(exit_code_for, outcome.errors)]
    if strict and any(done is not None and done.quarantined for done in (outcome.extract, outcome.load)):
        codes.append(ExitCode.DOUBT)
    return worst_exit_code(codes)


def exit_code_for_run(outcomes: Sequence[StreamRunOutcome], *, strict: bool) -> ExitCode:
    """Return the worst exit code of all streams."""
    return worst_exit_code((ExitCode.DONE, *(exit_code_for_stream(outcome, strict=strict) for outcome in outcomes)))


def _column_names(outcomes: Sequence[StreamRunOutcome], *, with_quarantined: bool) -> tuple[str, ...]:
    """Return the columns of the stages that ran; the mark is that of the last one.

    Warehouses rarely refuse rows, so the column for them is shown only where a load put rows into quarantine.
    """
    extracts = any(outcome.extract is not None for outcome in outcomes)
    loads = any(outcome.load is not None for outcome in outcomes)
    landed = (*(("quarantined",) if with_quarantined else ()), "pending", "mark")
    if extracts and loads:
        return ("extract", "rows", "files", "size", "quarantined", "proven", "load", "rows", *landed)
    if loads:
        return ("state", "rows", "files", *landed)
    return ("state", "rows", "files", "size", "quarantined", "mark", "proven")


def _extract_cells(outcome: StreamRunOutcome) -> tuple[object, ...]:
    done = outcome.extract
    if done is None:
        return ()
    proven = "yes" if done.proven else "no"
    begin = (done.state, f"{done.rows:,}", f"{done.files:,}", format_bytes(done.bytes), f"{done.quarantined:,}")
    return (*begin, proven) if outcome.load is not None else (*begin, _format_mark(done.mark), proven)


def _load_cells(outcome: StreamRunOutcome, *, with_quarantined: bool) -> tuple[object, ...]:
    done = outcome.load
    if done is None:
        return ()
    files = () if outcome.extract is not None else (f"{done.files:,}",)
    refused = (f"{done.quarantined:,}",) if with_quarantined else ()
    return (done.state, f"{done.rows:,}", *files, *refused, f"{done.pending_batches:,}", _format_mark(done.mark))


def _format_mark(mark: "Cursor") -> str:
    return ", ".join(str(value.raw) for value in mark.values)


def _describe_planned_extract(planned: Mapping[str, object]) -> str:
    windows = planned["windows"]
    count = len(windows) if isinstance(windows, Sequence) else 0
    known = ", planned by an earlier run," if planned["already_planned"] else ""
    how = f"in {count} window{'s' * (count != 1)}" if count else "as a whole"
    return f"the next batch{known} would be of kind {planned['kind']}, read {how}; to estimate its rows: syncd plan"


def _describe_planned_load(done: "LoadOutcome") -> str:
    planned = done.preview or {}
    return (
        f"of the extracted batches, {planned['first']} to {planned['last']} would be loaded:"
        f" {planned['rows']:,} rows in {planned['files']:,} files"
    )


def _to_json(outcome: StreamRunOutcome) -> dict[str, object]:
    names: dict[str, object] = {"table": outcome.name, "source": outcome.source}
    extracted = _extract_to_json(outcome.extract) if outcome.extract is not None else {"state": "skipped"}
    return {**names, **extracted, "load": load_to_json(outcome.load) if outcome.load is not None else None}


def _extract_to_json(done: "ExtractOutcome") -> dict[str, object]:
    return {
        "state": done.state,
        "batches": done.batches,
        "rows": done.rows,
        "files": done.files,
        "bytes": done.bytes,
        "quarantined": done.quarantined,
        "mark_before": done.mark_before.to_texts(),
        "mark": done.mark.to_texts(),
        "complete_up_to": instant_to_json(done.complete_before),
        "proven": done.proven,
        "reason": done.wait_reason or None,
        "seconds": round(done.seconds, 3),
        "planned": done.preview,
        "error": error_to_json(done.error),
    }


def load_to_json(done: "LoadOutcome") -> dict[str, object]:
    return {
        "state": done.state,
        "batches": done.batches,
        "rows": done.rows,
        "files": done.files,
        "quarantined": done.quarantined,
        "incomplete": list(done.incomplete_columns),
        "last_batch": str(done.last_batch),
        "mark": done.mark.to_texts(),
        "complete_up_to": instant_to_json(done.complete_before),
        "pending_batches": done.pending_batches,
        "seconds": round(done.seconds, 3),
        "planned": done.preview,
        "error": error_to_json(done.error),
    }
