"""Status of one row, and the reason for it, by the facts that MySQL, the lake and the warehouse gave."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from watermarks.batch import BatchId
from watermarks.cursor import START_CURSOR, Cursor, OrderedByDatabase
from watermarks.progress import LoadProgress


class RowStatus(StrEnum):
    """Location of the newest version of a row."""

    NOT_DUE = "not yet due"
    HELD = "held"
    IN_FILE = "in a file"
    LOADED = "loaded"
    LEFT_OUT = "left out"
    QUARANTINED = "quarantined"
    DELETED = "deleted"
    BEFORE_START = "before the start"
    NEVER_SEEN = "never seen"
    IN_DOUBT = "in doubt"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowVersion:
    """One version of a row in a file of the lake."""

    batch: BatchId
    first_read_by: BatchId
    """The batch that first read it; differs from `batch` where that replayed it from quarantine."""
    file: str
    row: int
    planned_at: str
    cursor: str | None = None
    """The value of its order column in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedVersion:
    """One version of a row in quarantine."""

    batch: BatchId
    stage: str
    file: str
    reason: str
    replayed_by: BatchId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """The row in MySQL."""

    was_asked: bool = False
    exists: bool = False
    cursor: Cursor | None = None
    problem: str = "MySQL was not queried"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRow:
    """The row in the warehouse."""

    was_asked: bool = False
    rows: int = 0
    batch: BatchId | None = None
    """The batch that read the version in the target; None where the target does not tell."""
    deleted_at: str | None = None
    problem: str = "the warehouse was not queried"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFacts:
    """Everything that is known about a row."""

    table: str
    key: Mapping[str, str]
    mark: Cursor = START_CURSOR
    stream_start: Cursor = START_CURSOR
    """Start of the stream: rows before it are never read."""
    all_files_checked: bool = True
    """False if only the newest files were searched."""
    missing_files: int = 0
    """Files that could not be searched, because they were cleaned or lost."""
    load_progress: LoadProgress = field(default_factory=LoadProgress)
    source: SourceRow = field(default_factory=SourceRow)
    target: TargetRow = field(default_factory=TargetRow)
    versions: Sequence[RowVersion] = ()
    """Newest first."""
    quarantined: Sequence[QuarantinedVersion] = ()
    deleted_by: BatchId | None = None
    """The newest batch of deletes that names its key."""
    next_high: Cursor | None = None
    """End of the next batch; None where it would read nothing."""
    hold_reason: str = ""
    """What holds the horizon below the row."""
    loaded_at: str = ""
    """When the newest version was loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExplanation:
    """Status of a row, its reason, and the next step."""

    status: RowStatus
    reason: str
    next_step: str = "nothing has to be done"


def explain_row(facts: RowFacts) -> RowExplanation:
    """Return the status of the newest version of a row."""
    newest = facts.versions[0] if facts.versions else None
    if (quarantined := _find_waiting_version(facts, newest)) is not None:
        return _explain_quarantined(facts, quarantined)
    if (deleted := _explain_deleted(facts, newest)) is not None:
        return deleted
    if _is_ahead(facts, newest):
        return _explain_due(facts, newest)
    if newest is not None:
        return _explain_in_file(facts, newest)
    return _explain_unseen(facts)


def _find_waiting_version(facts: RowFacts, newest: RowVersion | None) -> QuarantinedVersion | None:
    waiting = (version for version in facts.quarantined if version.replayed_by is None)
    return next((version for version in waiting if newest is None or version.batch >= newest.first_read_by), None)


def _explain_quarantined(facts: RowFacts, version: QuarantinedVersion) -> RowExplanation:
    return RowExplanation(
        status=RowStatus.QUARANTINED,
        reason=f"batch {version.batch} read it, and the {version.stage} stage put it into quarantine: {version.reason}",
        next_step=f"correct the cause, then: syncd quarantine replay -t {facts.table} --batch {version.batch}",
    )


def _explain_deleted(facts: RowFacts, newest: RowVersion | None) -> RowExplanation | None:
    if facts.source.exists:
        return None
    if facts.target.deleted_at:
        reason = f"it was deleted at the source; the target marks it as deleted since {facts.target.deleted_at}"
        return RowExplanation(status=RowStatus.DELETED, reason=reason)
    if facts.deleted_by is None or (newest is not None and newest.batch > facts.deleted_by):
        return None
    if facts.deleted_by > facts.load_progress.last_batch:
        reason = f"batch {facts.deleted_by} deletes it, and waits to be loaded"
        return RowExplanation(status=RowStatus.DELETED, reason=reason, next_step=_load_command(facts))
    reason = f"it was deleted at the source: batch {facts.deleted_by} removed it from the target"
    return RowExplanation(status=RowStatus.DELETED, reason=reason)


def _is_ahead(facts: RowFacts, newest: RowVersion | None) -> bool:
    """Return whether the version at the source is above the mark, and no file has it."""
    cursor = facts.source.cursor
    if cursor is None or not _is_above(cursor, facts.mark):
        return False
    return newest is None or newest.cursor is None or newest.cursor != _format_first_value(cursor)


def _explain_due(facts: RowFacts, newest: RowVersion | None) -> RowExplanation:
    older = f"; an older version of it was read by batch {newest.first_read_by}" if newest else ""
    cursor = facts.source.cursor
    mark = _format_first_value(facts.mark) or "of the beginning"
    at = f"it is at {_format_first_value(cursor)} in MySQL, above the mark {mark}"
    if facts.hold_reason:
        reason = f"{at}; the horizon is below it: {facts.hold_reason}{older}"
        return RowExplanation(status=RowStatus.HELD, reason=reason)
    is_next = cursor is not None and facts.next_high is not None and not _is_above(cursor, facts.next_high)
    reason = f"{at}: {'the next' if is_next else 'a later'} batch reads it{older}"
    return RowExplanation(status=RowStatus.NOT_DUE, reason=reason, next_step=f"syncd run -t {facts.table}")


def _load_command(facts: RowFacts) -> str:
    return f"syncd run -t {facts.table} --load-only"


def _explain_in_file(facts: RowFacts, newest: RowVersion) -> RowExplanation:
    in_file = f"batch {newest.batch} read it, row {newest.row:,} of {newest.file}"
    if newest.batch > facts.load_progress.last_batch:
        reason = f"{in_file}; the batch waits to be loaded"
        return RowExplanation(status=RowStatus.IN_FILE, reason=reason, next_step=_load_command(facts))
    if any(newest.batch in span for span in facts.load_progress.skipped_batches):
        reason = f"{in_file}, and an operator skipped that batch"
        history = f"syncd watermark history -t {facts.table}"
        return RowExplanation(status=RowStatus.LEFT_OUT, reason=reason, next_step=history)
    return _explain_loaded(facts, newest, in_file)


def _explain_loaded(facts: RowFacts, newest: RowVersion, in_file: str) -> RowExplanation:
    target = facts.target
    at = f" at {facts.loaded_at}" if facts.loaded_at else ""
    batch_loaded = f"{in_file}, and the batch was loaded{at}"
    if not target.was_asked:
        reason = f"{batch_loaded}, according to the mark; {target.problem}"
        return RowExplanation(status=RowStatus.LOADED, reason=reason)
    if target.rows == 0:
        return _explain_missing(facts, f"{batch_loaded}, but the target has no such row")
    if target.batch is not None and target.batch > newest.first_read_by:
        reason = f"the target has a newer version, read by batch {target.batch}; before that, {in_file}"
        return RowExplanation(status=RowStatus.LOADED, reason=reason)
    if target.batch is not None and target.batch < newest.first_read_by:
        return _explain_doubt(facts, f"{batch_loaded}, but the target has the version of batch {target.batch}")
    reason = f"{in_file}, and loaded it{at}"
    if facts.source.was_asked and not facts.source.exists:
        reason = f"{reason}; MySQL no longer has the row, but the target still has it"
        return RowExplanation(status=RowStatus.LOADED, reason=reason, next_step=_compare_hint(facts))
    return RowExplanation(status=RowStatus.LOADED, reason=reason)


def _explain_missing(facts: RowFacts, reason: str) -> RowExplanation:
    if not facts.source.was_asked or facts.source.exists:
        return _explain_doubt(facts, reason)
    reason = f"{reason}, and MySQL has none either: it was removed from both sides"
    return RowExplanation(status=RowStatus.DELETED, reason=reason)


def _explain_doubt(facts: RowFacts, reason: str) -> RowExplanation:
    return RowExplanation(status=RowStatus.IN_DOUBT, reason=reason, next_step=_compare_hint(facts))


def _compare_hint(facts: RowFacts) -> str:
    return f"to find such rows: syncd verify -t {facts.table}; with --repair, it also shows how to repair them"


def _explain_unseen(facts: RowFacts) -> RowExplanation:
    """Explain a row that no searched file has."""
    source, target = facts.source, facts.target
    some_unsearched = bool(facts.missing_files) or not facts.all_files_checked
    if target.rows:
        by = f", read by batch {target.batch}" if target.batch else ""
        files = "its file was cleaned, or was not searched" if some_unsearched else "no file has it"
        return RowExplanation(status=RowStatus.LOADED, reason=f"the target has it{by}; {files}")
    if source.was_asked and not source.exists:
        newest_files = "" if facts.all_files_checked else ", nor do the searched files"
        reason = f"MySQL has no such row{newest_files}: it was never read"
        return RowExplanation(status=RowStatus.NEVER_SEEN, reason=reason, next_step="check the key")
    position, mark = _format_first_value(source.cursor), _format_first_value(facts.mark)
    if source.cursor is not None and facts.stream_start and not _is_above(source.cursor, facts.stream_start):
        reason = f"it is at {position} in MySQL, and the stream begins at {_format_first_value(facts.stream_start)}"
        once = f"to read such rows once: syncd run -t {facts.table} --from INSTANT --until INSTANT"
        return RowExplanation(status=RowStatus.BEFORE_START, reason=reason, next_step=once)
    if some_unsearched:
        removed = f"{facts.missing_files:,} files were removed" if facts.missing_files else ""
        reason = f"no file that was searched has it; {removed or 'only the newest files were searched'}"
        return RowExplanation(status=RowStatus.UNKNOWN, reason=reason, next_step="search all: --all-files")
    if not source.was_asked:
        reason = f"no file has it, and {source.problem}"
        return RowExplanation(
            status=RowStatus.UNKNOWN, reason=reason, next_step="run the command again when MySQL answers"
        )
    return _explain_doubt(facts, f"MySQL has it at {position}, at or below the mark {mark}, and no file has it")


def _is_above(cursor: Cursor, mark: Cursor) -> bool:
    """Return whether a position is above a mark; one that only the database can order is above if it differs."""
    try:
        return cursor > mark
    except OrderedByDatabase:
        return cursor.values[:1] > mark.values[:1] or cursor != mark


def _format_first_value(cursor: Cursor | None) -> str:
    return format_cursor_value(cursor.values[0].raw) if cursor is not None and cursor.values else ""


def format_cursor_value(value: object) -> str:
    """Format a value of an order column, alike from MySQL and from a file, where wall times pass for UTC."""
    return str(value.replace(tzinfo=None)) if isinstance(value, datetime) else str(value)
