"""What a replay asks of the lake: a port beside `ports`, which manifests stand on themselves."""

from dataclasses import dataclass
from typing import Protocol

from syncd.datatypes.columns import Policies
from syncd.lake.manifest import Manifest
from syncd.lake.quarantine import QuarantinedFile
from syncd.lake.window_reads import ReadResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """What is brought back of one batch's quarantine, and under which names."""

    files: tuple[QuarantinedFile, ...]
    manifest: Manifest
    """Of the batch that put the rows aside: its columns are theirs."""
    policies: Policies
    """Those of now."""
    part_prefix: str
    quarantine_prefix: str
    """What the keys of rows begin with that are put aside anew."""
    batch_number: int
    """The number of the batch that first read the rows."""
    nonce: str


class QuarantineRestorer(Protocol):
    """Reads files in quarantine, and makes parts of those rows that pass by now."""

    def has_passing_row(self, aside: QuarantinedFile, manifest: Manifest, policies: Policies) -> bool:
        """Whether any row of a file passes, as far as that can be told without the warehouse.

        Raises:
            LakeDown, LakeUnfit: it could not be read.
        """
        ...

    def restore(self, restoring: RestoreRequest) -> ReadResult:
        """Write the rows that pass to parts, and the others to quarantine; no one knows of either yet.

        All of it or an error: after one, files may stand that nobody names.

        Raises:
            LakeDown, LakeUnfit: a file could not be read or written.
        """
        ...
