"""The batches before one: which columns the source had then, as far as the chain can tell."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from syncd.lake.manifest import Manifest
from watermarks.batch import BatchId, BatchKind, BatchLink
from watermarks.progress import BEFORE_FIRST_BATCH, ExtractProgress


@dataclass(frozen=True, kw_only=True)
class EarlierBatches:
    """The batches before one, as far as they tell which columns the source had."""

    read_link: Callable[[BatchId], BatchLink | None]
    get_progress: Callable[[], ExtractProgress | None]
    """How far the stream is; asked only where a generation begins."""

    def manifest_before(self, batch: BatchId) -> Manifest | None:
        """The manifest of the newest batch before this one whose rows came from the table itself."""
        for earlier in self._ids_before(batch):
            link = self.read_link(earlier)
            # A replay has the columns of the rows that it brings again.
            if link is None or link.kind in {BatchKind.ABANDONED, BatchKind.REPLAY}:
                continue
            manifest = Manifest.from_link(link)
            if manifest.tombstones is None:
                return manifest
        return None

    def _ids_before(self, batch: BatchId) -> Iterator[BatchId]:
        yield from (BatchId(batch.generation, seq) for seq in range(batch.seq - 1, 0, -1))
        if batch.generation > BEFORE_FIRST_BATCH.generation and (half := self.get_progress()) is not None:
            upto = BatchId(batch.generation - 1, half.last_seq_of(batch.generation - 1))
            yield from half.batch_ids_newest_first(up_to=upto, after=BEFORE_FIRST_BATCH)
