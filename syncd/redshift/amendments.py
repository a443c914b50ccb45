"""What is known of one stream's amendments, in this process; others are looked for only where a load fails."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from syncd.lake.amendment import Amendment, amendment_key, apply_amendments
from syncd.lake.manifest import Manifest, is_tombstone_batch
from watermarks.batch import BatchLink
from watermarks.loading import BatchLoadResult
from watermarks.store import Store, put_once

if TYPE_CHECKING:
    from watermarks.batch import BatchId


class Amendments:
    """The amendments of each batch, in their order."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[BatchId, tuple[Amendment, ...]] = {}
        self._checked: set[BatchId] = set()
        self._reasons: dict[BatchId, str] = {}
        """Why rows were refused, where that was found out here."""

    def manifest(self, link: BatchLink) -> Manifest:
        """What a link names, as far as it is known to land."""
        return apply_amendments(Manifest.from_link(link), self._known.get(link.id, ()))

    def result_for(self, link: BatchLink, rows: int) -> BatchLoadResult:
        """What a batch brought of which the ledger holds so many rows: those it lacks, an amendment has put aside.

        This is told by what is written, and not by what was done here: whoever put them aside may have been killed
        before its landing was told. Where no row is lacking, nothing is looked for.
        """
        if rows >= link.rows or (not rows and is_tombstone_batch(link)):
            return BatchLoadResult(rows=rows)  # tombstones that this target takes no notice of were not refused
        if not self._is_explained(link, rows):
            self._read_new(link)
        if not self._is_explained(link, rows):
            return BatchLoadResult(
                rows=rows
            )  # nothing of it was to land, as of an older state of a table that is replaced
        return BatchLoadResult(rows=rows, refused_rows=link.rows - rows, reason=self._reasons.get(link.id, ""))

    def _is_explained(self, link: BatchLink, rows: int) -> bool:
        """Whether the batch has so many rows after some of its amendments."""
        whole, known = Manifest.from_link(link), self._known.get(link.id, ())
        return any(apply_amendments(whole, known[: count + 1]).rows == rows for count in range(len(known)))

    def next_number(self, link: BatchLink) -> int:
        """The number of a batch's next amendment."""
        return len(self._known.get(link.id, ())) + 1

    def refresh(self, links: Iterable[BatchLink]) -> bool:
        """Take up what others have amended, or we in an earlier life; whether there was any.

        Each batch is looked at once: what is amended from now on is amended here, or met when it is made.
        """
        new = False
        for link in links:
            if link.id not in self._checked:
                new = self._read_new(link) or new
                self._checked.add(link.id)
        return new

    def _read_new(self, link: BatchLink) -> bool:
        """Take up the amendments behind those that are known; whether there was any."""
        new = False
        while (found := self._read(link)) is not None:
            self._add(link, found)
            new = True
        return new

    def create(self, link: BatchLink, amendment: Amendment, *, reason: str = "") -> Amendment:
        """Make this the next amendment of the batch, or learn which one is; for a `reason`, that of its first row."""
        key = amendment_key(link.stream, link.id, self.next_number(link))
        kept = put_once(self._store, key, amendment.to_bytes())
        found = (
            amendment if kept.is_ours else Amendment.from_bytes(kept.body, at=key, stream=link.stream, batch=link.id)
        )
        self._add(link, found)
        self._reasons.setdefault(link.id, reason)
        return found

    def _read(self, link: BatchLink) -> Amendment | None:
        key = amendment_key(link.stream, link.id, self.next_number(link))
        stored = self._store.read(key)
        return Amendment.from_bytes(stored.body, at=key, stream=link.stream, batch=link.id) if stored else None

    def _add(self, link: BatchLink, amendment: Amendment) -> None:
        self._known[link.id] = (*self._known.get(link.id, ()), amendment)
