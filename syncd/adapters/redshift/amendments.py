"""What is known of one stream's amendments, in this process; others are looked for only where a load fails."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from syncd.core.amendment import Amendment, amended, amendment_key
from syncd.core.manifest import Manifest
from watermarks.batch import Link
from watermarks.store import Store, put_once

if TYPE_CHECKING:
    from watermarks.batch import BatchId


class Amendments:
    """The amendments of each batch, in their order."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[BatchId, tuple[Amendment, ...]] = {}
        self._looked: set[BatchId] = set()

    def manifest(self, link: Link) -> Manifest:
        """What a link names, as far as it is known to land."""
        return amended(Manifest.of_link(link), self._known.get(link.id, ()))

    def next_of(self, link: Link) -> int:
        """The number of a batch's next amendment."""
        return len(self._known.get(link.id, ())) + 1

    def learn(self, links: Iterable[Link]) -> bool:
        """Take up what others have amended, or we in an earlier life; whether there was any.

        Each batch is looked at once: what is amended from now on is amended here, or met when it is made.
        """
        new = False
        for link in links:
            if link.id in self._looked:
                continue
            self._looked.add(link.id)
            while (found := self._read(link)) is not None:
                self._add(link, found)
                new = True
        return new

    def make(self, link: Link, mine: Amendment) -> Amendment:
        """Make this the next amendment of the batch, or learn which one is."""
        key = amendment_key(link.stream, link.id, self.next_of(link))
        kept = put_once(self._store, key, mine.to_bytes())
        found = mine if kept.ours else Amendment.of_bytes(kept.body, at=key, stream=link.stream, batch=link.id)
        self._add(link, found)
        return found

    def _read(self, link: Link) -> Amendment | None:
        key = amendment_key(link.stream, link.id, self.next_of(link))
        stored = self._store.read(key)
        return Amendment.of_bytes(stored.body, at=key, stream=link.stream, batch=link.id) if stored else None

    def _add(self, link: Link, amendment: Amendment) -> None:
        self._known[link.id] = (*self._known.get(link.id, ()), amendment)
