"""Leases: which process works on a stage of a stream, and when another may take over.

A process renews one object of its own; claims point to it. So five hundred
streams cost one renewal. A process takes a claim over when the owner's object has
not changed for its time to live on the taker's own monotonic clock: no two clocks
are compared. A takeover ends the old owner's object, raises the claim's epoch and
writes the epoch into the document's history, in this order. Every later write of
the old owner meets a higher epoch: a stage changes its watermark only through
`HeldWatermark`, which refuses a state of another epoch.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Self

from watermarks.clock import Clock, SystemClock
from watermarks.codec import ForeignDocument, encode, read_document
from watermarks.document import Stage, Watermark
from watermarks.errors import AlreadyExists, NotOwner, OutcomeUnknown, StaleRevision, Transient
from watermarks.history import ChangeKind, ChangeNote, DocumentVersion, Fenced, Journal, StateMissing, new_nonce
from watermarks.host import Host, LocalHost, ProcessLocation
from watermarks.names import StreamName, claim_key, owner_key
from watermarks.store import Revision, Store, StoredObject, put_once

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
                raise ForeignDocument(f"{at} contains the claim on {claimed_stage} of {claimed_stream}")
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
        owner_store: Store | None = None,
        ttl_seconds: float = 30.0,
        clock: Clock | None = None,
        host: Host | None = None,
        make_nonce: Callable[[], str] = new_nonce,
    ) -> None:
        """Prepare a lease. A name is valid for one start of a process; the default has host, pid and a random part.

        `owner_store` is another client of the same store, for the owners' objects. It may give up soon, as the next
        heartbeat is as good; claims need a patient one.
        """
        self._store = store
        self._owner_store = owner_store or store
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
            self._revision = self._owner_store.put(key, renewed.to_bytes(), expected=self._revision)
        except (AlreadyExists, StaleRevision):
            self._adopt_stored_owner()
            return
        except OutcomeUnknown:
            self._adopt_stored_owner()
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
        stored = self._store.read(claim_key(stream, stage))
        previous = Claim.from_bytes(stored.body, stream=stream, stage=stage) if stored else None
        if previous and previous.owner == self.name and not previous.is_released:
            claim = previous
        else:
            claim = self._prepare_takeover(stream, stage, previous, journal)
            put = put_once(self._store, claim.key, claim.to_bytes(), expected=stored.revision if stored else None)
            if not put.is_ours:
                other = Claim.from_bytes(put.body, stream=stream, stage=stage)
                raise OtherOwner(f"{other.owner} claimed {stage} of {stream} first", hint="Try again later.")
        # The claim is written before the entry: an epoch that no entry carries has written nothing yet.
        note = ChangeNote(change=ChangeKind.TAKE, author=claim.owner, stage=stage, epoch=claim.epoch)
        journal.commit(
            stream.stem,
            lambda state: _raise_epoch(state or Watermark.new(stream, created_at=journal.clock.now()), claim),
            note,
        )
        self.require_alive()
        return HeldClaim(stream=stream, stage=stage, epoch=claim.epoch, process=self.name)

    def release(self, held: HeldClaim) -> None:
        """Release a claim; the next process acquires it at once, with a higher epoch."""
        stored = self._store.read(claim_key(held.stream, held.stage))
        if stored is None:
            return
        claim = Claim.from_bytes(stored.body, stream=held.stream, stage=held.stage)
        if (claim.owner, claim.epoch, claim.is_released) == (self.name, held.epoch, False):
            released = replace(claim, is_released=True, nonce=self._make_nonce())
            put_once(self._store, released.key, released.to_bytes(), expected=stored.revision)

    def read_owner(self, process: str) -> StoredObject | None:
        """Return the object of an owner, this process or another; None if it has not renewed its lease yet."""
        key = owner_key(process)
        try:
            return self._owner_store.read(key)
        except Transient:
            # A process that takes a claim reads the owner too, and has no next heartbeat; its connection may be dead.
            return self._owner_store.read(key)

    def require_alive(self) -> None:
        """Refuse to continue if this process never renewed its lease or was ended.

        Raises:
            NotOwner: this is the case.
        """
        stored = self.read_owner(self.name)
        if stored is None:
            raise NotOwner(f"process {self.name} has not renewed its lease yet", hint="Renew before claiming.")
        self._require_own(LeaseOwner.from_bytes(stored.body, location=owner_key(self.name)))

    def _adopt_stored_owner(self) -> None:
        """Read the stored object after a renewal that was refused or not answered."""
        key = owner_key(self.name)
        stored = self.read_owner(self.name)
        if stored is None:
            if self._revision is None:
                return  # not created yet: the next call creates it
            raise LeaseEnded(
                f"{key} is missing, although this process renewed it: another process may have ended the lease",
                hint="The process starts again by itself. If this repeats, check what else deletes owner objects.",
            )
        owner = LeaseOwner.from_bytes(stored.body, location=key)
        self._require_own(owner)
        self._owner, self._revision = owner, stored.revision

    def _require_own(self, stored: LeaseOwner) -> None:
        if stored.ended_by is not None:
            raise LeaseEnded(
                f"process {self.name} did not renew its lease in time, and {stored.ended_by} ended it",
                hint="The process starts again by itself. Check whether it was paused or the store was unreachable.",
            )
        if stored.process_location != self._owner.process_location:
            raise ForeignDocument(
                f"{owner_key(self.name)} belongs to another process", hint="Give every process a name of its own."
            )

    def _prepare_takeover(
        self, stream: StreamName, stage: Stage, previous: Claim | None, journal: Journal[Watermark]
    ) -> Claim:
        """End the owner of the previous claim, and return the claim that follows it."""
        if previous and not previous.is_released:
            self._end_owner(previous)
        # The history has the epochs even if the claim was deleted, or an older one restored.
        state = journal.read_newest(stream.stem)
        highest = max(previous.epoch if previous else 0, state.epochs.get(stage, 0) if state else 0)
        return Claim(stream=stream, stage=stage, owner=self.name, epoch=highest + 1, nonce=self._make_nonce())

    def _end_owner(self, claim: Claim) -> None:
        """End the owner of a claim if it is certainly dead or did not renew for its time to live."""
        key = owner_key(claim.owner)
        stored = self.read_owner(claim.owner)
        if stored is None:
            if self._is_silent(claim.owner, None, self._owner.ttl_ms):
                put_once(
                    self._owner_store, key, replace(self._owner, process=claim.owner, ended_by=self.name).to_bytes()
                )
            raise OtherOwner(
                f"{claim.owner} holds {claim.stage} of {claim.stream}",
                hint="It has not renewed its lease yet: try again later.",
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
            self._owner_store.put(key, replace(owner, ended_by=self.name).to_bytes(), expected=stored.revision)
        except StaleRevision as error:
            raise OtherOwner(
                f"{claim.owner} has just renewed its lease", hint="It is still running: try again later."
            ) from error

    def _is_silent(self, process: str, revision: Revision | None, ttl_ms: int) -> bool:
        """Return True if the object is unchanged for its time to live, counted from our first read of it."""
        now = self._clock.monotonic()
        seen = self._observations.get(process)
        if seen is None or seen.revision != revision:
            self._observations[process] = _OwnerObservation(revision=revision, since=now)
            return False
        return (now - seen.since) * 1000 >= ttl_ms


def _raise_epoch(state: Watermark, claim: Claim) -> Watermark | None:
    """Return the state with the epoch of a claim; None if it already has it."""
    current = state.epochs.get(claim.stage, 0)
    if current > claim.epoch:
        raise Fenced(f"{claim.stage} of {claim.stream} is at epoch {current}, this process has epoch {claim.epoch}")
    return None if current == claim.epoch else state.with_epoch(claim.stage, claim.epoch)


class HeldWatermark:
    """Watermark of a stream of which this process holds a stage; it is written under the epoch of the claim only."""

    def __init__(self, journal: Journal[Watermark], held: HeldClaim) -> None:
        self._journal = journal
        self._held = held
        self._stem = held.stream.stem

    def read(self) -> Watermark:
        """Return the watermark; it may lag, but not behind the entry of this process's own takeover.

        Raises:
            Fenced: another process has taken the stage over.
        """
        state = self._journal.read(self._stem)
        if state is not None and self.is_behind_claim(state):
            state = self._journal.read_newest(self._stem)
        return self.require_owned(state)

    def is_behind_claim(self, state: Watermark) -> bool:
        return state.epochs.get(self._held.stage, 0) < self._held.epoch

    def require_owned(self, state: Watermark | None) -> Watermark:
        """Refuse a state that is missing or that another process owns.

        Raises:
            Fenced: another process has taken the stage over.
        """
        if state is None:
            raise StateMissing(
                f"{self._held.stream} has no watermark, although a process owns its {self._held.stage} stage"
            )
        require_epoch(state, self._held.stage, self._held.epoch)
        return state

    def commit(
        self,
        update: Callable[[Watermark], Watermark | None],
        change: ChangeKind,
        *,
        reason: str = "",
        last_seen: DocumentVersion[Watermark] | None = None,
    ) -> Watermark | None:
        """Change the watermark in the name of the stage; see `Journal.commit`."""
        held = self._held
        note = ChangeNote(change=change, author=held.process, reason=reason, stage=held.stage, epoch=held.epoch)
        return self._journal.commit(
            self._stem, lambda state: update(self.require_owned(state)), note, last_seen=last_seen
        )


def require_epoch(state: Watermark, stage: Stage, epoch: int) -> None:
    """Refuse to write for a stage that another process has taken over.

    Raises:
        Fenced: the document carries another epoch than ours.
    """
    current = state.epochs.get(stage, 0)
    if current != epoch:
        raise Fenced(
            f"{stage} of {state.stream} is at epoch {current}, this process has epoch {epoch}",
            hint="Another process has taken over the stage and continues the work.",
        )
