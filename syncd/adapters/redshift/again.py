"""What was landed before and is to land again, because the ledger lost it: only from the files that it landed from."""

from collections.abc import Sequence

from syncd.core.manifest import Manifest
from syncd.core.ports import Lists
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
                self._require_files(chain.required(batch), first=lost[0])
                self._whole.add(batch)
        if not lost:
            self._whole.clear()

    def _require_files(self, link: Link, *, first: BatchId) -> None:
        for part in Manifest.of_link(link).parts if link.kind is not Kind.ABANDONED else ():
            if not self._lists.holds(part):
                raise FilesGone(
                    f"{link.stream}: the ledger has lost what landed from {first} on, and"
                    f" {self._lists.at(part.key)} of {link.id} is gone or another one",
                    hint="Was the warehouse restored? Restore the file from the bucket's versions, or read it all"
                    f" anew: syncd watermark reset -t {link.stream.table}",
                    file=part.key,
                )
