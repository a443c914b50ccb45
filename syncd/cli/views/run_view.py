"""What `syncd run` shows of one pass over each stream: a table of the stages that ran, or one JSON document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from syncd.cli.output import print_message, show_json, show_table
from syncd.error_classes import ExitCode, exit_code_for, worst_exit_code
from syncd.observe.formatting import format_bytes
from watermarks.cursor import format_instant

if TYPE_CHECKING:
    from datetime import datetime

    from syncd.extract.extract_pass import ExtractOutcome
    from syncd.load.load_pass import LoadOutcome
    from watermarks.cursor import Cursor
    from watermarks.errors import HintedError


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRunOutcome:
    """One stream and how the stages that were asked for went."""

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
    """The result on stdout; why a stream waits on stderr."""
    if as_json:
        streams = [{**_to_json(one), "exit": exit_code_for_stream(one, strict=strict)} for one in outcomes]
        show_json({"dry_run": dry_run, "exit": exit_code_for_run(outcomes, strict=strict), "streams": streams})
        return
    aside = any(one.load is not None and one.load.quarantined for one in outcomes)
    columns = ("table", *_column_names(outcomes, with_quarantined=aside), "seconds")
    rows = [
        (one.name, *_extract_cells(one), *_load_cells(one, with_quarantined=aside), f"{one.seconds:.1f}")
        for one in outcomes
    ]
    show_table(
        columns,
        rows,
        optional=[name for name in _OPTIONAL_COLUMNS if name in columns and not _is_needed(name, outcomes)],
    )
    for one in outcomes:
        if one.extract is not None and one.extract.wait_reason:
            print_message(f"{one.name}: {one.extract.wait_reason}")
        if dry_run and one.extract is not None and one.extract.preview is not None:
            print_message(f"{one.name}: {_describe_planned_extract(one.extract.preview)}")
        if dry_run and one.load is not None and one.load.preview is not None:
            print_message(f"{one.name}: {_describe_planned_load(one.load)}")


_OPTIONAL_COLUMNS: Final = ("mark", "files", "size", "quarantined", "seconds")
"""Columns that a narrow terminal is spared."""


def _is_needed(column: str, outcomes: Sequence[StreamRunOutcome]) -> bool:
    if column == "quarantined" and not any(one.extract is not None for one in outcomes):
        return True  # that of the load, which is there because it matters
    return column == "quarantined" and any(one.extract is not None and one.extract.quarantined for one in outcomes)


def exit_code_for_stream(outcome: StreamRunOutcome, *, strict: bool) -> ExitCode:
    """The exit code that the stream alone would bring."""
    codes = [ExitCode.DONE, *map(exit_code_for, outcome.errors)]
    if strict and any(done is not None and done.quarantined for done in (outcome.extract, outcome.load)):
        codes.append(ExitCode.DOUBT)
    return worst_exit_code(codes)


def exit_code_for_run(outcomes: Sequence[StreamRunOutcome], *, strict: bool) -> ExitCode:
    """That of all streams together: the worst decides."""
    return worst_exit_code((ExitCode.DONE, *(exit_code_for_stream(one, strict=strict) for one in outcomes)))


def _column_names(outcomes: Sequence[StreamRunOutcome], *, with_quarantined: bool) -> tuple[str, ...]:
    """The columns of the stages that ran; the marks are where what was asked for has come to.

    What the warehouse refuses is seldom anything: only where a load put rows `aside` there is a column for it.
    """
    extracts = any(one.extract is not None for one in outcomes)
    loads = any(one.load is not None for one in outcomes)
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
    cut = len(windows) if isinstance(windows, Sequence) else 0
    known = ", planned by an earlier run," if planned["sealed"] else ""
    how = f"in {cut} window{'s' * (cut != 1)}" if cut else "whole"
    return f"the next batch{known} would be of kind {planned['kind']}, read {how}; how many rows: syncd plan"


def _describe_planned_load(done: "LoadOutcome") -> str:
    planned = done.preview or {}
    return (
        f"of what is extracted, batches {planned['first']} to {planned['last']} would be loaded:"
        f" {planned['rows']:,} rows in {planned['files']:,} files"
    )


def _to_json(outcome: StreamRunOutcome) -> dict[str, object]:
    named: dict[str, object] = {"table": outcome.name, "source": outcome.source}
    extracted = _extract_to_json(outcome.extract) if outcome.extract is not None else {"state": "skipped"}
    return {**named, **extracted, "load": load_to_json(outcome.load) if outcome.load is not None else None}


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
        "complete": _instant_to_json(done.complete_before),
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
        "last": str(done.last_batch),
        "mark": done.mark.to_texts(),
        "complete": _instant_to_json(done.complete_before),
        "pending": done.pending_batches,
        "seconds": round(done.seconds, 3),
        "planned": done.preview,
        "error": error_to_json(done.error),
    }


def _instant_to_json(moment: "datetime | None") -> str | None:
    return None if moment is None else format_instant(moment)


def error_to_json(error: "HintedError | None") -> dict[str, object] | None:
    if error is None:
        return None
    return {"message": error.message, "hint": error.hint or None, "exit": exit_code_for(error)}
