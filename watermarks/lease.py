"""Leases: which process works on a stage of a stream, for how long, and who takes over when it is gone.

A process renews one object of its own; claims point to it. So five hundred
streams cost one renewal. A claim is taken over when its owner's object has not
changed for its time to live on the taker's own monotonic clock: no two clocks
are compared. A takeover ends the old owner's object, raises the claim's epoch
and writes the epoch into the document's history, in this order; from there on
whatever the old owner still does meets a higher epoch.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Self

from watermarks.clock import Clock, SystemClock
from watermarks.codec import FieldReader, ForeignDocument, decode, encode
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
    """Another process holds the claim, and lives as far as one can tell."""


class LeaseEnded(NotOwner):
    """Another process found this one silent, ended its lease, and may have its claims."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseOwner:
    """The one object that a process renews."""

    process: str
    heartbeat: int
    ttl_ms: int
    ended_by: str | None
    process_location: ProcessLocation

    def to_bytes(self) -> bytes:
        there = self.process_location
        return encode(OWNER_FORMAT, FORMAT_VERSION, {
            "process": self.process,
            "beat": self.heartbeat,
            "ttl_ms": self.ttl_ms,
            "ended_by": self.ended_by,
            "host": there.host,
            "place": there.pid_namespace,
            "pid": there.pid,
            "started": there.start_time,
        })  # fmt: skip

    @classmethod
    def from_bytes(cls, body: bytes, *, location: str) -> Self:
        read = FieldReader(decode(body, OWNER_FORMAT, FORMAT_VERSION, location=location), location=location)
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
        read.require_all_read()
        if owner_key(owner.process) != location:
            raise ForeignDocument(f"{location} is the object of process {owner.process}")
        return owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who works on a stage of a stream, or did last. It is never removed, so that epochs only rise."""

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
        read = FieldReader(decode(body, CLAIM_FORMAT, FORMAT_VERSION, location=at), location=at)
        if (found := (read.text("stream"), read.text("stage"))) != (stream.stem, stage):
            raise ForeignDocument(f"{at} is the claim of {found[1]} on {found[0]}")
        claim = cls(
            stream=stream,
            stage=stage,
            owner=read.text("owner"),
            epoch=read.number("epoch"),
            nonce=read.text("nonce"),
            is_released=read.flag("released"),
        )
        read.require_all_read()
        return claim


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldClaim:
    """A claim that this process holds, and the epoch that stands in the document's history."""

    stream: StreamName
    stage: Stage
    epoch: int
    process: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _OwnerObservation:
    """Since when another owner's object has been seen unchanged, on our clock."""

    revision: Revision | None
    since: float


class ProcessLease:
    """This process as an owner: renews its object, takes claims and gives them back."""

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
        """Prepare. A name is good for one start of a process: without one, host, number and chance make it."""
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
        """Say that this process lives; to be called several times within its time to live.

        Raises:
            Ended: another process ended this lease. It never comes back: start anew under a new name.
            OutcomeUnknown, StoreUnavailable: it may be renewed or not: call again.
        """
        key = owner_key(self.name)
        beat = replace(self._owner, heartbeat=self._owner.heartbeat + 1)
        try:
            if self._revision is None:
                self._revision = self._store.create(key, beat.to_bytes())
            else:
                self._revision = self._store.replace(key, beat.to_bytes(), expected=self._revision)
        except (AlreadyExists, StaleRevision):
            self._adopt_stored_owner(key)
            return
        except OutcomeUnknown:
            self._adopt_stored_owner(key)
            if self._owner.heartbeat < beat.heartbeat:
                raise
            return
        self._owner = beat

    def acquire(self, stream: StreamName, stage: Stage, journal: Journal[Watermark]) -> HeldClaim:
        """Take the claim where it is free, given back, or its owner gone; ours again where it is ours.

        Raises:
            OtherOwner: its owner lives as far as one can tell. Ask again: time counts from the first asking.
            Ended: this process itself has been ended.
        """
        self.require_alive()
        claim = self._take_claim(stream, stage, journal)
        # The claim speaks first, then history: an epoch that no entry carries has written nothing yet.
        journal.commit(stream.stem, lambda state: _apply_claim(state, claim, journal=journal), _note_for_claim(claim))
        self.require_alive()
        return HeldClaim(stream=stream, stage=stage, epoch=claim.epoch, process=self.name)

    def release(self, held: HeldClaim) -> None:
        """Give a claim back; the next one takes it at once, with a higher epoch."""
        stored = self._store.read(claim_key(held.stream, held.stage))
        if stored is None:
            return
        claim = Claim.from_bytes(stored.body, stream=held.stream, stage=held.stage)
        if (claim.owner, claim.epoch, claim.is_released) == (self.name, held.epoch, False):
            self._replace_claim(replace(claim, is_released=True, nonce=self._make_nonce()), expected=stored.revision)

    def require_alive(self) -> None:
        """Refuse to go on when this process was never renewed, or is ended.

        Raises:
            NotOwner: it is so.
        """
        stored = self._store.read(owner_key(self.name))
        if stored is None:
            raise NotOwner(f"{self.name} has no object yet", hint="Renew before claiming.")
        self._require_own(LeaseOwner.from_bytes(stored.body, location=owner_key(self.name)))

    def _adopt_stored_owner(self, key: str) -> None:
        """A renewal was refused or not answered: see what stands there."""
        stored = self._store.read(key)
        if stored is None:
            if self._revision is None:
                return  # never created: the next call does
            raise LeaseEnded(
                f"{key} is gone, although it was renewed: nobody can tell whether this process was ended",
                hint="Does something else delete owners? It starts anew by itself.",
            )
        there = LeaseOwner.from_bytes(stored.body, location=key)
        self._require_own(there)
        self._owner, self._revision = there, stored.revision

    def _require_own(self, stored: LeaseOwner) -> None:
        if stored.ended_by is not None:
            raise LeaseEnded(
                f"{self.name} was silent for too long, {stored.ended_by} ended it",
                hint="Was this process paused, or the store out of reach? It starts anew by itself.",
            )
        if stored.process_location != self._owner.process_location:
            raise ForeignDocument(
                f"{owner_key(self.name)} is another process's", hint="Give every process a name of its own."
            )

    def _take_claim(self, stream: StreamName, stage: Stage, journal: Journal[Watermark]) -> Claim:
        key = claim_key(stream, stage)
        stored = self._store.read(key)
        claim = Claim.from_bytes(stored.body, stream=stream, stage=stage) if stored else None
        if claim and claim.owner == self.name and not claim.is_released:
            return claim
        if claim and not claim.is_released:
            self._end_owner(claim)
        # History remembers epochs even where somebody deleted the claim, or restored an older one.
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
            raise OtherOwner(f"{claim.owner} was first at {stage} of {stream}", hint="Ask again later.")
        return claim

    def _replace_claim(self, claim: Claim, *, expected: Revision) -> PutResult:
        """Replace a claim once; a refused or unanswered write is compared before it counts as lost."""
        body = claim.to_bytes()
        try:
            return PutResult(body=body, revision=self._store.replace(claim.key, body, expected=expected), is_ours=True)
        except (StaleRevision, OutcomeUnknown) as error:
            stored = self._store.read(claim.key)
            if stored is None:
                raise ForeignDocument(f"{claim.key} is gone", hint="Does something else delete claims?") from error
            return PutResult(body=stored.body, revision=stored.revision, is_ours=stored.body == body)

    def _end_owner(self, claim: Claim) -> None:
        """End the owner of a claim, once it is certainly dead or was silent for its time to live."""
        key = owner_key(claim.owner)
        stored = self._store.read(key)
        if stored is None:
            if self._is_silent(claim.owner, None, self._owner.ttl_ms):
                put_once(self._store, key, replace(self._owner, process=claim.owner, ended_by=self.name).to_bytes())
            raise OtherOwner(
                f"{claim.owner} holds {claim.stage} of {claim.stream}",
                hint="It shows no sign: wait.",
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
            raise OtherOwner(f"{claim.owner} has just renewed its lease", hint="It lives: wait.") from error

    def _is_silent(self, process: str, revision: Revision | None, ttl_ms: int) -> bool:
        """Whether the object has been unchanged for its time to live, counted from our first look at it."""
        now = self._clock.monotonic()
        watched = self._observations.get(process)
        if watched is None or watched.revision != revision:
            self._observations[process] = _OwnerObservation(revision=revision, since=now)
            return False
        return (now - watched.since) * 1000 >= ttl_ms


def read_claimed_watermark(journal: Journal[Watermark], held: HeldClaim) -> Watermark | None:
    """The document of a held stage. It may lag, but not behind the entry of our own takeover."""
    state = journal.read(held.stream.stem)
    if state is not None and state.epochs.get(held.stage, 0) < held.epoch:
        state = journal.read_newest(held.stream.stem)
    return state


def require_epoch(state: Watermark, stage: Stage, epoch: int) -> None:
    """Refuse to write for a stage that another process has taken over.

    Raises:
        Fenced: the document carries another epoch than ours.
    """
    found = state.epochs.get(stage, 0)
    if found != epoch:
        raise Fenced(
            f"{stage} of {state.stream} is at epoch {found}, ours is {epoch}",
            hint="Another process has taken it over: leave it.",
        )


def _note_for_claim(claim: Claim) -> ChangeNote:
    return ChangeNote(change=ChangeKind.TAKE, author=claim.owner, stage=claim.stage, epoch=claim.epoch)


def _apply_claim(state: Watermark | None, claim: Claim, *, journal: Journal[Watermark]) -> Watermark | None:
    state = state or Watermark.new(claim.stream, created_at=journal.clock.now())
    found = state.epochs.get(claim.stage, 0)
    if found > claim.epoch:
        raise Fenced(f"{claim.stage} of {claim.stream} is at epoch {found}, ours is {claim.epoch}")
    return None if found == claim.epoch else state.with_epoch(claim.stage, claim.epoch)
