"""Batches of a stream: their numbers, write-once plans, and the links of the chain."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self

from watermarks.codec import MISPLACED_HINT, FieldReader, ForeignDocument, document_digest, encode, read_document
from watermarks.cursor import Cursor, format_instant
from watermarks.errors import DataInDoubt, Misuse
from watermarks.names import StreamName
from watermarks.window import Window

PLAN_FORMAT: Final = "watermarks/plan"
LINK_FORMAT: Final = "watermarks/batch"
FORMAT_VERSION: Final = 1

_ID: Final = re.compile(r"([1-9]\d{0,17})-(0|[1-9]\d{0,17})", re.ASCII)


class BadBatch(Misuse):
    """A batch number, plan or link that contradicts itself."""


class ChainBroken(DataInDoubt):
    """A link that does not follow the one before it."""


class BatchKind(StrEnum):
    """Purpose of a batch. Only an increment and the last chunk of a snapshot move the mark's cursor."""

    INCREMENT = "increment"
    SNAPSHOT = "snapshot"
    AHEAD = "ahead"
    REPAIR = "repair"
    REPLAY = "replay"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True, order=True)
class BatchId:
    """Number of a batch. Numbers are ordered as batches are extracted; seq 0 is before the first batch."""

    generation: int
    seq: int

    def __post_init__(self) -> None:
        if self.generation < 1 or self.seq < 0:
            raise BadBatch(f"{self.generation}-{self.seq} is not a valid batch number")

    def __str__(self) -> str:
        return f"{self.generation}-{self.seq}"

    @classmethod
    def from_text(cls, text: str) -> Self:
        match = _ID.fullmatch(text)
        if match is None:
            raise BadBatch(f"{text[:60]!r} is not the number of a batch", hint="Write generation-seq, such as 1-42.")
        return cls(int(match[1]), int(match[2]))

    @property
    def next(self) -> Self:
        return type(self)(self.generation, self.seq + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotProgress:
    """Progress of the first pass over a table."""

    horizon: Cursor
    """H0, fixed by the first chunk: the mark once the pass is done."""
    reached_key: Cursor
    """Key up to which chunks were read."""
    done: bool

    def to_fields(self) -> dict[str, Any]:
        return {"horizon": self.horizon.to_texts(), "reached": self.reached_key.to_texts(), "done": self.done}

    @classmethod
    def from_fields(cls, fields: dict[str, Any] | None, *, location: str) -> "SnapshotProgress | None":
        if fields is None:
            return None
        with FieldReader(fields, location=location) as read:
            return cls(
                horizon=read.cursor("horizon"),
                reached_key=read.cursor("reached"),
                done=read.flag("done"),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBasis:
    """State that a plan was made for; a plan whose basis changed is abandoned."""

    mark: Cursor
    source_identity: str
    schema: str

    def to_fields(self) -> dict[str, Any]:
        return {"mark": self.mark.to_texts(), "source_identity": self.source_identity, "schema": self.schema}

    @classmethod
    def from_fields(cls, fields: dict[str, Any], *, location: str) -> Self:
        with FieldReader(fields, location=location) as read:
            return cls(
                mark=read.cursor("mark"),
                source_identity=read.text("source_identity"),
                schema=read.text("schema"),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDraft:
    """Content of a batch before it has a number."""

    kind: BatchKind
    basis: PlanBasis
    windows: tuple[Window, ...] = ()
    high: Cursor
    """Cursor of the mark once the batch is done."""
    snapshot: SnapshotProgress | None = None
    """Progress of the first pass once the batch is done; only of a chunk of that pass."""
    origin: BatchId | None = None
    """Batch that first read the rows of a replay."""
    proven: bool = False
    """True if no row at or below `high` can still be committed."""
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Data of the planner, opaque here."""

    def __post_init__(self) -> None:
        match self.kind:
            case BatchKind.INCREMENT:
                if not self.windows or Window.join(self.windows) != Window(self.basis.mark, self.high):
                    raise BadBatch(f"an increment must cover ({self.basis.mark}, {self.high}], not {self.windows}")
            case BatchKind.SNAPSHOT:
                if self.snapshot is None:
                    raise BadBatch("a snapshot batch has no snapshot progress")
                mark = self.snapshot.horizon if self.snapshot.done else self.basis.mark
                if self.high != mark:
                    raise BadBatch(f"the mark after this snapshot batch must be {mark}, not {self.high}")
            case _:
                if self.high != self.basis.mark:
                    raise BadBatch(f"a batch of kind {self.kind} must not move the mark")
        if (self.kind is BatchKind.REPLAY) is (self.origin is None):
            raise BadBatch(
                "a replay must name the batch that first read its rows, and no other kind of batch may name one"
            )
        if self.snapshot is not None and self.kind is not BatchKind.SNAPSHOT:
            raise BadBatch(f"a batch of kind {self.kind} must not have snapshot progress")

    def to_fields(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "world": self.basis.to_fields(),
            "windows": [window.to_texts() for window in self.windows],
            "high": self.high.to_texts(),
            "snapshot": self.snapshot.to_fields() if self.snapshot else None,
            "origin": str(self.origin) if self.origin else None,
            "proven": self.proven,
            "body": dict(self.body),
        }

    @classmethod
    def from_fields(cls, reader: FieldReader, *, location: str) -> Self:
        origin = reader.optional_text("origin")
        return cls(
            kind=BatchKind(reader.text("kind")),
            basis=PlanBasis.from_fields(reader.mapping("world"), location=location),
            windows=tuple(Window.from_texts(bounds) for bounds in reader.items("windows")),
            high=reader.cursor("high"),
            snapshot=SnapshotProgress.from_fields(reader.optional_mapping("snapshot"), location=location),
            origin=BatchId.from_text(origin) if origin else None,
            proven=reader.flag("proven"),
            body=reader.mapping("body"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A draft with a number. It is written once, so that two writers cannot both own the number."""

    stream: StreamName
    id: BatchId
    draft: BatchDraft
    nonce: str
    epoch: int
    planned_at: datetime

    def to_bytes(self) -> bytes:
        return encode(PLAN_FORMAT, FORMAT_VERSION, self._to_fields())

    def _to_fields(self) -> dict[str, Any]:
        return {
            "stream": self.stream.chain_stem,
            "id": str(self.id),
            "nonce": self.nonce,
            "epoch": self.epoch,
            "planned_at": format_instant(self.planned_at),
            **self.draft.to_fields(),
        }

    @property
    def digest(self) -> str:
        """Digest in the plan's own document, by which a link names its plan."""
        return document_digest(PLAN_FORMAT, FORMAT_VERSION, self._to_fields())

    @classmethod
    def from_bytes(cls, body: bytes, *, location: str, stream: StreamName, batch: BatchId) -> Self:
        """Decode a plan. Raises StateUnreadable if it is no plan, or another batch's."""
        with read_document(body, PLAN_FORMAT, FORMAT_VERSION, location=location) as read:
            _require_identity(read, stream, batch, location=location)
            return cls(
                stream=stream.default_stream,
                id=batch,
                nonce=read.text("nonce"),
                epoch=read.number("epoch"),
                planned_at=read.instant("planned_at"),
                draft=BatchDraft.from_fields(read, location=location),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutput:
    """Files that were written for a plan and that no link names yet."""

    rows: int
    files: tuple[str, ...]
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Data of the producer on each file, opaque here and part of the chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLink:
    """One finished batch of the chain, never changed; it holds the digest of the link before it."""

    stream: StreamName
    id: BatchId
    kind: BatchKind
    nonce: str
    epoch: int
    made_at: datetime
    plan: str
    previous: str | None
    high: Cursor
    snapshot: SnapshotProgress | None
    origin: BatchId | None
    proven: bool
    source_identity: str
    rows: int
    files: tuple[str, ...]
    body: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.rows < 0 or bool(self.rows) > bool(self.files):
            raise BadBatch(f"batch {self.id} has {self.rows} rows in {len(self.files)} files")
        if len(set(self.files)) != len(self.files):
            raise BadBatch(f"batch {self.id} names a file twice")
        if self.kind is BatchKind.ABANDONED and self.files:
            raise BadBatch(f"batch {self.id} is abandoned and names files")

    @classmethod
    def from_completed_plan(
        cls, plan: Plan, output: BatchOutput, *, previous: str | None, nonce: str, epoch: int, made_at: datetime
    ) -> Self:
        """Make the link of a plan that was carried out."""
        draft = plan.draft
        return cls(
            stream=plan.stream,
            id=plan.id,
            kind=draft.kind,
            nonce=nonce,
            epoch=epoch,
            made_at=made_at,
            plan=plan.digest,
            previous=previous,
            high=draft.high,
            snapshot=draft.snapshot,
            origin=draft.origin,
            proven=draft.proven,
            source_identity=draft.basis.source_identity,
            rows=output.rows,
            files=output.files,
            body=output.body,
        )

    @classmethod
    def from_abandoned_plan(
        cls, plan: Plan, reason: str, *, mark: Cursor, previous: str | None, nonce: str, epoch: int, made_at: datetime
    ) -> Self:
        """Make the link of a plan whose basis changed. It takes the place of the real one, so only one can exist."""
        empty = BatchOutput(rows=0, files=(), body={"why": reason})
        link = cls.from_completed_plan(plan, empty, previous=previous, nonce=nonce, epoch=epoch, made_at=made_at)
        return replace(link, kind=BatchKind.ABANDONED, high=mark, snapshot=None, origin=None, proven=True)

    @property
    def rank(self) -> BatchId:
        """Batch that first read its rows. Of two versions of a row, the one of the higher rank is newer."""
        return self.origin or self.id

    def to_bytes(self) -> bytes:
        return encode(LINK_FORMAT, FORMAT_VERSION, self._to_fields())

    def _to_fields(self) -> dict[str, Any]:
        return {
            "stream": self.stream.chain_stem,
            "id": str(self.id),
            "kind": self.kind,
            "nonce": self.nonce,
            "epoch": self.epoch,
            "made_at": format_instant(self.made_at),
            "plan": self.plan,
            "previous": self.previous,
            "high": self.high.to_texts(),
            "snapshot": self.snapshot.to_fields() if self.snapshot else None,
            "origin": str(self.origin) if self.origin else None,
            "proven": self.proven,
            "source_identity": self.source_identity,
            "rows": self.rows,
            "files": list(self.files),
            "body": dict(self.body),
        }

    @property
    def digest(self) -> str:
        """Digest in the link's own document, by which the next link names this one."""
        return document_digest(LINK_FORMAT, FORMAT_VERSION, self._to_fields())

    @classmethod
    def from_bytes(cls, body: bytes, *, location: str, stream: StreamName, batch: BatchId) -> Self:
        """Decode a link. Raises StateUnreadable if it is no link, or another batch's."""
        with read_document(body, LINK_FORMAT, FORMAT_VERSION, location=location) as read:
            _require_identity(read, stream, batch, location=location)
            origin = read.optional_text("origin")
            return cls(
                stream=stream.default_stream,
                id=batch,
                kind=BatchKind(read.text("kind")),
                nonce=read.text("nonce"),
                epoch=read.number("epoch"),
                made_at=read.instant("made_at"),
                plan=read.text("plan"),
                previous=read.optional_text("previous"),
                high=read.cursor("high"),
                snapshot=SnapshotProgress.from_fields(read.optional_mapping("snapshot"), location=location),
                origin=BatchId.from_text(origin) if origin else None,
                proven=read.flag("proven"),
                source_identity=read.text("source_identity"),
                rows=read.number("rows"),
                files=read.texts("files"),
                body=read.mapping("body"),
            )


def _require_identity(reader: FieldReader, stream: StreamName, batch: BatchId, *, location: str) -> None:
    owner, number = reader.text("stream"), reader.text("id")
    if (owner, number) != (stream.chain_stem, str(batch)):
        raise ForeignDocument(f"{location} contains batch {number} of {owner}", hint=MISPLACED_HINT)
