"""Two loaders at the same batch in the same moment, with no lease between them: it lands once, for both."""

import random
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from threading import Barrier, Thread

import pytest

from syncd.load.load_pass import RETRYABLE_ERRORS
from syncd.sandbox.redshift import RedshiftStandIn
from tests.builders import make_process
from tests.integration.load.conftest import Loader, Reader
from tests.services.landed import Batches
from tests.services.prepared import Prepared, numbers, row
from watermarks.batch import BatchId
from watermarks.document import Stage, Watermark
from watermarks.extraction import BatchChain
from watermarks.history import Journal
from watermarks.loading import BatchLoadResult, LoadCycle, Target
from watermarks.progress import ExtractProgress

pytestmark = pytest.mark.services

FEW, MANY = 10, 100
TRIES = 40


def cycle_of(batches: Batches, journal: Journal[Watermark], *, epoch: int, fenced: bool) -> LoadCycle:
    """What both of them believe is to be done."""
    stream = batches.prepared.stream
    state = journal.read_newest(stream.stem)
    assert state
    extracted = state.extract_progress or ExtractProgress()
    chain = BatchChain(journal, stream)
    due = tuple(chain.require_link(batch) for batch in extracted.batch_ids(after=state.load_progress.last_batch))
    return LoadCycle(
        stream=stream,
        epoch=epoch,
        load_progress=state.load_progress,
        extract_progress=extracted,
        due_links=due,
        chain=chain,
        is_fenced=fenced,
    )


class Racer:
    """A loader in a thread of its own, which lands when the others do."""

    def __init__(self, target: Target, cycle: LoadCycle, barrier: Barrier) -> None:
        self._target = target
        self._cycle = cycle
        self._barrier = barrier
        self.told = list[Mapping[BatchId, BatchLoadResult]]()
        self.thread = Thread(target=self._run)

    def _run(self) -> None:
        self._barrier.wait()
        for attempt in range(TRIES):
            try:
                self.told.append(self._target.load(self._cycle))
            except RETRYABLE_ERRORS:
                self._cycle = replace(self._cycle, is_fenced=False)
                # Each ends the other's session as an older one's: as loaders do, they draw lots for who begins again.
                time.sleep(random.uniform(0, 0.05 * (attempt + 1)))
            else:
                return


def raised(target: Target, idle: LoadCycle) -> None:
    """Raise the fence, with another session where the other loader has ended this one."""
    for _ in range(TRIES):
        with suppress(*RETRYABLE_ERRORS):
            assert target.load(idle) == {}
            return
    raise AssertionError("the fence could not be raised")


@pytest.mark.parametrize("rounds", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
@pytest.mark.parametrize("fenced", [True, False], ids=["with the fence raised", "from the beginning"])
def test_two_loaders_that_land_the_same_batch_at_once_land_it_once(
    prepared: Callable[..., Prepared], server: RedshiftStandIn, loader: Loader, warehouse: Reader,
    *, rounds: int, fenced: bool,
) -> None:  # fmt: skip
    batches = Batches(prepared())
    batches.add(row(1, 1), row(2, 2))
    loader.load(batches.prepared)
    process = make_process(loader.journal.store, f"both{next(numbers)}")
    held = process.acquire(batches.prepared.stream, Stage.LOAD, loader.journal)
    with ExitStack() as stack:
        both = [Loader(server, loader.lake, loader.journal) for _ in range(2)]
        for one in both:
            stack.callback(one.sessions.close)
        targets = [one.target(batches.prepared) for one in both]
        for number in range(rounds):
            if fenced:
                for target in targets:
                    raised(target, cycle_of(batches, loader.journal, epoch=held.epoch, fenced=False))
            batches.add(row(1, 3 + number), row(3 + number, 3 + number))
            cycle = cycle_of(batches, loader.journal, epoch=held.epoch, fenced=fenced)
            barrier = Barrier(2)
            racers = [Racer(target, cycle, barrier) for target in targets]
            for racer in racers:
                racer.thread.start()
            for racer in racers:
                racer.thread.join(300)

            assert [racer.told for racer in racers] == 2 * [
                [{link.id: BatchLoadResult(rows=2) for link in cycle.due_links}]
            ]
            assert warehouse.rows(batches.prepared, "id, update_at, name") == batches.content
            assert [batch for batch, _, _ in warehouse.ledger(batches.prepared)] == batches.ledger
            process.release(held)
            outcome = loader.load(batches.prepared)  # moves the mark over what the ledger holds, and lands nothing
            assert outcome.batches == 1
            held = process.acquire(batches.prepared.stream, Stage.LOAD, loader.journal)
    assert [batch for batch, _, _ in warehouse.ledger(batches.prepared)] == batches.ledger
