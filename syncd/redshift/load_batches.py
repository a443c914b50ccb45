"""Choice of the batches for one load transaction, and of their files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from syncd.errors import SchemaDrift
from syncd.lake.column_history import EarlierBatches
from syncd.lake.manifest import Manifest, identity_from_link, is_tombstone_batch
from syncd.lake.removal_records import find_removal_records
from syncd.ports.source import CopyLake
from syncd.redshift.order_ranges import EarlierRowRanges
from syncd.settings import Mode
from syncd.tables.column_defaults import AddedColumn
from watermarks.batch import BatchId, BatchKind, BatchLink
from watermarks.errors import DataInDoubt
from watermarks.extraction import BatchChain
from watermarks.loading import LoadCycle
from watermarks.progress import BEFORE_FIRST_BATCH

MAX_LINKS_PER_TRANSACTION: Final = 1_000
"""A statement takes 16 MB, and the one for the ledger names each batch."""

ReadBatches = Sequence[tuple[BatchLink, Manifest]]


class LoadedFilesGone(DataInDoubt):
    """A file that must be loaded again is missing or was replaced."""


class ReloadCheck:
    """Check of the files that must be loaded again, because the ledger lost their batches.

    It remembers intact batches: they may be loaded in several transactions, and after each the rest is still lost.
    """

    def __init__(self, lake_files: CopyLake) -> None:
        self._lake_files = lake_files
        self._intact = set[BatchId]()

    def require_intact_files(self, lost: Sequence[BatchId], chain: BatchChain) -> None:
        """Make sure that every file of these batches exists unchanged; each is checked once while any are lost.

        Raises:
            LoadedFilesGone: a file does not.
            StateMissing: a link of the chain is missing.
        """
        for batch in lost:
            if batch not in self._intact:
                self._require_files(chain.require_link(batch), lost)
                self._intact.add(batch)
        if not lost:
            self._intact.clear()

    def _require_files(self, link: BatchLink, lost: Sequence[BatchId]) -> None:
        table = link.stream.table_name
        for part in Manifest.from_link(link).parts if link.kind is not BatchKind.ABANDONED else ():
            if not self._lake_files.has_part(part):
                removed = find_removal_records(self._lake_files, link.stream, {part.key}).get(part.key)
                raise LoadedFilesGone(
                    f"{link.stream}: the ledger has lost the batches from {lost[0]} on, and"
                    f" {self._lake_files.address_of(part.key)} of {link.id} is missing or was replaced"
                    + (f": {removed.description}" if removed else ""),
                    hint="The warehouse was probably restored. Restore the file from the bucket's versions. Or"
                    " go on without"
                    f" it and read its rows again: syncd watermark rebuild -t {table} --from-ledger --yes; then"
                    f" syncd watermark set -t {table} --redshift-only --after {lost[-1]}; then"
                    f" syncd watermark reset -t {table} --mysql-only",
                    file=part.key,
                )


def fit_transaction(
    links: Iterable[BatchLink], mode: Mode, *, applies_deletes: bool, max_rows: int
) -> Iterator[BatchLink]:
    """Yield the first of the links whose rows fit into one transaction, at least one.

    All of them have the same key: by another key, several rows would pass for one, or its column would be missing.
    A table that appends takes no batch that reads a range again in which an earlier one may have rows: all ranges are
    emptied before any row is inserted, so rows that the later batch did not find would come with the earlier one.
    """
    if mode is Mode.REPLACE:
        yield from links  # of whole tables, only the newest is loaded
        return
    rows, identity, earlier, ended, tombstones = 0, None, EarlierRowRanges(), False, BEFORE_FIRST_BATCH
    for number, link in enumerate(links):
        rows += link.rows
        own_identity = identity_from_link(link) or identity
        if number and (rows > max_rows or (identity is not None and own_identity != identity)):
            return
        if link.rank < tombstones:
            return  # tombstones apply to the rows in the table when they are loaded, not yet to those of this replay
        deletes = applies_deletes and is_tombstone_batch(link)
        tombstones = link.id if deletes else tombstones
        if mode is Mode.HISTORY:
            if ended and link.rows and not is_tombstone_batch(link):
                return  # tombstones end the version that is newest when they are loaded
            ended = ended or deletes
        if mode is Mode.APPEND:
            if earlier.are_reread_by(link):
                return
            earlier.add(link)
        identity = own_identity
        yield link


def select_loaded(read: ReadBatches, mode: Mode, *, applies_deletes: bool) -> ReadBatches:
    """Return the batches that change the target.

    Raises:
        SchemaDrift: a batch is a whole table without a key, and the mode needs one.
    """
    if mode is Mode.REPLACE:
        read = [(link, manifest) for link, manifest in read if manifest.is_whole_table][-1:]  # the newest is complete
    elif wholes := [link for link, manifest in read if manifest.is_whole_table and manifest.parts]:
        stream = wholes[0].stream
        raise SchemaDrift(
            f"{stream}: batch {wholes[0].id} contains the whole table, read without a key, but `mode: {mode}`"
            " needs a key",
            hint="The mode was changed. Skip what was read without a key, and read the table again:"
            f" syncd watermark set -t {stream.table} --redshift-only --preset now; then"
            f" syncd watermark reset -t {stream.table} --mysql-only",
        )
    return [(link, manifest) for link, manifest in read if manifest.tombstones is None or applies_deletes]


def earlier_batches(cycle: LoadCycle) -> EarlierBatches:
    return EarlierBatches(read_link=cycle.chain.read_link, get_progress=lambda: cycle.extract_progress)


def added_columns(read: ReadBatches, cycle: LoadCycle) -> Mapping[str, AddedColumn]:
    """Return the columns that rows of these batches can lack, as the newest batch describes them."""
    added: dict[str, AddedColumn] = {}
    for link, manifest in read:
        source: Manifest | None = manifest
        if link.kind is BatchKind.REPLAY:  # it has the columns of its rows, and knows no later ones
            source = earlier_batches(cycle).manifest_before(link.id)
        added |= source.added_columns if source else {}
    return added
