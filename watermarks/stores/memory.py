"""Stores in memory: for tests, and as an overlay that keeps writes away from another store."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from watermarks.errors import AlreadyExists, StaleRevision
from watermarks.store import Revision, Store, StoredObject, check_key


@dataclass(slots=True)
class MemoryStore:
    """Dictionary under a lock. Every write gets a revision that is never used again."""

    _objects: dict[str, StoredObject] = field(default_factory=dict[str, StoredObject])
    _writes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, key: str) -> StoredObject | None:
        check_key(key)
        with self._lock:
            return self._objects.get(key)

    def put(self, key: str, body: bytes, *, expected: Revision | None) -> Revision:
        check_key(key)
        with self._lock:
            _require_expected(key, self._objects.get(key), expected)
            return self._write(key, body)

    def list(self, prefix: str) -> Iterator[str]:
        with self._lock:
            keys = sorted(key for key in self._objects if key.startswith(prefix))
        yield from keys

    def _write(self, key: str, body: bytes) -> Revision:
        self._writes += 1
        revision = Revision(str(self._writes))
        self._objects[key] = StoredObject(body=bytes(body), revision=revision)
        return revision


class OverlayStore:
    """In-memory layer above a store. Its writes are visible only here.

    Both layers judge a condition: an object of the store below refuses a write as the store itself would.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._written: dict[str, StoredObject] = {}
        self._writes = 0
        self._lock = threading.Lock()

    def read(self, key: str) -> StoredObject | None:
        return self._written.get(key) or self._store.read(key)

    def put(self, key: str, body: bytes, *, expected: Revision | None) -> Revision:
        with self._lock:
            _require_expected(key, self.read(key), expected)
            return self._write(key, body)

    def list(self, prefix: str) -> Iterator[str]:
        written = (key for key in tuple(self._written) if key.startswith(prefix))
        yield from sorted({*written, *self._store.list(prefix)})

    def _write(self, key: str, body: bytes) -> Revision:
        self._writes += 1
        revision = Revision(f"unwritten-{self._writes}")
        self._written[key] = StoredObject(body=bytes(body), revision=revision)
        return revision


def _require_expected(key: str, stored: StoredObject | None, expected: Revision | None) -> None:
    """Refuse a write of a key that does not have the state that its writer has read.

    Raises:
        AlreadyExists: the key exists, and none was expected.
        StaleRevision: the key has another state or is missing.
    """
    if expected is None:
        if stored is not None:
            raise AlreadyExists(f"{key} exists")
    elif stored is None or stored.revision != expected:
        raise StaleRevision(f"{key} was changed or removed since it was read")
