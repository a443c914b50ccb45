"""What was landed before and is to land again, because the ledger lost it: only from the files that it landed from."""

from collections.abc import Sequence

from syncd.lake.manifest import Manifest
from syncd.lake.removal_records import find_removal_records
from syncd.ports.source import CopyLake
from watermarks.batch import BatchId, BatchKind, BatchLink
from watermarks.errors import DataInDoubt
from watermarks.extraction import BatchChain


class LoadedFilesGone(DataInDoubt):
    """Files that have landed, and are to land again, are gone or others."""


class ReloadCheck:
    """Remembers which batches are whole: they may land again in several transactions, after each of which all show."""

    def __init__(self, lake_files: CopyLake) -> None:
        self._lake_files = lake_files
        self._intact = set[BatchId]()

    def require_intact_files(self, lost: Sequence[BatchId], chain: BatchChain) -> None:
        """Make sure that every file of these batches is there, byte for byte; of each once, as long as any are lost.

        Raises:
            FilesGone: one is not.
            StateMissing: a link is gone.
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
                    f"{link.stream}: the ledger has lost what landed from {lost[0]} on, and"
                    f" {self._lake_files.address_of(part.key)} of {link.id} is gone or another one"
                    + (f": {removed.description}" if removed else ""),
                    hint="Was the warehouse restored? Restore the file from the bucket's versions. Or go on without"
                    f" it and read its rows again: syncd watermark rebuild -t {table} --from-ledger --yes; then"
                    f" syncd watermark set -t {table} --redshift-only --after {lost[-1]}; then"
                    f" syncd watermark reset -t {table} --mysql-only",
                    file=part.key,
                )
