"""One transaction that lands what is due: lock, ledger, COPY, newest version of each row, ledger again, commit."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from typing import Final

from syncd.errors import FileRefused, SchemaDrift, WarehouseUnfit
from syncd.lake.batch_number import BATCH_COLUMN, SEQ_LIMIT, batch_from_number
from syncd.lake.column_history import EarlierBatches
from syncd.lake.keys import copy_manifest_key
from syncd.lake.manifest import Manifest, identity_from_link, is_tombstone_batch
from syncd.lake.tombstones import Tombstones
from syncd.ports.source import CopyLake
from syncd.redshift.apply_statements import LoadSqlBuilder, fill_added_columns, later_tombstones_query, load_statements
from syncd.redshift.column_types import TargetType
from syncd.redshift.control_tables import ControlTables
from syncd.redshift.copy_statement import ScratchLoad, copy_manifest_body, group_loads
from syncd.redshift.delete_statements import delete_statements
from syncd.redshift.ledger import StreamLedger, TargetTableChanged
from syncd.redshift.order_ranges import EarlierRowRanges, emptied_windows
from syncd.redshift.quoting import TableRef
from syncd.redshift.reload_check import ReloadCheck
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
from syncd.tables.column_defaults import AddedColumn
from syncd.tables.column_mapping import fold_name
from watermarks.batch import BatchId, BatchKind, BatchLink
from watermarks.loading import LoadCycle, require_fence
from watermarks.progress import BEFORE_FIRST_BATCH

MAX_LINKS_PER_TRANSACTION: Final = 1_000
"""Of one transaction: a statement takes 16 MB, and the ledger's names each."""


class ControlTablesMissing(WarehouseUnfit):
    """Fence or ledger are not there: never made, or dropped by somebody."""


class ColumnsTooNarrow(Exception):
    """Columns have to be widened first, which no transaction may do."""

    def __init__(self, statements: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self.statements = statements
        """Each with those by which a person widens the column where it is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTarget:
    """Which table of which warehouse is kept equal to which stream, and how."""

    control_tables: ControlTables
    table: TableRef
    mode: Mode
    settings: TargetSettings
    copy_credentials: Callable[[], str]
    """The words by which COPY may read the lake."""
    statement_timeout: timedelta
    max_rows: int
    """About so many rows are landed in one transaction."""


@contextmanager
def transaction(session: WarehouseSession) -> Iterator[None]:
    """A transaction that is rolled back unless it was committed."""
    session.begin()
    try:
        yield
    finally:
        session.rollback()


@contextmanager
def detect_missing_tables() -> Iterator[None]:
    """Tell tables of our own that are not there from everything else that a warehouse refuses.

    Raises:
        ControlsMissing: one of them is not.
    """
    try:
        yield
    except WarehouseUnfit as error:
        if "does not exist" not in error.message:
            raise
        raise ControlTablesMissing(error.message, hint=error.hint) from error


def lock_fence(session: WarehouseSession, target: LoadTarget) -> int | None:
    """The epoch in the fence, read under its lock; LOCK takes no snapshot, so that all that follows sees the newest.

    It waits no longer than a short statement may: whoever had the right to hold it is
    done, or was ended, and a session that came in between is to be ended as well.
    """
    with detect_missing_tables():
        session.run(target.control_tables.lock_statement)
    [(epoch,)] = session.rows(target.control_tables.epoch_query)
    return None if epoch is None else int(epoch)


class LoadTransaction:
    """One transaction for one cycle."""

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
        """Prepare; the `first` landing of a process looks at the table more closely."""
        self._target = target
        self._session = session
        self._cycle = cycle
        self._lake_files = lake_files
        self._reload_check = reload_check
        self._nonce = nonce
        self._manifest_of = manifest_of
        self._is_first_load = is_first_load
        self.existing = ExistingTable()
        """The target, as it was when rows came to it."""
        self._previous: ExistingTable | None = None
        """The target before it was changed for them."""
        self.links: tuple[BatchLink, ...] = ()
        """What is landed."""
        self.loads: tuple[ScratchLoad, ...] = ()
        self.is_copying = False
        """Whether COPY is at work."""

    def execute(self) -> Mapping[BatchId, int]:
        """Land what the ledger lacks, and say what it holds now.

        Raises:
            TooNarrow: nothing was done; the statements it holds come first.
            ControlsMissing: nothing was done; fence and ledger are to be made first.
        """
        with transaction(self._session):
            stored = lock_fence(self._session, self._target)
            rises = require_fence(-1 if stored is None else stored, self._cycle.epoch, was_raised=self._cycle.is_fenced)
            for statement in self._target.control_tables.raise_fence_statements(self._cycle.epoch) if rises else ():
                self._session.run(statement)
            with detect_missing_tables():
                ledger = StreamLedger(self._session, self._target.control_tables, self._cycle)
            links = self.links = self._links_to_load(ledger)
            if not links:
                self._check_table(ledger)
                if rises:
                    self._session.commit()
                return ledger.rows()
            rows = self._load(links, ledger)
            self._run(
                self._target.control_tables.insert_entries_statement(self._cycle, links, rows, table=self._target.table)
            )
            self._session.commit(within=self._target.statement_timeout)
        return {**ledger.rows(), **{link.id: count for link, count in zip(links, rows, strict=True)}}

    def _links_to_load(self, ledger: StreamLedger) -> tuple[BatchLink, ...]:
        # Before the first of them: they may take several transactions, and shall not end in the middle.
        self._reload_check.require_intact_files(self._cycle.find_lost_batches(ledger), self._cycle.chain)
        return tuple(self._fit_transaction(islice(self._cycle.links_to_load(ledger), MAX_LINKS_PER_TRANSACTION)))

    def _fit_transaction(self, links: Iterable[BatchLink]) -> Iterator[BatchLink]:
        """The first of the links, so many that their rows fit into one transaction; one at least.

        They tell rows apart by the same columns: by those of another key, some would pass for one, or have no such
        column at all. In a table that appends none reads a range again in which another one's rows may lie: what it did
        not find there would come with the other's, for all ranges are emptied before any row comes.
        """
        if self._target.mode is Mode.REPLACE:
            yield from links  # of whole tables, the rows of one land
            return
        rows, known, before, ended, buried = 0, None, EarlierRowRanges(), False, BEFORE_FIRST_BATCH
        for number, link in enumerate(links):
            rows += link.rows
            mine = identity_from_link(link) or known
            if number and (rows > self._target.max_rows or (known is not None and mine != known)):
                return
            if link.rank < buried:
                return  # what tombstones meet is what stands there when they land: no row of this replay yet
            buried = link.id if self._applies_deletes and is_tombstone_batch(link) else buried
            if self._target.mode is Mode.HISTORY:
                if ended and link.rows and not is_tombstone_batch(link):
                    return  # which version tombstones end is what stands there when they land
                ended = ended or (self._applies_deletes and is_tombstone_batch(link))
            if self._target.mode is Mode.APPEND:
                if before.are_reread_by(link):
                    return
                before.add(link)
            known = mine
            yield link

    def _check_table(self, ledger: StreamLedger) -> None:
        """Where nothing is to be done but to compare, see whether the table still is what it was."""
        if self._cycle.due_links or ledger.newest is None:
            return
        self._previous = self._read_table()
        there = self._previous is not None
        ledger.require_same_table(self._target.table, exists=there)
        if there and self._target.mode is not Mode.REPLACE:
            ledger.require_rows(self._target.table, removes_rows=self._removes_rows)

    def _load(self, links: Sequence[BatchLink], ledger: StreamLedger) -> list[int]:
        """Make the rows of these batches part of the target; how many each of them brought."""
        read = [(link, self._manifest_of(link)) for link in links if link.kind is not BatchKind.ABANDONED]
        if self._target.mode is Mode.REPLACE:
            read = [(link, manifest) for link, manifest in read if manifest.is_whole_table][
                -1:
            ]  # the newest is all of it
        elif wholes := [link.id for link, manifest in read if manifest.is_whole_table and manifest.parts]:
            raise SchemaDrift(
                f"{self._cycle.stream}: batch {wholes[0]} is the whole table without a key, and {self._target.mode}"
                " needs one",
                hint="The mode was changed. Leave out what was read without a key, and read the table anew:"
                f" syncd watermark set -t {self._cycle.stream.table} --redshift-only --preset now; then"
                f" syncd watermark reset -t {self._cycle.stream.table} --mysql-only",
            )
        read = [(link, manifest) for link, manifest in read if manifest.tombstones is None or self._applies_deletes]
        # What a replay brings back was read with the columns of then, whenever it lands.
        ranked = sorted(read, key=lambda each: each[0].rank)
        found = self._prepare_table([manifest for _, manifest in ranked], ledger)
        if found is None:
            return [0 for _ in links]
        self.existing = found
        loads = self.loads = group_loads(*zip(*read, strict=True))
        for load in loads:
            self._copy(load)
        landing = LoadSqlBuilder(
            table=self._target.table,
            existing=found,
            loads=tuple(load for load in loads if not load.has_deleted_keys),
            delete_loads=tuple(load for load in loads if load.has_deleted_keys),
            read_batches=tuple(read),
            added_columns=self._added_columns(read),
            reloaded_upto=ledger.newest_ever if links[0].id <= ledger.newest_ever else None,
        )
        landing = replace(landing, later_tombstones=self._later_tombstones(landing))
        for statement in self._statements(landing, links):
            self._run(statement)
        for load in loads:
            self._run(load.drop_statement)
        brought = {link.id: manifest.rows for link, manifest in read}
        return [brought.get(link.id, 0) for link in links]

    def _later_tombstones(self, landing: LoadSqlBuilder) -> Mapping[BatchId, Tombstones]:
        """The tombstones that came before a replay and mean its rows too; asked for where one lands only.

        A row whose number is of no tombstones of this chain, or of some by another order, is as new as it says.
        """
        place = self._target
        if (
            not landing.replay_loads
            or not marks_deletes(place.settings, place.mode)
            or DELETED_AT not in landing.existing
        ):
            return {}
        told = sorted(int(number) for (number,) in self._session.rows(later_tombstones_query(landing)))
        batches = filter(
            self._cycle.extract_progress.has_batch,
            (batch_from_number(number) for number in told if number >= SEQ_LIMIT),
        )
        links = ((batch, self._cycle.chain.read_link(batch)) for batch in batches)
        manifests = ((batch, Manifest.from_link(link)) for batch, link in links if link and is_tombstone_batch(link))
        return {
            batch: manifest.tombstones
            for batch, manifest in manifests
            if manifest.tombstones and manifest.identity == landing.identity
        }

    def _added_columns(self, read: Sequence[tuple[BatchLink, Manifest]]) -> Mapping[str, AddedColumn]:
        """The columns that rows of this landing can lack; the newest batch knows best."""
        found: dict[str, AddedColumn] = {}
        for link, manifest in read:
            told: Manifest | None = manifest
            if link.kind is BatchKind.REPLAY:  # it has the columns of its rows, and knows of none that came after them
                told = EarlierBatches(
                    links=self._cycle.chain, get_progress=lambda: self._cycle.extract_progress
                ).manifest_before(link.id)
            found |= told.added_columns if told else {}
        return found

    def _statements(self, landing: LoadSqlBuilder, links: Sequence[BatchLink]) -> Iterator[str]:
        place = self._target
        if self._previous is not None and place.mode is not Mode.REPLACE:
            yield from fill_added_columns(landing, [link.id for link in links], previous=self._previous)
        yield from load_statements(landing, place.mode)
        yield from delete_statements(landing, place.mode, place.settings.deletes)

    @property
    def _applies_deletes(self) -> bool:
        return applies_deletes(self._target.settings, self._target.mode)

    def _removes_rows(self, link: BatchLink, rows: int) -> bool:
        """Whether a batch took rows out of the target: its tombstones did, or the range that it has read again.

        The `rows` by which it stands in the ledger are none where tombstones landed while deletes were ignored.
        """
        place = self._target
        if is_tombstone_batch(link):
            deletes = self._applies_deletes and not marks_deletes(place.settings, place.mode)
            # What has no column for marks was deleted, whatever the configuration says by now.
            unmarked = self._previous is not None and DELETED_AT not in self._previous
            return rows > 0 and (deletes or unmarked)
        return place.mode is Mode.APPEND and bool(emptied_windows(link))

    def _prepare_table(self, manifests: Sequence[Manifest], ledger: StreamLedger) -> ExistingTable | None:
        """The target as rows may come to it; None where nothing has to be done there."""
        if rows := [manifest for manifest in manifests if manifest.tombstones is None]:
            return self._reconcile_table(rows, ledger)
        found = self._read_table() if manifests else None
        if found is None:
            return None  # where no row has ever landed, none is gone
        ledger.require_same_table(self._target.table, exists=True)
        lacking = [column for column in self._own_columns(manifests[-1]) if column.name not in found]
        return self._add_columns([column for column in lacking if not self._is_optional(column)]) or found

    def _add_columns(self, columns: Sequence[RequiredColumn]) -> ExistingTable | None:
        """The target with these columns more; None where there are none."""
        for statement in add_column_statements(self._target.table, columns):
            self._run(statement)
        return self._require_table() if columns else None

    def _reconcile_table(self, manifests: Sequence[Manifest], ledger: StreamLedger) -> ExistingTable:
        """The target with every column that the files have."""
        place = self._target
        wanted = (*required_columns(manifests), *self._own_columns(manifests[-1]))
        found = self._previous = self._read_table()
        ledger.require_same_table(place.table, exists=found is not None)
        if found is None:
            about = f"{self._cycle.stream.table_name}, kept equal by syncd"
            for statement in create_table_statements(place.table, wanted, place.settings, comment=about):
                self._run(statement)
            return self._require_table()
        require_no_ended_versions(place.table, found, place.mode)
        if BATCH_COLUMN in found and place.mode is not Mode.REPLACE:
            ledger.require_own_numbers(place.table)
        if self._is_first_load and place.mode is not Mode.REPLACE:
            ledger.require_rows(place.table, removes_rows=self._removes_rows)
        kept = [column for column in wanted if column.name in found or not self._is_optional(column)]
        lacking = self._plan_changes(found, kept)
        if lacking.widen:
            remedies = (manual_type_change(place.table, column, found) for column in lacking.widen)
            raise ColumnsTooNarrow(
                tuple(zip(widen_column_statements(place.table, lacking.widen), remedies, strict=True))
            )
        if lacking.add:
            self._require_new_columns(lacking.add, ledger.newest)
        return self._add_columns(lacking.add) or found

    def _plan_changes(self, existing: ExistingTable, wanted: Sequence[RequiredColumn]) -> TableChanges:
        """What the target lacks for the files; they may be older than a change of type that it has been through."""
        table = self._target.table
        try:
            return plan_table_changes(table, existing, wanted)
        except SchemaDrift:
            newest = EarlierBatches(links=self._cycle.chain, get_progress=lambda: self._cycle.extract_progress)
            if (manifest := newest.manifest_before(self._cycle.extract_progress.next_batch)) is None:
                raise
            return plan_table_changes(table, existing, wanted, newest_columns=required_columns([manifest]))

    def _require_new_columns(self, columns: Sequence[RequiredColumn], newest: BatchId | None) -> None:
        """Make sure that columns which are to be added are new to the files as well.

        Raises:
            SchemaDrift: what has landed had them, and somebody took them out of the table.
        """
        if newest is None:
            return
        before = filter(
            self._cycle.load_progress.expects_in_ledger,
            self._cycle.extract_progress.batch_ids_newest_first(up_to=newest, after=BEFORE_FIRST_BATCH),
        )
        links = map(self._cycle.chain.require_link, before)
        # A replay has the columns of the batch that it brings back, which may be an old one.
        landed = next((link for link in links if link.kind not in {BatchKind.ABANDONED, BatchKind.REPLAY}), None)
        if landed is None:
            return
        manifest = Manifest.from_link(landed)
        names = {
            column.name for column in (*required_columns([manifest]), *self._own_columns(manifest))
        } - self._late_columns
        if gone := [column for column in columns if column.name in names]:
            table = self._target.table
            listed = ", ".join(column.name for column in gone)
            raise SchemaDrift(
                f"{table} has no column {listed} any more, and {landed.id} landed with it",
                hint=" ".join(f"{statement};" for statement in add_column_statements(table, gone))
                + f"  Then, to fill it again: syncd watermark reset -t {self._cycle.stream.table} --redshift-only",
            )

    def _own_columns(self, manifest: Manifest) -> tuple[RequiredColumn, ...]:
        cursor = next((each for each in manifest.columns if each.name == manifest.identity.cursor), None)
        return own_columns(
            self._target.settings, self._target.mode, TargetType.from_text(cursor.redshift) if cursor else None
        )

    def _is_optional(self, column: RequiredColumn) -> bool:
        """Whether a table that somebody else made may go without it."""
        demanded = self._target.mode is Mode.HISTORY or (
            self._applies_deletes and column.name in {DELETED_AT, BATCH_COLUMN}
        )
        return column.name.startswith("_syncd_") and not demanded

    @property
    def _late_columns(self) -> set[str]:
        """Columns of our own that a table gets when the configuration begins to ask for them."""
        place = self._target
        had = place.mode is Mode.HISTORY or MetadataColumn.BATCH in place.settings.notes
        return {DELETED_AT} if had else {DELETED_AT, BATCH_COLUMN}

    def _read_table(self) -> ExistingTable | None:
        return parse_existing_table(self._session.rows(columns_query(self._target.table)))

    def _require_table(self) -> ExistingTable:
        found = self._read_table()
        if found is None:
            raise TargetTableChanged(f"{self._target.table} was there, and is not there any more")
        return found

    def _copy(self, load: ScratchLoad) -> None:
        places = ((self._lake_files.address_of(part.key), part.bytes) for part in load.parts)
        key = copy_manifest_key(self._cycle.stream, load.links[-1].id, self._nonce())
        self._lake_files.put(key, copy_manifest_body(places))
        self._run(load.create_statement(distkey=fold_name(self._target.settings.distkey or "")))
        self.is_copying = True
        self._run(load.copy_statement(self._lake_files.address_of(key), self._target.copy_credentials()))
        self.is_copying = False
        [(count,)] = self._session.rows("SELECT PG_LAST_COPY_COUNT()")
        if count != load.rows:
            batches = " to ".join(dict.fromkeys(str(link.id) for link in (load.links[0], load.links[-1])))
            raise FileRefused(
                f"{self._cycle.stream}: the files of {batches} hold {count} rows, their manifests say {load.rows}",
                hint="Was a file replaced? See which: syncd audit",
            )

    def _run(self, statement: str) -> None:
        self._session.run(statement, within=self._target.statement_timeout)
