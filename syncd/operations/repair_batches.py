"""Repair of the differences that a comparison found: rows that differ are read again, deleted rows are removed.

Both are ordinary batches of kind `repair`. What is read now ranks above everything that was read before, and below
everything that is read later: whatever else works on the stream, the newest reading wins.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from syncd.errors import ServerChanged
from syncd.extract.batch_producer import ExtractProducer
from syncd.extract.delete_batches import DeletedKeys
from syncd.extract.plan_body import plan_by_keys
from syncd.extract.plan_rules import PlanContext
from syncd.extract.reread_after_clock_break import is_from_other_server
from syncd.lake.manifest import Tombstones
from syncd.lake.read_requests import Part
from syncd.ports.source import SourceDatabase
from syncd.settings import Deletes, StreamSettings
from syncd.tables.sort_order import CURSOR_BY_KEY, resolve_order
from syncd.verify.result import REPAIRED_BY_REREAD, ComparisonResult, Difference, DifferenceKind
from watermarks.batch import BatchDraft, BatchId, BatchOutput, Plan
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.document import Watermark
from watermarks.progress import BEFORE_FIRST_BATCH, ExtractProgress

MAX_REREAD_KEYS: Final = 10_000
"""Rows that one batch reads by their keys, which its plan lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRowGroup:
    """Rows that the source no longer has, as was found with the same mark."""

    keys: tuple[Mapping[str, Any], ...]
    """Values as files hold them."""
    upto: Cursor
    """The mark at that moment. It moves while other ranges are compared: a row inserted since is above it."""
    last_loaded: BatchId = BEFORE_FIRST_BATCH
    """The last batch loaded at that moment: every version read up to it is deleted, whatever its stamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan:
    """Rows of one stream that need repair."""

    reread_keys: tuple[Cursor, ...] = ()
    """Rows that are read again."""
    deleted_groups: tuple[DeletedRowGroup, ...] = ()
    """Deleted rows; each group is one batch."""
    compared_at: datetime
    """When the comparison was made."""

    @property
    def deleted_count(self) -> int:
        return sum(len(group.keys) for group in self.deleted_groups)


@dataclass(kw_only=True)
class RepairProducer:
    """Producer of the batches of one repair; a batch that is planned already is executed first."""

    executor: ExtractProducer
    """Executor of the plans of the stream."""
    source: SourceDatabase
    settings: StreamSettings
    repair: RepairPlan
    write: Callable[..., Sequence[Part]]
    """Writes the keys of a group to files; see `syncd.s3.parts_writer.write_deleted_keys`."""
    wait_reason: str = ""
    complete_before: datetime | None = None
    """Always None: a repair proves no completeness."""
    _reread_done: int = field(default=0, init=False)
    _deleted_groups_done: int = field(default=0, init=False)

    def preview(self, watermark: Watermark) -> BatchDraft | None:
        """Return the next batch without planning it.

        Raises:
            ServerChanged: another server answers, so the stream has to read again first.
        """
        self._require_same_server(watermark.required_extract_progress)
        if (draft := self._reread_draft(watermark)) is not None:
            return draft
        group = self._next_deleted_group
        return self._deleted_keys(group).draft(watermark, ()) if group is not None else None

    def prepare(self, draft: BatchDraft) -> None:
        self.executor.prepare(draft)

    def propose_batch(self, watermark: Watermark) -> BatchDraft | None:
        """Return the next batch; see `preview`."""
        self._require_same_server(watermark.required_extract_progress)
        if (draft := self._reread_draft(watermark)) is not None:
            self._reread_done += MAX_REREAD_KEYS
            return draft
        if (group := self._next_deleted_group) is None:
            return None
        self._deleted_groups_done += 1
        deleted = self._deleted_keys(group)
        batch = watermark.required_extract_progress.next_batch
        return deleted.draft(watermark, self.write(group.keys, batch=batch, mappings=deleted.key_columns))

    def is_plan_current(self, plan: Plan) -> bool:
        return self.executor.is_plan_current(plan)

    def write_files(self, plan: Plan) -> BatchOutput:
        return self.executor.write_files(plan)

    def delete_files(self, files: Sequence[str]) -> None:
        self.executor.delete_files(files)

    @property
    def _next_deleted_group(self) -> DeletedRowGroup | None:
        """The next group; None if none is left, or the target keeps deleted rows."""
        if self.settings.target is None or self.settings.target.deletes is Deletes.IGNORE:
            return None
        return next(iter(self.repair.deleted_groups[self._deleted_groups_done :]), None)

    def _require_same_server(self, chain: ExtractProgress) -> None:
        """Check that the newest link is of this server: a repair batch would hide that another server answers.

        Raises:
            ServerChanged: it is of another one.
        """
        identity = self.source.get_server_info().identity
        if is_from_other_server(chain, identity):
            name = self.settings.name
            raise ServerChanged(
                f"{name} was read from another server than the one that answers now: rows below the mark must be read"
                " again before a repair",
                hint=f"Run it first, then compare again: syncd run -t {name}",
            )

    def _reread_draft(self, watermark: Watermark) -> BatchDraft | None:
        keys = self.repair.reread_keys[self._reread_done : self._reread_done + MAX_REREAD_KEYS]
        if not keys:
            return None
        table = self.source.describe_table(self.settings.database, self.settings.table)
        context = PlanContext(
            mark=watermark.required_extract_progress.cursor,
            identity=self.source.get_server_info().identity,
            fingerprint=table.fingerprint,
            created=table.created,
        )
        return plan_by_keys(context, resolve_order(table, self.settings), keys)

    def _deleted_keys(self, group: DeletedRowGroup) -> DeletedKeys:
        return DeletedKeys(
            table=self.source.describe_table(self.settings.database, self.settings.table),
            source_identity=self.source.get_server_info().identity,
            settings=self.settings,
            tombstones=Tombstones(upto=group.upto, last_read=group.last_loaded, checked_at=self.repair.compared_at),
        )


def plan_repair(result: ComparisonResult, settings: StreamSettings, *, compared_at: datetime) -> RepairPlan:
    """Return the repair of all differences that a comparison lists."""
    return RepairPlan(
        reread_keys=tuple(
            difference.position
            for difference in result.differences
            if difference.kind in REPAIRED_BY_REREAD and difference.position is not None
        ),
        deleted_groups=tuple(_group_deleted_rows(result.differences, settings)),
        compared_at=compared_at,
    )


def _group_deleted_rows(differences: Sequence[Difference], settings: StreamSettings) -> Iterator[DeletedRowGroup]:
    by_bound: dict[tuple[Cursor, BatchId], list[Mapping[str, Any]]] = {}
    for difference in differences:
        if difference.kind is DifferenceKind.GHOST:
            upto = START_CURSOR if settings.cursor == CURSOR_BY_KEY else Cursor(difference.judged_mark.values[:1])
            by_bound.setdefault((upto, difference.judged_batch), []).append(difference.file_key)
    for (upto, last_loaded), keys in by_bound.items():
        yield DeletedRowGroup(keys=tuple(keys), upto=upto, last_loaded=last_loaded)
