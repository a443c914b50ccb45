"""Claims at the end of a process that has many."""

import threading
from dataclasses import dataclass, field

from syncd.stages.claim import GIVEN_BACK_AT_ONCE, Claiming, give_back
from watermarks.clock import SystemClock
from watermarks.document import Stage, Watermark
from watermarks.errors import StoreUnavailable
from watermarks.history import Journal
from watermarks.lease import Claim, Process
from watermarks.names import StreamName, claim_key
from watermarks.store import Revision
from watermarks.stores.memory import MemoryStore

STREAMS = [StreamName(source="mysql", database="shop", table=f"t{n}") for n in range(GIVEN_BACK_AT_ONCE)]


@dataclass(slots=True)
class Crossing(MemoryStore):
    """Claims are answered once as many are asked for as there are at once; one of them never is."""

    meeting: threading.Barrier | None = None
    mute: str = ""

    def replace(self, key: str, body: bytes, *, seen: Revision) -> Revision:
        if self.meeting is not None:
            self.meeting.wait(10)
            if key == self.mute:
                raise StoreUnavailable("no answer")
        return MemoryStore.replace(self, key, body, seen=seen)


@dataclass
class Desk:
    store: Crossing = field(default_factory=Crossing)

    def __post_init__(self) -> None:
        journal = Journal(self.store, Watermark)
        process = Process(self.store, "daemon")
        process.renew()
        self.claims = [Claiming(stream, Stage.LOAD, journal, clock=SystemClock()) for stream in STREAMS]
        for claiming in self.claims:
            claiming.held(process)

    def released(self, stream: StreamName) -> bool:
        stored = self.store.read(claim_key(stream, Stage.LOAD))
        assert stored is not None
        return Claim.of_bytes(stored.body, stream=stream, stage=Stage.LOAD).released


def test_many_claims_are_given_back_at_once() -> None:
    desk = Desk()
    desk.store.meeting = threading.Barrier(GIVEN_BACK_AT_ONCE)

    give_back(desk.claims)

    assert all(desk.released(stream) for stream in STREAMS)


def test_one_that_cannot_be_given_back_keeps_no_other() -> None:
    desk = Desk()
    desk.store.meeting = threading.Barrier(GIVEN_BACK_AT_ONCE)
    desk.store.mute = claim_key(STREAMS[3], Stage.LOAD)

    give_back(desk.claims)

    assert [stream for stream in STREAMS if not desk.released(stream)] == [STREAMS[3]]
