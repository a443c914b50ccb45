"""The batches before one: which columns the source had then, as far as the chain can tell."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from syncd.lake.manifest import Manifest
from watermarks.batch import BatchId, Kind, Link
from watermarks.progress import ORIGIN, Extracted


class Links(Protocol):
    """The chain as it stands; `watermarks.Chain` is one."""

    def link(self, batch: BatchId) -> Link | None: ...


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """The batches before one, as far as they tell which columns the source had."""

    links: Links
    half: Callable[[], Extracted | None]
    """How far the stream is; asked only where a generation begins."""

    def before(self, batch: BatchId) -> Manifest | None:
        """The manifest of the newest batch before this one whose rows came from the table itself."""
        for earlier in self._ids_before(batch):
            link = self.links.link(earlier)
            # A replay has the columns of the rows that it brings again.
            if link is None or link.kind in {Kind.ABANDONED, Kind.REPLAY}:
                continue
            manifest = Manifest.of_link(link)
            if manifest.tombstones is None:
                return manifest
        return None

    def _ids_before(self, batch: BatchId) -> Iterator[BatchId]:
        yield from (BatchId(batch.generation, seq) for seq in range(batch.seq - 1, 0, -1))
        if batch.generation > ORIGIN.generation and (half := self.half()) is not None:
            upto = BatchId(batch.generation - 1, half.end_of(batch.generation - 1))
            yield from half.ids_back(upto=upto, after=ORIGIN)
