"""Claims at the end of a process that has many."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from syncd.concurrency.stage_claim import CLAIM_POLL_SECONDS, PARALLEL_RELEASES, ClaimKeeper, release_claims
from watermarks.clock import SystemClock
from watermarks.document import Stage, Watermark
from watermarks.errors import StoreUnavailable
from watermarks.history import Journal
from watermarks.lease import Claim, OtherOwner, ProcessLease
from watermarks.names import StreamName, claim_key
from watermarks.store import Revision
from watermarks.stores.memory import MemoryStore
from watermarks.testing import ManualClock

STREAMS = [StreamName(source="mysql", database="shop", table=f"t{n}") for n in range(PARALLEL_RELEASES)]


@dataclass(slots=True)
class Crossing(MemoryStore):
    """Claims are answered once as many are asked for as there are at once; one of them never is."""

    meeting: threading.Barrier | None = None
    mute: str = ""

    def put(self, key: str, body: bytes, *, expected: Revision | None) -> Revision:
        if expected is not None and self.meeting is not None:
            self.meeting.wait(10)
            if key == self.mute:
                raise StoreUnavailable("no answer")
        return MemoryStore.put(self, key, body, expected=expected)


@dataclass
class Desk:
    store: Crossing = field(default_factory=Crossing)

    def __post_init__(self) -> None:
        journal = Journal(self.store, Watermark)
        process = ProcessLease(self.store, "daemon")
        process.renew()
        self.claims = [ClaimKeeper(stream, Stage.LOAD, journal, clock=SystemClock()) for stream in STREAMS]
        for claiming in self.claims:
            with claiming.hold(process):
                pass

    def released(self, stream: StreamName) -> bool:
        stored = self.store.read(claim_key(stream, Stage.LOAD))
        assert stored is not None
        return Claim.from_bytes(stored.body, stream=stream, stage=Stage.LOAD).is_released


def test_many_claims_are_given_back_at_once() -> None:
    desk = Desk()
    desk.store.meeting = threading.Barrier(PARALLEL_RELEASES)

    release_claims(desk.claims)

    assert all(desk.released(stream) for stream in STREAMS)


def test_one_that_cannot_be_given_back_keeps_no_other() -> None:
    desk = Desk()
    desk.store.meeting = threading.Barrier(PARALLEL_RELEASES)
    desk.store.mute = claim_key(STREAMS[3], Stage.LOAD)

    release_claims(desk.claims)

    assert [stream for stream in STREAMS if not desk.released(stream)] == [STREAMS[3]]


def _asked_for(store: MemoryStore, *, pause: Callable[[float], None], clock: ManualClock, patience: int) -> list[str]:
    """What is told meanwhile by somebody who wants what another has."""
    journal = Journal(store, Watermark)
    other, mine = ProcessLease(store, "other", clock=clock), ProcessLease(store, "mine", clock=clock)
    other.renew()
    mine.renew()
    other.acquire(STREAMS[0], Stage.LOAD, journal)
    told: list[str] = []
    claiming = ClaimKeeper(
        STREAMS[0],
        Stage.LOAD,
        journal,
        clock=clock,
        max_wait=timedelta(seconds=patience),
        pause=pause,
        on_wait=told.append,
    )

    with pytest.raises(OtherOwner), claiming.hold(mine):
        pass
    return told


def test_whoever_waits_for_an_owner_to_show_a_sign_says_so_once() -> None:
    clock = ManualClock()

    told = _asked_for(MemoryStore(), pause=clock.advance, clock=clock, patience=5)

    assert told == ["other holds load of mysql/shop.t0: waiting up to 5 s for a sign that its process is alive"]


def test_whoever_waits_for_no_owner_says_nothing() -> None:
    clock = ManualClock()

    assert _asked_for(MemoryStore(), pause=clock.advance, clock=clock, patience=0) == []


def test_a_sign_of_the_owner_in_the_store_of_the_owners_ends_the_wait() -> None:
    owners, documents, clock = MemoryStore(), MemoryStore(), ManualClock()
    journal = Journal(documents, Watermark)
    other, mine = (ProcessLease(documents, name, owner_store=owners, clock=clock) for name in ("other", "mine"))
    other.renew()
    mine.renew()
    other.acquire(STREAMS[0], Stage.LOAD, journal)

    def renew_meanwhile(seconds: float) -> None:
        clock.advance(seconds)
        other.renew()

    claiming = ClaimKeeper(
        STREAMS[0], Stage.LOAD, journal, clock=clock, max_wait=timedelta(seconds=20), pause=renew_meanwhile
    )

    with pytest.raises(OtherOwner), claiming.hold(mine):
        pass

    assert clock.monotonic() == CLAIM_POLL_SECONDS
    assert claiming.is_owned_by_other
