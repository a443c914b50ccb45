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

from syncd.datatypes.columns import Passage, Policies, Policy
from syncd.lake.manifest import Manifest
from syncd.lake.window_reads import Part
from watermarks.batch import BatchId
from watermarks.codec import Fields, Foreign, blamed, seal, unseal
from watermarks.document import Stage
from watermarks.names import StreamName

FORMAT: Final = "syncd/replayed"
VERSION: Final = 1
REPLAYS: Final = "replays"
"""The field of a plan that says what its batch brings back."""
THE_ROW: Final = "the row"
"""What reasons call a row that is too long as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """One file of rows that were put aside."""

    batch: BatchId
    stage: Stage
    """Who put them aside: the extraction as they travelled, the load as files hold them."""
    part: Part
    span: tuple[datetime, datetime] | None = None
    """For `--from` and `--until`, the instants between which its batch read; None where the order is no time."""
    replayed_by: BatchId | None = None
    gone: bool = False
    """Whether it is named, and does not lie there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """A file that nothing names."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One reason why a row was put aside."""

    column: str | None
    """As files call it; None where it is the row as a whole, or nobody knows."""
    reason: str
    size: int | None = None
    """Bytes of the value, where its length varies; of the row, where that is too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRow:
    """One row of a file in quarantine."""

    aside: Aside
    place: int
    """Its number in the file, from 0."""
    troubles: tuple[Trouble, ...]
    key: Mapping[str, object]
    values: Mapping[str, object]


def troubles_of(reason: str, stage: Stage, passages: tuple[Passage, ...]) -> tuple[Trouble, ...]:
    """What the reason beside a row says, each with the column that it begins with."""
    said = reason.split("; ") if stage is Stage.EXTRACT else [reason]
    names = {name: passage.name for passage in passages for name in (passage.name, passage.column)}
    found: list[Trouble] = []
    for one in said:
        column, _, rest = one.partition(": ")
        known = column in names or column == THE_ROW
        found.append(Trouble(column=names.get(column), reason=rest if known else one))
    return tuple(found)


def lenient(policies: Policies) -> Policies:
    """The same, but that what would stop a stream is left where it is: a replay stops for no row."""
    return Policies(
        zero_dates=_stays(policies.zero_dates),
        oversize=_stays(policies.oversize),
        out_of_range=_stays(policies.out_of_range),
        invalid_text=_stays(policies.invalid_text),
    )


def _stays(policy: Policy) -> Policy:
    return Policy.QUARANTINE if policy is Policy.FAIL else policy


def keys_of(manifest: Manifest) -> frozenset[str]:
    """The columns in which no policy changes a value."""
    identity = manifest.identity
    return frozenset((*identity.key, *((identity.cursor,) if identity.cursor else ())))


def span_of(manifest: Manifest) -> tuple[datetime, datetime] | None:
    """The instants between which a batch read, for `--from` and `--until`; None where its order is no time."""
    if not manifest.windows or not manifest.windows[0].low.values or not manifest.windows[-1].high.values:
        return None
    low, high = manifest.windows[0].low.values[0].plain, manifest.windows[-1].high.values[0].plain
    if not isinstance(low, datetime) or not isinstance(high, datetime):
        return None
    return low, high.replace(microsecond=0) + timedelta(seconds=1)  # the end of a range is not part of it


def replay_fields(batch: BatchId, files: tuple[str, ...]) -> dict[str, Any]:
    """What the plan of a replay says of itself."""
    return {REPLAYS: {"batch": str(batch), "files": list(files)}}


def replays_of(body: Mapping[str, Any]) -> tuple[BatchId, frozenset[str]] | None:
    """The batch and the files that a plan brings back; None of a plan that is no replay of ours."""
    found: Mapping[str, Any] | None = body.get(REPLAYS)
    if found is None:
        return None
    return BatchId.of_text(found["batch"]), frozenset(found["files"])


def replayed_key(stream: StreamName, batch: BatchId, number: int) -> str:
    """The key of the note of a batch's first, second, ... replay."""
    return f"batches/{stream.chain_stem}/{batch}.replayed-{number}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A note beside a batch: the number at which a replay of its rows may have become a link."""

    stream: StreamName
    batch: BatchId
    by: BatchId
    nonce: str

    def to_bytes(self) -> bytes:
        told = {"stream": self.stream.chain_stem, "id": str(self.batch), "by": str(self.by), "nonce": self.nonce}
        return seal(FORMAT, VERSION, told)

    @classmethod
    def of_bytes(cls, body: bytes, *, at: str, stream: StreamName, batch: BatchId) -> Self:
        """The note in the bytes.

        Raises:
            StateUnreadable: there is none, or it is another batch's.
        """
        read = Fields(unseal(body, FORMAT, VERSION, at=at), at=at)
        if (found := (read.text("stream"), read.text("id"))) != (stream.chain_stem, str(batch)):
            raise Foreign(f"{at} is about batch {found[1]} of {found[0]}")
        with blamed(at):
            note = cls(
                stream=stream.default, batch=batch, by=BatchId.of_text(read.text("by")), nonce=read.text("nonce")
            )
        read.known()
        return note
