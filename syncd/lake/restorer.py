"""Port of a replay to the lake; it stands here because it uses manifests, which `ports` does not know."""

from dataclasses import dataclass
from typing import Protocol

from syncd.datatypes.columns import Policies
from syncd.lake.manifest import Manifest
from syncd.lake.quarantine import QuarantinedFile
from syncd.lake.window_reads import ReadResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """Files of one batch's quarantine to restore, and the prefixes of the new files."""

    files: tuple[QuarantinedFile, ...]
    manifest: Manifest
    """Manifest of the batch that refused the rows: its columns are theirs."""
    policies: Policies
    """The policies as configured now."""
    part_prefix: str
    quarantine_prefix: str
    """Prefix of the rows that are refused again."""
    batch_number: int
    """The number of the batch that first read the rows."""
    nonce: str


class QuarantineRestorer(Protocol):
    """Reader of files in quarantine that writes the rows that pass now to parts."""

    def has_passing_row(self, file: QuarantinedFile, manifest: Manifest, policies: Policies) -> bool:
        """Return whether any row of a file passes, as far as that is known without the warehouse.

        Raises:
            LakeDown, LakeUnfit: the file is not readable.
        """
        ...

    def restore(self, restoring: RestoreRequest) -> ReadResult:
        """Write the rows that pass to parts, and the others to quarantine; no batch names these files yet.

        After an error, files may be left that no batch names.

        Raises:
            LakeDown, LakeUnfit: a file could not be read or written.
        """
        ...
