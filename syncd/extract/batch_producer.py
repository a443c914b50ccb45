"""The extract stage: what it supplies to the order of effects of `watermarks.Extraction`."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Final, Protocol

from syncd.datatypes.columns import ColumnMapping
from syncd.datatypes.source_table import SourceTable
from syncd.errors import SchemaDrift, ServerChanged, SourceReplaced, TableAltered
from syncd.events import BatchPlanned, EventListener, RowsArrived
from syncd.extract.column_additions import find_added_columns, find_redeclared_columns, remade_table_events
from syncd.extract.delete_batches import find_delete_manifest
from syncd.extract.plan_rules import is_small
from syncd.lake.batch_number import batch_to_number
from syncd.lake.column_history import EarlierBatches
from syncd.lake.keys import batch_prefix, batch_quarantine_prefix
from syncd.lake.manifest import Manifest
from syncd.lake.window_reads import OrderField, ReadRequest, ReadResult, WindowQuery
from syncd.ports.source import BatchReader, PartStore, SourceDatabase
from syncd.settings import StreamSettings
from syncd.tables.column_changes import describe_columns
from syncd.tables.row_identity import resolve_identity
from syncd.tables.sort_order import CURSOR_NONE
from watermarks.batch import BatchDraft, BatchKind, BatchOutput, Plan
from watermarks.document import Watermark
from watermarks.names import StreamName


class BatchPlanner(Protocol):
    """Whoever decides what the next batch is, and how a sealed one is read."""

    @property
    def wait_reason(self) -> str:
        """What is in the way, where the last proposal was none; empty when everything was read."""
        ...

    @property
    def complete_before(self) -> datetime | None:
        """What was committed at the source before it is in the lake, as far as the last proposal tells."""
        ...

    def propose(self, watermark: Watermark) -> BatchDraft | None:
        """What the next batch should move; None when nothing is due now."""
        ...

    def is_plan_current(self, plan: Plan) -> bool:
        """Whether server, table and mark are those that the plan was made for."""
        ...

    def queries(self, plan: Plan, passages: Sequence[ColumnMapping]) -> tuple[WindowQuery, ...]:
        """The statements of a plan; the same ones whoever asks, and whenever."""
        ...

    def order_fields(self, plan: Plan, passages: Sequence[ColumnMapping]) -> tuple[OrderField, ...]:
        """The fields of those statements by which rows are held against their windows."""
        ...


class ExtractProducer:
    """Makes the content of one stream's batches: asks the planner, has Spark read, and writes the manifest down."""

    def __init__(
        self,
        *,
        stream: StreamName,
        settings: StreamSettings,
        source: SourceDatabase,
        planner: BatchPlanner,
        map_columns: Callable[[SourceTable, StreamSettings], tuple[ColumnMapping, ...]],
        reader: BatchReader,
        parts: PartStore,
        earlier_batches: EarlierBatches,
        nonce: Callable[[], str],
        emit: EventListener,
    ) -> None:
        self.stream: Final = stream
        self._settings = settings
        self._source = source
        self._planner = planner
        self._map_columns = map_columns
        self._reader = reader
        self._parts = parts
        self._earlier_batches = earlier_batches
        self._nonce = nonce
        self._emit = emit
        self._previewed_draft: tuple[object, BatchDraft] | None = None
        self._backlog = ""
        self._last_read = ReadResult(parts=())
        """What was read last."""

    @property
    def wait_reason(self) -> str:
        return self._backlog or self._planner.wait_reason

    @property
    def complete_before(self) -> datetime | None:
        return self._planner.complete_before

    def preview(self, watermark: Watermark) -> BatchDraft | None:
        """What there is to do. It is proposed again without another probe, if nothing has moved until then."""
        draft = self._propose_unless_backlogged(watermark)
        self._previewed_draft = (_proposal_basis(watermark), draft) if draft else None
        return draft

    def prepare(self, draft: BatchDraft) -> None:
        """Let the reader get ready for what is going to be sealed, while claim and plan are written."""
        if draft.windows:
            self._reader.prepare(little=is_small(draft))

    def propose_batch(self, watermark: Watermark) -> BatchDraft | None:
        looked, self._previewed_draft = self._previewed_draft, None
        if looked and looked[0] == _proposal_basis(watermark):
            return looked[1]
        return self._propose_unless_backlogged(watermark)

    def _propose_unless_backlogged(self, watermark: Watermark) -> BatchDraft | None:
        self._backlog = _backlog_reason(watermark, self._settings)
        return None if self._backlog else self._planner.propose(watermark)

    def is_plan_current(self, plan: Plan) -> bool:
        # A replay that was planned and not carried out reads nothing of MySQL: its rows wait for the next one.
        return plan.draft.kind is not BatchKind.REPLAY and self._planner.is_plan_current(plan)

    def write_files(self, plan: Plan) -> BatchOutput:
        settings = self._settings
        draft = plan.draft
        self._emit(
            BatchPlanned(
                stream=self.stream, batch=plan.id, kind=draft.kind, windows=len(draft.windows), high=draft.high
            )
        )
        if (buried := find_delete_manifest(plan)) is not None:
            return buried.to_filled()
        table = self._require_unaltered(plan)
        passages = self._map_columns(table, settings)
        identity = resolve_identity(table, settings, passages)
        reading = ReadRequest(
            queries=self._planner.queries(plan, passages),
            columns=passages,
            order=self._planner.order_fields(plan, passages),
            policies=settings.policies,
            server_identity=draft.basis.source_identity,
            part_prefix=batch_prefix(plan),
            quarantine_prefix=batch_quarantine_prefix(plan.stream, plan.id),
            batch_number=batch_to_number(draft.origin or plan.id),
            nonce=self._nonce(),
            identity_columns=frozenset(filter(None, (*identity.key, identity.cursor))),
            cursor=identity.cursor,
            is_small=is_small(draft),
        )
        read = self._last_read = self._read(plan, reading)
        if settings.target is None:
            # Where it lands, whoever moves the loaded mark tells it.
            for event in remade_table_events(plan):
                self._emit(event)
        before = self._previous_manifest(plan)
        declared = describe_columns(table, passages)
        manifest = Manifest.from_read(
            read,
            schema=draft.basis.schema,
            columns=passages,
            identity=identity,
            windows=() if draft.kind is BatchKind.SNAPSHOT else draft.windows,
            plan=draft.body,
            added_columns=find_added_columns(
                self._source, table, passages, settings.policies, before=before, batch=plan.id
            ),
            declarations=declared,
            redeclared_columns=find_redeclared_columns(plan, declared, before),
        )
        return manifest.to_filled()

    def _previous_manifest(self, plan: Plan) -> Manifest | None:
        """The batch with which the columns are compared; where every batch is the whole table, no older row counts."""
        return None if self._settings.cursor == CURSOR_NONE else self._earlier_batches.manifest_before(plan.id)

    def _read(self, plan: Plan, reading: ReadRequest) -> ReadResult:
        try:
            read = self._reader.read(reading, tell=lambda rows: self._report_rows(plan, rows))
        except SchemaDrift:
            self._require_unaltered(plan)
            raise
        except SourceReplaced as error:
            self._require_planned_server(plan, error)
            raise
        # Windows are read one after the other: between two of them a column may have become another type, whose values
        # the statements of the plan would bend to the old one without a word.
        try:
            self._require_unaltered(plan)
        except TableAltered:
            self._parts.delete_objects([part.key for part in (*read.parts, *read.quarantined_parts)])
            raise
        return read

    def _require_planned_server(self, plan: Plan, cause: SourceReplaced) -> None:
        """Make sure that the plan's server still is where the address leads, though a reading met another one there.

        Raises:
            AnotherServer: it was asked over what had been open for a while, and is not.
        """
        self._source.discard_connections()
        if not self._planner.is_plan_current(plan):
            raise ServerChanged(
                f"another server answers than the one that batch {plan.id} was planned for",
                hint="Run again: the batch is planned anew, for the server of now.",
            ) from cause

    def _require_unaltered(self, plan: Plan) -> SourceTable:
        """The table, with the columns that it was planned with.

        Raises:
            TableAltered: it has others by now, which the manifest would not tell.
        """
        table = self._source.describe_table(self._settings.database, self._settings.table)
        if table.fingerprint != plan.draft.basis.schema:
            raise TableAltered(
                f"{table} was altered after batch {plan.id} of it was planned",
                hint="Run again: the batch is planned anew, with the columns of now.",
            )
        return table

    def delete_files(self, files: Sequence[str]) -> None:
        """Remove files, and what was put aside while they were written: it is named where they are, or nowhere."""
        ours = {part.key for part in self._last_read.parts}
        aside = self._last_read.quarantined_parts if ours.issuperset(files) else ()
        self._parts.delete_objects([*files, *(part.key for part in aside)])

    def _report_rows(self, plan: Plan, rows: int) -> None:
        self._emit(RowsArrived(stream=self.stream, batch=plan.id, rows=rows))


def _backlog_reason(watermark: Watermark, settings: StreamSettings) -> str:
    """Why nothing more is extracted while the warehouse is behind; empty where it is not, or there is none."""
    if settings.target is None:
        return ""
    most = settings.max_pending
    pending = sum(
        1 for _ in islice(watermark.required_extract_progress.batch_ids(after=watermark.load_progress.last_batch), most)
    )
    if pending < most:
        return ""
    return (
        f"{most:,} batches or more wait to be loaded, and max_pending allows no more:"
        f" syncd run -t {settings.name} --load-only"
    )


def _proposal_basis(watermark: Watermark) -> object:
    """What a proposal depends on in the document: not the revision, which the loader moves too."""
    return replace(watermark.required_extract_progress, extracted_at=None)
