"""What lies in quarantine, and by which batch it was brought back.

A file in quarantine counts only where a link or an amendment names it. A replay takes whole files: the rows that pass
by now become parts of its batch, the others are put aside anew, under the number of the replay. So each row lies in
one place, and what was replayed is what links of replays name. A *note of a replay* beside the link of the batch whose
rows it takes says at which number to look for such a link: it is written before the link, and by itself says nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Self

from syncd.datatypes.columns import ColumnMapping, Policies, Policy
from syncd.lake.manifest import Manifest
from syncd.lake.window_reads import Part
from watermarks.batch import BatchId
from watermarks.codec import FieldReader, ForeignDocument, decode, encode, raise_as_damaged
from watermarks.document import Stage
from watermarks.names import StreamName

FORMAT: Final = "syncd/replayed"
VERSION: Final = 1
REPLAYS_FIELD: Final = "replays"
"""The field of a plan that says what its batch brings back."""
WHOLE_ROW_LABEL: Final = "the row"
"""What reasons call a row that is too long as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedFile:
    """One file of rows that were put aside."""

    batch: BatchId
    stage: Stage
    """Who put them aside: the extraction as they travelled, the load as files hold them."""
    part: Part
    time_range: tuple[datetime, datetime] | None = None
    """For `--from` and `--until`, the instants between which its batch read; None where the order is no time."""
    replayed_by: BatchId | None = None
    is_missing: bool = False
    """Whether it is named, and does not lie there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreferencedFile:
    """A file that nothing names."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineReason:
    """One reason why a row was put aside."""

    column: str | None
    """As files call it; None where it is the row as a whole, or nobody knows."""
    reason: str
    size: int | None = None
    """Bytes of the value, where its length varies; of the row, where that is too long."""


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
    """What the reason beside a row says, each with the column that it begins with."""
    said = reason.split("; ") if stage is Stage.EXTRACT else [reason]
    names = {name: passage.name for passage in mappings for name in (passage.name, passage.column)}
    found: list[QuarantineReason] = []
    for one in said:
        column, _, rest = one.partition(": ")
        known = column in names or column == WHOLE_ROW_LABEL
        found.append(QuarantineReason(column=names.get(column), reason=rest if known else one))
    return tuple(found)


def without_fail_policy(policies: Policies) -> Policies:
    """The same, but that what would stop a stream is left where it is: a replay stops for no row."""
    return Policies(
        zero_dates=_fail_to_quarantine(policies.zero_dates),
        oversize=_fail_to_quarantine(policies.oversize),
        out_of_range=_fail_to_quarantine(policies.out_of_range),
        invalid_text=_fail_to_quarantine(policies.invalid_text),
    )


def _fail_to_quarantine(policy: Policy) -> Policy:
    return Policy.QUARANTINE if policy is Policy.FAIL else policy


def unchangeable_columns(manifest: Manifest) -> frozenset[str]:
    """The columns in which no policy changes a value."""
    identity = manifest.identity
    return frozenset((*identity.key, *((identity.cursor,) if identity.cursor else ())))


def batch_time_range(manifest: Manifest) -> tuple[datetime, datetime] | None:
    """The instants between which a batch read, for `--from` and `--until`; None where its order is no time."""
    if not manifest.windows or not manifest.windows[0].low.values or not manifest.windows[-1].high.values:
        return None
    low, high = manifest.windows[0].low.values[0].raw, manifest.windows[-1].high.values[0].raw
    if not isinstance(low, datetime) or not isinstance(high, datetime):
        return None
    return low, high.replace(microsecond=0) + timedelta(seconds=1)  # the end of a range is not part of it


def replay_plan_fields(batch: BatchId, files: tuple[str, ...]) -> dict[str, Any]:
    """What the plan of a replay says of itself."""
    return {REPLAYS_FIELD: {"batch": str(batch), "files": list(files)}}


def parse_replay_fields(body: Mapping[str, Any]) -> tuple[BatchId, frozenset[str]] | None:
    """The batch and the files that a plan brings back; None of a plan that is no replay of ours."""
    found: Mapping[str, Any] | None = body.get(REPLAYS_FIELD)
    if found is None:
        return None
    return BatchId.from_text(found["batch"]), frozenset(found["files"])


def replay_note_key(stream: StreamName, batch: BatchId, number: int) -> str:
    """The key of the note of a batch's first, second, ... replay."""
    return f"batches/{stream.chain_stem}/{batch}.replayed-{number}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayNote:
    """A note beside a batch: the number at which a replay of its rows may have become a link."""

    stream: StreamName
    batch: BatchId
    replay_batch: BatchId
    nonce: str

    def to_bytes(self) -> bytes:
        told = {
            "stream": self.stream.chain_stem,
            "id": str(self.batch),
            "by": str(self.replay_batch),
            "nonce": self.nonce,
        }
        return encode(FORMAT, VERSION, told)

    @classmethod
    def from_bytes(cls, body: bytes, *, at: str, stream: StreamName, batch: BatchId) -> Self:
        """The note in the bytes.

        Raises:
            StateUnreadable: there is none, or it is another batch's.
        """
        read = FieldReader(decode(body, FORMAT, VERSION, location=at), location=at)
        if (found := (read.text("stream"), read.text("id"))) != (stream.chain_stem, str(batch)):
            raise ForeignDocument(f"{at} is about batch {found[1]} of {found[0]}")
        with raise_as_damaged(at):
            note = cls(
                stream=stream.default_stream,
                batch=batch,
                replay_batch=BatchId.from_text(read.text("by")),
                nonce=read.text("nonce"),
            )
        read.require_all_read()
        return note
