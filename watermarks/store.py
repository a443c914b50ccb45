"""The store: where documents live, and the one way to write something once."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NewType, Protocol

from watermarks.errors import AlreadyExists, OutcomeUnknown, Transient

Revision = NewType("Revision", str)
"""What a store calls one state of one key: an ETag, opaque, only good for `replace`."""

MAX_PUT_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """What stood at a key when it was read."""

    body: bytes
    revision: Revision


class Store(Protocol):
    """A strongly consistent map of keys to bytes that can be changed only on a condition.

    There is no unconditional write, so no caller can overwrite what it has
    not seen. Conditions are judged by the store itself, atomically among all
    its users; an implementation that reads and then writes is not one.
    """

    def read(self, key: str) -> StoredObject | None:
        """What stands at the key now; None only when the store says that nothing does.

        Raises:
            StoreUnavailable: no answer, or an answer that is not whole.
        """
        ...

    def create(self, key: str, body: bytes) -> Revision:
        """Write a key that does not exist.

        Raises:
            AlreadyExists: something stands there. It may be this very write,
                sent again below the caller: compare before giving up.
            OutcomeUnknown: the write may or may not have happened, or may yet.
            StoreUnavailable: nothing was written.
        """
        ...

    def replace(self, key: str, body: bytes, *, expected: Revision) -> Revision:
        """Write a key that is still in the state that was read.

        Raises:
            StaleRevision: it is in another state, or gone (the same caution).
            OutcomeUnknown: the write may or may not have happened, or may yet.
            StoreUnavailable: nothing was written.
        """
        ...

    def list(self, prefix: str) -> Iterator[str]:
        """Every key that starts with the prefix, in order of code points.

        Raises:
            StoreUnavailable: the listing is not whole.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PutResult:
    """What stands at a write-once key: ours, or another writer's that came first."""

    body: bytes
    revision: Revision | None
    is_ours: bool


def put_once(store: Store, key: str, body: bytes) -> PutResult:
    """Make sure that something stands at the key, and tell whose it is.

    The body must hold a nonce of its writer: only then are equal bytes proof
    that a refused or unanswered write was ours.

    Raises:
        OutcomeUnknown: the store gave no answer, not even to the question.
        StoreUnavailable: nothing was written.
    """
    for attempt in range(MAX_PUT_ATTEMPTS):
        try:
            return PutResult(body=body, revision=store.create(key, body), is_ours=True)
        except (AlreadyExists, OutcomeUnknown):
            there = _read_after_put(store, key)
        except Transient as error:
            # Of this attempt nothing was written; an earlier one may still arrive.
            if attempt:
                raise _unsettled_error(key, error) from error
            raise
        if there is not None:
            return PutResult(body=there.body, revision=there.revision, is_ours=there.body == body)
    raise OutcomeUnknown(
        f"{key}: written {MAX_PUT_ATTEMPTS} times, and neither refused nor there",
        hint="Is the store reachable, and does it honour If-None-Match?",
    )


def _read_after_put(store: Store, key: str) -> StoredObject | None:
    try:
        return store.read(key)
    except Transient as error:
        raise _unsettled_error(key, error) from error


def _unsettled_error(key: str, error: Transient) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{key}: sent, not answered, and not to be settled since: {error.message}",
        hint=error.hint or "It may stand there or not: the next attempt finds out.",
    )
