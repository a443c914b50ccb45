"""Resolution of the target table: what its files need, what it lacks, and whether it is still the same table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from syncd.errors import SchemaDrift
from syncd.lake.batch_number import BATCH_COLUMN
from syncd.lake.manifest import Manifest, is_tombstone_batch
from syncd.lake.quarantine import parse_replay_fields
from syncd.redshift.control_tables import ControlTables
from syncd.redshift.ledger import StreamLedger, TargetTableChanged
from syncd.redshift.load_batches import earlier_batches
from syncd.redshift.order_ranges import emptied_windows
from syncd.redshift.quoting import TableRef
from syncd.redshift.session import WarehouseSession
from syncd.redshift.target_table import (
    DELETED_AT,
    ExistingTable,
    RequiredColumn,
    TableChanges,
    add_column_statements,
    applies_deletes,
    columns_query,
    create_table_statements,
    manual_type_change,
    marks_deletes,
    own_columns,
    parse_existing_table,
    plan_table_changes,
    require_no_ended_versions,
    required_columns,
    widen_column_statements,
)
from syncd.settings import MetadataColumn, Mode, TargetSettings
from watermarks.batch import BatchKind, BatchLink
from watermarks.loading import LoadCycle
from watermarks.progress import BEFORE_FIRST_BATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTarget:
    """Table of a warehouse that is kept equal to a stream, and how rows are loaded into it."""

    control_tables: ControlTables
    table: TableRef
    mode: Mode
    settings: TargetSettings
    copy_credentials: Callable[[], str]
    """Returns the clause of COPY for reading the lake."""
    statement_timeout: timedelta
    max_rows: int
    """The approximate number of rows in one transaction."""


class ColumnsTooNarrow(Exception):
    """Columns must be widened first, which no transaction can do."""

    def __init__(self, statements: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self.statements = statements
        """Each with the statements for an operator, for where it is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedTable:
    """A target that is ready for rows."""

    current: ExistingTable
    previous: ExistingTable | None = None
    """The target before its columns were added; None where it is new, or only loses rows."""


def preview_ddl(
    table: TableRef,
    existing: ExistingTable | None,
    manifests: Sequence[Manifest],
    settings: TargetSettings,
    mode: Mode,
    *,
    comment: str,
) -> tuple[str, ...]:
    """Return the statements that prepare a target for these files; texts that were not read yet count as narrow.

    Raises:
        SchemaDrift: the target needs a change that only an operator should make.
    """
    rows = [manifest for manifest in manifests if manifest.tombstones is None]
    if not rows:
        return ()
    # A replay has the columns of an older batch.
    rows.sort(key=lambda manifest: parse_replay_fields(manifest.plan) is None)
    wanted = (*required_columns(rows), *own_columns(rows[-1], settings, mode))
    if existing is None:
        return create_table_statements(table, wanted, settings, comment=comment)
    require_no_ended_versions(table, existing, mode)
    kept = _without_optional(wanted, existing, settings, mode)
    changes = plan_table_changes(table, existing, kept, newest_columns=required_columns([rows[-1]]))
    return (*widen_column_statements(table, changes.widen), *add_column_statements(table, changes.add))


def _without_optional(
    columns: Sequence[RequiredColumn], existing: ExistingTable, settings: TargetSettings, mode: Mode
) -> list[RequiredColumn]:
    """Leave out missing columns of ours that a table of another creator may lack."""
    demanded = {DELETED_AT, BATCH_COLUMN} if applies_deletes(settings, mode) else set[str]()
    return [
        column
        for column in columns
        if column.name in existing
        or not column.name.startswith("_syncd_")
        or mode is Mode.HISTORY
        or column.name in demanded
    ]


class TableResolver:
    """Resolver of one target inside one load transaction."""

    def __init__(self, target: LoadTarget, session: WarehouseSession, cycle: LoadCycle, ledger: StreamLedger) -> None:
        self._session = session
        self._run = partial(session.run, within=target.statement_timeout)
        self._table = target.table
        self._settings = target.settings
        self._mode = target.mode
        self._cycle = cycle
        self._ledger = ledger

    def require_unchanged(self) -> None:
        """Make sure, where nothing is due, that the table still is what was loaded."""
        if self._cycle.due_links or self._ledger.newest is None:
            return
        existing = self._read_table()
        self._ledger.require_same_table(self._table, exists=existing is not None)
        if existing is not None:
            self._require_rows(existing)

    def _require_rows(self, existing: ExistingTable) -> None:
        if self._mode is not Mode.REPLACE:
            self._ledger.require_rows(
                self._table, removes_rows=lambda link, rows: self._removes_rows(link, rows, existing)
            )

    def _removes_rows(self, link: BatchLink, rows: int, existing: ExistingTable) -> bool:
        """Return whether a batch removed rows from the target: by tombstones, or by a range that it read again.

        The ledger has no `rows` for tombstones that were loaded while deletes were ignored.
        """
        if is_tombstone_batch(link):
            settings, mode = self._settings, self._mode
            deletes = applies_deletes(settings, mode) and not marks_deletes(settings, mode)
            # Without a column for marks the rows were deleted, whatever the configuration says by now.
            return rows > 0 and (deletes or DELETED_AT not in existing)
        return self._mode is Mode.APPEND and bool(emptied_windows(link))

    def prepare(self, manifests: Sequence[Manifest], *, is_first_load: bool) -> ResolvedTable | None:
        """Prepare the target for rows; None where nothing has to be loaded into it.

        The first load of a process also checks that the table still has rows.

        Raises:
            ColumnsTooNarrow: nothing was done; its statements must be executed first.
            SchemaDrift: the target needs a change that only an operator should make.
            TargetTableChanged: the table is not the one that was loaded.
        """
        if rows := [manifest for manifest in manifests if manifest.tombstones is None]:
            return self._prepare_for_rows(rows, is_first_load=is_first_load)
        existing = self._read_table() if manifests else None
        if existing is None:
            return None  # a table that never had a row has none to delete
        self._ledger.require_same_table(self._table, exists=True)
        own = own_columns(manifests[-1], self._settings, self._mode)
        needed = _without_optional(own, existing, self._settings, self._mode)
        missing = [column for column in needed if column.name not in existing]
        return ResolvedTable(current=self._add_columns(missing) or existing)

    def _prepare_for_rows(self, manifests: Sequence[Manifest], *, is_first_load: bool) -> ResolvedTable:
        wanted = (*required_columns(manifests), *own_columns(manifests[-1], self._settings, self._mode))
        existing = self._read_table()
        self._ledger.require_same_table(self._table, exists=existing is not None)
        if existing is None:
            comment = f"{self._cycle.stream.table_name}, kept equal by syncd"
            for statement in create_table_statements(self._table, wanted, self._settings, comment=comment):
                self._run(statement)
            return ResolvedTable(current=self._require_table())
        require_no_ended_versions(self._table, existing, self._mode)
        if BATCH_COLUMN in existing and self._mode is not Mode.REPLACE:
            self._ledger.require_own_numbers(self._table)
        if is_first_load:
            self._require_rows(existing)
        changes = self._plan_changes(existing, _without_optional(wanted, existing, self._settings, self._mode))
        if changes.widen:
            remedies = (manual_type_change(self._table, column, existing) for column in changes.widen)
            statements = widen_column_statements(self._table, changes.widen)
            raise ColumnsTooNarrow(tuple(zip(statements, remedies, strict=True)))
        if changes.add:
            self._require_new_columns(changes.add)
        return ResolvedTable(current=self._add_columns(changes.add) or existing, previous=existing)

    def _plan_changes(self, existing: ExistingTable, wanted: Sequence[RequiredColumn]) -> TableChanges:
        """Return what the target lacks for the files, which may be older than a change of type in the target."""
        try:
            return plan_table_changes(self._table, existing, wanted)
        except SchemaDrift:
            newest = earlier_batches(self._cycle).manifest_before(self._cycle.extract_progress.next_batch)
            if newest is None:
                raise
            return plan_table_changes(self._table, existing, wanted, newest_columns=required_columns([newest]))

    def _require_new_columns(self, columns: Sequence[RequiredColumn]) -> None:
        """Make sure that columns which the table lacks are new to the files as well.

        Raises:
            SchemaDrift: the newest loaded batch had them, so they were dropped from the table.
        """
        link = self._newest_loaded_link()
        if link is None:
            return
        manifest = Manifest.from_link(link)
        own = own_columns(manifest, self._settings, self._mode)
        loaded_columns = {column.name for column in (*required_columns([manifest]), *own)}
        if dropped := [column for column in columns if column.name in loaded_columns - self._late_columns]:
            names = ", ".join(column.name for column in dropped)
            raise SchemaDrift(
                f"{self._table} no longer has the column {names}, with which batch {link.id} was loaded",
                hint=" ".join(f"{statement};" for statement in add_column_statements(self._table, dropped))
                + f"  Then, to fill it again: syncd watermark reset -t {self._cycle.stream.table} --redshift-only",
            )

    def _newest_loaded_link(self) -> BatchLink | None:
        newest = self._ledger.newest
        if newest is None:
            return None
        batches = filter(
            self._cycle.load_progress.expects_in_ledger,
            self._cycle.extract_progress.batch_ids_newest_first(up_to=newest, after=BEFORE_FIRST_BATCH),
        )
        links = map(self._cycle.chain.require_link, batches)
        # A replay has the columns of the batch that it brings back, which may be an old one.
        return next((link for link in links if link.kind not in {BatchKind.ABANDONED, BatchKind.REPLAY}), None)

    @property
    def _late_columns(self) -> set[str]:
        """Columns of ours that a table gets when the configuration starts to need them."""
        had_number = self._mode is Mode.HISTORY or MetadataColumn.BATCH in self._settings.notes
        return {DELETED_AT} if had_number else {DELETED_AT, BATCH_COLUMN}

    def _add_columns(self, columns: Sequence[RequiredColumn]) -> ExistingTable | None:
        """Add columns and return the new table; None where there are no columns."""
        for statement in add_column_statements(self._table, columns):
            self._run(statement)
        return self._require_table() if columns else None

    def _read_table(self) -> ExistingTable | None:
        return parse_existing_table(self._session.rows(columns_query(self._table)))

    def _require_table(self) -> ExistingTable:
        existing = self._read_table()
        if existing is None:
            raise TargetTableChanged(f"table {self._table} was dropped during the load")
        return existing
