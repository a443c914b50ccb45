"""What one who only looks wants of lake and warehouse: which files stand, and what the ledger says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from watermarks.loading import LedgerKey


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRecord:
    """What a ledger says of one landed batch."""

    rows: int
    table: str
    manifest: str


class LedgerReader(Protocol):
    """A warehouse that is only looked at.

    Raises:
        WarehouseDown, WarehouseUnfit: it cannot be asked, or does not let us.
    """

    @property
    def table(self) -> str:
        """The name of the target, as its ledger writes it."""
        ...

    def read_entries(self) -> Mapping[LedgerKey, LedgerRecord]:
        """All that the ledger holds of the stream; none where there is no ledger."""
        ...

    def find_other_streams(self) -> Sequence[str]:
        """Other streams that have landed in the target."""
        ...

    def target_exists(self) -> bool:
        """Whether the target is."""
        ...
