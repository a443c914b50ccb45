"""The rhythm in which a lease is renewed, and what one dead connection costs it."""

import threading

import pytest

from syncd.concurrency.stage_claim import RENEWALS_PER_TTL, Heartbeat, next_beat_at
from tests.builders import Here
from watermarks.errors import Misuse, OutcomeUnknown, StoreUnavailable
from watermarks.lease import LeaseEnded, ProcessLease
from watermarks.store import Revision
from watermarks.stores.memory import MemoryStore

TTL = 30.0
PAUSE = TTL / RENEWALS_PER_TTL


def test_a_renewal_that_takes_long_does_not_put_the_next_one_off() -> None:
    assert next_beat_at(100.0, now=100.0 + 0.6 * PAUSE, pause=PAUSE) == 100.0 + PAUSE


def test_beats_that_were_missed_are_not_made_up_for() -> None:
    late = 100.0 + 3.2 * PAUSE

    assert next_beat_at(100.0, now=late, pause=PAUSE) == late


@pytest.mark.parametrize("hung", [1, 2])
def test_a_hung_request_or_two_leave_time_for_one_that_is_answered(hung: int) -> None:
    renewed = due = 100.0
    now = renewed
    for _ in range(hung):
        due = next_beat_at(due, now=now, pause=PAUSE)
        now = due + TTL / 6  # how long a request for a lease may wait

    assert next_beat_at(due, now=now, pause=PAUSE) + TTL / 6 < renewed + TTL


class Refusing(MemoryStore):
    """A store whose next renewals are answered by errors."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors = list(errors)
        self.beats = threading.Semaphore(0)

    def put(self, key: str, body: bytes, *, expected: Revision | None) -> Revision:
        if expected is not None and self.errors:
            raise self.errors.pop(0)
        revision = super().put(key, body, expected=expected)
        if expected is not None:
            self.beats.release()
        return revision


@pytest.mark.parametrize(
    "error",
    [StoreUnavailable("away"), OutcomeUnknown("no answer"), Misuse("501 NotImplemented"), RuntimeError("nobody knew")],
)
def test_whatever_befalls_one_beat_the_next_one_comes(error: Exception) -> None:
    store = Refusing(error)
    lost: list[str] = []

    with Heartbeat(ProcessLease(store, "p1", ttl_seconds=0.04, host=Here("p1")), ttl_seconds=0.04, on_lost=lost.append):
        assert store.beats.acquire(timeout=60)

    assert lost == []


@pytest.mark.parametrize(
    ("errors", "why"),
    [
        ((), ""),
        ((StoreUnavailable("s3://lake is away"),), "s3://lake is away"),
        ((StoreUnavailable("away"), RuntimeError("nobody knew")), "a bug in syncd: RuntimeError"),
    ],
)
def test_who_loses_a_lease_says_why_it_was_not_renewed(errors: tuple[Exception, ...], why: str) -> None:
    store = Refusing()
    process = ProcessLease(store, "p1", ttl_seconds=0.04, host=Here("p1"))
    lost, over = list[str](), threading.Event()

    def told(why: str) -> None:
        lost.append(why)
        over.set()

    with Heartbeat(process, ttl_seconds=0.04, on_lost=told):
        assert store.beats.acquire(timeout=60)
        store.errors = [*errors, LeaseEnded("another ended it")]
        assert over.wait(60)

    assert len(lost) == 1
    assert why in lost[0]
    assert bool(lost[0]) == bool(errors)
