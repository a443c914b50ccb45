"""What is known of one stream's amendments, in this process; others are looked for only where a load fails."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from syncd.lake.amendment import Amendment, amended, amendment_key
from syncd.lake.manifest import Manifest, is_burial
from watermarks.batch import Link
from watermarks.loading import Brought
from watermarks.store import Store, put_once

if TYPE_CHECKING:
    from watermarks.batch import BatchId


class Amendments:
    """The amendments of each batch, in their order."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[BatchId, tuple[Amendment, ...]] = {}
        self._looked: set[BatchId] = set()
        self._reasons: dict[BatchId, str] = {}
        """Why rows were refused, where that was found out here."""

    def manifest(self, link: Link) -> Manifest:
        """What a link names, as far as it is known to land."""
        return amended(Manifest.of_link(link), self._known.get(link.id, ()))

    def brought(self, link: Link, rows: int) -> Brought:
        """What a batch brought of which the ledger holds so many rows: those it lacks, an amendment has put aside.

        This is told by what is written, and not by what was done here: whoever put them aside may have been killed
        before its landing was told. Where no row is lacking, nothing is looked for.
        """
        if rows >= link.rows or (not rows and is_burial(link)):
            return Brought(rows=rows)  # tombstones that this target takes no notice of were not refused
        if not self._explained(link, rows):
            self._read_on(link)
        if not self._explained(link, rows):
            return Brought(rows=rows)  # nothing of it was to land, as of an older state of a table that is replaced
        return Brought(rows=rows, refused=link.rows - rows, reason=self._reasons.get(link.id, ""))

    def _explained(self, link: Link, rows: int) -> bool:
        """Whether the batch has so many rows after some of its amendments."""
        whole, known = Manifest.of_link(link), self._known.get(link.id, ())
        return any(amended(whole, known[: count + 1]).rows == rows for count in range(len(known)))

    def next_of(self, link: Link) -> int:
        """The number of a batch's next amendment."""
        return len(self._known.get(link.id, ())) + 1

    def learn(self, links: Iterable[Link]) -> bool:
        """Take up what others have amended, or we in an earlier life; whether there was any.

        Each batch is looked at once: what is amended from now on is amended here, or met when it is made.
        """
        new = False
        for link in links:
            if link.id not in self._looked:
                new = self._read_on(link) or new
                self._looked.add(link.id)
        return new

    def _read_on(self, link: Link) -> bool:
        """Take up the amendments behind those that are known; whether there was any."""
        new = False
        while (found := self._read(link)) is not None:
            self._add(link, found)
            new = True
        return new

    def make(self, link: Link, mine: Amendment, *, reason: str = "") -> Amendment:
        """Make this the next amendment of the batch, or learn which one is; for a `reason`, that of its first row."""
        key = amendment_key(link.stream, link.id, self.next_of(link))
        kept = put_once(self._store, key, mine.to_bytes())
        found = mine if kept.ours else Amendment.of_bytes(kept.body, at=key, stream=link.stream, batch=link.id)
        self._add(link, found)
        self._reasons.setdefault(link.id, reason)
        return found

    def _read(self, link: Link) -> Amendment | None:
        key = amendment_key(link.stream, link.id, self.next_of(link))
        stored = self._store.read(key)
        return Amendment.of_bytes(stored.body, at=key, stream=link.stream, batch=link.id) if stored else None

    def _add(self, link: Link, amendment: Amendment) -> None:
        self._known[link.id] = (*self._known.get(link.id, ()), amendment)
