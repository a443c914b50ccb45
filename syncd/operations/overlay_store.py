"""A store that can be written to without a trace: what a change would do is seen by doing it here."""

import threading
from collections.abc import Iterator

from watermarks.errors import AlreadyExists, StaleRevision
from watermarks.store import Revision, Store, StoredObject


class OverlayStore:
    """Lies over a store: what is written here is read again here, and nowhere else.

    Conditions are judged by both: what stands in the store is in the way of a write here as it would be there.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._written: dict[str, StoredObject] = {}
        self._writes = 0
        self._lock = threading.Lock()

    def read(self, key: str) -> StoredObject | None:
        return self._written.get(key) or self._store.read(key)

    def create(self, key: str, body: bytes) -> Revision:
        with self._lock:
            if self.read(key) is not None:
                raise AlreadyExists(f"{key} exists")
            return self._write(key, body)

    def replace(self, key: str, body: bytes, *, expected: Revision) -> Revision:
        with self._lock:
            there = self.read(key)
            if there is None or there.revision != expected:
                raise StaleRevision(f"{key} is not the one that was read")
            return self._write(key, body)

    def list(self, prefix: str) -> Iterator[str]:
        here = (key for key in tuple(self._written) if key.startswith(prefix))
        yield from sorted({*here, *self._store.list(prefix)})

    def _write(self, key: str, body: bytes) -> Revision:
        self._writes += 1
        revision = Revision(f"unwritten-{self._writes}")
        self._written[key] = StoredObject(body=bytes(body), revision=revision)
        return revision
