"""Port of read-only commands to the ledger of a warehouse."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from watermarks.loading import LedgerKey


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRecord:
    """Ledger record of one loaded batch."""

    rows: int
    table: str
    manifest: str


class LedgerReader(Protocol):
    """Ledger and target of one stream.

    Raises:
        WarehouseDown, WarehouseUnfit: the warehouse is not reachable, or refuses access.
    """

    @property
    def table(self) -> str:
        """The name of the target, as its ledger writes it."""
        ...

    def read_entries(self) -> Mapping[LedgerKey, LedgerRecord]:
        """Return the ledger's records of the stream; none if there is no ledger."""
        ...

    def find_other_streams(self) -> Sequence[str]:
        """Return other streams that were loaded into the target."""
        ...

    def target_exists(self) -> bool:
        """Return whether the target table exists."""
        ...
