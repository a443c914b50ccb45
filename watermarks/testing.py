"""Test support for watermarks: a manual clock, a store with scripted faults, and the contract suite for stores.

It needs pytest, which the library itself does not.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import ClassVar, Final, TypeVar, assert_never

import pytest

from watermarks.errors import AlreadyExists, Misuse, OutcomeUnknown, Stale, StaleRevision, StoreUnavailable
from watermarks.store import Revision, Store, StoredObject, put_once

NOON: Final = datetime(2024, 5, 17, 12, 0, tzinfo=UTC)


class ManualClock:
    """A clock that stands still until it is advanced."""

    def __init__(self, start: datetime = NOON) -> None:
        if start.utcoffset() != timedelta(0):
            raise Misuse(f"{start} is not an instant in UTC", hint="Give a datetime with tzinfo=UTC.")
        self._start = start
        self._passed = timedelta(0)

    def now(self) -> datetime:
        return self._start + self._passed

    def monotonic(self) -> float:
        return self._passed.total_seconds()

    def advance(self, seconds: float) -> None:
        """Let time pass; it never runs back."""
        if seconds < 0:
            raise Misuse(f"a clock cannot advance by {seconds} s", hint="Start another clock at the earlier instant.")
        self._passed += timedelta(seconds=seconds)


class StoreOperation(StrEnum):
    """Operation of a store."""

    READ = "read"
    CREATE = "create"
    """A put of a key that must not exist."""

    REPLACE = "replace"
    """A put of a key whose state must be the one that was read."""

    LIST = "list"


class StoreFault(StrEnum):
    """Fault of one call of a store."""

    DOWN = "down"
    """The store refuses and does nothing: StoreUnavailable."""

    LOST_REQUEST = "lost request"
    """A write never arrives; the caller gets no answer: OutcomeUnknown."""

    LOST_ANSWER = "lost answer"
    """A write arrives and is applied or refused; the caller gets no answer: OutcomeUnknown."""

    TWICE = "twice"
    """A write is repeated below the caller, who gets the second answer."""

    LATE = "late"
    """A write is held back; the caller gets no answer. See `deliver_delayed_write`."""

    STALE_LIST = "stale list"
    """A listing gives the keys of the same listing last time, or none the first time."""


POSSIBLE_FAULTS: Final = {
    StoreOperation.READ: frozenset({StoreFault.DOWN}),
    StoreOperation.LIST: frozenset({StoreFault.DOWN, StoreFault.STALE_LIST}),
    StoreOperation.CREATE: frozenset(StoreFault) - {StoreFault.STALE_LIST},
    StoreOperation.REPLACE: frozenset(StoreFault) - {StoreFault.STALE_LIST},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCall:
    """One call of a store; numbers start at 1 and count the calls of one operation and key."""

    operation: StoreOperation
    key: str
    number: int


FaultScript = Callable[[StoreCall], StoreFault | None]
"""Function that decides the fault of a call; None means no fault."""

Write = Callable[[], Revision]
T = TypeVar("T")


def script_faults(operation: StoreOperation, key: str, *faults: StoreFault | None) -> FaultScript:
    """Return a script that gives the calls of this operation and key these faults in turn, and later ones none."""

    def decide(call: StoreCall) -> StoreFault | None:
        if (call.operation, call.key) != (operation, key) or call.number > len(faults):
            return None
        return faults[call.number - 1]

    return decide


class FaultyStore:
    """Wrapper of a store that fails as scripted.

    The first script that returns a fault decides:

        FaultyStore(
            MemoryStore(),
            script_faults(StoreOperation.CREATE, "a", StoreFault.LOST_ANSWER),
            script_faults(StoreOperation.READ, "a", None, StoreFault.DOWN),
        )
    """

    def __init__(self, inner: Store, *scripts: FaultScript) -> None:
        self.inner = inner
        self._scripts = scripts
        self._calls: Counter[tuple[StoreOperation, str]] = Counter()
        self._delayed_writes: deque[Write] = deque()
        self._last_listings: dict[str, list[str]] = {}

    @property
    def delayed_write_count(self) -> int:
        return len(self._delayed_writes)

    def deliver_delayed_write(self) -> Revision | None:
        """Apply the oldest delayed write; return None if the store refused it."""
        if not self._delayed_writes:
            raise Misuse("no write is delayed", hint="Script StoreFault.LATE first.")
        write = self._delayed_writes.popleft()
        try:
            return write()
        except Stale:
            return None

    def read(self, key: str) -> StoredObject | None:
        self._next_fault(StoreOperation.READ, key)
        return self.inner.read(key)

    def put(self, key: str, body: bytes, *, expected: Revision | None) -> Revision:
        operation = StoreOperation.CREATE if expected is None else StoreOperation.REPLACE
        return self._write(self._next_fault(operation, key), key, lambda: self.inner.put(key, body, expected=expected))

    def list(self, prefix: str) -> Iterator[str]:
        stale = self._next_fault(StoreOperation.LIST, prefix) is StoreFault.STALE_LIST
        if not stale:
            self._last_listings[prefix] = [*self.inner.list(prefix)]
        yield from self._last_listings.get(prefix, [])

    def _next_fault(self, operation: StoreOperation, key: str) -> StoreFault | None:
        self._calls[operation, key] += 1
        call = StoreCall(operation=operation, key=key, number=self._calls[operation, key])
        fault = next((fault for script in self._scripts if (fault := script(call)) is not None), None)
        if fault is StoreFault.DOWN:
            raise StoreUnavailable(f"{key}: injected fault: the store is down", key=key)
        if fault is not None and fault not in POSSIBLE_FAULTS[operation]:
            raise Misuse(
                f"the fault {fault!r} is not possible for {operation}",
                hint=f"Possible faults: {', '.join(sorted(POSSIBLE_FAULTS[operation]))}.",
            )
        return fault

    def _write(self, fault: StoreFault | None, key: str, write: Write) -> Revision:
        match fault:
            case None:
                return write()
            case StoreFault.TWICE:
                write()
                return write()
            case StoreFault.LOST_ANSWER:
                # A refusal is lost like any other answer.
                with suppress(Stale):
                    write()
            case StoreFault.LATE:
                self._delayed_writes.append(write)
            case StoreFault.LOST_REQUEST:
                pass
            case StoreFault.DOWN | StoreFault.STALE_LIST:
                raise AssertionError(fault)
            case _:
                assert_never(fault)
        raise OutcomeUnknown(f"{key}: injected fault: {fault}", key=key)


BINARY: Final = bytes(range(256))
LARGE: Final = BINARY * 4096
ODD_KEYS: Final = (
    "odd/%2F%41.json", "odd/&amp;<>'\".json", "odd/+plus and space.json", "odd/=?#;,:@!$().json",
    "odd/[brackets]{braces}.json", "odd/a*b~c|d^e`f.json", "odd/e\u0301.json", "odd/\u00e9.json",
    "odd/\u4e2d\u6587/\u043a\u043b\u044e\u0447.json", "odd/\ufb01.json", "odd/\U0001f511.json",
)  # fmt: skip
INVALID_KEYS: Final = (
    "", "/", "/etc/passwd", "../outside", "a/../../outside", "a/..", ".", "./a", "a//b", "a/", "a\0b", "a\nb",
    "a\ud800", "k" * 1025,
)  # fmt: skip


class StoreContract:
    """Suite that every store must pass: inherit it, with a fixture `store` that is empty for each test."""

    race_skip_reason: ClassVar[str] = ""
    """Reason for leaving out the races; empty for a store that checks conditions atomically, as it must."""

    listed_key_count: ClassVar[int] = 1_001
    """Number of keys in one listing; more than one page of S3."""

    threads: ClassVar[int] = 8
    rounds: ClassVar[int] = 12

    @pytest.fixture
    def store(self) -> Store:
        raise NotImplementedError

    @pytest.fixture
    def raced(self, store: Store) -> Store:
        """Store for races; the test is skipped where a race proves nothing."""
        if self.race_skip_reason:
            pytest.skip(self.race_skip_reason)
        return store

    def test_reading_what_was_never_written_gives_none(self, store: Store) -> None:
        assert store.read("a/missing.json") is None

    @pytest.mark.parametrize("body", [b"{}", b"", BINARY, LARGE], ids=["json", "empty", "binary", "1 MiB"])
    def test_what_was_created_is_read_back_byte_for_byte(self, store: Store, body: bytes) -> None:
        revision = store.put("a/doc.json", body, expected=None)

        assert store.read("a/doc.json") == StoredObject(body=body, revision=revision)

    def test_a_key_is_created_once(self, store: Store) -> None:
        first = store.put("a", b"first", expected=None)

        with pytest.raises(AlreadyExists):
            store.put("a", b"second", expected=None)

        assert store.read("a") == StoredObject(body=b"first", revision=first)

    def test_a_document_is_replaced_again_and_again(self, store: Store) -> None:
        revisions = [store.put("a", b"0", expected=None)]

        for number in range(1, 6):
            revisions.append(store.put("a", str(number).encode(), expected=revisions[-1]))

        assert store.read("a") == StoredObject(body=b"5", revision=revisions[-1])
        assert len(set(revisions)) == len(revisions)

    def test_the_revision_that_was_read_is_good_for_replacing(self, store: Store) -> None:
        store.put("a", b"first", expected=None)
        stored = store.read("a")
        assert stored is not None

        store.put("a", b"second", expected=stored.revision)

        assert _body(store, "a") == b"second"

    def test_an_older_revision_replaces_nothing(self, store: Store) -> None:
        first = store.put("a", b"first", expected=None)
        second = store.put("a", b"second", expected=first)

        with pytest.raises(StaleRevision):
            store.put("a", b"third", expected=first)

        assert store.read("a") == StoredObject(body=b"second", revision=second)

    def test_the_revision_of_another_key_replaces_nothing(self, store: Store) -> None:
        store.put("a", b"this", expected=None)
        other = store.put("b", b"that", expected=None)

        with pytest.raises(StaleRevision):
            store.put("a", b"new", expected=other)

        assert _body(store, "a") == b"this"

    def test_replacing_what_is_missing_makes_nothing(self, store: Store) -> None:
        seen = store.put("a", b"here", expected=None)

        with pytest.raises(StaleRevision):
            store.put("b", b"new", expected=seen)

        assert store.read("b") is None
        assert [*store.list("")] == ["a"]

    def test_listing_an_empty_store_gives_nothing(self, store: Store) -> None:
        assert [*store.list("")] == []
        assert [*store.list("a/")] == []

    def test_a_prefix_is_a_string_and_not_a_folder(self, store: Store) -> None:
        for key in ("a/bc", "a/b/2", "b", "a/c", "ab/b", "a/b.json", "a/b/1"):
            store.put(key, b"x", expected=None)

        assert [*store.list("a/b")] == ["a/b.json", "a/b/1", "a/b/2", "a/bc"]
        assert [*store.list("a/b/")] == ["a/b/1", "a/b/2"]
        assert [*store.list("a/b.json")] == ["a/b.json"]
        assert [*store.list("")] == ["a/b.json", "a/b/1", "a/b/2", "a/bc", "a/c", "ab/b", "b"]

    def test_a_stream_is_not_taken_for_its_neighbour(self, store: Store) -> None:
        for stream in ("shop.orders", "shop.orders_old", "shop.orders-2", "shop.order"):
            store.put(f"plans/{stream}/1-1.json", b"x", expected=None)

        assert [*store.list("plans/shop.orders/")] == ["plans/shop.orders/1-1.json"]

    @pytest.mark.parametrize("prefix", ["/", "//", "../", "a//", "./", "z"])
    def test_a_prefix_of_no_key_lists_nothing(self, store: Store, prefix: str) -> None:
        store.put("a/b", b"x", expected=None)

        assert [*store.list(prefix)] == []

    def test_keys_come_in_order_of_code_points(self, store: Store) -> None:
        """Not in that of UTF-16, with U+1F511 before U+FB01, nor of any language."""
        for key in (*ODD_KEYS, "odd/B", "odd/a", "odd/Z", "odd/_"):
            store.put(key, b"x", expected=None)

        assert [*store.list("odd/")] == sorted((*ODD_KEYS, "odd/B", "odd/a", "odd/Z", "odd/_"))

    @pytest.mark.parametrize("key", ODD_KEYS)
    def test_any_text_is_a_key_of_its_own(self, store: Store, key: str) -> None:
        revision = store.put(key, key.encode(), expected=None)
        store.put(key, b"replaced", expected=revision)

        assert _body(store, key) == b"replaced"
        assert [*store.list("")] == [key]
        assert [*store.list(key)] == [key]

    @pytest.mark.parametrize("key", INVALID_KEYS, ids=lambda key: ascii(key[:20]))
    def test_what_some_store_could_not_hold_is_no_key_of_any(self, store: Store, key: str) -> None:
        seen = store.put("here", b"x", expected=None)

        with pytest.raises(Misuse):
            store.read(key)
        with pytest.raises(Misuse):
            store.put(key, b"x", expected=None)
        with pytest.raises(Misuse):
            store.put(key, b"x", expected=seen)

        assert [*store.list("")] == ["here"]

    def test_a_listing_gives_all_pages(self, store: Store) -> None:
        keys = [f"many/{number:05}" for number in range(self.listed_key_count)]
        with ThreadPoolExecutor(self.threads) as pool:
            assert len({*pool.map(partial(store.put, body=b"x", expected=None), keys)}) > 0
        store.put("many-more/1", b"x", expected=None)

        assert [*store.list("many/")] == keys
        assert [*store.list("many")] == ["many-more/1", *keys]

    def test_put_once_writes_what_is_not_there(self, store: Store) -> None:
        kept = put_once(store, "a", b"nonce 1")

        assert kept.is_ours
        assert store.read("a") == StoredObject(body=b"nonce 1", revision=_require_revision(kept.revision))

    def test_put_once_knows_its_own_write_again(self, store: Store) -> None:
        assert put_once(store, "a", b"nonce 1") == put_once(store, "a", b"nonce 1")

    def test_put_once_tells_the_writer_that_came_first(self, store: Store) -> None:
        put_once(store, "a", b"nonce 1")

        kept = put_once(store, "a", b"nonce 2")

        assert (kept.body, kept.is_ours) == (b"nonce 1", False)
        assert _body(store, "a") == b"nonce 1"

    def test_put_once_settles_a_lost_answer(self, store: Store) -> None:
        kept = put_once(
            FaultyStore(store, script_faults(StoreOperation.CREATE, "a", StoreFault.LOST_ANSWER)), "a", b"nonce 1"
        )

        assert kept.is_ours
        assert _body(store, "a") == b"nonce 1"

    def test_of_many_creators_one_wins_and_the_others_know(self, raced: Store) -> None:
        for turn in range(self.rounds):
            bodies = [f"{turn}-{writer}".encode() for writer in range(self.threads)]

            won = _run_together([_create_attempt(raced, f"race/{turn}", body) for body in bodies])

            assert won.count(True) == 1
            assert _body(raced, f"race/{turn}") == bodies[won.index(True)]

    def test_of_many_replacers_one_wins_and_the_others_know(self, raced: Store) -> None:
        seen = raced.put("race", b"start", expected=None)
        for turn in range(self.rounds):
            bodies = [f"{turn}-{writer}".encode() for writer in range(self.threads)]

            won = _run_together([_replace_attempt(raced, "race", body, seen) for body in bodies])

            stored = raced.read("race")
            assert stored is not None
            assert won.count(True) == 1
            assert stored.body == bodies[won.index(True)]
            seen = stored.revision

    def test_no_entry_of_many_writers_is_lost(self, raced: Store) -> None:
        writers = [f"writer-{number}" for number in range(self.threads)]

        _run_together([partial(append_lines, raced, "book", writer=writer, times=self.rounds) for writer in writers])

        assert Counter(read_lines(raced, "book")) == Counter(
            f"{writer} {number}" for writer in writers for number in range(self.rounds)
        )


def append_lines(store: Store, key: str, *, writer: str, times: int) -> None:
    """Add numbered lines, each once, to a document that other writers change too."""
    for number in range(times):
        line = f"{writer} {number}"
        while line not in read_lines(store, key):
            with suppress(Stale, OutcomeUnknown):
                _append(store, key, line)


def read_lines(store: Store, key: str) -> list[str]:
    """Return the lines of a document that `append_lines` wrote."""
    body = _body(store, key)
    return [] if body is None else body.decode().splitlines()


def _append(store: Store, key: str, line: str) -> None:
    stored = store.read(key)
    if stored is None:
        store.put(key, f"{line}\n".encode(), expected=None)
    else:
        store.put(key, stored.body + f"{line}\n".encode(), expected=stored.revision)


def _create_attempt(store: Store, key: str, body: bytes) -> Callable[[], bool]:
    return lambda: _succeeds(lambda: store.put(key, body, expected=None), AlreadyExists)


def _replace_attempt(store: Store, key: str, body: bytes, seen: Revision) -> Callable[[], bool]:
    return lambda: _succeeds(lambda: store.put(key, body, expected=seen), StaleRevision)


def _succeeds(write: Write, refusal: type[Stale]) -> bool:
    try:
        write()
    except refusal:
        return False
    return True


def _run_together(actions: Sequence[Callable[[], T]]) -> list[T]:
    """Start all actions at the same moment, each in its own thread, and return their results."""
    gate = threading.Barrier(len(actions))

    def run(action: Callable[[], T]) -> T:
        gate.wait()
        return action()

    with ThreadPoolExecutor(len(actions)) as pool:
        return [*pool.map(run, actions)]


def _body(store: Store, key: str) -> bytes | None:
    stored = store.read(key)
    return None if stored is None else stored.body


def _require_revision(revision: Revision | None) -> Revision:
    assert revision is not None
    return revision
