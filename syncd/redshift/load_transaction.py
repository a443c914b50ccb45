"""One transaction that lands what is due: lock, ledger, COPY, newest version of each row, ledger again, commit."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from typing import Final

from syncd.errors import FileRefused, SchemaDrift, WarehouseUnfit
from syncd.lake.batch_number import COLUMN, SEQS, batch_of
from syncd.lake.column_history import Earlier
from syncd.lake.keys import copy_key
from syncd.lake.manifest import Manifest, identity_in, is_burial
from syncd.lake.tombstones import Tombstones
from syncd.ports.source import Lists
from syncd.redshift.apply_statements import Landing, filled, statements, traces_statement
from syncd.redshift.column_types import TargetType
from syncd.redshift.control_tables import Controls
from syncd.redshift.copy_statement import Load, loads_of, manifest_body
from syncd.redshift.delete_statements import buried
from syncd.redshift.ledger import Ledger, OtherTable
from syncd.redshift.order_ranges import RowsBefore, emptied_by
from syncd.redshift.quoting import TableRef
from syncd.redshift.reload_check import Proofs
from syncd.redshift.session import Session
from syncd.redshift.target_table import (
    DELETED_AT,
    Changes,
    Found,
    Wanted,
    add_statements,
    buries,
    by_hand,
    changes,
    create_statements,
    found_of,
    found_statement,
    marks,
    noted,
    require_no_ends,
    wanted_columns,
    widen_statements,
)
from syncd.settings import Mode, Note, TargetSettings
from syncd.tables.column_defaults import Added
from syncd.tables.column_mapping import folded
from watermarks.batch import BatchId, Kind, Link
from watermarks.loading import Cycle, require_fence
from watermarks.progress import ORIGIN

MOST_LINKS: Final = 1_000
"""Of one transaction: a statement takes 16 MB, and the ledger's names each."""


class ControlsMissing(WarehouseUnfit):
    """Fence or ledger are not there: never made, or dropped by somebody."""


class TooNarrow(Exception):
    """Columns have to be widened first, which no transaction may do."""

    def __init__(self, statements: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self.statements = statements
        """Each with those by which a person widens the column where it is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which table of which warehouse is kept equal to which stream, and how."""

    controls: Controls
    table: TableRef
    mode: Mode
    settings: TargetSettings
    credentials: Callable[[], str]
    """The words by which COPY may read the lake."""
    longest: timedelta
    most_rows: int
    """About so many rows are landed in one transaction."""


@contextmanager
def transaction(session: Session) -> Iterator[None]:
    """A transaction that is rolled back unless it was committed."""
    session.begin()
    try:
        yield
    finally:
        session.rollback()


@contextmanager
def expected() -> Iterator[None]:
    """Tell tables of our own that are not there from everything else that a warehouse refuses.

    Raises:
        ControlsMissing: one of them is not.
    """
    try:
        yield
    except WarehouseUnfit as error:
        if "does not exist" not in error.message:
            raise
        raise ControlsMissing(error.message, hint=error.hint) from error


def locked(session: Session, place: Place) -> int | None:
    """The epoch in the fence, read under its lock; LOCK takes no snapshot, so that all that follows sees the newest.

    It waits no longer than a short statement may: whoever had the right to hold it is
    done, or was ended, and a session that came in between is to be ended as well.
    """
    with expected():
        session.run(place.controls.lock)
    [(epoch,)] = session.rows(place.controls.epoch)
    return None if epoch is None else int(epoch)


class Attempt:
    """One transaction for one cycle."""

    def __init__(
        self,
        place: Place,
        session: Session,
        cycle: Cycle,
        *,
        lists: Lists,
        proofs: Proofs,
        nonce: Callable[[], str],
        manifest: Callable[[Link], Manifest],
        first: bool,
    ) -> None:
        """Prepare; the `first` landing of a process looks at the table more closely."""
        self._place = place
        self._session = session
        self._cycle = cycle
        self._lists = lists
        self._proofs = proofs
        self._nonce = nonce
        self._manifest = manifest
        self._first = first
        self.found = Found()
        """The target, as it was when rows came to it."""
        self._stood: Found | None = None
        """The target before it was changed for them."""
        self.links: tuple[Link, ...] = ()
        """What is landed."""
        self.loads: tuple[Load, ...] = ()
        self.copies = False
        """Whether COPY is at work."""

    def landed(self) -> Mapping[BatchId, int]:
        """Land what the ledger lacks, and say what it holds now.

        Raises:
            TooNarrow: nothing was done; the statements it holds come first.
            ControlsMissing: nothing was done; fence and ledger are to be made first.
        """
        with transaction(self._session):
            stored = locked(self._session, self._place)
            rises = require_fence(-1 if stored is None else stored, self._cycle.epoch, fenced=self._cycle.fenced)
            for statement in self._place.controls.raised(self._cycle.epoch) if rises else ():
                self._session.run(statement)
            with expected():
                ledger = Ledger(self._session, self._place.controls, self._cycle)
            links = self.links = self._to_land(ledger)
            if not links:
                self._inspect(ledger)
                if rises:
                    self._session.commit()
                return ledger.rows()
            rows = self._land(links, ledger)
            self._run(self._place.controls.enter(self._cycle, links, rows, table=self._place.table))
            self._session.commit(within=self._place.longest)
        return {**ledger.rows(), **{link.id: count for link, count in zip(links, rows, strict=True)}}

    def _to_land(self, ledger: Ledger) -> tuple[Link, ...]:
        # Before the first of them: they may take several transactions, and shall not end in the middle.
        self._proofs.require_whole(self._cycle.lost(ledger), self._cycle.chain)
        return tuple(self._enough(islice(self._cycle.to_land(ledger), MOST_LINKS)))

    def _enough(self, links: Iterable[Link]) -> Iterator[Link]:
        """The first of the links, so many that their rows fit into one transaction; one at least.

        They tell rows apart by the same columns: by those of another key, some would pass for one, or have no such
        column at all. In a table that appends none reads a range again in which another one's rows may lie: what it did
        not find there would come with the other's, for all ranges are emptied before any row comes.
        """
        if self._place.mode is Mode.REPLACE:
            yield from links  # of whole tables, the rows of one land
            return
        rows, known, before, ended, buried = 0, None, RowsBefore(), False, ORIGIN
        for number, link in enumerate(links):
            rows += link.rows
            mine = identity_in(link) or known
            if number and (rows > self._place.most_rows or (known is not None and mine != known)):
                return
            if link.rank < buried:
                return  # what tombstones meet is what stands there when they land: no row of this replay yet
            buried = link.id if self._buries and is_burial(link) else buried
            if self._place.mode is Mode.HISTORY:
                if ended and link.rows and not is_burial(link):
                    return  # which version tombstones end is what stands there when they land
                ended = ended or (self._buries and is_burial(link))
            if self._place.mode is Mode.APPEND:
                if before.are_read_again_by(link):
                    return
                before.add(link)
            known = mine
            yield link

    def _inspect(self, ledger: Ledger) -> None:
        """Where nothing is to be done but to compare, see whether the table still is what it was."""
        if self._cycle.due or ledger.newest is None:
            return
        self._stood = self._found()
        there = self._stood is not None
        ledger.require_same_table(self._place.table, there=there)
        if there and self._place.mode is not Mode.REPLACE:
            ledger.require_rows(self._place.table, takes=self._takes_out)

    def _land(self, links: Sequence[Link], ledger: Ledger) -> list[int]:
        """Make the rows of these batches part of the target; how many each of them brought."""
        read = [(link, self._manifest(link)) for link in links if link.kind is not Kind.ABANDONED]
        if self._place.mode is Mode.REPLACE:
            read = [(link, manifest) for link, manifest in read if manifest.whole][-1:]  # the newest is all of it
        elif wholes := [link.id for link, manifest in read if manifest.whole and manifest.parts]:
            raise SchemaDrift(
                f"{self._cycle.stream}: batch {wholes[0]} is the whole table without a key, and {self._place.mode}"
                " needs one",
                hint="The mode was changed. Leave out what was read without a key, and read the table anew:"
                f" syncd watermark set -t {self._cycle.stream.table} --redshift-only --preset now; then"
                f" syncd watermark reset -t {self._cycle.stream.table} --mysql-only",
            )
        read = [(link, manifest) for link, manifest in read if manifest.tombstones is None or self._buries]
        # What a replay brings back was read with the columns of then, whenever it lands.
        ranked = sorted(read, key=lambda each: each[0].rank)
        found = self._prepared([manifest for _, manifest in ranked], ledger)
        if found is None:
            return [0 for _ in links]
        self.found = found
        loads = self.loads = loads_of(*zip(*read, strict=True))
        for load in loads:
            self._copy(load)
        landing = Landing(
            table=self._place.table,
            found=found,
            loads=tuple(load for load in loads if not load.buries),
            burials=tuple(load for load in loads if load.buries),
            read=tuple(read),
            added=self._added(read),
            anew=ledger.furthest if links[0].id <= ledger.furthest else None,
        )
        landing = replace(landing, traces=self._traces(landing))
        for statement in self._statements(landing, links):
            self._run(statement)
        for load in loads:
            self._run(load.drop)
        brought = {link.id: manifest.rows for link, manifest in read}
        return [brought.get(link.id, 0) for link in links]

    def _traces(self, landing: Landing) -> Mapping[BatchId, Tombstones]:
        """The tombstones that came before a replay and mean its rows too; asked for where one lands only.

        A row whose number is of no tombstones of this chain, or of some by another order, is as new as it says.
        """
        place = self._place
        if not landing.replays or not marks(place.settings, place.mode) or DELETED_AT not in landing.found:
            return {}
        told = sorted(int(number) for (number,) in self._session.rows(traces_statement(landing)))
        batches = filter(self._cycle.extracted.holds, (batch_of(number) for number in told if number >= SEQS))
        links = ((batch, self._cycle.chain.link(batch)) for batch in batches)
        manifests = ((batch, Manifest.of_link(link)) for batch, link in links if link and is_burial(link))
        return {
            batch: manifest.tombstones
            for batch, manifest in manifests
            if manifest.tombstones and manifest.identity == landing.identity
        }

    def _added(self, read: Sequence[tuple[Link, Manifest]]) -> Mapping[str, Added]:
        """The columns that rows of this landing can lack; the newest batch knows best."""
        found: dict[str, Added] = {}
        for link, manifest in read:
            told: Manifest | None = manifest
            if link.kind is Kind.REPLAY:  # it has the columns of its rows, and knows of none that came after them
                told = Earlier(links=self._cycle.chain, half=lambda: self._cycle.extracted).before(link.id)
            found |= told.added if told else {}
        return found

    def _statements(self, landing: Landing, links: Sequence[Link]) -> Iterator[str]:
        place = self._place
        if self._stood is not None and place.mode is not Mode.REPLACE:
            yield from filled(landing, [link.id for link in links], stood=self._stood)
        yield from statements(landing, place.mode)
        yield from buried(landing, place.mode, place.settings.deletes)

    @property
    def _buries(self) -> bool:
        return buries(self._place.settings, self._place.mode)

    def _takes_out(self, link: Link, rows: int) -> bool:
        """Whether a batch took rows out of the target: its tombstones did, or the range that it has read again.

        The `rows` by which it stands in the ledger are none where tombstones landed while deletes were ignored.
        """
        place = self._place
        if is_burial(link):
            deletes = self._buries and not marks(place.settings, place.mode)
            # What has no column for marks was deleted, whatever the configuration says by now.
            unmarked = self._stood is not None and DELETED_AT not in self._stood
            return rows > 0 and (deletes or unmarked)
        return place.mode is Mode.APPEND and bool(emptied_by(link))

    def _prepared(self, manifests: Sequence[Manifest], ledger: Ledger) -> Found | None:
        """The target as rows may come to it; None where nothing has to be done there."""
        if rows := [manifest for manifest in manifests if manifest.tombstones is None]:
            return self._reconciled(rows, ledger)
        found = self._found() if manifests else None
        if found is None:
            return None  # where no row has ever landed, none is gone
        ledger.require_same_table(self._place.table, there=True)
        lacking = [column for column in self._own(manifests[-1]) if column.name not in found]
        return self._grown([column for column in lacking if not self._optional(column)]) or found

    def _grown(self, columns: Sequence[Wanted]) -> Found | None:
        """The target with these columns more; None where there are none."""
        for statement in add_statements(self._place.table, columns):
            self._run(statement)
        return self._required() if columns else None

    def _reconciled(self, manifests: Sequence[Manifest], ledger: Ledger) -> Found:
        """The target with every column that the files have."""
        place = self._place
        wanted = (*wanted_columns(manifests), *self._own(manifests[-1]))
        found = self._stood = self._found()
        ledger.require_same_table(place.table, there=found is not None)
        if found is None:
            about = f"{self._cycle.stream.database}.{self._cycle.stream.table}, kept equal by syncd"
            for statement in create_statements(place.table, wanted, place.settings, about=about):
                self._run(statement)
            return self._required()
        require_no_ends(place.table, found, place.mode)
        if COLUMN in found and place.mode is not Mode.REPLACE:
            ledger.require_own_numbers(place.table)
        if self._first and place.mode is not Mode.REPLACE:
            ledger.require_rows(place.table, takes=self._takes_out)
        kept = [column for column in wanted if column.name in found or not self._optional(column)]
        lacking = self._lacking(found, kept)
        if lacking.widen:
            remedies = (by_hand(place.table, column, found) for column in lacking.widen)
            raise TooNarrow(tuple(zip(widen_statements(place.table, lacking.widen), remedies, strict=True)))
        if lacking.add:
            self._require_new(lacking.add, ledger.newest)
        return self._grown(lacking.add) or found

    def _lacking(self, found: Found, wanted: Sequence[Wanted]) -> Changes:
        """What the target lacks for the files; they may be older than a change of type that it has been through."""
        table = self._place.table
        try:
            return changes(table, found, wanted)
        except SchemaDrift:
            newest = Earlier(links=self._cycle.chain, half=lambda: self._cycle.extracted)
            if (manifest := newest.before(self._cycle.extracted.next)) is None:
                raise
            return changes(table, found, wanted, now=wanted_columns([manifest]))

    def _require_new(self, columns: Sequence[Wanted], newest: BatchId | None) -> None:
        """Make sure that columns which are to be added are new to the files as well.

        Raises:
            SchemaDrift: what has landed had them, and somebody took them out of the table.
        """
        if newest is None:
            return
        before = filter(self._cycle.half.expects, self._cycle.extracted.ids_back(upto=newest, after=ORIGIN))
        links = map(self._cycle.chain.required, before)
        # A replay has the columns of the batch that it brings back, which may be an old one.
        landed = next((link for link in links if link.kind not in {Kind.ABANDONED, Kind.REPLAY}), None)
        if landed is None:
            return
        manifest = Manifest.of_link(landed)
        names = {column.name for column in (*wanted_columns([manifest]), *self._own(manifest))} - self._late
        if gone := [column for column in columns if column.name in names]:
            table = self._place.table
            listed = ", ".join(column.name for column in gone)
            raise SchemaDrift(
                f"{table} has no column {listed} any more, and {landed.id} landed with it",
                hint=" ".join(f"{statement};" for statement in add_statements(table, gone))
                + f"  Then, to fill it again: syncd watermark reset -t {self._cycle.stream.table} --redshift-only",
            )

    def _own(self, manifest: Manifest) -> tuple[Wanted, ...]:
        cursor = next((each for each in manifest.passages if each.name == manifest.identity.cursor), None)
        return noted(self._place.settings, self._place.mode, TargetType.of_text(cursor.redshift) if cursor else None)

    def _optional(self, column: Wanted) -> bool:
        """Whether a table that somebody else made may go without it."""
        demanded = self._place.mode is Mode.HISTORY or (self._buries and column.name in {DELETED_AT, COLUMN})
        return column.name.startswith("_syncd_") and not demanded

    @property
    def _late(self) -> set[str]:
        """Columns of our own that a table gets when the configuration begins to ask for them."""
        place = self._place
        had = place.mode is Mode.HISTORY or Note.BATCH in place.settings.notes
        return {DELETED_AT} if had else {DELETED_AT, COLUMN}

    def _found(self) -> Found | None:
        return found_of(self._session.rows(found_statement(self._place.table)))

    def _required(self) -> Found:
        found = self._found()
        if found is None:
            raise OtherTable(f"{self._place.table} was there, and is not there any more")
        return found

    def _copy(self, load: Load) -> None:
        places = ((self._lists.at(part.key), part.bytes) for part in load.parts)
        key = copy_key(self._cycle.stream, load.links[-1].id, self._nonce())
        self._lists.put(key, manifest_body(places))
        self._run(load.create(distkey=folded(self._place.settings.distkey or "")))
        self.copies = True
        self._run(load.copy(self._lists.at(key), self._place.credentials()))
        self.copies = False
        [(count,)] = self._session.rows("SELECT PG_LAST_COPY_COUNT()")
        if count != load.rows:
            batches = " to ".join(dict.fromkeys(str(link.id) for link in (load.links[0], load.links[-1])))
            raise FileRefused(
                f"{self._cycle.stream}: the files of {batches} hold {count} rows, their manifests say {load.rows}",
                hint="Was a file replaced? See which: syncd audit",
            )

    def _run(self, statement: str) -> None:
        self._session.run(statement, within=self._place.longest)
