"""Leases: which process works on a stage of a stream, and when another may take over.

A process renews one object of its own; claims point to it. So five hundred
streams cost one renewal. A process takes a claim over when the owner's object has
not changed for its time to live on the taker's own monotonic clock: no two clocks
are compared. A takeover ends the old owner's object, raises the claim's epoch and
writes the epoch into the document's history, in this order. Every later write of
the old owner meets a higher epoch.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Self

from watermarks.clock import Clock, SystemClock
from watermarks.codec import ForeignDocument, encode, read_document
from watermarks.document import Stage, Watermark
from watermarks.errors import AlreadyExists, NotOwner, OutcomeUnknown, StaleRevision
from watermarks.history import ChangeKind, ChangeNote, Fenced, Journal, new_nonce
from watermarks.host import Host, LocalHost, ProcessLocation
from watermarks.names import StreamName, claim_key, owner_key
from watermarks.store import PutResult, Revision, Store, put_once

OWNER_FORMAT: Final = "watermarks/owner"
CLAIM_FORMAT: Final = "watermarks/claim"
FORMAT_VERSION: Final = 1


class OtherOwner(NotOwner):
    """Another process holds the claim and appears to be alive."""


class LeaseEnded(NotOwner):
    """Another process saw no renewal from this one, ended its lease, and may hold its claims."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseOwner:
    """Object that a process renews."""

    process: str
    heartbeat: int
    ttl_ms: int
    ended_by: str | None
    process_location: ProcessLocation

    def to_bytes(self) -> bytes:
        location = self.process_location
        return encode(OWNER_FORMAT, FORMAT_VERSION, {
            "process": self.process,
            "beat": self.heartbeat,
            "ttl_ms": self.ttl_ms,
            "ended_by": self.ended_by,
            "host": location.host,
            "place": location.pid_namespace,
            "pid": location.pid,
            "started": location.start_time,
        })  # fmt: skip

    @classmethod
    def from_bytes(cls, body: bytes, *, location: str) -> Self:
        with read_document(body, OWNER_FORMAT, FORMAT_VERSION, location=location) as read:
            owner = cls(
                process=read.text("process"),
                heartbeat=read.number("beat"),
                ttl_ms=read.number("ttl_ms"),
                ended_by=read.optional_text("ended_by"),
                process_location=ProcessLocation(
                    host=read.text("host"),
                    pid_namespace=read.optional_text("place"),
                    pid=read.number("pid"),
                    start_time=read.optional_text("started"),
                ),
            )
        if owner_key(owner.process) != location:
            raise ForeignDocument(f"{location} belongs to process {owner.process}")
        return owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Current or last owner of a stage of a stream. It is never removed, so that epochs only rise."""

    stream: StreamName
    stage: Stage
    owner: str
    epoch: int
    nonce: str
    is_released: bool = False

    @property
    def key(self) -> str:
        return claim_key(self.stream, self.stage)

    def to_bytes(self) -> bytes:
        return encode(CLAIM_FORMAT, FORMAT_VERSION, {
            "stream": self.stream.stem,
            "stage": self.stage,
            "owner": self.owner,
            "epoch": self.epoch,
            "nonce": self.nonce,
            "released": self.is_released,
        })  # fmt: skip

    @classmethod
    def from_bytes(cls, body: bytes, *, stream: StreamName, stage: Stage) -> Self:
        at = claim_key(stream, stage)
        with read_document(body, CLAIM_FORMAT, FORMAT_VERSION, location=at) as read:
            claimed_stream, claimed_stage = read.text("stream"), read.text("stage")
            if (claimed_stream, claimed_stage) != (stream.stem, stage):
                raise ForeignDocument(f"{at} is the claim of {claimed_stage} on {claimed_stream}")
            return cls(
                stream=stream,
                stage=stage,
                owner=read.text("owner"),
                epoch=read.number("epoch"),
                nonce=read.text("nonce"),
                is_released=read.flag("released"),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldClaim:
    """A claim that this process holds, with the epoch in the document's history."""

    stream: StreamName
    stage: Stage
    epoch: int
    process: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _OwnerObservation:
    """Time on our clock since which another owner's object is unchanged."""

    revision: Revision | None
    since: float


class ProcessLease:
    """This process as an owner: it renews its object, acquires claims and releases them."""

    def __init__(
        self,
        store: Store,
        name: str | None = None,
        *,
        ttl_seconds: float = 30.0,
        clock: Clock | None = None,
        host: Host | None = None,
        make_nonce: Callable[[], str] = new_nonce,
    ) -> None:
        """Prepare a lease. A name is valid for one start of a process; the default has host, pid and a random part."""
        self._store = store
        self._clock = clock or SystemClock()
        self._host = host or LocalHost()
        self._make_nonce = make_nonce
        here = self._host.locate_process()
        name = name or f"{here.host}-{here.pid}-{make_nonce()}"
        self._owner = LeaseOwner(
            process=name, heartbeat=0, ttl_ms=round(ttl_seconds * 1000), ended_by=None, process_location=here
        )
        self._revision: Revision | None = None
        self._observations: dict[str, _OwnerObservation] = {}

    @property
    def name(self) -> str:
        return self._owner.process

    def renew(self) -> None:
        """Renew the lease; call this several times within the time to live.

        Raises:
            LeaseEnded: another process ended this lease. It cannot be renewed: start again under a new name.
            OutcomeUnknown, StoreUnavailable: it may be renewed or not; call again.
        """
        key = owner_key(self.name)
        renewed = replace(self._owner, heartbeat=self._owner.heartbeat + 1)
        try:
            if self._revision is None:
                self._revision = self._store.create(key, renewed.to_bytes())
            else:
                self._revision = self._store.replace(key, renewed.to_bytes(), expected=self._revision)
        except (AlreadyExists, StaleRevision):
            self._adopt_stored_owner(key)
            return
        except OutcomeUnknown:
            self._adopt_stored_owner(key)
            if self._owner.heartbeat < renewed.heartbeat:
                raise
            return
        self._owner = renewed

    def acquire(self, stream: StreamName, stage: Stage, journal: Journal[Watermark]) -> HeldClaim:
        """Acquire the claim if it is free, released, or its owner is dead; keep it if this process holds it.

        Raises:
            OtherOwner: the owner appears to be alive. Ask again: its silence counts from the first call.
            LeaseEnded: this process itself was ended.
        """
        self.require_alive()
        claim = self._take_claim(stream, stage, journal)

        def update(state: Watermark | None) -> Watermark | None:
            state = state or Watermark.new(stream, created_at=journal.clock.now())
            current = state.epochs.get(stage, 0)
            if current > claim.epoch:
                raise Fenced(f"{stage} of {stream} is at epoch {current}, ours is {claim.epoch}")
            return None if current == claim.epoch else state.with_epoch(stage, claim.epoch)

        # The claim is written before the entry: an epoch that no entry carries has written nothing yet.
        note = ChangeNote(change=ChangeKind.TAKE, author=claim.owner, stage=stage, epoch=claim.epoch)
        journal.commit(stream.stem, update, note)
        self.require_alive()
        return HeldClaim(stream=stream, stage=stage, epoch=claim.epoch, process=self.name)

    def release(self, held: HeldClaim) -> None:
        """Release a claim; the next process acquires it at once, with a higher epoch."""
        stored = self._store.read(claim_key(held.stream, held.stage))
        if stored is None:
            return
        claim = Claim.from_bytes(stored.body, stream=held.stream, stage=held.stage)
        if (claim.owner, claim.epoch, claim.is_released) == (self.name, held.epoch, False):
            self._replace_claim(replace(claim, is_released=True, nonce=self._make_nonce()), expected=stored.revision)

    def require_alive(self) -> None:
        """Refuse to continue if this process never renewed its lease or was ended.

        Raises:
            NotOwner: this is the case.
        """
        stored = self._store.read(owner_key(self.name))
        if stored is None:
            raise NotOwner(f"process {self.name} has not renewed its lease yet", hint="Renew before claiming.")
        self._require_own(LeaseOwner.from_bytes(stored.body, location=owner_key(self.name)))

    def _adopt_stored_owner(self, key: str) -> None:
        """Read the stored object after a renewal that was refused or not answered."""
        stored = self._store.read(key)
        if stored is None:
            if self._revision is None:
                return  # not created yet: the next call creates it
            raise LeaseEnded(
                f"{key} is missing, although it was renewed: this process may have been ended",
                hint="Does something else delete owners? The process starts again by itself.",
            )
        owner = LeaseOwner.from_bytes(stored.body, location=key)
        self._require_own(owner)
        self._owner, self._revision = owner, stored.revision

    def _require_own(self, stored: LeaseOwner) -> None:
        if stored.ended_by is not None:
            raise LeaseEnded(
                f"process {self.name} did not renew its lease in time, {stored.ended_by} ended it",
                hint="Was this process paused, or the store unreachable? It starts again by itself.",
            )
        if stored.process_location != self._owner.process_location:
            raise ForeignDocument(
                f"{owner_key(self.name)} belongs to another process", hint="Give every process a name of its own."
            )

    def _take_claim(self, stream: StreamName, stage: Stage, journal: Journal[Watermark]) -> Claim:
        key = claim_key(stream, stage)
        stored = self._store.read(key)
        claim = Claim.from_bytes(stored.body, stream=stream, stage=stage) if stored else None
        if claim and claim.owner == self.name and not claim.is_released:
            return claim
        if claim and not claim.is_released:
            self._end_owner(claim)
        # The history has the epochs even if the claim was deleted, or an older one restored.
        state = journal.read_newest(stream.stem)
        highest = max(claim.epoch if claim else 0, state.epochs.get(stage, 0) if state else 0)
        mine = Claim(stream=stream, stage=stage, owner=self.name, epoch=highest + 1, nonce=self._make_nonce())
        kept = (
            self._replace_claim(mine, expected=stored.revision)
            if stored
            else put_once(self._store, key, mine.to_bytes())
        )
        return self._require_won(kept, stream, stage)

    def _require_won(self, result: PutResult, stream: StreamName, stage: Stage) -> Claim:
        claim = Claim.from_bytes(result.body, stream=stream, stage=stage)
        if not result.is_ours:
            raise OtherOwner(f"{claim.owner} claimed {stage} of {stream} first", hint="Try again later.")
        return claim

    def _replace_claim(self, claim: Claim, *, expected: Revision) -> PutResult:
        """Replace a claim once; compare what is stored after a write that was refused or not answered."""
        body = claim.to_bytes()
        try:
            return PutResult(body=body, revision=self._store.replace(claim.key, body, expected=expected), is_ours=True)
        except (StaleRevision, OutcomeUnknown) as error:
            stored = self._store.read(claim.key)
            if stored is None:
                raise ForeignDocument(f"{claim.key} is missing", hint="Does something else delete claims?") from error
            return PutResult(body=stored.body, revision=stored.revision, is_ours=stored.body == body)

    def _end_owner(self, claim: Claim) -> None:
        """End the owner of a claim if it is certainly dead or did not renew for its time to live."""
        key = owner_key(claim.owner)
        stored = self._store.read(key)
        if stored is None:
            if self._is_silent(claim.owner, None, self._owner.ttl_ms):
                put_once(self._store, key, replace(self._owner, process=claim.owner, ended_by=self.name).to_bytes())
            raise OtherOwner(
                f"{claim.owner} holds {claim.stage} of {claim.stream}",
                hint="It has not renewed its lease yet: wait.",
                owner=claim.owner,
            )
        owner = LeaseOwner.from_bytes(stored.body, location=key)
        if owner.ended_by is not None:
            return
        silent = self._is_silent(claim.owner, stored.revision, owner.ttl_ms)
        if not silent and not self._host.is_dead(owner.process_location):
            raise OtherOwner(
                f"{claim.owner} holds {claim.stage} of {claim.stream}",
                hint=f"It runs on {owner.process_location.host} as process {owner.process_location.pid}.",
                owner=claim.owner,
            )
        try:
            self._store.replace(key, replace(owner, ended_by=self.name).to_bytes(), expected=stored.revision)
        except StaleRevision as error:
            raise OtherOwner(f"{claim.owner} has just renewed its lease", hint="It is alive: wait.") from error

    def _is_silent(self, process: str, revision: Revision | None, ttl_ms: int) -> bool:
        """Return True if the object is unchanged for its time to live, counted from our first read of it."""
        now = self._clock.monotonic()
        seen = self._observations.get(process)
        if seen is None or seen.revision != revision:
            self._observations[process] = _OwnerObservation(revision=revision, since=now)
            return False
        return (now - seen.since) * 1000 >= ttl_ms
