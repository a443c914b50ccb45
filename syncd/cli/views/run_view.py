"""What `syncd run` shows of one pass over each stream: a table of the stages that ran, or one JSON document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from syncd.cli.exit_codes import Exit, exit_for, worst
from syncd.cli.output import say, show_json, show_table
from syncd.observe.event_text import size
from watermarks.cursor import instant_text

if TYPE_CHECKING:
    from datetime import datetime

    from syncd.extract.extract_pass import Outcome
    from syncd.load.load_pass import LoadOutcome
    from watermarks.cursor import Cursor
    from watermarks.errors import HintedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """One stream and how the stages that were asked for went."""

    database: str
    table: str
    source: str
    extract: "Outcome | None"
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


def show(passed: Sequence[Passed], *, as_json: bool, dry_run: bool, strict: bool = False) -> None:
    """The result on stdout; why a stream waits on stderr."""
    if as_json:
        streams = [{**_fields(one), "exit": code_of(one, strict=strict)} for one in passed]
        show_json({"dry_run": dry_run, "exit": worst_of(passed, strict=strict), "streams": streams})
        return
    aside = any(one.load is not None and one.load.quarantined for one in passed)
    columns = ("table", *_heads(passed, aside=aside), "seconds")
    rows = [(one.name, *_extract_cells(one), *_load_cells(one, aside=aside), f"{one.seconds:.1f}") for one in passed]
    show_table(columns, rows, spare=[name for name in _SPARE if name in columns and not _matters(name, passed)])
    for one in passed:
        if one.extract is not None and one.extract.reason:
            say(f"{one.name}: {one.extract.reason}")
        if dry_run and one.extract is not None and one.extract.planned is not None:
            say(f"{one.name}: {_would_read(one.extract.planned)}")
        if dry_run and one.load is not None and one.load.planned is not None:
            say(f"{one.name}: {_would_load(one.load)}")


_SPARE: Final = ("mark", "files", "size", "quarantined", "seconds")
"""Columns that a narrow terminal is spared."""


def _matters(column: str, passed: Sequence[Passed]) -> bool:
    if column == "quarantined" and not any(one.extract is not None for one in passed):
        return True  # that of the load, which is there because it matters
    return column == "quarantined" and any(one.extract is not None and one.extract.quarantined for one in passed)


def code_of(one: Passed, *, strict: bool) -> Exit:
    """The exit code that the stream alone would bring."""
    codes = [Exit.DONE, *map(exit_for, one.errors)]
    if strict and any(done is not None and done.quarantined for done in (one.extract, one.load)):
        codes.append(Exit.DOUBT)
    return worst(codes)


def worst_of(passed: Sequence[Passed], *, strict: bool) -> Exit:
    """That of all streams together: the worst decides."""
    return worst((Exit.DONE, *(code_of(one, strict=strict) for one in passed)))


def _heads(passed: Sequence[Passed], *, aside: bool) -> tuple[str, ...]:
    """The columns of the stages that ran; the marks are where what was asked for has come to.

    What the warehouse refuses is seldom anything: only where a load put rows `aside` there is a column for it.
    """
    extracts = any(one.extract is not None for one in passed)
    loads = any(one.load is not None for one in passed)
    landed = (*(("quarantined",) if aside else ()), "pending", "mark")
    if extracts and loads:
        return ("extract", "rows", "files", "size", "quarantined", "proven", "load", "rows", *landed)
    if loads:
        return ("state", "rows", "files", *landed)
    return ("state", "rows", "files", "size", "quarantined", "mark", "proven")


def _extract_cells(one: Passed) -> tuple[object, ...]:
    done = one.extract
    if done is None:
        return ()
    proven = "yes" if done.proven else "no"
    begin = (done.state, f"{done.rows:,}", f"{done.files:,}", size(done.bytes), f"{done.quarantined:,}")
    return (*begin, proven) if one.load is not None else (*begin, _shown(done.mark), proven)


def _load_cells(one: Passed, *, aside: bool) -> tuple[object, ...]:
    done = one.load
    if done is None:
        return ()
    files = () if one.extract is not None else (f"{done.files:,}",)
    refused = (f"{done.quarantined:,}",) if aside else ()
    return (done.state, f"{done.rows:,}", *files, *refused, f"{done.waiting:,}", _shown(done.mark))


def _shown(mark: "Cursor") -> str:
    return ", ".join(str(value.plain) for value in mark.values)


def _would_read(planned: Mapping[str, object]) -> str:
    windows = planned["windows"]
    cut = len(windows) if isinstance(windows, Sequence) else 0
    known = ", planned by an earlier run," if planned["sealed"] else ""
    how = f"in {cut} window{'s' * (cut != 1)}" if cut else "whole"
    return f"the next batch{known} would be of kind {planned['kind']}, read {how}; how many rows: syncd plan"


def _would_load(done: "LoadOutcome") -> str:
    planned = done.planned or {}
    return (
        f"of what is extracted, batches {planned['first']} to {planned['last']} would be loaded:"
        f" {planned['rows']:,} rows in {planned['files']:,} files"
    )


def _fields(one: Passed) -> dict[str, object]:
    named: dict[str, object] = {"table": one.name, "source": one.source}
    extracted = _extract_fields(one.extract) if one.extract is not None else {"state": "skipped"}
    return {**named, **extracted, "load": load_fields(one.load) if one.load is not None else None}


def _extract_fields(done: "Outcome") -> dict[str, object]:
    return {
        "state": done.state,
        "batches": done.batches,
        "rows": done.rows,
        "files": done.files,
        "bytes": done.bytes,
        "quarantined": done.quarantined,
        "mark_before": done.began.texts(),
        "mark": done.mark.texts(),
        "complete": _instant(done.complete),
        "proven": done.proven,
        "reason": done.reason or None,
        "seconds": round(done.seconds, 3),
        "planned": done.planned,
        "error": error_fields(done.error),
    }


def load_fields(done: "LoadOutcome") -> dict[str, object]:
    return {
        "state": done.state,
        "batches": done.batches,
        "rows": done.rows,
        "files": done.files,
        "quarantined": done.quarantined,
        "incomplete": list(done.incomplete),
        "last": str(done.last),
        "mark": done.mark.texts(),
        "complete": _instant(done.complete),
        "pending": done.waiting,
        "seconds": round(done.seconds, 3),
        "planned": done.planned,
        "error": error_fields(done.error),
    }


def _instant(moment: "datetime | None") -> str | None:
    return None if moment is None else instant_text(moment)


def error_fields(error: "HintedError | None") -> dict[str, object] | None:
    if error is None:
        return None
    return {"message": error.message, "hint": error.hint or None, "exit": exit_for(error)}
