"""What was landed before and is to land again, because the ledger lost it: only from the files that it landed from."""

from collections.abc import Iterable

from syncd.core.manifest import Manifest
from syncd.core.ports import Lists
from watermarks.batch import BatchId, Kind, Link
from watermarks.errors import DataInDoubt


class FilesGone(DataInDoubt):
    """Files that have landed, and are to land again, are gone or others."""


class Proofs:
    """Remembers which batches are whole: they may land again in several transactions, after each of which all show."""

    def __init__(self, lists: Lists) -> None:
        self._lists = lists
        self._whole = set[BatchId]()

    def require_whole(self, links: Iterable[Link]) -> None:
        """Make sure that every file is there, byte for byte.

        Raises:
            FilesGone: one is not.
        """
        lost = [link for link in links if link.kind is not Kind.ABANDONED]
        for link in lost:
            if link.id in self._whole:
                continue
            for part in Manifest.of_link(link).parts:
                if not self._lists.holds(part):
                    raise FilesGone(
                        f"{link.stream}: the ledger has lost what landed from {lost[0].id} on, and"
                        f" {self._lists.at(part.key)} of {link.id} is gone or another one",
                        hint="Was the warehouse restored? Restore the file from the bucket's versions, or read it all"
                        f" anew: syncd watermark reset -t {link.stream.table}",
                        file=part.key,
                    )
            self._whole.add(link.id)
        if not lost:
            self._whole.clear()
