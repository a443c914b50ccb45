"""The warehouse: rows, ledger and fence in one transaction under one lock, sessions that end or hang, restores."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.simulation.stage import Effect, pause, staged
from watermarks.batch import BatchId
from watermarks.cursor import Cursor
from watermarks.errors import HintedError
from watermarks.loading import BatchLoadResult, LedgerKey, LoadCycle, require_fence


class Violation(AssertionError):
    """The promise was broken."""


class SessionEnded(HintedError):
    """The warehouse ended this session."""


@dataclass
class Version:
    """What a target holds of a key: by which batch it was read, and which version of the source it is."""

    rank: tuple[BatchId, Cursor]
    version: int


@dataclass
class State:
    """What a commit makes durable."""

    rows: dict[int, Version] = field(default_factory=dict)
    ledger: dict[LedgerKey, int] = field(default_factory=dict)
    fence: int = 0

    def copy(self) -> "State":
        return State(dict(self.rows), dict(self.ledger), self.fence)


@dataclass(eq=False)
class Session:
    process: str
    epoch: int
    alive: bool = True
    view: State | None = None
    wanted: State | None = None
    landed: list[LedgerKey] = field(default_factory=list)


class Warehouse:
    """One target database."""

    def __init__(self, name: str, late: list[Callable[[], object]]) -> None:
        self.name = name
        self.state = State()
        self.landed: dict[LedgerKey, int] = {}
        self.restores = 0
        self.sessions: list[Session] = []
        self._late = late
        self._holder: Session | None = None
        self._highest_fence = 0
        self._backup: tuple[State, dict[LedgerKey, int], int] | None = None

    def save_or_restore(self) -> None:
        """Take a snapshot of everything, or go back to the one that was taken."""
        if self._backup is None:
            self._backup = self.state.copy(), dict(self.landed), self._highest_fence
            return
        for session in self.sessions:
            self.end(session)
        (self.state, self.landed, self._highest_fence), self._backup = self._backup, None
        self.restores += 1

    @property
    def holds_backup(self) -> bool:
        return self._backup is not None

    def open(self, process: str, epoch: int) -> Session:
        self.sessions = [session for session in self.sessions if session.alive]
        self.sessions.append(session := Session(process, epoch))
        return session

    def end(self, session: Session) -> None:
        session.alive = False
        if self._holder is session:
            self._holder = None

    def locked(self, process: str, epoch: int) -> Session:
        """A session that holds the lock; older sessions that hold it, our own among them, are ended."""
        session = self.open(process, epoch)
        for patience in range(12):
            pause(Effect.READ)
            self._require(session)
            if self._holder is None:
                self._holder = session
                return session
            if patience >= 3 and self._holder.epoch <= epoch:
                self.end(self._holder)
        self.end(session)
        raise SessionEnded(f"{self.name}: the lock is held")

    def view(self, session: Session) -> State:
        """The snapshot that the first statement after the lock takes."""
        pause(Effect.READ)
        self._require(session)
        session.view = session.view or self.state.copy()
        return session.view

    def commit(self, session: Session) -> None:
        staged(Effect.COMMIT, "commit", lambda: self._commit(session), self._late)

    def _commit(self, session: Session) -> None:
        self._require(session)
        wanted, old = session.wanted, self.state
        assert wanted is not None
        self._judge(session, old, wanted)
        self.state = wanted
        for key in session.landed:
            self.landed[key] = self.landed.get(key, 0) + 1
        self._highest_fence = max(self._highest_fence, wanted.fence)
        self.end(session)

    def _judge(self, session: Session, old: State, new: State) -> None:
        if twice := [str(key.batch) for key in session.landed if key in self.landed]:
            raise Violation(f"{self.name}: batches {twice} landed twice")
        if session.landed and session.epoch < self._highest_fence:
            raise Violation(f"{self.name}: a zombie of epoch {session.epoch} landed after {self._highest_fence}")
        for key, row in old.rows.items():
            if new.rows[key].version < row.version:
                raise Violation(f"{self.name}: key {key} went back from {row.version} to {new.rows[key].version}")

    def _require(self, session: Session) -> None:
        if not session.alive:
            raise SessionEnded(f"{self.name}: the session of {session.process} was ended")


class TargetTwin:
    """A warehouse as the library's `Target`."""

    def __init__(
        self, warehouse: Warehouse, process: str, files: Mapping[str, object], *, some: Callable[[int], int]
    ) -> None:
        """Prepare; of so many links that it is to land, `some` says how many it takes into one transaction."""
        self._warehouse = warehouse
        self._process = process
        self._files = files
        self._some = some

    def load(self, cycle: LoadCycle) -> Mapping[BatchId, BatchLoadResult]:
        house = self._warehouse
        session = house.locked(self._process, cycle.epoch)
        try:
            view = house.view(session)
            wanted = view.copy()
            if require_fence(view.fence, cycle.epoch, was_raised=cycle.is_fenced):
                wanted.fence = cycle.epoch
            links = tuple(cycle.links_to_load(view.ledger.keys()))
            for link in links[: self._some(len(links))]:
                if gone := [name for name in link.files if name not in self._files]:
                    raise Violation(f"{house.name}: files {gone} of batch {link.id} are gone")
                self._apply(wanted, link.rank, link.body)
                wanted.ledger[cycle.ledger_key(link.id)] = link.rows
                session.landed.append(cycle.ledger_key(link.id))
            session.wanted = wanted
            house.commit(session)
        except HintedError:
            if house.sessions and session.wanted is None:
                house.end(session)
            raise
        held = (*cycle.due_links, *links)
        keys = ((link.id, cycle.ledger_key(link.id)) for link in held)
        return {batch: BatchLoadResult(rows=wanted.ledger[key]) for batch, key in keys if key in wanted.ledger}

    def _apply(self, wanted: State, rank: BatchId, body: Mapping[str, object]) -> None:
        rows = body.get("rows", [])
        assert isinstance(rows, list)
        for stamp, key, version in rows:
            new = Version((rank, Cursor.from_values(stamp, key)), version)
            if key not in wanted.rows or new.rank >= wanted.rows[key].rank:
                wanted.rows[key] = new
