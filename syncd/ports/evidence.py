"""What one who only looks wants of lake and warehouse: which files stand, and what the ledger says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from syncd.lake.removal_records import RemovalRecordReader
from watermarks.loading import LedgerKey


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRecord:
    """What a ledger says of one landed batch."""

    rows: int
    table: str
    manifest: str


class FileListing(RemovalRecordReader, Protocol):
    """Where files lie, and the records of those that were removed on purpose."""

    def list_files(self, prefix: str) -> Mapping[str, tuple[int, str]]:
        """Size and tag of every object below a prefix.

        Raises:
            LakeDown, LakeUnfit: that cannot be told.
        """
        ...


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
