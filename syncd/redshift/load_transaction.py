"""Load of the due batches in one transaction: lock the fence, read the ledger, copy, apply, enter, commit."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice

from syncd.errors import FileRefused, WarehouseUnfit
from syncd.lake.batch_number import SEQ_LIMIT, batch_from_number
from syncd.lake.manifest import Manifest, Tombstones, is_tombstone_batch
from syncd.lake.object_keys import copy_manifest_key
from syncd.ports.source import CopyLake
from syncd.redshift.apply_statements import fill_added_columns, later_tombstones_query, load_statements
from syncd.redshift.delete_statements import delete_statements
from syncd.redshift.error_table import ObjectMissing
from syncd.redshift.ledger import StreamLedger
from syncd.redshift.load_batches import (
    MAX_LINKS_PER_TRANSACTION,
    ReadBatches,
    ReloadCheck,
    added_columns,
    fit_transaction,
    select_loaded,
)
from syncd.redshift.load_sql import LoadSqlBuilder
from syncd.redshift.scratch_tables import ScratchLoad, ScratchRows, copy_manifest_body, group_loads
from syncd.redshift.session import WarehouseSession
from syncd.redshift.target_resolver import LoadTarget, ResolvedTable, TableResolver
from syncd.redshift.target_table import DELETED_AT, ExistingTable, applies_deletes, marks_deletes
from syncd.settings import Mode
from syncd.tables.column_mapping import fold_name
from watermarks.batch import BatchId, BatchKind, BatchLink
from watermarks.loading import LoadCycle, require_fence


class ControlTablesMissing(WarehouseUnfit):
    """The fence or the ledger does not exist: it was never created, or was dropped."""


@contextmanager
def transaction(session: WarehouseSession) -> Iterator[None]:
    """Open a transaction, and roll it back unless it was committed."""
    session.begin()
    try:
        yield
    finally:
        session.rollback()


class LoadTransaction:
    """One transaction of one load cycle."""

    def __init__(
        self,
        target: LoadTarget,
        session: WarehouseSession,
        cycle: LoadCycle,
        *,
        lake_files: CopyLake,
        reload_check: ReloadCheck,
        nonce: Callable[[], str],
        manifest_of: Callable[[BatchLink], Manifest],
        is_first_load: bool,
    ) -> None:
        self._target = target
        self._session = session
        self._run = partial(session.run, within=target.statement_timeout)
        self._cycle = cycle
        self._lake_files = lake_files
        self._reload_check = reload_check
        self._nonce = nonce
        self._manifest_of = manifest_of
        self._is_first_load = is_first_load
        self._applies_deletes = applies_deletes(target.settings, target.mode)
        self.existing = ExistingTable()
        """The target that rows were loaded into."""
        self.links: tuple[BatchLink, ...] = ()
        """The loaded batches."""
        self.loads: tuple[ScratchLoad, ...] = ()
        self.is_copying = False
        """True while COPY runs, and after it failed."""

    def execute(self) -> Mapping[BatchId, int]:
        """Load the batches that the ledger lacks; return the row counts of the batches that it holds now.

        Raises:
            ColumnsTooNarrow: nothing was done; its statements must be executed first.
            ControlTablesMissing: nothing was done; fence and ledger must be created first.
        """
        tables = self._target.control_tables
        with transaction(self._session):
            try:
                raised = self._raise_fence()
                ledger = StreamLedger(self._session, tables, self._cycle)
            except ObjectMissing as error:
                raise ControlTablesMissing(error.message, hint=error.hint) from error
            resolver = TableResolver(self._target, self._session, self._cycle, ledger)
            links = self.links = self._links_to_load(ledger)
            if not links:
                resolver.require_unchanged()
                if raised:
                    self._session.commit()
                return ledger.rows()
            rows = self._load(links, ledger, resolver)
            self._run(tables.insert_entries_statement(self._cycle, links, rows, table=self._target.table))
            self._session.commit(within=self._target.statement_timeout)
        return {**ledger.rows(), **{link.id: count for link, count in zip(links, rows, strict=True)}}

    def _raise_fence(self) -> bool:
        """Lock the fence, and raise it to the epoch of the cycle; return whether it was lower.

        LOCK takes no snapshot, so every later statement sees the newest state. It waits no longer than a short
        statement: an earlier owner is done or was ended, and a session that came in between must be ended as well.
        """
        tables, epoch = self._target.control_tables, self._cycle.epoch
        self._session.run(tables.lock_statement)
        [(stored,)] = self._session.rows(tables.epoch_query)
        rises = require_fence(-1 if stored is None else int(stored), epoch, was_raised=self._cycle.is_fenced)
        for statement in tables.raise_fence_statements(epoch) if rises else ():
            self._session.run(statement)
        return rises

    def _links_to_load(self, ledger: StreamLedger) -> tuple[BatchLink, ...]:
        # Before the first of them: they may take several transactions, which must not stop in the middle.
        self._reload_check.require_intact_files(self._cycle.find_lost_batches(ledger), self._cycle.chain)
        links = islice(self._cycle.links_to_load(ledger), MAX_LINKS_PER_TRANSACTION)
        target = self._target
        return tuple(
            fit_transaction(links, target.mode, applies_deletes=self._applies_deletes, max_rows=target.max_rows)
        )

    def _load(self, links: Sequence[BatchLink], ledger: StreamLedger, resolver: TableResolver) -> list[int]:
        """Resolve the target, copy the files, apply the rows; return the row count of each batch."""
        manifests_by_link = [(link, self._manifest_of(link)) for link in links if link.kind is not BatchKind.ABANDONED]
        read = select_loaded(manifests_by_link, self._target.mode, applies_deletes=self._applies_deletes)
        # A replay has the columns of the batch that first read its rows.
        manifests = [manifest for _, manifest in sorted(read, key=lambda batch: batch[0].rank)]
        table = resolver.prepare(manifests, is_first_load=self._is_first_load)
        if table is None:
            return [0 for _ in links]
        self.existing = table.current
        self.loads = group_loads(*zip(*read, strict=True))
        for load in self.loads:
            self._copy(load)
        self._apply(self._make_sql(read, ledger), table)
        counts = {link.id: manifest.rows for link, manifest in read}
        return [counts.get(link.id, 0) for link in links]

    def _copy(self, load: ScratchLoad) -> None:
        """Copy the files of one load into its scratch table."""
        files = ((self._lake_files.address_of(part.key), part.bytes) for part in load.parts)
        key = copy_manifest_key(self._cycle.stream, load.links[-1].id, self._nonce())
        self._lake_files.put(key, copy_manifest_body(files))
        self._run(load.create_statement(distkey=fold_name(self._target.settings.distkey or "")))
        self.is_copying = True
        self._run(load.copy_statement(self._lake_files.address_of(key), self._target.copy_credentials()))
        self.is_copying = False
        [(count,)] = self._session.rows("SELECT PG_LAST_COPY_COUNT()")
        if count != load.rows:
            batches = " to ".join(dict.fromkeys(str(link.id) for link in (load.links[0], load.links[-1])))
            raise FileRefused(
                f"{self._cycle.stream}: the files of {batches} contain {count} rows, but their manifests say"
                f" {load.rows}",
                hint="A file was probably replaced. To find it: syncd audit",
            )

    def _make_sql(self, read: ReadBatches, ledger: StreamLedger) -> LoadSqlBuilder:
        newest_ever = ledger.newest_ever
        sql = LoadSqlBuilder(
            table=self._target.table,
            scratch=ScratchRows(
                existing=self.existing,
                loads=tuple(load for load in self.loads if not load.has_deleted_keys),
                delete_loads=tuple(load for load in self.loads if load.has_deleted_keys),
                added_columns=added_columns(read, self._cycle),
            ),
            read_batches=tuple(read),
            reloaded_upto=newest_ever if self.links[0].id <= newest_ever else None,
        )
        return replace(sql, later_tombstones=self._later_tombstones(sql))

    def _later_tombstones(self, sql: LoadSqlBuilder) -> Mapping[BatchId, Tombstones]:
        """Return the tombstones that were loaded before a replay and apply to its rows; only replays need them.

        A number that belongs to no tombstones of this chain and order only says when a row was read.
        """
        target = self._target
        marks = marks_deletes(target.settings, target.mode) and DELETED_AT in sql.existing
        if not sql.replay_loads or not marks:
            return {}
        numbers = sorted(int(number) for (number,) in self._session.rows(later_tombstones_query(sql)))
        batches = (batch_from_number(number) for number in numbers if number >= SEQ_LIMIT)
        later: dict[BatchId, Tombstones] = {}
        for batch in filter(self._cycle.extract_progress.has_batch, batches):
            link = self._cycle.chain.read_link(batch)
            if link is None or not is_tombstone_batch(link):
                continue
            manifest = Manifest.from_link(link)
            if manifest.tombstones and manifest.identity == sql.identity:
                later[batch] = manifest.tombstones
        return later

    def _apply(self, sql: LoadSqlBuilder, table: ResolvedTable) -> None:
        """Make the rows of the scratch tables part of the target."""
        target = self._target
        if table.previous is not None and target.mode is not Mode.REPLACE:
            loaded = [link.id for link in self.links]
            for statement in fill_added_columns(sql, loaded, previous=table.previous):
                self._run(statement)
        for statement in load_statements(sql, target.mode):
            self._run(statement)
        for statement in delete_statements(sql, target.mode, target.settings.deletes):
            self._run(statement)
        for load in self.loads:
            self._run(load.drop_statement)
