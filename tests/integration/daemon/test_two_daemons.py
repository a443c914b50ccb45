"""Two daemons with one file, killed and paused at random while somebody writes: each batch once, and all of it.

SYNCD_TWO_DAEMONS is for how many seconds, SYNCD_SEED by which chance.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest

from tests.integration.daemon.changes import writing
from tests.integration.daemon.conftest import Place
from tests.services.daemon import DaemonProcess, until
from watermarks.history import ChangeKind

pytestmark = [pytest.mark.services, pytest.mark.long]

SECONDS = float(os.environ.get("SYNCD_TWO_DAEMONS", "300"))
SEED = int(os.environ.get("SYNCD_SEED", time.time_ns() % 1_000_000))
TTL = 6.0
PAUSED = (2.0, 15.0)
"""Seconds: shorter than a lease lives, and longer."""
RESTED = (3.0, 12.0)


@dataclass
class Slot:
    """One of the two, as often as it is started."""

    name: str
    place: Place
    now: DaemonProcess
    pids: set[int] = field(default_factory=set)

    def start(self) -> None:
        self.now = self.place.daemon(ttl=TTL)
        self.pids.add(self.now.process.pid)


@dataclass
class Chance:
    """What befalls them, and how often."""

    slots: list[Slot]
    random: random.Random
    count: Counter[str] = field(default_factory=Counter[str])

    def strike(self) -> None:
        slot = self.random.choice(self.slots)
        what = self.random.choice(("killed", "paused", "paused", "stopped"))
        self.count[what] += 1
        if what == "paused":
            slot.now.signal(signal.SIGSTOP)
            time.sleep(self.random.uniform(*PAUSED))
            slot.now.signal(signal.SIGCONT)
            return
        slot.now.signal(signal.SIGKILL if what == "killed" else signal.SIGTERM)
        slot.now.process.wait(60)
        slot.start()


def workers(place: Place, table: str) -> Counter[int]:
    """How many entries of its marks each process has written, by its number."""
    newest, told = place.watermark(table), Counter[int]()
    for entry in place.journal.read_entries(place.stream(table).stem, newest_revision=newest.revision):
        if entry.note.change in {ChangeKind.EXTRACT, ChangeKind.LOAD}:
            told[int(entry.note.author.rsplit("-", 2)[1])] += 1
    return told


def is_loaded(place: Place, table: str) -> bool:
    state = place.watermark(table)
    return state.load_progress.last_batch == state.required_extract_progress.last_batch


def test_two_daemons_that_are_killed_and_paused_land_every_batch_once(
    place: Place, report: Callable[[str], None]
) -> None:
    for _ in range(4):
        place.table(rows=10)
    slots = [Slot(name=name, place=place, now=place.daemon(ttl=TTL)) for name in ("one", "two")]
    for slot in slots:
        slot.pids.add(slot.now.process.pid)
    chance = Chance(slots=slots, random=random.Random(SEED))
    place.comes_equal()

    with writing(place, seed=SEED, every=0.1) as written:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            time.sleep(chance.random.uniform(*RESTED))
            chance.strike()
    place.comes_equal(within=300)

    did = Counter[str]()
    for table in place.tables:
        until(partial(is_loaded, place, table), f"the last mark of {table}")
        state = place.watermark(table)
        batches = place.ledger(table)
        chain = list(state.required_extract_progress.batch_ids(after=state.load_progress.base))
        assert Counter(batches) == Counter(chain), table
        for pid, count in workers(place, table).items():
            did[next(slot.name for slot in slots if pid in slot.pids)] += count
    report(f"seed {SEED}: {dict(chance.count)}, {4 * len(written)} rows written; entries by {dict(did)}")
    assert written
    assert min(did[slot.name] for slot in slots) > 0, did
