"""Batches: the numbered links of a stream's chain, their sealed plans, and the links themselves."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self

from watermarks.codec import Fields, Foreign, blamed, seal, sealed_digest, unseal
from watermarks.cursor import Cursor, instant_of, instant_text
from watermarks.errors import DataInDoubt, Misuse
from watermarks.names import StreamName
from watermarks.window import Window

PLAN_FORMAT: Final = "watermarks/plan"
LINK_FORMAT: Final = "watermarks/batch"
VERSION: Final = 1

_ID: Final = re.compile(r"([1-9]\d{0,17})-(0|[1-9]\d{0,17})", re.ASCII)


class BadBatch(Misuse):
    """A number, plan or link that contradicts itself."""


class ChainBroken(DataInDoubt):
    """A link that does not follow the one before it."""


class Kind(StrEnum):
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
    def of_text(cls, text: str) -> Self:
        match = _ID.fullmatch(text)
        if match is None:
            raise BadBatch(f"{text[:60]!r} is not the number of a batch", hint="Write generation-seq, such as 1-42.")
        return cls(int(match[1]), int(match[2]))

    @property
    def next(self) -> Self:
        return type(self)(self.generation, self.seq + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """How far the first pass over a table has come."""

    horizon: Cursor
    """H0, fixed once by the first chunk: the mark when the pass is done."""
    reached: Cursor
    """The key up to which chunks were read."""
    done: bool

    def fields(self) -> dict[str, Any]:
        return {"horizon": self.horizon.texts(), "reached": self.reached.texts(), "done": self.done}

    @classmethod
    def of_fields(cls, found: dict[str, Any] | None, *, at: str) -> "Snapshot | None":
        if found is None:
            return None
        read = Fields(found, at=at)
        snapshot = cls(
            horizon=Cursor.of_texts(read.items("horizon")),
            reached=Cursor.of_texts(read.items("reached")),
            done=read.flag("done"),
        )
        read.known()
        return snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a plan was made for; when any of it no longer holds, the plan is abandoned."""

    mark: Cursor
    source_identity: str
    schema: str

    def fields(self) -> dict[str, Any]:
        return {"mark": self.mark.texts(), "source_identity": self.source_identity, "schema": self.schema}

    @classmethod
    def of_fields(cls, found: dict[str, Any], *, at: str) -> Self:
        read = Fields(found, at=at)
        world = cls(
            mark=Cursor.of_texts(read.items("mark")),
            source_identity=read.text("source_identity"),
            schema=read.text("schema"),
        )
        read.known()
        return world


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a batch should move, before it has a number."""

    kind: Kind
    world: World
    windows: tuple[Window, ...] = ()
    high: Cursor
    """The mark's cursor once the batch is done."""
    snapshot: Snapshot | None = None
    """How far the first pass is once the batch is done; a chunk of it only."""
    origin: BatchId | None = None
    """Of a replay: the batch that first read its rows."""
    proven: bool = False
    """Whether nothing at or below `high` can still be committed."""
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the maker of the plan needs to know again; opaque here."""

    def __post_init__(self) -> None:
        match self.kind:
            case Kind.INCREMENT:
                if not self.windows or Window.join(self.windows) != Window(self.world.mark, self.high):
                    raise BadBatch(f"an increment covers ({self.world.mark}, {self.high}], not {self.windows}")
            case Kind.SNAPSHOT:
                if self.snapshot is None:
                    raise BadBatch("a chunk of a snapshot says how far the snapshot is")
                due = self.snapshot.horizon if self.snapshot.done else self.world.mark
                if self.high != due:
                    raise BadBatch(f"this chunk leaves the mark at {due}, not at {self.high}")
            case _:
                if self.high != self.world.mark:
                    raise BadBatch(f"a batch of kind {self.kind} does not move the mark")
        if (self.kind is Kind.REPLAY) is (self.origin is None):
            raise BadBatch("a replay, and nothing else, names the batch that first read its rows")
        if self.snapshot is not None and self.kind is not Kind.SNAPSHOT:
            raise BadBatch(f"a batch of kind {self.kind} is no part of a snapshot")

    def fields(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "world": self.world.fields(),
            "windows": [window.texts() for window in self.windows],
            "high": self.high.texts(),
            "snapshot": self.snapshot.fields() if self.snapshot else None,
            "origin": str(self.origin) if self.origin else None,
            "proven": self.proven,
            "body": dict(self.body),
        }

    @classmethod
    def of_fields(cls, read: Fields, *, at: str) -> Self:
        origin = read.maybe_text("origin")
        return cls(
            kind=Kind(read.text("kind")),
            world=World.of_fields(read.inner("world"), at=at),
            windows=tuple(Window.of_texts(bounds) for bounds in read.items("windows")),
            high=Cursor.of_texts(read.items("high")),
            snapshot=Snapshot.of_fields(read.maybe_inner("snapshot"), at=at),
            origin=BatchId.of_text(origin) if origin else None,
            proven=read.flag("proven"),
            body=read.inner("body"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A draft with a number, sealed: write-once, so that two writers cannot both own the number."""

    stream: StreamName
    id: BatchId
    draft: Draft
    nonce: str
    epoch: int
    planned_at: datetime

    def to_bytes(self) -> bytes:
        return seal(PLAN_FORMAT, VERSION, self._fields())

    def _fields(self) -> dict[str, Any]:
        return {
            "stream": self.stream.chain_stem,
            "id": str(self.id),
            "nonce": self.nonce,
            "epoch": self.epoch,
            "planned_at": instant_text(self.planned_at),
            **self.draft.fields(),
        }

    @property
    def digest(self) -> str:
        """The digest by which a link names its plan: the one that stands in the plan itself."""
        return sealed_digest(PLAN_FORMAT, VERSION, self._fields())

    @classmethod
    def of_bytes(cls, body: bytes, *, at: str, stream: StreamName, id: BatchId) -> Self:  # noqa: A002  # its name
        """The plan in the bytes.

        Raises:
            StateUnreadable: there is none, or it is another batch's.
        """
        read = Fields(unseal(body, PLAN_FORMAT, VERSION, at=at), at=at)
        _require_place(read, stream, id, at=at)
        with blamed(at):
            plan = cls(
                stream=stream.default,
                id=id,
                nonce=read.text("nonce"),
                epoch=read.number("epoch"),
                planned_at=instant_of(read.text("planned_at")),
                draft=Draft.of_fields(read, at=at),
            )
        read.known()
        return plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What came of carrying out a plan: its files stand, nobody knows of them yet."""

    rows: int
    files: tuple[str, ...]
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the maker wants to know of each file; opaque here, and part of the chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One batch as it is for ever: what it holds, and the digest of the link before it."""

    stream: StreamName
    id: BatchId
    kind: Kind
    nonce: str
    epoch: int
    made_at: datetime
    plan: str
    previous: str | None
    high: Cursor
    snapshot: Snapshot | None
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
        if self.kind is Kind.ABANDONED and self.files:
            raise BadBatch(f"batch {self.id} is abandoned and names files")

    @classmethod
    def done(cls, plan: Plan, filled: Filled, *, previous: str | None, nonce: str, epoch: int, at: datetime) -> Self:
        """The link of a plan that was carried out."""
        draft = plan.draft
        return cls(
            kind=draft.kind,
            high=draft.high,
            snapshot=draft.snapshot,
            origin=draft.origin,
            proven=draft.proven,
            rows=filled.rows,
            files=filled.files,
            body=filled.body,
            **_common(plan, previous=previous, nonce=nonce, epoch=epoch, at=at),
        )

    @classmethod
    def abandoned(
        cls, plan: Plan, why: str, *, mark: Cursor, previous: str | None, nonce: str, epoch: int, at: datetime
    ) -> Self:
        """The link of a plan whose world is gone; it stands where the real one would, so only one of both can be."""
        return cls(
            kind=Kind.ABANDONED,
            high=mark,
            snapshot=None,
            origin=None,
            proven=True,
            rows=0,
            files=(),
            body={"why": why},
            **_common(plan, previous=previous, nonce=nonce, epoch=epoch, at=at),
        )

    @property
    def rank(self) -> BatchId:
        """What its rows rank by: the batch that first read them. The higher rank is the newer version."""
        return self.origin or self.id

    def to_bytes(self) -> bytes:
        return seal(LINK_FORMAT, VERSION, self._fields())

    def _fields(self) -> dict[str, Any]:
        return {
            "stream": self.stream.chain_stem,
            "id": str(self.id),
            "kind": self.kind,
            "nonce": self.nonce,
            "epoch": self.epoch,
            "made_at": instant_text(self.made_at),
            "plan": self.plan,
            "previous": self.previous,
            "high": self.high.texts(),
            "snapshot": self.snapshot.fields() if self.snapshot else None,
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
        return sealed_digest(LINK_FORMAT, VERSION, self._fields())

    @classmethod
    def of_bytes(cls, body: bytes, *, at: str, stream: StreamName, id: BatchId) -> Self:  # noqa: A002  # its name
        """The link in the bytes.

        Raises:
            StateUnreadable: there is none, or it is another batch's.
        """
        read = Fields(unseal(body, LINK_FORMAT, VERSION, at=at), at=at)
        _require_place(read, stream, id, at=at)
        with blamed(at):
            origin = read.maybe_text("origin")
            link = cls(
                stream=stream.default,
                id=id,
                kind=Kind(read.text("kind")),
                nonce=read.text("nonce"),
                epoch=read.number("epoch"),
                made_at=instant_of(read.text("made_at")),
                plan=read.text("plan"),
                previous=read.maybe_text("previous"),
                high=Cursor.of_texts(read.items("high")),
                snapshot=Snapshot.of_fields(read.maybe_inner("snapshot"), at=at),
                origin=BatchId.of_text(origin) if origin else None,
                proven=read.flag("proven"),
                source_identity=read.text("source_identity"),
                rows=read.number("rows"),
                files=read.texts("files"),
                body=read.inner("body"),
            )
        read.known()
        return link


def _common(plan: Plan, *, previous: str | None, nonce: str, epoch: int, at: datetime) -> dict[str, Any]:
    return {
        "stream": plan.stream,
        "id": plan.id,
        "plan": plan.digest,
        "source_identity": plan.draft.world.source_identity,
        "previous": previous,
        "nonce": nonce,
        "epoch": epoch,
        "made_at": at,
    }


def _require_place(read: Fields, stream: StreamName, batch: BatchId, *, at: str) -> None:
    found = read.text("stream"), read.text("id")
    if found != (stream.chain_stem, str(batch)):
        raise Foreign(f"{at} is batch {found[1]} of {found[0]}", hint="Was it copied or moved by hand?")
