"""Batches: the numbered links of a stream's chain, their sealed plans, and the links themselves."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self

from watermarks.codec import FieldReader, ForeignDocument, decode, document_digest, encode, raise_as_damaged
from watermarks.cursor import Cursor, format_instant, parse_instant
from watermarks.errors import DataInDoubt, Misuse
from watermarks.names import StreamName
from watermarks.window import Window

PLAN_FORMAT: Final = "watermarks/plan"
LINK_FORMAT: Final = "watermarks/batch"
FORMAT_VERSION: Final = 1

_ID: Final = re.compile(r"([1-9]\d{0,17})-(0|[1-9]\d{0,17})", re.ASCII)


class BadBatch(Misuse):
    """A number, plan or link that contradicts itself."""


class ChainBroken(DataInDoubt):
    """A link that does not follow the one before it."""


class BatchKind(StrEnum):
    """What a batch is for. Only an increment, and the last chunk of a snapshot, move the mark's cursor."""

    INCREMENT = "increment"
    SNAPSHOT = "snapshot"
    AHEAD = "ahead"
    REPAIR = "repair"
    REPLAY = "replay"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True, order=True)
class BatchId:
    """The number of a batch; the order of numbers is the order of reading. Seq 0 stands before the first."""

    generation: int
    seq: int

    def __post_init__(self) -> None:
        if self.generation < 1 or self.seq < 0:
            raise BadBatch(f"there is no batch {self.generation}-{self.seq}")

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
    """How far the first pass over a table has come."""

    horizon: Cursor
    """H0, fixed once by the first chunk: the mark when the pass is done."""
    reached_key: Cursor
    """The key up to which chunks were read."""
    done: bool

    def to_fields(self) -> dict[str, Any]:
        return {"horizon": self.horizon.to_texts(), "reached": self.reached_key.to_texts(), "done": self.done}

    @classmethod
    def from_fields(cls, fields: dict[str, Any] | None, *, location: str) -> "SnapshotProgress | None":
        if fields is None:
            return None
        read = FieldReader(fields, location=location)
        snapshot = cls(
            horizon=Cursor.from_texts(read.items("horizon")),
            reached_key=Cursor.from_texts(read.items("reached")),
            done=read.flag("done"),
        )
        read.require_all_read()
        return snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBasis:
    """What a plan was made for; when any of it no longer holds, the plan is abandoned."""

    mark: Cursor
    source_identity: str
    schema: str

    def to_fields(self) -> dict[str, Any]:
        return {"mark": self.mark.to_texts(), "source_identity": self.source_identity, "schema": self.schema}

    @classmethod
    def from_fields(cls, fields: dict[str, Any], *, location: str) -> Self:
        read = FieldReader(fields, location=location)
        world = cls(
            mark=Cursor.from_texts(read.items("mark")),
            source_identity=read.text("source_identity"),
            schema=read.text("schema"),
        )
        read.require_all_read()
        return world


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDraft:
    """What a batch should move, before it has a number."""

    kind: BatchKind
    basis: PlanBasis
    windows: tuple[Window, ...] = ()
    high: Cursor
    """The mark's cursor once the batch is done."""
    snapshot: SnapshotProgress | None = None
    """How far the first pass is once the batch is done; a chunk of it only."""
    origin: BatchId | None = None
    """Of a replay: the batch that first read its rows."""
    proven: bool = False
    """Whether nothing at or below `high` can still be committed."""
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the maker of the plan needs to know again; opaque here."""

    def __post_init__(self) -> None:
        match self.kind:
            case BatchKind.INCREMENT:
                if not self.windows or Window.join(self.windows) != Window(self.basis.mark, self.high):
                    raise BadBatch(f"an increment covers ({self.basis.mark}, {self.high}], not {self.windows}")
            case BatchKind.SNAPSHOT:
                if self.snapshot is None:
                    raise BadBatch("a chunk of a snapshot says how far the snapshot is")
                due = self.snapshot.horizon if self.snapshot.done else self.basis.mark
                if self.high != due:
                    raise BadBatch(f"this chunk leaves the mark at {due}, not at {self.high}")
            case _:
                if self.high != self.basis.mark:
                    raise BadBatch(f"a batch of kind {self.kind} does not move the mark")
        if (self.kind is BatchKind.REPLAY) is (self.origin is None):
            raise BadBatch("a replay, and nothing else, names the batch that first read its rows")
        if self.snapshot is not None and self.kind is not BatchKind.SNAPSHOT:
            raise BadBatch(f"a batch of kind {self.kind} is no part of a snapshot")

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
            high=Cursor.from_texts(reader.items("high")),
            snapshot=SnapshotProgress.from_fields(reader.optional_mapping("snapshot"), location=location),
            origin=BatchId.from_text(origin) if origin else None,
            proven=reader.flag("proven"),
            body=reader.mapping("body"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A draft with a number, sealed: write-once, so that two writers cannot both own the number."""

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
        """The digest by which a link names its plan: the one that stands in the plan itself."""
        return document_digest(PLAN_FORMAT, FORMAT_VERSION, self._to_fields())

    @classmethod
    def from_bytes(cls, body: bytes, *, location: str, stream: StreamName, batch: BatchId) -> Self:  # its name
        """The plan in the bytes.

        Raises:
            StateUnreadable: there is none, or it is another batch's.
        """
        read = FieldReader(decode(body, PLAN_FORMAT, FORMAT_VERSION, location=location), location=location)
        _require_identity(read, stream, batch, location=location)
        with raise_as_damaged(location):
            plan = cls(
                stream=stream.default_stream,
                id=batch,
                nonce=read.text("nonce"),
                epoch=read.number("epoch"),
                planned_at=parse_instant(read.text("planned_at")),
                draft=BatchDraft.from_fields(read, location=location),
            )
        read.require_all_read()
        return plan


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutput:
    """What came of carrying out a plan: its files stand, nobody knows of them yet."""

    rows: int
    files: tuple[str, ...]
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the maker wants to know of each file; opaque here, and part of the chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLink:
    """One batch as it is for ever: what it holds, and the digest of the link before it."""

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
        """The link of a plan that was carried out."""
        draft = plan.draft
        return cls(
            kind=draft.kind,
            high=draft.high,
            snapshot=draft.snapshot,
            origin=draft.origin,
            proven=draft.proven,
            rows=output.rows,
            files=output.files,
            body=output.body,
            **_shared_link_fields(plan, previous=previous, nonce=nonce, epoch=epoch, made_at=made_at),
        )

    @classmethod
    def from_abandoned_plan(
        cls, plan: Plan, reason: str, *, mark: Cursor, previous: str | None, nonce: str, epoch: int, made_at: datetime
    ) -> Self:
        """The link of a plan whose world is gone; it stands where the real one would, so only one of both can be."""
        return cls(
            kind=BatchKind.ABANDONED,
            high=mark,
            snapshot=None,
            origin=None,
            proven=True,
            rows=0,
            files=(),
            body={"why": reason},
            **_shared_link_fields(plan, previous=previous, nonce=nonce, epoch=epoch, made_at=made_at),
        )

    @property
    def rank(self) -> BatchId:
        """What its rows rank by: the batch that first read them. The higher rank is the newer version."""
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
        """The digest by which the next link names this one: the one that stands in the link itself."""
        return document_digest(LINK_FORMAT, FORMAT_VERSION, self._to_fields())

    @classmethod
    def from_bytes(cls, body: bytes, *, location: str, stream: StreamName, batch: BatchId) -> Self:  # its name
        """The link in the bytes.

        Raises:
            StateUnreadable: there is none, or it is another batch's.
        """
        read = FieldReader(decode(body, LINK_FORMAT, FORMAT_VERSION, location=location), location=location)
        _require_identity(read, stream, batch, location=location)
        with raise_as_damaged(location):
            origin = read.optional_text("origin")
            link = cls(
                stream=stream.default_stream,
                id=batch,
                kind=BatchKind(read.text("kind")),
                nonce=read.text("nonce"),
                epoch=read.number("epoch"),
                made_at=parse_instant(read.text("made_at")),
                plan=read.text("plan"),
                previous=read.optional_text("previous"),
                high=Cursor.from_texts(read.items("high")),
                snapshot=SnapshotProgress.from_fields(read.optional_mapping("snapshot"), location=location),
                origin=BatchId.from_text(origin) if origin else None,
                proven=read.flag("proven"),
                source_identity=read.text("source_identity"),
                rows=read.number("rows"),
                files=read.texts("files"),
                body=read.mapping("body"),
            )
        read.require_all_read()
        return link


def _shared_link_fields(
    plan: Plan, *, previous: str | None, nonce: str, epoch: int, made_at: datetime
) -> dict[str, Any]:
    return {
        "stream": plan.stream,
        "id": plan.id,
        "plan": plan.digest,
        "source_identity": plan.draft.basis.source_identity,
        "previous": previous,
        "nonce": nonce,
        "epoch": epoch,
        "made_at": made_at,
    }


def _require_identity(reader: FieldReader, stream: StreamName, batch: BatchId, *, location: str) -> None:
    found = reader.text("stream"), reader.text("id")
    if found != (stream.chain_stem, str(batch)):
        raise ForeignDocument(f"{location} is batch {found[1]} of {found[0]}", hint="Was it copied or moved by hand?")
