"""Store in memory, for tests; the simplest implementation of the contract."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from watermarks.errors import AlreadyExists, StaleRevision
from watermarks.store import Revision, StoredObject
from watermarks.stores.keys import check_key


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

    def create(self, key: str, body: bytes) -> Revision:
        check_key(key)
        with self._lock:
            if key in self._objects:
                raise AlreadyExists(f"{key} exists")
            return self._write(key, body)

    def replace(self, key: str, body: bytes, *, expected: Revision) -> Revision:
        check_key(key)
        with self._lock:
            stored = self._objects.get(key)
            if stored is None or stored.revision != expected:
                raise StaleRevision(f"{key} was changed or removed since it was read")
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
