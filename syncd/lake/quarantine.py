"""Quarantined rows of a batch, replays of them, and the port that restores them.

A file in quarantine counts only if a link or an amendment names it. A replay takes whole files: the rows that pass now
become parts of its batch, the others go to quarantine again, under the number of the replay. So each row is in one
place, and the links of replays name the files that were replayed. A *replay note* beside the link of the original batch
says at which number to look for such a link: it is written before that link, and proves nothing by itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Protocol, Self

from syncd.datatypes.columns import ColumnMapping, Policies, Policy
from syncd.lake.manifest import Manifest
from syncd.lake.read_requests import Part, ReadResult
from watermarks.batch import BatchId
from watermarks.codec import ForeignDocument, encode, read_document
from watermarks.document import Stage
from watermarks.names import StreamName

FORMAT: Final = "syncd/replayed"
VERSION: Final = 1
REPLAYS_FIELD: Final = "replays"
"""The field of a plan that names the files that its batch replays."""
WHOLE_ROW_LABEL: Final = "the row"
"""The label in reasons for a row that is too long as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedFile:
    """One file of refused rows."""

    batch: BatchId
    stage: Stage
    """The stage that refused them: the extraction writes them as read, the load as files hold them."""
    part: Part
    time_range: tuple[datetime, datetime] | None = None
    """The instants between which its batch read, for `--from` and `--until`; None where the order is no time."""
    replayed_by: BatchId | None = None
    is_missing: bool = False
    """True if a batch names it, and it does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreferencedFile:
    """A file that no batch names."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineReason:
    """One reason why a row was refused."""

    column: str | None
    """Its name in files; None if the row as a whole was refused, or the column is unknown."""
    reason: str
    size: int | None = None
    """Bytes of a value of variable length, or of a row that is too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRow:
    """One row of a file in quarantine."""

    file: QuarantinedFile
    row_number: int
    """Its number in the file, from 0."""
    reasons: tuple[QuarantineReason, ...]
    key: Mapping[str, object]
    values: Mapping[str, object]


def parse_quarantine_reasons(
    reason: str, stage: Stage, mappings: tuple[ColumnMapping, ...]
) -> tuple[QuarantineReason, ...]:
    """Split the reason of a refused row by column."""
    texts = reason.split("; ") if stage is Stage.EXTRACT else [reason]
    names = {name: mapping.name for mapping in mappings for name in (mapping.name, mapping.column)}
    reasons: list[QuarantineReason] = []
    for text in texts:
        column, _, rest = text.partition(": ")
        is_known = column in names or column == WHOLE_ROW_LABEL
        reasons.append(QuarantineReason(column=names.get(column), reason=rest if is_known else text))
    return tuple(reasons)


def without_fail_policy(policies: Policies) -> Policies:
    """Replace the policy `fail` by `quarantine`: a replay stops for no row."""
    return Policies(
        zero_dates=_fail_to_quarantine(policies.zero_dates),
        oversize=_fail_to_quarantine(policies.oversize),
        out_of_range=_fail_to_quarantine(policies.out_of_range),
        invalid_text=_fail_to_quarantine(policies.invalid_text),
    )


def _fail_to_quarantine(policy: Policy) -> Policy:
    return Policy.QUARANTINE if policy is Policy.FAIL else policy


def unchangeable_columns(manifest: Manifest) -> frozenset[str]:
    """Return the columns in which no policy changes a value."""
    identity = manifest.identity
    return frozenset((*identity.key, *((identity.cursor,) if identity.cursor else ())))


def batch_time_range(manifest: Manifest) -> tuple[datetime, datetime] | None:
    """Return the instants between which a batch read; None where its order is no time."""
    if not manifest.windows or not manifest.windows[0].low.values or not manifest.windows[-1].high.values:
        return None
    low, high = manifest.windows[0].low.values[0].raw, manifest.windows[-1].high.values[0].raw
    if not isinstance(low, datetime) or not isinstance(high, datetime):
        return None
    return low, high.replace(microsecond=0) + timedelta(seconds=1)  # the end of a range is exclusive


def replay_plan_fields(batch: BatchId, files: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of the plan of a replay."""
    return {REPLAYS_FIELD: {"batch": str(batch), "files": list(files)}}


def parse_replay_fields(body: Mapping[str, Any]) -> tuple[BatchId, frozenset[str]] | None:
    """Return the batch and the files that a plan replays; None if the plan is no replay."""
    fields: Mapping[str, Any] | None = body.get(REPLAYS_FIELD)
    if fields is None:
        return None
    return BatchId.from_text(fields["batch"]), frozenset(fields["files"])


def replay_note_key(stream: StreamName, batch: BatchId, number: int) -> str:
    """Return the key of the replay note with this number, from 1."""
    return f"batches/{stream.chain_stem}/{batch}.replayed-{number}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayNote:
    """A note beside a batch: the number at which a replay of its rows may have a link."""

    stream: StreamName
    batch: BatchId
    replay_batch: BatchId
    nonce: str

    def to_bytes(self) -> bytes:
        fields = {
            "stream": self.stream.chain_stem,
            "id": str(self.batch),
            "by": str(self.replay_batch),
            "nonce": self.nonce,
        }
        return encode(FORMAT, VERSION, fields)

    @classmethod
    def from_bytes(cls, body: bytes, *, at: str, stream: StreamName, batch: BatchId) -> Self:
        """Parse a note.

        Raises:
            StateUnreadable: it is none, or belongs to another batch.
        """
        with read_document(body, FORMAT, VERSION, location=at) as read:
            if (found := (read.text("stream"), read.text("id"))) != (stream.chain_stem, str(batch)):
                raise ForeignDocument(f"{at} belongs to batch {found[1]} of {found[0]}")
            replay_batch = BatchId.from_text(read.text("by"))
            return cls(stream=stream.default_stream, batch=batch, replay_batch=replay_batch, nonce=read.text("nonce"))


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
