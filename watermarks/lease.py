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
from watermarks.codec import Fields, Foreign, seal, unseal
from watermarks.document import Stage, Watermark
from watermarks.errors import AlreadyExists, NotOwner, OutcomeUnknown, StaleRevision
from watermarks.history import Change, Fenced, Journal, Note, new_nonce
from watermarks.host import Host, LocalHost, Whereabouts
from watermarks.names import StreamName, claim_key, owner_key
from watermarks.store import Kept, Revision, Store, put_once

OWNER_FORMAT: Final = "watermarks/owner"
CLAIM_FORMAT: Final = "watermarks/claim"
VERSION: Final = 1


class OtherOwner(NotOwner):
    """Another process holds the claim, and lives as far as one can tell."""


class Ended(NotOwner):
    """Another process found this one silent, ended its lease, and may have its claims."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The one object that a process renews."""

    process: str
    beat: int
    ttl_ms: int
    ended_by: str | None
    whereabouts: Whereabouts

    def to_bytes(self) -> bytes:
        there = self.whereabouts
        return seal(OWNER_FORMAT, VERSION, {
            "process": self.process,
            "beat": self.beat,
            "ttl_ms": self.ttl_ms,
            "ended_by": self.ended_by,
            "host": there.host,
            "place": there.place,
            "pid": there.pid,
            "started": there.started,
        })  # fmt: skip

    @classmethod
    def of_bytes(cls, body: bytes, *, at: str) -> Self:
        read = Fields(unseal(body, OWNER_FORMAT, VERSION, at=at), at=at)
        owner = cls(
            process=read.text("process"),
            beat=read.number("beat"),
            ttl_ms=read.number("ttl_ms"),
            ended_by=read.maybe_text("ended_by"),
            whereabouts=Whereabouts(
                host=read.text("host"),
                place=read.maybe_text("place"),
                pid=read.number("pid"),
                started=read.maybe_text("started"),
            ),
        )
        read.known()
        if owner_key(owner.process) != at:
            raise Foreign(f"{at} is the object of process {owner.process}")
        return owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who works on a stage of a stream, or did last. It is never removed, so that epochs only rise."""

    stream: StreamName
    stage: Stage
    owner: str
    epoch: int
    nonce: str
    released: bool = False

    @property
    def key(self) -> str:
        return claim_key(self.stream, self.stage)

    def to_bytes(self) -> bytes:
        return seal(CLAIM_FORMAT, VERSION, {
            "stream": self.stream.stem,
            "stage": self.stage,
            "owner": self.owner,
            "epoch": self.epoch,
            "nonce": self.nonce,
            "released": self.released,
        })  # fmt: skip

    @classmethod
    def of_bytes(cls, body: bytes, *, stream: StreamName, stage: Stage) -> Self:
        at = claim_key(stream, stage)
        read = Fields(unseal(body, CLAIM_FORMAT, VERSION, at=at), at=at)
        if (found := (read.text("stream"), read.text("stage"))) != (stream.stem, stage):
            raise Foreign(f"{at} is the claim of {found[1]} on {found[0]}")
        claim = cls(
            stream=stream,
            stage=stage,
            owner=read.text("owner"),
            epoch=read.number("epoch"),
            nonce=read.text("nonce"),
            released=read.flag("released"),
        )
        read.known()
        return claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A claim that this process holds, and the epoch that stands in the document's history."""

    stream: StreamName
    stage: Stage
    epoch: int
    process: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    """Since when another owner's object has been seen unchanged, on our clock."""

    revision: Revision | None
    since: float


class Process:
    """This process as an owner: renews its object, takes claims and gives them back."""

    def __init__(
        self,
        store: Store,
        name: str | None = None,
        *,
        ttl: float = 30.0,
        clock: Clock | None = None,
        host: Host | None = None,
        nonce: Callable[[], str] = new_nonce,
    ) -> None:
        """Prepare. A name is good for one start of a process: without one, host, number and chance make it."""
        self._store = store
        self._clock = clock or SystemClock()
        self._host = host or LocalHost()
        self._nonce = nonce
        here = self._host.here()
        name = name or f"{here.host}-{here.pid}-{nonce()}"
        self._mine = Owner(process=name, beat=0, ttl_ms=round(ttl * 1000), ended_by=None, whereabouts=here)
        self._revision: Revision | None = None
        self._watched: dict[str, _Watched] = {}

    @property
    def name(self) -> str:
        return self._mine.process

    def renew(self) -> None:
        """Say that this process lives; to be called several times within its time to live.

        Raises:
            Ended: another process ended this lease. It never comes back: start anew under a new name.
            OutcomeUnknown, StoreUnavailable: it may be renewed or not: call again.
        """
        key = owner_key(self.name)
        beat = replace(self._mine, beat=self._mine.beat + 1)
        try:
            if self._revision is None:
                self._revision = self._store.create(key, beat.to_bytes())
            else:
                self._revision = self._store.replace(key, beat.to_bytes(), seen=self._revision)
        except (AlreadyExists, StaleRevision):
            self._meet(key)
            return
        except OutcomeUnknown:
            self._meet(key)
            if self._mine.beat < beat.beat:
                raise
            return
        self._mine = beat

    def acquire(self, stream: StreamName, stage: Stage, journal: Journal[Watermark]) -> Held:
        """Take the claim where it is free, given back, or its owner gone; ours again where it is ours.

        Raises:
            OtherOwner: its owner lives as far as one can tell. Ask again: time counts from the first asking.
            Ended: this process itself has been ended.
        """
        self.require_alive()
        claim = self._claim(stream, stage, journal)
        # The claim speaks first, then history: an epoch that no entry carries has written nothing yet.
        journal.commit(stream.stem, lambda state: _taken(state, claim, at=journal), _note_of(claim))
        self.require_alive()
        return Held(stream=stream, stage=stage, epoch=claim.epoch, process=self.name)

    def release(self, held: Held) -> None:
        """Give a claim back; the next one takes it at once, with a higher epoch."""
        stored = self._store.read(claim_key(held.stream, held.stage))
        if stored is None:
            return
        claim = Claim.of_bytes(stored.body, stream=held.stream, stage=held.stage)
        if (claim.owner, claim.epoch, claim.released) == (self.name, held.epoch, False):
            self._replace(replace(claim, released=True, nonce=self._nonce()), seen=stored.revision)

    def require_alive(self) -> None:
        """Refuse to go on when this process was never renewed, or is ended.

        Raises:
            NotOwner: it is so.
        """
        stored = self._store.read(owner_key(self.name))
        if stored is None:
            raise NotOwner(f"{self.name} has no object yet", hint="Renew before claiming.")
        self._require_mine(Owner.of_bytes(stored.body, at=owner_key(self.name)))

    def _meet(self, key: str) -> None:
        """A renewal was refused or not answered: see what stands there."""
        stored = self._store.read(key)
        if stored is None:
            if self._revision is None:
                return  # never created: the next call does
            raise Ended(
                f"{key} is gone, although it was renewed: nobody can tell whether this process was ended",
                hint="Does something else delete owners? It starts anew by itself.",
            )
        there = Owner.of_bytes(stored.body, at=key)
        self._require_mine(there)
        self._mine, self._revision = there, stored.revision

    def _require_mine(self, there: Owner) -> None:
        if there.ended_by is not None:
            raise Ended(
                f"{self.name} was silent for too long, {there.ended_by} ended it",
                hint="Was this process paused, or the store out of reach? It starts anew by itself.",
            )
        if there.whereabouts != self._mine.whereabouts:
            raise Foreign(f"{owner_key(self.name)} is another process's", hint="Give every process a name of its own.")

    def _claim(self, stream: StreamName, stage: Stage, journal: Journal[Watermark]) -> Claim:
        key = claim_key(stream, stage)
        stored = self._store.read(key)
        claim = Claim.of_bytes(stored.body, stream=stream, stage=stage) if stored else None
        if claim and claim.owner == self.name and not claim.released:
            return claim
        if claim and not claim.released:
            self._end(claim)
        # History remembers epochs even where somebody deleted the claim, or restored an older one.
        state = journal.newest(stream.stem)
        highest = max(claim.epoch if claim else 0, state.epochs.get(stage, 0) if state else 0)
        mine = Claim(stream=stream, stage=stage, owner=self.name, epoch=highest + 1, nonce=self._nonce())
        kept = self._replace(mine, seen=stored.revision) if stored else put_once(self._store, key, mine.to_bytes())
        return self._ours(kept, stream, stage)

    def _ours(self, kept: Kept, stream: StreamName, stage: Stage) -> Claim:
        claim = Claim.of_bytes(kept.body, stream=stream, stage=stage)
        if not kept.ours:
            raise OtherOwner(f"{claim.owner} was first at {stage} of {stream}", hint="Ask again later.")
        return claim

    def _replace(self, claim: Claim, *, seen: Revision) -> Kept:
        """Replace a claim once; a refused or unanswered write is compared before it counts as lost."""
        body = claim.to_bytes()
        try:
            return Kept(body=body, revision=self._store.replace(claim.key, body, seen=seen), ours=True)
        except (StaleRevision, OutcomeUnknown) as error:
            stored = self._store.read(claim.key)
            if stored is None:
                raise Foreign(f"{claim.key} is gone", hint="Does something else delete claims?") from error
            return Kept(body=stored.body, revision=stored.revision, ours=stored.body == body)

    def _end(self, claim: Claim) -> None:
        """End the owner of a claim, once it is certainly dead or was silent for its time to live."""
        key = owner_key(claim.owner)
        stored = self._store.read(key)
        if stored is None:
            if self._silent_for(claim.owner, None, self._mine.ttl_ms):
                put_once(self._store, key, replace(self._mine, process=claim.owner, ended_by=self.name).to_bytes())
            raise OtherOwner(
                f"{claim.owner} holds {claim.stage} of {claim.stream}",
                hint="It shows no sign: wait.",
                owner=claim.owner,
            )
        owner = Owner.of_bytes(stored.body, at=key)
        if owner.ended_by is not None:
            return
        silent = self._silent_for(claim.owner, stored.revision, owner.ttl_ms)
        if not silent and not self._host.is_dead(owner.whereabouts):
            raise OtherOwner(
                f"{claim.owner} holds {claim.stage} of {claim.stream}",
                hint=f"It runs on {owner.whereabouts.host} as process {owner.whereabouts.pid}.",
                owner=claim.owner,
            )
        try:
            self._store.replace(key, replace(owner, ended_by=self.name).to_bytes(), seen=stored.revision)
        except StaleRevision as error:
            raise OtherOwner(f"{claim.owner} has just renewed its lease", hint="It lives: wait.") from error

    def _silent_for(self, process: str, revision: Revision | None, ttl_ms: int) -> bool:
        """Whether the object has been unchanged for its time to live, counted from our first look at it."""
        now = self._clock.monotonic()
        watched = self._watched.get(process)
        if watched is None or watched.revision != revision:
            self._watched[process] = _Watched(revision=revision, since=now)
            return False
        return (now - watched.since) * 1000 >= ttl_ms


def read_held(journal: Journal[Watermark], held: Held) -> Watermark | None:
    """The document of a held stage. It may lag, but not behind the entry of our own takeover."""
    state = journal.read(held.stream.stem)
    if state is not None and state.epochs.get(held.stage, 0) < held.epoch:
        state = journal.newest(held.stream.stem)
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


def _note_of(claim: Claim) -> Note:
    return Note(change=Change.TAKE, who=claim.owner, stage=claim.stage, epoch=claim.epoch)


def _taken(state: Watermark | None, claim: Claim, *, at: Journal[Watermark]) -> Watermark | None:
    state = state or Watermark.new(claim.stream, at=at.clock.now())
    found = state.epochs.get(claim.stage, 0)
    if found > claim.epoch:
        raise Fenced(f"{claim.stage} of {claim.stream} is at epoch {found}, ours is {claim.epoch}")
    return None if found == claim.epoch else state.with_epoch(claim.stage, claim.epoch)
