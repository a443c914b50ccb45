"""Mending what a comparison found: the rows that differ are read again, and those that are gone are buried.

Both are ordinary batches of kind `repair`. What is read now ranks above everything that was read before, and below
everything that is read later: whatever else is at work on the stream, the newest reading wins.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from syncd.errors import ServerChanged
from syncd.extract.batch_producer import ExtractProducer
from syncd.extract.delete_batches import DeletedKeys
from syncd.extract.plan_drafts import plan_by_keys
from syncd.extract.plan_rules import PlanContext
from syncd.extract.reread import is_from_other_server
from syncd.lake.tombstones import Tombstones
from syncd.lake.window_reads import Part
from syncd.ports.source import SourceDatabase
from syncd.settings import Deletes, StreamSettings
from syncd.tables.sort_order import CURSOR_BY_KEY, resolve_order
from syncd.verify.result import REPAIRED_BY_REREAD, ComparisonResult, Difference, DifferenceKind
from watermarks.batch import BatchDraft, BatchId, BatchOutput, Plan
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.document import Watermark
from watermarks.progress import BEFORE_FIRST_BATCH, ExtractProgress

MAX_REREAD_KEYS: Final = 10_000
"""Rows that one batch reads by their keys: they stand in its plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRowGroup:
    """Rows that the source no longer has, of which that is sure up to the same mark."""

    keys: tuple[Mapping[str, Any], ...]
    """As files hold them."""
    upto: Cursor
    """The mark that they were judged by. It moves while others are compared: what came back since is above it."""
    last_loaded: BatchId = BEFORE_FIRST_BATCH
    """The last batch that was loaded then: whatever stamp it bears, what had been read by then is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan:
    """What is to be mended of one stream."""

    reread_keys: tuple[Cursor, ...] = ()
    """Rows that are read again."""
    deleted_groups: tuple[DeletedRowGroup, ...] = ()
    """Rows that are buried, a batch each."""
    compared_at: datetime
    """When it was looked."""

    @property
    def deleted_count(self) -> int:
        """How many rows are buried."""
        return sum(len(grave.keys) for grave in self.deleted_groups)


@dataclass(kw_only=True)
class RepairProducer:
    """A producer of the batches of one repair; what else stands in the chain's next place, is carried out first."""

    executor: ExtractProducer
    """Carries out the plans of the stream."""
    source: SourceDatabase
    settings: StreamSettings
    repair: RepairPlan
    write: Callable[..., Sequence[Part]]
    """Writes the keys of a grave to files of a batch; see `syncd.s3.part_files`."""
    wait_reason: str = ""
    complete_before: datetime | None = None
    """A repair tells nothing of it."""
    _reread_done: int = field(default=0, init=False)
    _deleted_groups_done: int = field(default=0, init=False)
    """So many of the graves."""

    def preview(self, watermark: Watermark) -> BatchDraft | None:
        """What the next batch would be.

        Raises:
            AnotherServer: the stream has to read again first, for its server's place was taken.
        """
        self._require_same_server(watermark.required_extract_progress)
        if (draft := self._reread_draft(watermark)) is not None:
            return draft
        return (
            self._deleted_keys(grave).draft(watermark, ()) if (grave := self._next_deleted_group) is not None else None
        )

    def prepare(self, draft: BatchDraft) -> None:
        self.executor.prepare(draft)

    def propose_batch(self, watermark: Watermark) -> BatchDraft | None:
        """The next batch; see `look`."""
        self._require_same_server(watermark.required_extract_progress)
        if (draft := self._reread_draft(watermark)) is not None:
            self._reread_done += MAX_REREAD_KEYS
            return draft
        if (grave := self._next_deleted_group) is None:
            return None
        self._deleted_groups_done += 1
        gone = self._deleted_keys(grave)
        return gone.draft(
            watermark,
            self.write(grave.keys, batch=watermark.required_extract_progress.next_batch, mappings=gone.key_columns),
        )

    def is_plan_current(self, plan: Plan) -> bool:
        return self.executor.is_plan_current(plan)

    def write_files(self, plan: Plan) -> BatchOutput:
        return self.executor.write_files(plan)

    def delete_files(self, files: Sequence[str]) -> None:
        self.executor.delete_files(files)

    @property
    def _next_deleted_group(self) -> DeletedRowGroup | None:
        """The next one, where rows are buried at all."""
        if self.settings.target is None or self.settings.target.deletes is Deletes.IGNORE:
            return None
        return next(iter(self.repair.deleted_groups[self._deleted_groups_done :]), None)

    def _require_same_server(self, chain: ExtractProgress) -> None:
        """Leave a chain alone whose newest link is of another server: that alone may tell that this one is a stranger.

        Raises:
            AnotherServer: it is.
        """
        identity = self.source.get_server_info().identity
        if is_from_other_server(chain, identity):
            name = self.settings.name
            raise ServerChanged(
                f"another server answers than the one that {name} was read from: what that may have left below the mark"
                " is read again before anything is mended",
                hint=f"Run first, and compare again then: syncd run -t {name}",
            )

    def _reread_draft(self, watermark: Watermark) -> BatchDraft | None:
        keys = self.repair.reread_keys[self._reread_done : self._reread_done + MAX_REREAD_KEYS]
        if not keys:
            return None
        table = self.source.describe_table(self.settings.database, self.settings.table)
        ground = PlanContext(
            mark=watermark.required_extract_progress.cursor,
            identity=self.source.get_server_info().identity,
            fingerprint=table.fingerprint,
            created=table.created,
        )
        return plan_by_keys(ground, resolve_order(table, self.settings), keys)

    def _deleted_keys(self, group: DeletedRowGroup) -> DeletedKeys:
        return DeletedKeys(
            table=self.source.describe_table(self.settings.database, self.settings.table),
            source_identity=self.source.get_server_info().identity,
            settings=self.settings,
            tombstones=Tombstones(upto=group.upto, last_read=group.last_loaded, checked_at=self.repair.compared_at),
        )


def plan_repair(result: ComparisonResult, settings: StreamSettings, *, compared_at: datetime) -> RepairPlan:
    """What a verdict asks to be mended: all differences that it names."""
    return RepairPlan(
        reread_keys=tuple(
            one.position for one in result.differences if one.kind in REPAIRED_BY_REREAD and one.position is not None
        ),
        deleted_groups=tuple(_group_deleted_rows(result.differences, settings)),
        compared_at=compared_at,
    )


def _group_deleted_rows(differences: Sequence[Difference], settings: StreamSettings) -> Iterator[DeletedRowGroup]:
    by_bound: dict[tuple[Cursor, BatchId], list[Mapping[str, Any]]] = {}
    for one in differences:
        if one.kind is DifferenceKind.GHOST:
            upto = START_CURSOR if settings.cursor == CURSOR_BY_KEY else Cursor(one.judged_mark.values[:1])
            by_bound.setdefault((upto, one.judged_batch), []).append(one.file_key)
    for (upto, seen), keys in by_bound.items():
        yield DeletedRowGroup(keys=tuple(keys), upto=upto, last_loaded=seen)
