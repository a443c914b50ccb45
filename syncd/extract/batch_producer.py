"""Maker of one stream's batches from MySQL: proposes with the planner, reads with Spark, returns the manifest."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Final

from syncd.datatypes.columns import ColumnMapping
from syncd.datatypes.source_table import SourceTable
from syncd.errors import SchemaDrift, ServerChanged, SourceReplaced, TableAltered
from syncd.events import BatchPlanned, EventListener, RowsArrived, WaitKind, WaitReason
from syncd.extract.column_additions import find_added_columns, find_redeclared_columns
from syncd.extract.delete_batches import find_delete_manifest
from syncd.extract.plan_rules import is_small
from syncd.extract.planner import Planner
from syncd.lake.batch_number import batch_to_number
from syncd.lake.column_history import EarlierBatches, remade_table_events
from syncd.lake.manifest import Manifest
from syncd.lake.object_keys import batch_prefix, batch_quarantine_prefix
from syncd.lake.read_requests import ReadRequest, ReadResult
from syncd.ports.source import BatchReader, PartStore, SourceDatabase
from syncd.settings import StreamSettings
from syncd.tables.column_changes import describe_columns
from syncd.tables.sort_order import CURSOR_NONE, RowIdentity, resolve_identity
from watermarks.batch import BatchDraft, BatchKind, BatchOutput, Plan
from watermarks.document import Watermark
from watermarks.names import StreamName


class ExtractProducer:
    """Supplies the extract stage's part in the order of effects of `watermarks.Extraction`."""

    def __init__(
        self,
        *,
        stream: StreamName,
        settings: StreamSettings,
        source: SourceDatabase,
        planner: Planner,
        map_columns: Callable[[SourceTable, StreamSettings], tuple[ColumnMapping, ...]],
        make_reader: Callable[[], BatchReader],
        parts: PartStore,
        earlier_batches: EarlierBatches,
        nonce: Callable[[], str],
        emit: EventListener,
    ) -> None:
        self.stream: Final = stream
        self._settings = settings
        self._source = source
        self.planner: Final = planner
        self._map_columns = map_columns
        self._make_reader = make_reader
        self._parts = parts
        self._earlier_batches = earlier_batches
        self._nonce = nonce
        self._emit = emit
        self._preview: tuple[object, BatchDraft] | None = None
        """The draft of the last preview, and the progress that it depends on."""
        self._backlog_reason = ""
        self._last_read = ReadResult(parts=())

    @cached_property
    def _reader(self) -> BatchReader:
        """The reader, made late: most passes find nothing to read, and its libraries take long to load."""
        return self._make_reader()

    @property
    def wait_reason(self) -> str:
        return self._backlog_reason or self.planner.wait_reason

    @property
    def complete_before(self) -> datetime | None:
        return self.planner.complete_before

    def preview(self, watermark: Watermark) -> BatchDraft | None:
        """Return the draft of the next batch; if nothing moves until it is proposed, no probe runs again."""
        self._preview = None
        self._backlog_reason = _find_backlog(watermark, self._settings)
        draft = None if self._backlog_reason else self.planner.propose(watermark)
        self._preview = (_proposal_basis(watermark), draft) if draft else None
        return draft

    def prepare(self, draft: BatchDraft) -> None:
        """Let the reader get ready for the draft, while claim and plan are written."""
        if draft.windows:
            self._reader.prepare(little=is_small(draft))

    def propose_batch(self, watermark: Watermark) -> BatchDraft | None:
        """Return the draft of the last preview, once and only if nothing has moved; otherwise a new one."""
        preview, self._preview = self._preview, None
        if preview and preview[0] == _proposal_basis(watermark):
            return preview[1]
        draft = self.preview(watermark)
        self._preview = None
        return draft

    def is_plan_current(self, plan: Plan) -> bool:
        # A replay that was planned and not carried out reads nothing of MySQL: the next replay takes its rows.
        return plan.draft.kind is not BatchKind.REPLAY and self.planner.is_plan_current(plan)

    def write_files(self, plan: Plan) -> BatchOutput:
        draft = plan.draft
        self._emit(
            BatchPlanned(
                stream=self.stream, batch=plan.id, kind=draft.kind, windows=len(draft.windows), high=draft.high
            )
        )
        if (deletes := find_delete_manifest(plan)) is not None:
            return deletes.to_filled()
        table = self._require_unaltered(plan)
        mappings = self._map_columns(table, self._settings)
        identity = resolve_identity(table, self._settings, mappings)
        self._last_read = self._read(plan, self._build_request(plan, mappings, identity))
        if self._settings.target is None:
            # With a target, the loader reports it as it moves the loaded mark.
            for event in remade_table_events(plan):
                self._emit(event)
        return self._build_manifest(plan, table, mappings, identity).to_filled()

    def _build_request(self, plan: Plan, mappings: tuple[ColumnMapping, ...], identity: RowIdentity) -> ReadRequest:
        draft = plan.draft
        return ReadRequest(
            queries=self.planner.queries(plan, mappings),
            columns=mappings,
            order=self.planner.order_fields(plan, mappings),
            policies=self._settings.policies,
            server_identity=draft.basis.source_identity,
            part_prefix=batch_prefix(plan),
            quarantine_prefix=batch_quarantine_prefix(plan.stream, plan.id),
            batch_number=batch_to_number(draft.origin or plan.id),
            nonce=self._nonce(),
            identity_columns=frozenset(filter(None, (*identity.key, identity.cursor))),
            cursor=identity.cursor,
            is_small=is_small(draft),
        )

    def _build_manifest(
        self, plan: Plan, table: SourceTable, mappings: tuple[ColumnMapping, ...], identity: RowIdentity
    ) -> Manifest:
        draft, settings = plan.draft, self._settings
        # Columns are compared with those of the batch before. Where every batch is the whole table, none is older.
        before = None if settings.cursor == CURSOR_NONE else self._earlier_batches.manifest_before(plan.id)
        declarations = describe_columns(table, mappings)
        return Manifest.from_read(
            self._last_read,
            schema=draft.basis.schema,
            columns=mappings,
            identity=identity,
            windows=() if draft.kind is BatchKind.SNAPSHOT else draft.windows,
            plan=draft.body,
            added_columns=find_added_columns(
                self._source, table, mappings, settings.policies, before=before, batch=plan.id
            ),
            declarations=declarations,
            redeclared_columns=find_redeclared_columns(plan, declarations, before),
        )

    def _read(self, plan: Plan, request: ReadRequest) -> ReadResult:
        try:
            result = self._reader.read(
                request, tell=lambda rows: self._emit(RowsArrived(stream=self.stream, batch=plan.id, rows=rows))
            )
        except SchemaDrift:
            self._require_unaltered(plan)
            raise
        except SourceReplaced as error:
            self._require_planned_server(plan, error)
            raise
        # Windows are read one after the other. Between two of them a column may have become another type, whose values
        # the plan's statements would silently convert to the old one.
        try:
            self._require_unaltered(plan)
        except TableAltered:
            self._parts.delete_objects([part.key for part in (*result.parts, *result.quarantined_parts)])
            raise
        return result

    def _require_planned_server(self, plan: Plan, cause: SourceReplaced) -> None:
        """Check over new connections that the address still leads to the plan's server, though a read met another.

        Raises:
            ServerChanged: it leads to another server.
        """
        self._source.discard_connections()
        if not self.planner.is_plan_current(plan):
            raise ServerChanged(
                f"batch {plan.id} was planned for another server than the one that answers now",
                hint="Run again: the batch is then planned again, for the present server.",
            ) from cause

    def _require_unaltered(self, plan: Plan) -> SourceTable:
        """Return the table, with the columns that it was planned with.

        Raises:
            TableAltered: it has other columns by now, which the manifest would not show.
        """
        table = self._source.describe_table(self._settings.database, self._settings.table)
        if table.fingerprint != plan.draft.basis.schema:
            raise TableAltered(
                f"{table} was altered after batch {plan.id} was planned",
                hint="Run again: the batch is then planned again, with the present columns.",
            )
        return table

    def delete_files(self, files: Sequence[str]) -> None:
        """Delete files, and the quarantined rows of the same read: nothing else names those."""
        read_keys = {part.key for part in self._last_read.parts}
        quarantined = self._last_read.quarantined_parts if read_keys.issuperset(files) else ()
        self._parts.delete_objects([*files, *(part.key for part in quarantined)])


def _find_backlog(watermark: Watermark, settings: StreamSettings) -> str:
    """Return the reason to extract nothing while the warehouse is behind; empty if it is not, or there is none."""
    if settings.target is None:
        return ""
    most = settings.max_pending
    batches = watermark.required_extract_progress.batch_ids(after=watermark.load_progress.last_batch)
    if sum(1 for _ in islice(batches, most)) < most:
        return ""
    return WaitReason(
        f"{most:,} batches or more wait to be loaded, and max_pending allows no more; to load them:"
        f" syncd run -t {settings.name} --load-only",
        WaitKind.LOAD_BACKLOG,
    )


def _proposal_basis(watermark: Watermark) -> object:
    """Return the part of the document that a proposal depends on: not the revision, which the loader moves too."""
    return replace(watermark.required_extract_progress, extracted_at=None)
