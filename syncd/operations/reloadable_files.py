"""Whether what a change would have land again can: its files stand, and nobody is about to remove them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from syncd.lake.keys import data_prefix
from syncd.lake.removal_records import cleaned_by, record_keys, records_of
from syncd.operations.change_impact import links
from syncd.ports.evidence import Shelf
from watermarks.batch import BatchId
from watermarks.document import Watermark
from watermarks.errors import DataInDoubt
from watermarks.extraction import Chain
from watermarks.history import Journal
from watermarks.names import StreamName


class FilesGone(DataInDoubt):
    """What was to land again cannot: its files are not there any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landable:
    """Looks at the files that a change needs: when it is shown, before it is made, and after.

    A cleaner writes its record before it looks at the marks, and a person moves the marks before the
    records are looked at: so one of the two always sees the other.
    """

    chain: Chain
    shelf: Shelf
    records: frozenset[str]
    """Records of removals that stood when the change was shown; what a later one names is about to go."""
    _files: dict[BatchId, Sequence[str]] = field(default_factory=dict[BatchId, Sequence[str]])

    @classmethod
    def from_now_on(cls, journal: Journal[Watermark], shelf: Shelf, stream: StreamName) -> "Landable":
        return cls(chain=Chain(journal, stream), shelf=shelf, records=record_keys(shelf, stream))

    def require(self, before: Watermark, after: Watermark) -> None:
        """Make sure of the files of all batches that wait after a change, and did not wait before it.

        Raises:
            FilesGone: some are not there, or about to go.
        """
        waited = set(before.chain.ids(after=before.loaded.last))
        wanted = [batch for batch in after.chain.ids(after=after.loaded.last) if batch not in waited]
        if not wanted:
            return
        files = self._files_of(wanted)
        going = {key for record in records_of(self.shelf, self.chain.stream, but=self.records) for key in record.files}
        there = self.shelf.standing(data_prefix(self.chain.stream)).keys() - going
        missing = {batch: lost for batch in wanted if (lost := [key for key in files[batch] if key not in there])}
        if missing:
            raise self._gone(missing)

    def _files_of(self, wanted: Sequence[BatchId]) -> Mapping[BatchId, Sequence[str]]:
        new = [batch for batch in wanted if batch not in self._files]
        self._files.update({link.id: link.files for link in links(self.chain, new)})
        return self._files

    def _gone(self, missing: Mapping[BatchId, Sequence[str]]) -> FilesGone:
        stream, last = self.chain.stream, max(missing)
        removed = cleaned_by(self.shelf, stream, set(missing[last]))
        why = next((f": {record.said}" for record in removed.values()), "")
        table = f"{stream.database}.{stream.table}"
        return FilesGone(
            f"{len(missing)} of the batches that are to land again have no files any more,"
            f" the last of them {last}{why}",
            hint=f"Read the table again: syncd watermark reset -t {table} --mysql-only. Or land what comes behind:"
            f" syncd watermark set -t {table} --redshift-only --after {last}",
            batches=[str(batch) for batch in sorted(missing)],
        )
