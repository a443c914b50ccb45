"""Amendments of one stream that this process knows; new ones are read only where a load fails."""

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
    """Amendments of each batch, in order."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[BatchId, tuple[Amendment, ...]] = {}
        self._checked: set[BatchId] = set()
        self._reasons: dict[BatchId, str] = {}
        """The reasons for refused rows that this process found."""

    def manifest(self, link: BatchLink) -> Manifest:
        """Return the manifest of a batch without the rows that are known to be refused."""
        return apply_amendments(Manifest.from_link(link), self._known.get(link.id, ()))

    def result_for(self, link: BatchLink, rows: int) -> BatchLoadResult:
        """Return the result for a batch with this row count in the ledger; an amendment quarantined the missing rows.

        The result comes from stored amendments, not from this process: the one that quarantined the rows may have
        been killed before it reported them. Where no row is missing, nothing is read.
        """
        if rows >= link.rows or (not rows and is_tombstone_batch(link)):
            return BatchLoadResult(rows=rows)  # ignored tombstones were not refused
        if not self._is_explained(link, rows):
            self._read_new(link)
        if not self._is_explained(link, rows):
            return BatchLoadResult(rows=rows)  # nothing was due, as for an older state of a table that is replaced
        return BatchLoadResult(rows=rows, refused_rows=link.rows - rows, reason=self._reasons.get(link.id, ""))

    def _is_explained(self, link: BatchLink, rows: int) -> bool:
        """Return whether the batch has this row count after some of its amendments."""
        whole, known = Manifest.from_link(link), self._known.get(link.id, ())
        return any(apply_amendments(whole, known[: count + 1]).rows == rows for count in range(len(known)))

    def next_number(self, link: BatchLink) -> int:
        return len(self._known.get(link.id, ())) + 1

    def refresh(self, links: Iterable[BatchLink]) -> bool:
        """Read the amendments of other loaders and earlier processes; return whether there were any.

        Each batch is read once. Later amendments are made by this process, or found when it makes the same one.
        """
        new = False
        for link in links:
            if link.id not in self._checked:
                new = self._read_new(link) or new
                self._checked.add(link.id)
        return new

    def _read_new(self, link: BatchLink) -> bool:
        """Read the amendments after the known ones; return whether there were any."""
        new = False
        while (amendment := self._read(link)) is not None:
            self._add(link, amendment)
            new = True
        return new

    def create(self, link: BatchLink, amendment: Amendment, *, reason: str = "") -> Amendment:
        """Store the next amendment of a batch; return it, or the one that another loader stored first."""
        key = amendment_key(link.stream, link.id, self.next_number(link))
        kept = put_once(self._store, key, amendment.to_bytes())
        if not kept.is_ours:
            amendment = Amendment.from_bytes(kept.body, at=key, stream=link.stream, batch=link.id)
        self._add(link, amendment)
        self._reasons.setdefault(link.id, reason)
        return amendment

    def _read(self, link: BatchLink) -> Amendment | None:
        key = amendment_key(link.stream, link.id, self.next_number(link))
        stored = self._store.read(key)
        return Amendment.from_bytes(stored.body, at=key, stream=link.stream, batch=link.id) if stored else None

    def _add(self, link: BatchLink, amendment: Amendment) -> None:
        self._known[link.id] = (*self._known.get(link.id, ()), amendment)
