"""Store of documents: the protocol, the keys every store can hold, and the one way to write something once."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NewType, Protocol

from watermarks.codec import ForeignDocument
from watermarks.errors import AlreadyExists, Misuse, OutcomeUnknown, StaleRevision, Transient

Revision = NewType("Revision", str)
"""Identity of one state of one key, such as an ETag; opaque, for `put` only."""

MAX_PUT_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """Content of a key when it was read."""

    body: bytes
    revision: Revision


class Store(Protocol):
    """Strongly consistent map of keys to bytes that is changed only on a condition.

    There is no unconditional write, so no caller can overwrite what it has not
    read. The store itself checks conditions, atomically among all its users; an
    implementation that reads and then writes is not valid.
    """

    def read(self, key: str) -> StoredObject | None:
        """Return the content of the key; None only if the store says that the key does not exist.

        Raises:
            StoreUnavailable: there was no answer, or an incomplete one.
        """
        ...

    def put(self, key: str, body: bytes, *, expected: Revision | None) -> Revision:
        """Write a key whose state is still the one that was read; None means that it must not exist.

        Raises:
            AlreadyExists: nothing was expected, and the key exists. It may come from this very write,
                sent again below the caller: compare before giving up.
            StaleRevision: the key has another state or is missing (compare as above).
            OutcomeUnknown: the write may have happened, or may happen later.
            StoreUnavailable: nothing was written.
        """
        ...

    def list(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with the prefix, in order of code points.

        Raises:
            StoreUnavailable: the listing is incomplete.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PutResult:
    """Content of a key after `put_once`: ours, or what else the store has."""

    body: bytes
    revision: Revision | None
    is_ours: bool


def put_once(store: Store, key: str, body: bytes, *, expected: Revision | None = None) -> PutResult:
    """Write a key unless it exists, or unless it has changed since it was read, and return its content.

    The body must have a nonce of its writer: only then do equal bytes prove that
    a refused or unanswered write was ours.

    Raises:
        ForeignDocument: a key with an expected state is missing.
        OutcomeUnknown: the store answered neither the write nor the read after it.
        StoreUnavailable: nothing was written.
    """
    for attempt in range(MAX_PUT_ATTEMPTS):
        try:
            return PutResult(body=body, revision=store.put(key, body, expected=expected), is_ours=True)
        except (AlreadyExists, StaleRevision, OutcomeUnknown) as error:
            stored = _read_after_put(store, key)
            if stored is None and expected is not None:
                folder = key.partition("/")[0]
                raise ForeignDocument(f"{key} is missing", hint=f"Check what else deletes {folder}.") from error
        except Transient as error:
            # This attempt wrote nothing; an earlier one may still arrive.
            if attempt:
                raise _unsettled_error(key, error) from error
            raise
        if stored is not None:
            return PutResult(body=stored.body, revision=stored.revision, is_ours=stored.body == body)
    raise OutcomeUnknown(
        f"{key} was written {MAX_PUT_ATTEMPTS} times without a refusal, but does not exist",
        hint="Check that the store is reachable and honours If-None-Match.",
    )


def _read_after_put(store: Store, key: str) -> StoredObject | None:
    try:
        return store.read(key)
    except Transient as error:
        raise _unsettled_error(key, error) from error


def _unsettled_error(key: str, error: Transient) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{key}: the write got no answer, and reading it failed: {error.message}",
        hint=error.hint or "The object may or may not exist; the next attempt finds out.",
    )


MAX_KEY_BYTES: Final = 1024
"""Limit of S3 for a key in UTF-8, with the prefix of the store."""


def check_key(key: str) -> None:
    """Refuse a key that some store cannot hold, or that leads out of the store.

    Raises:
        Misuse: it is not names joined by single slashes.
    """
    if fault := _find_fault(key):
        raise Misuse(
            f"{key!r} is not a key: it {fault}",
            hint="A key is names joined by single slashes, such as watermarks/shop/orders.json.",
            key=key,
        )


def is_key(text: str) -> bool:
    """Return True for a valid key; objects of other programs often have none."""
    return not _find_fault(text)


def can_start_key(prefix: str) -> bool:
    """Return True if some key can start with this prefix; if not, a listing is empty."""
    folder, slash, _ = prefix.rpartition("/")
    return not slash or is_key(folder)


def _find_fault(key: str) -> str:
    names = key.split("/")
    if not key:
        return "is empty"
    if key.startswith("/"):
        return "starts with a slash"
    if "" in names:
        return "contains an empty name"
    if "." in names or ".." in names:
        return "contains the name . or .."
    return _find_text_fault(key)


def _find_text_fault(key: str) -> str:
    if any(char < " " or char == "\x7f" for char in key):
        return "contains a control character"
    try:
        length = len(key.encode())
    except UnicodeEncodeError:
        return "is not Unicode text"
    return f"has {length} bytes, more than {MAX_KEY_BYTES}" if length > MAX_KEY_BYTES else ""
