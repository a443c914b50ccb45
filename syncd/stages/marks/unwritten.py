"""A store that can be written to without a trace: what a change would do is seen by doing it here."""

from collections.abc import Iterator

from watermarks.store import Revision, Store, Stored


class Unwritten:
    """Reads what stands in a store; whatever is written, it only remembers the keys of."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.written: list[str] = []

    def read(self, key: str) -> Stored | None:
        return self._store.read(key)

    def create(self, key: str, body: bytes) -> Revision:  # noqa: ARG002  # as any store
        self.written.append(key)
        return Revision("unwritten")

    def replace(self, key: str, body: bytes, *, seen: Revision) -> Revision:  # noqa: ARG002  # as any store
        self.written.append(key)
        return Revision("unwritten")

    def list(self, prefix: str) -> Iterator[str]:
        return self._store.list(prefix)
