"""Where leases stand: this process's own sign of life must not wait for a line that is dead."""

from collections.abc import Iterator
from dataclasses import dataclass

from watermarks.errors import Transient
from watermarks.store import Revision, Store, StoredObject

OWNERS_PREFIX = "owners/"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseStore:
    """Owners' objects over a client that soon gives up, for the next beat is as good; all else over the patient one."""

    quick: Store
    patient: Store

    def read(self, key: str) -> StoredObject | None:
        try:
            return self._store_for(key).read(key)
        except Transient:
            if not key.startswith(OWNERS_PREFIX):
                raise
            # Who takes a claim reads an owner too, and has no next beat; a connection may have died of idleness.
            return self.quick.read(key)

    def create(self, key: str, body: bytes) -> Revision:
        return self._store_for(key).create(key, body)

    def replace(self, key: str, body: bytes, *, expected: Revision) -> Revision:
        return self._store_for(key).replace(key, body, expected=expected)

    def list(self, prefix: str) -> Iterator[str]:
        return self.patient.list(prefix)

    def _store_for(self, key: str) -> Store:
        return self.quick if key.startswith(OWNERS_PREFIX) else self.patient
