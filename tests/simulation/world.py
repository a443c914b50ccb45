"""The world: processes that extract and load, people who interfere, a scheduler, and the judge of every commit."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.simulation.source import KEYS, Source
from tests.simulation.stage import Actor, Effect, Mishap, StagedStore, attempt, pause, rest
from tests.simulation.warehouse import TargetTwin, Violation, Warehouse
from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchLink, BatchOutput, Plan, SnapshotProgress
from watermarks.batch import PlanBasis as Made
from watermarks.codec import parse_json_object
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.document import Stage, Watermark
from watermarks.errors import DataInDoubt, HintedError, Misuse, NotOwner, StateUnreadable
from watermarks.extraction import BatchChain, Extraction
from watermarks.history import ChangeKind, HistoryEntry, Journal
from watermarks.host import ProcessLocation
from watermarks.lease import Claim, HeldClaim, LeaseEnded, LeaseOwner, ProcessLease
from watermarks.legacy import read_legacy_watermark
from watermarks.loading import Loading
from watermarks.names import StreamName
from watermarks.operator import ImportedPosition, Operator
from watermarks.progress import BEFORE_FIRST_BATCH, BatchOutOfOrder, ExtractProgress, Run
from watermarks.stores.memory import MemoryStore
from watermarks.testing import ManualClock
from watermarks.window import Window

STREAM = StreamName(source="shop", database="shop", table="orders")
MANUAL_CHANGES = frozenset({ChangeKind.SET, ChangeKind.RESET, ChangeKind.SKIP, ChangeKind.UNDO, ChangeKind.IMPORT})
"""Changes that only a person makes, with a reason, and that undo takes back."""
SECOND = STREAM.with_target("second")
TTL = 60.0
"""Seconds of the simulated clock, which ticks once an effect."""
LEGACY = (
    b'{"table_name": "shop.orders", "last_mysql_data_timestamp": "1970-01-01 00:00:00", "mysql_status": "success",'
    b' "redshift_status": "pending", "backup_strategy": "sequential", "metadata": {}}'
)


@dataclass
class House:
    """The one machine: it knows which of its processes are dead."""

    name: str
    dead: set[str]

    def locate_process(self) -> ProcessLocation:
        return ProcessLocation(host="one", pid_namespace="boot", pid=1, start_time=self.name)

    def is_dead(self, other: ProcessLocation) -> bool:
        return other.start_time in self.dead


class Rows:
    """Makes batches of the simulated source: the `Producer` of the simulation."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def propose_batch(self, watermark: Watermark) -> BatchDraft | None:
        pause(Effect.READ)
        world, half = self._world, watermark.required_extract_progress
        made = Made(mark=half.cursor, source_identity=str(world.source.identity), schema="1")
        horizon = world.source.horizon()
        if not half.snapshot.done if half.snapshot else not half.cursor:
            return self._chunk(half.snapshot, made, horizon)
        chance = world.random.random()
        if chance < 0.15 and not world.quiet:
            return BatchDraft(
                kind=BatchKind.REPAIR, basis=made, high=half.cursor, body={"keys": [world.random.randrange(KEYS)]}
            )
        if chance < 0.3 and not world.quiet and half.seq > 1:
            of = BatchId(half.generation, world.random.randint(1, half.seq))
            origin = BatchChain(world.journal, STREAM).require_link(of).rank
            return BatchDraft(kind=BatchKind.REPLAY, basis=made, high=half.cursor, origin=origin, body={"of": str(of)})
        if chance < 0.5 and not world.quiet and horizon < world.source.now:
            return BatchDraft(kind=BatchKind.AHEAD, basis=made, high=half.cursor, body={"from": horizon})
        return self._increment(made, horizon)

    def _chunk(self, snapshot: SnapshotProgress | None, made: Made, horizon: int) -> BatchDraft:
        fixed = snapshot.horizon if snapshot else Cursor.from_values(horizon)
        low = snapshot.reached_key if snapshot else START_CURSOR
        first = _plain(low.values[0].raw) + 1 if low else 0
        high = Cursor.from_values(first + 1)
        done = first + 2 >= KEYS
        return BatchDraft(
            kind=BatchKind.SNAPSHOT,
            basis=made,
            windows=(Window(low, high),),
            high=fixed if done else made.mark,
            snapshot=SnapshotProgress(horizon=fixed, reached_key=high, done=done),
            body={"keys": [first, first + 1]},
        )

    def _increment(self, made: Made, horizon: int) -> BatchDraft | None:
        found = sorted(
            (row.stamp, key)
            for key, row in self._world.source.rows.items()
            if row.stamp < horizon and made.mark < Cursor.from_values(row.stamp, key)
        )[:2]
        if not found:
            return None
        high = Cursor.from_values(*found[-1])
        middle = Cursor.from_values(found[-1][0])
        cut = [middle] if made.mark < middle else []
        return BatchDraft(kind=BatchKind.INCREMENT, basis=made, windows=Window(made.mark, high).split(cut), high=high)

    def is_plan_current(self, plan: Plan) -> bool:
        pause(Effect.READ)
        self._world.judge.carried_out(plan)
        return plan.draft.basis.source_identity == str(self._world.source.identity)

    def write_files(self, plan: Plan) -> BatchOutput:
        rows: list[list[int]] = []
        files: list[str] = []
        for part in self._parts(plan.draft):
            name = f"data/{plan.id}/{next(self._world.numbers)}"
            pause(Effect.READ)
            self._world.files[name] = part
            files.append(name)
            rows += part
        return BatchOutput(rows=len(rows), files=tuple(files), body={"rows": rows})

    def _parts(self, draft: BatchDraft) -> Iterator[list[list[int]]]:
        """Each part is read in a snapshot of its own, as it is when its turn comes."""
        for part in range(max(1, len(draft.windows))):
            pause(Effect.READ)
            if draft.kind is BatchKind.REPLAY:
                of = BatchChain(self._world.journal, STREAM).require_link(BatchId.from_text(draft.body["of"]))
                yield list(of.body.get("rows", []))
            else:
                rows = self._world.source.rows.items()
                yield [[row.stamp, k, row.version] for k, row in rows if self._wanted(draft, part, k, row.stamp)]

    @staticmethod
    def _wanted(draft: BatchDraft, part: int, key: int, stamp: int) -> bool:
        match draft.kind:
            case BatchKind.INCREMENT:
                return Cursor.from_values(stamp, key) in draft.windows[part]
            case BatchKind.SNAPSHOT:
                assert draft.snapshot
                return key in draft.body["keys"] and Cursor.from_values(stamp) < draft.snapshot.horizon
            case BatchKind.REPAIR:
                return key in draft.body["keys"]
            case _:
                return bool(stamp >= draft.body["from"])

    def delete_files(self, files: Sequence[str]) -> None:
        for name in files:
            pause(Effect.READ)
            self._world.files.pop(name, None)


def _plain(value: object) -> int:
    assert isinstance(value, int)
    return value


class Worker:
    """One process: it renews its lease, extracts, and loads into both targets, all at once."""

    def __init__(self, world: "World", name: str) -> None:
        self.world, self.name, self.starts, self.asleep_until = world, name, 0, 0
        self.woken_by = ""
        """The key that another writes while this one sleeps, and wakes it."""
        self.actors: list[Actor] = []
        self.start()

    def start(self) -> None:
        self._be_born()
        self.actors = [
            Actor("renew", self._renew),
            Actor("extract", lambda: self._work(STREAM, Stage.EXTRACT, self._extraction)),
            Actor("load", lambda: self._work(STREAM, Stage.LOAD, self._landing)),
            Actor("load second", lambda: self._work(SECOND, Stage.LOAD, self._landing)),
        ]

    def _be_born(self) -> None:
        """Begin under a new name, with no claims: as a new process, or after another one ended this one."""
        self.starts += 1
        self.incarnation = f"{self.name}{self.starts}"
        self.held: dict[tuple[str, Stage], int] = {}
        self.process = ProcessLease(
            self.world.staged,
            self.incarnation,
            ttl_seconds=TTL,
            clock=self.world.clock,
            host=House(self.incarnation, self.world.dead),
            make_nonce=self.world.nonce,
        )

    def crash(self) -> None:
        for actor in self.actors:
            actor.crash()

    def _renew(self) -> None:
        while True:
            try:
                self.process.renew()
            except LeaseEnded:
                self._be_born()
            except HintedError:
                pass
            rest(5)

    def _work(self, stream: StreamName, stage: Stage, work: Callable[[HeldClaim], Iterator[None]]) -> None:
        while True:
            process = self.process
            try:
                held = process.acquire(stream, stage, self.world.journal)
                if process is self.process:
                    self.held[stream.stem, stage] = held.epoch
                for _ in work(held):
                    self._rest(stage)
                    if not self.world.quiet and self.world.random.random() < 0.01:
                        self.held.pop((stream.stem, stage), None)  # it may be given back before we hear of it
                        process.release(held)
                        break
            except Misuse:
                raise
            except HintedError as error:
                self.world.note(error)
                self.held.pop((stream.stem, stage), None)
            rest(16)

    def _rest(self, stage: Stage) -> None:
        rest(2 if self.world.quiet or stage is Stage.EXTRACT else self.world.random.choice((2, 2, 200)))

    def _extraction(self, held: HeldClaim) -> Iterator[None]:
        extraction = Extraction(self.world.journal, held, Rows(self.world))
        while True:
            extraction.extract_next_batch(Run(id=self.incarnation))
            yield

    def _landing(self, held: HeldClaim) -> Iterator[None]:
        warehouse = self.world.warehouses[held.stream.target]
        twin = TargetTwin(warehouse, held.process, self.world.files, some=self.world.some)
        landing = Loading(self.world.journal, held, lambda: twin)
        while True:
            try:
                landing.load_next_batches(
                    Run(id=self.incarnation), max_batches=3, check_ledger=self.world.random.random() < 0.3
                )
            except (NotOwner, StateUnreadable, DataInDoubt):
                raise
            except HintedError as error:
                self.world.note(error)
            yield


@dataclass
class World:
    """Everything there is, and one source of chance."""

    seed: int
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    steps: int = 0
    quiet: bool = False
    broken: bool = False
    """Whether a step has ended with a violation: nothing more is to be learned then."""

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.late: list[Callable[[], object]] = []
        self.inner = MemoryStore()
        self.staged = StagedStore(self.inner, self.late, self._wrote)
        self.clock = ManualClock()
        self.files: dict[str, object] = {}
        self.dead: set[str] = set()
        self.source = Source()
        self.errors: dict[str, int] = {}
        self.judge = Judge(self)
        self.journal = Journal(self.staged, Watermark, clock=self.clock, make_nonce=self.nonce)
        self.plain = Journal(self.inner, Watermark, clock=self.clock)
        self.warehouses = {name: Warehouse(name or "first", self.late) for name in ("", "second")}
        self.workers = [Worker(self, name) for name in ("a", "b")]
        self.people: list[Actor] = []
        self.asked = 0

    def nonce(self) -> str:
        return f"n{next(self.numbers)}"

    def some(self, count: int) -> int:
        """How many of so many links a warehouse lands at once: all of them mostly, or the first few."""
        return count if self.random.random() < 0.7 else self.random.randint(min(count, 1), count)

    def note(self, error: HintedError) -> None:
        if isinstance(error, StateUnreadable | DataInDoubt) and not isinstance(error, BatchOutOfOrder):
            raise Violation(f"refused without a reason: {type(error).__name__}: {error}")
        name = type(error).__name__
        self.errors[name] = self.errors.get(name, 0) + 1

    def _wrote(self, key: str, body: bytes) -> None:
        for worker in self.workers:
            if worker.woken_by == key:
                worker.asleep_until, worker.woken_by = 0, ""
        if key.startswith("history/"):
            stem, _, revision = key.removeprefix("history/").removesuffix(".json").rpartition("/")
            self.judge.entry(HistoryEntry.from_bytes(body, location=key, stem=stem, revision=int(revision)))
        elif key.startswith("claims/"):
            self.judge.claim(key, body)
        elif key.startswith("owners/"):
            self.judge.owner(LeaseOwner.from_bytes(body, location=key))

    # what may happen

    def go(self, effects: int, mishaps: float) -> None:
        """Let actors go on, one effect after another."""
        for _ in range(effects):
            self.steps += 1
            self.clock.advance(1)
            awake = [a for w in self.workers if w.asleep_until <= self.steps for a in w.actors if not self._rests(a)]
            self.people = [person for person in self.people if not person.ended]
            awake += self.people
            if awake:
                actor = self.random.choice(awake)
                self.broken = True
                actor.step(self._mishap(actor, mishaps))
                self.broken = False
            if self.late and self.random.random() < 0.1:
                attempt(self.late.pop(self.random.randrange(len(self.late))))

    @staticmethod
    def _rests(actor: Actor) -> bool:
        actor.rests = max(0, actor.rests - 1)
        return actor.rests > 0

    def _mishap(self, actor: Actor, mishaps: float) -> Mishap:
        if actor.waits_for not in {Effect.WRITE, Effect.COMMIT} or self.random.random() >= mishaps:
            return Mishap.NONE
        every = [Mishap.LOST_BEFORE, Mishap.LOST_AFTER, Mishap.LATE]
        if actor.waits_for is Effect.WRITE:
            every += [Mishap.TWICE, Mishap.ECHO]
        return self.random.choice(every)

    def change_source(self, events: int) -> None:
        for _ in range(events):
            self.source.happen(self.random)

    def crash(self, which: int, *, seen: bool) -> None:
        """Kill a process; its host may see it, its sessions may hang, and it starts again."""
        worker = self.workers[which]
        worker.crash()
        for warehouse in self.warehouses.values():
            for session in [s for s in warehouse.sessions if s.process == worker.incarnation]:
                if self.random.random() < 0.5:
                    warehouse.end(session)
        if seen:
            self.dead.add(worker.incarnation)
        worker.start()

    def doze(self, which: int, effects: int) -> None:
        """Stop a process for a while; it knows nothing of it."""
        self.workers[which].asleep_until = self.steps + effects

    def doze_before(self, which: int, about: str, effects: int) -> None:
        """Stop a process just before it writes something, if it soon does: the moment that hurts most.

        Half of them wake as soon as another has written the same.
        """
        for _ in range(150):
            worker = self.workers[which]
            if key := next((actor.about for actor in worker.actors if actor.about.startswith(about)), ""):
                self.doze(which, effects)
                worker.woken_by = key if effects % 2 else ""
                return
            self.go(1, mishaps=0)

    def ask(self, what: str) -> None:
        """A person changes something, which takes its effects like everything else."""
        self.asked += 1
        self.people.append(Actor(what, lambda: self._person(what)))

    def _person(self, what: str) -> None:
        person = Operator(journal=self.journal, author="ann", reason=what)
        chance = self.random.random()
        try:
            match what:
                case "reset" | "anew":
                    person.reset_marks(STREAM, reset_load=what == "anew")
                case "back" | "forward" | "both":
                    after = self._landed(STREAM, chance) if what == "both" else None
                    person.set_marks(STREAM, extract_cursor=self._elsewhere(what, chance), load_after=after)
                case "undo":
                    person.undo(STREAM)
                case "reload":
                    person.reset_marks(STREAM, reset_extract=False)
                case "reload second":
                    person.reset_marks(SECOND, reset_extract=False)
                case "undo second":
                    person.undo(SECOND)
                case "again" | "again second":
                    stream = STREAM if what == "again" else SECOND
                    person.set_marks(stream, load_after=self._landed(stream, chance))
                case "import":
                    legacy = read_legacy_watermark(LEGACY, location="old")
                    person.import_position(STREAM, ImportedPosition(cursor=Cursor.from_values(0), legacy=legacy))
        except HintedError as error:
            self.note(error)

    def _landed(self, stream: StreamName, chance: float) -> BatchId:
        """A batch at or before the loaded mark."""
        first, state = self.journal.read_newest(STREAM.stem), self.journal.read_newest(stream.stem)
        if first is None or state is None:
            return BEFORE_FIRST_BATCH
        ids = [
            BEFORE_FIRST_BATCH,
            *(
                batch
                for batch in first.required_extract_progress.batch_ids(after=BEFORE_FIRST_BATCH)
                if batch <= state.load_progress.last_batch
            ),
        ]
        return ids[int(chance * len(ids))]

    def _elsewhere(self, what: str, chance: float) -> Cursor:
        state = self.journal.read_newest(STREAM.stem)
        first = (
            state.required_extract_progress.cursor.values[0].raw
            if state and state.required_extract_progress.cursor
            else 0
        )
        stamp = _plain(first)
        return Cursor.from_values(stamp + 2 if what == "forward" else int(stamp * chance))

    # the end

    def settle(self, most: int = 12_000) -> None:
        """No more mishaps and no more changes: everything must arrive."""
        self.quiet = True
        self.source.rest()
        for worker in self.workers:
            worker.asleep_until = 0
        for _ in range(most // 50):
            self.go(50, mishaps=0)
            if not self.people and not self.late and self._arrived():
                break
        else:
            raise Violation(f"stuck: {self.errors}")
        self._restore_all()
        self.judge.end()

    def _restore_all(self) -> None:
        """Warehouses go back once more when nothing is due: what they lost must come by itself."""
        for warehouse in self.warehouses.values():
            if warehouse.holds_backup:
                warehouse.save_or_restore()
        for _ in range(240):
            self.go(50, mishaps=0)
            if not self.late and self._arrived():
                return
        raise Violation(f"stuck after a restore: {self.errors}")

    def _arrived(self) -> bool:
        first, second = self.plain.read_newest(STREAM.stem), self.plain.read_newest(SECOND.stem)
        if first is None or second is None:
            return False
        half = first.required_extract_progress
        top = max((Cursor.from_values(row.stamp, key) for key, row in self.source.rows.items()), default=START_CURSOR)
        read = half.cursor >= top and not (half.snapshot and not half.snapshot.done) and (half.cursor or half.snapshot)
        due = [next(half.batch_ids(after=doc.load_progress.last_batch), None) for doc in (first, second)]
        return bool(read) and due == [None, None] and not self._lost(first, second)

    def _lost(self, first: Watermark, second: Watermark) -> bool:
        for doc in (first, second):
            ledger = self.warehouses[doc.stream.target].state.ledger
            keys = {(key.load_generation, key.batch) for key in ledger}
            for batch in first.required_extract_progress.batch_ids(after=BEFORE_FIRST_BATCH):
                if (
                    doc.load_progress.expects_in_ledger(batch)
                    and (doc.load_progress.load_generation_of(batch), batch) not in keys
                ):
                    return True
        return False


class Judge:
    """Looks at every commit, and at the end at everything."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._have: set[tuple[int, int, int]] = set()
        self._skipped: list[tuple[Cursor, Cursor]] = []
        self._epochs: dict[tuple[str, str | None], int] = {}
        self._states: dict[str, Watermark] = {}
        self._by_hand = 0
        self._claims: dict[str, tuple[str, int]] = {}
        self._beats: dict[str, float] = {}
        self.seen: dict[ChangeKind, int] = {}

    def entry(self, entry: HistoryEntry) -> None:
        """The commit point of a change of a document."""
        new = Watermark.from_bytes(entry.document_bytes(), location="judge", stem=entry.document)
        old = self._states.get(entry.document)
        if (old.revision if old else 0) + 1 != entry.revision:
            raise Violation(f"entry {entry.revision} of {entry.document} follows {old.revision if old else 0}")
        self._states[entry.document] = new
        note = entry.note
        self.seen[note.change] = self.seen.get(note.change, 0) + 1
        self._require_epoch(entry)
        if note.change in MANUAL_CHANGES:
            self._by_hand += 1
            if self._by_hand > self._world.asked:
                raise Violation("one change by a person was committed twice")
        if old is not None:
            self._moved(entry, old, new)
        if new.extract_progress is not None and entry.note.change not in {
            ChangeKind.LOAD,
            ChangeKind.FAIL,
            ChangeKind.TAKE,
        }:
            self._read(entry, old, new)

    def _require_epoch(self, entry: HistoryEntry) -> None:
        note = entry.note
        if note.change in MANUAL_CHANGES:
            return
        key = (entry.document, note.stage)
        if note.change is ChangeKind.TAKE:
            if note.epoch <= self._epochs.get(key, 0):
                raise Violation(f"epoch {note.epoch} of {key} after {self._epochs[key]}")
            self._epochs[key] = note.epoch
        elif note.epoch != self._epochs.get(key):
            raise Violation(f"an entry of epoch {note.epoch} of {key}, which is at {self._epochs.get(key)}")

    def _moved(self, entry: HistoryEntry, old: Watermark, new: Watermark) -> None:
        if entry.note.change in MANUAL_CHANGES:
            generations = [
                (w.extract_progress.generation if w.extract_progress else 0, w.load_progress.load_generation)
                for w in (old, new)
            ]
            if any(after < before for before, after in zip(*generations, strict=True)):
                raise Violation("a person's change lowered a generation")
            if entry.note.change is not ChangeKind.UNDO and generations[0] == generations[1]:
                raise Violation(f"{entry.note.reason} by a person opened no new generation: the ledger could undo it")
            return
        if old.extract_progress and new.extract_progress:
            before, after = old.extract_progress, new.extract_progress
            if after.generation != before.generation or after.seq < before.seq or after.cursor < before.cursor:
                raise Violation(f"the extracted mark moved from {before.last_batch} to {after.last_batch} by itself")
        if (new.load_progress.load_generation, new.load_progress.last_batch) < (
            old.load_progress.load_generation,
            old.load_progress.last_batch,
        ):
            raise Violation(
                f"the loaded mark moved from {old.load_progress.last_batch} to {new.load_progress.last_batch} by itself"
            )
        if entry.note.change is ChangeKind.LOAD and not self._house(new).restores:
            self._in_ledger(new)

    def _in_ledger(self, new: Watermark) -> None:
        ledger = {(key.load_generation, key.batch) for key in self._house(new).state.ledger}
        for batch in self._chain().batch_ids(after=BEFORE_FIRST_BATCH):
            if (
                new.load_progress.expects_in_ledger(batch)
                and (new.load_progress.load_generation_of(batch), batch) not in ledger
            ):
                raise Violation(f"{new.stream}: the loaded mark is past {batch}, which the ledger does not hold")

    def _house(self, new: Watermark) -> Warehouse:
        return self._world.warehouses[new.stream.target]

    def _chain(self) -> ExtractProgress:
        return self._states[STREAM.stem].required_extract_progress

    def _read(self, entry: HistoryEntry, old: Watermark | None, new: Watermark) -> None:
        """Every row at or below the mark is in a link of the chain, unless a person chose to leave it out."""
        half, before = new.required_extract_progress, old.required_extract_progress if old else None
        if entry.note.change in MANUAL_CHANGES:
            unread = before is None or (before.snapshot is not None and not before.snapshot.done) or not before.cursor
            low = START_CURSOR if unread or before is None else before.cursor
            if low < half.cursor and entry.note.change is not ChangeKind.UNDO:
                self._skipped.append((low, half.cursor))
        elif half.seq:
            stored = self._world.inner.read(f"batches/{STREAM.stem}/{half.last_batch}.json")
            if stored is None:
                raise Violation(f"the mark is at batch {half.last_batch}, which has no link")
            link = BatchLink.from_bytes(stored.body, location="judge", stream=STREAM, batch=half.last_batch)
            if link.digest != half.last_link_digest:
                raise Violation(f"the link {half.last_batch} is not the one that the mark was moved for")
            plan = BatchChain(self._world.plain, STREAM).read_plan(half.last_batch)
            if plan is None or plan.digest != link.plan:
                raise Violation(f"the link {half.last_batch} is not of the plan that was sealed")
            self._have |= {(stamp, key, version) for stamp, key, version in link.body.get("rows", [])}
        for key, row in self._world.source.rows.items():
            at = Cursor.from_values(row.stamp, key)
            if at <= half.cursor and (row.stamp, key, row.version) not in self._have and not self._left_out(at):
                raise Violation(f"row {at} at or below the mark {half.cursor} is in no link")

    def _left_out(self, at: Cursor) -> bool:
        return any(low < at <= high for low, high in self._skipped)

    def carried_out(self, plan: Plan) -> None:
        """Nobody reads for a plan but the one that stands at its number: two writers cannot both own it."""
        sealed = BatchChain(self._world.plain, STREAM).read_plan(plan.id)
        if sealed is None or sealed.digest != plan.digest:
            raise Violation(f"a plan of {plan.id} is carried out that is not the one that was sealed")

    def claim(self, key: str, body: bytes) -> None:
        """Epochs rise by one with every owner, and with none else."""
        found = parse_json_object(body, location=key)
        owner, epoch, released = found["owner"], found["epoch"], found["released"]
        before = self._claims.get(key)
        self._claims[key] = owner, epoch
        if before is not None and epoch != before[1] + (not released):
            raise Violation(f"{key}: epoch {epoch} of {owner} after {before}")

    def owner(self, owner: LeaseOwner) -> None:
        """A renewal: nobody may have taken a claim of a process whose lease still lives."""
        now = self._world.clock.monotonic()
        if owner.ended_by is not None:
            beat = self._beats.get(owner.process)
            if beat is not None and now - beat < TTL and owner.process not in self._world.dead:
                raise Violation(f"{owner.process} was ended {now - beat} s after it renewed its lease")
            return
        self._beats[owner.process] = now
        worker = next((w for w in self._world.workers if w.incarnation == owner.process), None)
        for (stem, stage), epoch in (worker.held if worker else {}).items():
            stream = StreamName.from_stem(stem)
            key = Claim(stream=stream, stage=stage, owner="", epoch=0, nonce="").key
            stored = self._world.inner.read(key)
            assert stored
            claim = Claim.from_bytes(stored.body, stream=stream, stage=stage)
            if claim.epoch > epoch and claim.owner != owner.process:
                raise Violation(f"{owner.process} renewed its lease after {claim.owner} took {stage} of {stream}")

    def end(self) -> None:
        """Everything has settled: sources and targets are equal, histories whole."""
        first = self._final(STREAM)
        for doc in (first, self._final(SECOND)):
            house = self._house(doc)
            loaded = doc.load_progress
            for batch in first.required_extract_progress.batch_ids(after=BEFORE_FIRST_BATCH):
                # What lies before the base landed under an earlier load generation; nobody may have lost it since.
                enough = {loaded.load_generation} if batch > loaded.base else {*range(1, loaded.load_generation)}
                landed = {key.batch for key in house.landed if key.load_generation in enough}
                if batch not in landed and not any(batch in span for span in loaded.skipped_batches):
                    raise Violation(f"batch {batch} of the chain is not in {house.name}")
            for key, row in self._world.source.rows.items():
                if self._left_out(Cursor.from_values(row.stamp, key)):
                    continue
                there = house.state.rows.get(key)
                if there is None or there.version != row.version:
                    raise Violation(f"{house.name}: key {key} is {there}, the source has {row}")

    def _final(self, stream: StreamName) -> Watermark:
        state = self._world.plain.read_newest(stream.stem)
        assert state is not None
        entries = list(self._world.plain.read_entries(stream.stem, newest_revision=state.revision))
        if len(entries) != state.revision:
            raise Violation(f"the history of {stream} has {len(entries)} entries, not {state.revision}")
        return state
