"""Whether everything that was written has arrived, as the daemon's events tell."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from syncd.events import BatchesLanded, BatchExtracted, Event, PassBegan, PassEnded
from syncd.settings import Mode, StreamSettings
from watermarks.batch import BatchId
from watermarks.document import Stage
from watermarks.progress import ORIGIN

QUIET_PASSES: Final = 2
"""So many in a row find nothing: what the first one left out for the horizon's sake, the second one reads."""


@dataclass(slots=True)
class _Table:
    """How far one table is with that."""

    whole: bool
    """Whether it is read whole each time: then one reading will do, and each finds something."""
    counts: bool = False
    """Whether the pass that is at work began after the last write."""
    passes: int = 0
    """That found what had to be found."""
    extracted: BatchId = ORIGIN
    landed: BatchId = ORIGIN

    @property
    def done(self) -> bool:
        return self.passes >= (1 if self.whole else QUIET_PASSES) and self.landed >= self.extracted


class Drain:
    """A reader of events that knows when a source to which nobody writes any more has arrived in the warehouse."""

    def __init__(self, streams: Iterable[StreamSettings]) -> None:
        self._tables = {one.table: _Table(whole=one.mode is Mode.REPLACE) for one in streams}
        self._written = threading.Event()
        self.steps = 0
        """How often something has come nearer to its end."""

    def begin(self) -> None:
        """Nothing is written from now on."""
        self._written.set()

    @property
    def done(self) -> bool:
        return all(table.done for table in self._tables.values())

    def __call__(self, event: Event) -> None:
        table = self._tables[event.stream.table]
        match event:
            case PassBegan(stage=Stage.EXTRACT):
                table.counts = self._written.is_set()
            case BatchExtracted():
                table.extracted = event.batch
                self.steps += 1
            case BatchesLanded():
                table.landed = event.last
                self.steps += 1
            case PassEnded(stage=Stage.EXTRACT) if table.counts:
                found = event.batches > 0
                settled = event.error is None and not event.reason and found == table.whole
                table.passes = table.passes + 1 if settled else 0
                self.steps += 0 < table.passes <= QUIET_PASSES
            case _:
                return
