"""What was landed before and is to land again, because the ledger lost it: only from the files that it landed from."""

from collections.abc import Sequence

from syncd.lake.manifest import Manifest
from syncd.lake.removal_records import cleaned_by
from syncd.ports.source import Lists
from watermarks.batch import BatchId, Kind, Link
from watermarks.errors import DataInDoubt
from watermarks.extraction import Chain


class FilesGone(DataInDoubt):
    """Files that have landed, and are to land again, are gone or others."""


class Proofs:
    """Remembers which batches are whole: they may land again in several transactions, after each of which all show."""

    def __init__(self, lists: Lists) -> None:
        self._lists = lists
        self._whole = set[BatchId]()

    def require_whole(self, lost: Sequence[BatchId], chain: Chain) -> None:
        """Make sure that every file of these batches is there, byte for byte; of each once, as long as any are lost.

        Raises:
            FilesGone: one is not.
            StateMissing: a link is gone.
        """
        for batch in lost:
            if batch not in self._whole:
                self._require_files(chain.required(batch), lost)
                self._whole.add(batch)
        if not lost:
            self._whole.clear()

    def _require_files(self, link: Link, lost: Sequence[BatchId]) -> None:
        table = f"{link.stream.database}.{link.stream.table}"
        for part in Manifest.of_link(link).parts if link.kind is not Kind.ABANDONED else ():
            if not self._lists.holds(part):
                removed = cleaned_by(self._lists, link.stream, {part.key}).get(part.key)
                raise FilesGone(
                    f"{link.stream}: the ledger has lost what landed from {lost[0]} on, and"
                    f" {self._lists.at(part.key)} of {link.id} is gone or another one"
                    + (f": {removed.said}" if removed else ""),
                    hint="Was the warehouse restored? Restore the file from the bucket's versions. Or go on without"
                    f" it and read its rows again: syncd watermark rebuild -t {table} --from-ledger --yes; then"
                    f" syncd watermark set -t {table} --redshift-only --after {lost[-1]}; then"
                    f" syncd watermark reset -t {table} --mysql-only",
                    file=part.key,
                )
