"""Whether everything that was written has arrived, as the daemon's events tell."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from syncd.events import BatchesLoaded, BatchExtracted, PassBegan, PassEnded, StreamEvent
from syncd.settings import Mode, StreamSettings
from watermarks.batch import BatchId
from watermarks.document import Stage
from watermarks.progress import BEFORE_FIRST_BATCH

MIN_QUIET_PASSES: Final = 2
"""So many in a row find nothing: what the first one left out for the horizon's sake, the second one reads."""


@dataclass(slots=True)
class _TableDrainState:
    """How far one table is with that."""

    is_replaced: bool
    """Whether it is read whole each time: then one reading will do, and each finds something."""
    began_after_last_write: bool = False
    """Whether the pass that is at work began after the last write."""
    settled_passes: int = 0
    """That found what had to be found."""
    extracted: BatchId = BEFORE_FIRST_BATCH
    loaded: BatchId = BEFORE_FIRST_BATCH

    @property
    def is_drained(self) -> bool:
        return self.settled_passes >= (1 if self.is_replaced else MIN_QUIET_PASSES) and self.loaded >= self.extracted


class DrainMonitor:
    """A reader of events that knows when a source to which nobody writes any more has arrived in the warehouse."""

    def __init__(self, streams: Iterable[StreamSettings]) -> None:
        self._tables = {one.table: _TableDrainState(is_replaced=one.mode is Mode.REPLACE) for one in streams}
        self._written = threading.Event()
        self.progress_steps = 0
        """How often something has come nearer to its end."""

    def start(self) -> None:
        """Nothing is written from now on."""
        self._written.set()

    @property
    def is_drained(self) -> bool:
        return all(table.is_drained for table in self._tables.values())

    def __call__(self, event: StreamEvent) -> None:
        table = self._tables[event.stream.table]
        match event:
            case PassBegan(stage=Stage.EXTRACT):
                table.began_after_last_write = self._written.is_set()
            case BatchExtracted():
                table.extracted = event.batch
                self.progress_steps += 1
            case BatchesLoaded():
                table.loaded = event.last
                self.progress_steps += 1
            case PassEnded(stage=Stage.EXTRACT) if table.began_after_last_write:
                found = event.batches > 0
                settled = event.error is None and not event.reason and found == table.is_replaced
                table.settled_passes = table.settled_passes + 1 if settled else 0
                self.progress_steps += 0 < table.settled_passes <= MIN_QUIET_PASSES
            case _:
                return
