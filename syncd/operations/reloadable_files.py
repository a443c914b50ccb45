"""Whether what a change would have land again can: its files stand, and nobody is about to remove them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from syncd.lake.keys import data_prefix
from syncd.lake.removal_records import find_removal_records, iter_removal_records, list_record_keys
from syncd.operations.change_impact import read_links
from syncd.ports.evidence import FileListing
from watermarks.batch import BatchId
from watermarks.document import Watermark
from watermarks.errors import DataInDoubt
from watermarks.extraction import BatchChain
from watermarks.history import Journal
from watermarks.names import StreamName


class ReloadFilesMissing(DataInDoubt):
    """What was to land again cannot: its files are not there any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadableFiles:
    """Looks at the files that a change needs: when it is shown, before it is made, and after.

    A cleaner writes its record before it looks at the marks, and a person moves the marks before the
    records are looked at: so one of the two always sees the other.
    """

    chain: BatchChain
    file_listing: FileListing
    known_records: frozenset[str]
    """Records of removals that stood when the change was shown; what a later one names is about to go."""
    _files_by_batch: dict[BatchId, Sequence[str]] = field(default_factory=dict[BatchId, Sequence[str]])

    @classmethod
    def from_now(cls, journal: Journal[Watermark], file_listing: FileListing, stream: StreamName) -> "ReloadableFiles":
        return cls(
            chain=BatchChain(journal, stream),
            file_listing=file_listing,
            known_records=list_record_keys(file_listing, stream),
        )

    def require(self, before: Watermark, after: Watermark) -> None:
        """Make sure of the files of all batches that wait after a change, and did not wait before it.

        Raises:
            FilesGone: some are not there, or about to go.
        """
        waited = set(before.required_extract_progress.batch_ids(after=before.load_progress.last_batch))
        wanted = [
            batch
            for batch in after.required_extract_progress.batch_ids(after=after.load_progress.last_batch)
            if batch not in waited
        ]
        if not wanted:
            return
        files = self._files_of(wanted)
        going = {
            key
            for record in iter_removal_records(self.file_listing, self.chain.stream, exclude=self.known_records)
            for key in record.files
        }
        there = self.file_listing.list_files(data_prefix(self.chain.stream)).keys() - going
        missing = {batch: lost for batch in wanted if (lost := [key for key in files[batch] if key not in there])}
        if missing:
            raise self._missing_files_error(missing)

    def _files_of(self, wanted: Sequence[BatchId]) -> Mapping[BatchId, Sequence[str]]:
        new = [batch for batch in wanted if batch not in self._files_by_batch]
        self._files_by_batch.update({link.id: link.files for link in read_links(self.chain, new)})
        return self._files_by_batch

    def _missing_files_error(self, missing: Mapping[BatchId, Sequence[str]]) -> ReloadFilesMissing:
        stream, last = self.chain.stream, max(missing)
        removed = find_removal_records(self.file_listing, stream, set(missing[last]))
        why = next((f": {record.description}" for record in removed.values()), "")
        table = stream.table_name
        return ReloadFilesMissing(
            f"{len(missing)} of the batches that are to land again have no files any more,"
            f" the last of them {last}{why}",
            hint=f"Read the table again: syncd watermark reset -t {table} --mysql-only. Or land what comes behind:"
            f" syncd watermark set -t {table} --redshift-only --after {last}",
            batches=[str(batch) for batch in sorted(missing)],
        )
