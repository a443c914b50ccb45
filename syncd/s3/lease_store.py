"""Store of leases: the heartbeat of this process must not wait for a dead connection."""

from collections.abc import Iterator
from dataclasses import dataclass

from watermarks.errors import Transient
from watermarks.store import Revision, Store, StoredObject

OWNERS_PREFIX = "owners/"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseStore:
    """Owners' objects use a client that gives up soon, as the next heartbeat is as good; the rest a patient one."""

    quick: Store
    patient: Store

    def read(self, key: str) -> StoredObject | None:
        try:
            return self._store_for(key).read(key)
        except Transient:
            if not key.startswith(OWNERS_PREFIX):
                raise
            # A process that takes a claim reads the owner too, and has no next heartbeat; its connection may be dead.
            return self.quick.read(key)

    def create(self, key: str, body: bytes) -> Revision:
        return self._store_for(key).create(key, body)

    def replace(self, key: str, body: bytes, *, expected: Revision) -> Revision:
        return self._store_for(key).replace(key, body, expected=expected)

    def list(self, prefix: str) -> Iterator[str]:
        return self.patient.list(prefix)

    def _store_for(self, key: str) -> Store:
        return self.quick if key.startswith(OWNERS_PREFIX) else self.patient
