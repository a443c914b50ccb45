"""The world: processes that extract and load, people who interfere, a scheduler, and the judge of every commit."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.simulation.source import KEYS, Source
from tests.simulation.stage import Actor, Effect, Mishap, StagedStore, attempt, pause, rest
from tests.simulation.warehouse import TargetTwin, Violation, Warehouse
from watermarks.batch import BatchId, Draft, Filled, Kind, Link, Plan, Snapshot
from watermarks.batch import World as Made
from watermarks.codec import parse
from watermarks.cursor import START, Cursor
from watermarks.document import Stage, Watermark
from watermarks.errors import DataInDoubt, HintedError, Misuse, NotOwner, StateUnreadable
from watermarks.extraction import Chain, Extraction
from watermarks.history import BY_HAND, Change, Entry, Journal
from watermarks.host import Whereabouts
from watermarks.lease import Claim, Ended, Held, Owner, Process
from watermarks.legacy import read_legacy
from watermarks.loading import Landing
from watermarks.names import StreamName
from watermarks.operator import Operator, Takeover
from watermarks.progress import ORIGIN, Extracted, OutOfTurn, Run
from watermarks.stores.memory import MemoryStore
from watermarks.testing import ManualClock
from watermarks.window import Window

STREAM = StreamName(source="shop", database="shop", table="orders")
SECOND = STREAM.at("second")
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

    def here(self) -> Whereabouts:
        return Whereabouts(host="one", place="boot", pid=1, started=self.name)

    def is_dead(self, other: Whereabouts) -> bool:
        return other.started in self.dead


class Rows:
    """Makes batches of the simulated source: the `Producer` of the simulation."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def propose(self, watermark: Watermark) -> Draft | None:
        pause(Effect.READ)
        world, half = self._world, watermark.chain
        made = Made(mark=half.cursor, source_identity=str(world.source.identity), schema="1")
        horizon = world.source.horizon()
        if not half.snapshot.done if half.snapshot else not half.cursor:
            return self._chunk(half.snapshot, made, horizon)
        chance = world.random.random()
        if chance < 0.15 and not world.quiet:
            return Draft(kind=Kind.REPAIR, world=made, high=half.cursor, body={"keys": [world.random.randrange(KEYS)]})
        if chance < 0.3 and not world.quiet and half.seq > 1:
            of = BatchId(half.generation, world.random.randint(1, half.seq))
            origin = Chain(world.journal, STREAM).origin_of(of)
            return Draft(kind=Kind.REPLAY, world=made, high=half.cursor, origin=origin, body={"of": str(of)})
        if chance < 0.5 and not world.quiet and horizon < world.source.now:
            return Draft(kind=Kind.AHEAD, world=made, high=half.cursor, body={"from": horizon})
        return self._increment(made, horizon)

    def _chunk(self, snapshot: Snapshot | None, made: Made, horizon: int) -> Draft:
        fixed = snapshot.horizon if snapshot else Cursor.of(horizon)
        low = snapshot.reached if snapshot else START
        first = _plain(low.values[0].plain) + 1 if low else 0
        high = Cursor.of(first + 1)
        done = first + 2 >= KEYS
        return Draft(
            kind=Kind.SNAPSHOT,
            world=made,
            windows=(Window(low, high),),
            high=fixed if done else made.mark,
            snapshot=Snapshot(horizon=fixed, reached=high, done=done),
            body={"keys": [first, first + 1]},
        )

    def _increment(self, made: Made, horizon: int) -> Draft | None:
        found = sorted(
            (row.stamp, key)
            for key, row in self._world.source.rows.items()
            if row.stamp < horizon and made.mark < Cursor.of(row.stamp, key)
        )[:2]
        if not found:
            return None
        high = Cursor.of(*found[-1])
        middle = Cursor.of(found[-1][0])
        cut = [middle] if made.mark < middle else []
        return Draft(kind=Kind.INCREMENT, world=made, windows=Window(made.mark, high).split(cut), high=high)

    def holds(self, plan: Plan) -> bool:
        pause(Effect.READ)
        self._world.judge.carried_out(plan)
        return plan.draft.world.source_identity == str(self._world.source.identity)

    def fill(self, plan: Plan) -> Filled:
        rows: list[list[int]] = []
        files: list[str] = []
        for part in self._parts(plan.draft):
            name = f"data/{plan.id}/{next(self._world.numbers)}"
            pause(Effect.READ)
            self._world.files[name] = part
            files.append(name)
            rows += part
        return Filled(rows=len(rows), files=tuple(files), body={"rows": rows})

    def _parts(self, draft: Draft) -> Iterator[list[list[int]]]:
        """Each part is read in a snapshot of its own, as it is when its turn comes."""
        for part in range(max(1, len(draft.windows))):
            pause(Effect.READ)
            if draft.kind is Kind.REPLAY:
                of = Chain(self._world.journal, STREAM).required(BatchId.of_text(draft.body["of"]))
                yield list(of.body.get("rows", []))
            else:
                rows = self._world.source.rows.items()
                yield [[row.stamp, k, row.version] for k, row in rows if self._wanted(draft, part, k, row.stamp)]

    @staticmethod
    def _wanted(draft: Draft, part: int, key: int, stamp: int) -> bool:
        match draft.kind:
            case Kind.INCREMENT:
                return Cursor.of(stamp, key) in draft.windows[part]
            case Kind.SNAPSHOT:
                assert draft.snapshot
                return key in draft.body["keys"] and Cursor.of(stamp) < draft.snapshot.horizon
            case Kind.REPAIR:
                return key in draft.body["keys"]
            case _:
                return bool(stamp >= draft.body["from"])

    def drop(self, files: Sequence[str]) -> None:
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
        self.process = Process(
            self.world.staged,
            self.incarnation,
            ttl=TTL,
            clock=self.world.clock,
            host=House(self.incarnation, self.world.dead),
            nonce=self.world.nonce,
        )

    def crash(self) -> None:
        for actor in self.actors:
            actor.crash()

    def _renew(self) -> None:
        while True:
            try:
                self.process.renew()
            except Ended:
                self._be_born()
            except HintedError:
                pass
            rest(5)

    def _work(self, stream: StreamName, stage: Stage, work: Callable[[Held], Iterator[None]]) -> None:
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

    def _extraction(self, held: Held) -> Iterator[None]:
        extraction = Extraction(self.world.journal, held, Rows(self.world))
        while True:
            extraction.turn(Run(id=self.incarnation))
            yield

    def _landing(self, held: Held) -> Iterator[None]:
        warehouse = self.world.warehouses[held.stream.target]
        twin = TargetTwin(warehouse, held.process, self.world.files, some=self.world.some)
        landing = Landing(self.world.journal, held, twin)
        while True:
            try:
                landing.turn(Run(id=self.incarnation), most=3, compare=self.world.random.random() < 0.3)
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
        self.journal = Journal(self.staged, Watermark, clock=self.clock, nonce=self.nonce)
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
        if isinstance(error, StateUnreadable | DataInDoubt) and not isinstance(error, OutOfTurn):
            raise Violation(f"refused without a reason: {type(error).__name__}: {error}")
        name = type(error).__name__
        self.errors[name] = self.errors.get(name, 0) + 1

    def _wrote(self, key: str, body: bytes) -> None:
        for worker in self.workers:
            if worker.woken_by == key:
                worker.asleep_until, worker.woken_by = 0, ""
        if key.startswith("history/"):
            stem, _, revision = key.removeprefix("history/").removesuffix(".json").rpartition("/")
            self.judge.entry(Entry.of_bytes(body, at=key, stem=stem, revision=int(revision)))
        elif key.startswith("claims/"):
            self.judge.claim(key, body)
        elif key.startswith("owners/"):
            self.judge.owner(Owner.of_bytes(body, at=key))

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
        person = Operator(journal=self.journal, who="ann", why=what)
        chance = self.random.random()
        try:
            match what:
                case "reset" | "anew":
                    person.reset_marks(STREAM, loaded=what == "anew")
                case "back" | "forward" | "both":
                    after = self._landed(STREAM, chance) if what == "both" else None
                    person.set_marks(STREAM, extracted=self._elsewhere(what, chance), after=after)
                case "undo":
                    person.undo(STREAM)
                case "reload":
                    person.reset_loaded(STREAM)
                case "reload second":
                    person.reset_loaded(SECOND)
                case "undo second":
                    person.undo(SECOND)
                case "again" | "again second":
                    stream = STREAM if what == "again" else SECOND
                    person.set_loaded(stream, self._landed(stream, chance))
                case "import":
                    legacy = read_legacy(LEGACY, at="old")
                    person.take_over(STREAM, Takeover(cursor=Cursor.of(0), legacy=legacy))
        except HintedError as error:
            self.note(error)

    def _landed(self, stream: StreamName, chance: float) -> BatchId:
        """A batch at or before the loaded mark."""
        first, state = self.journal.newest(STREAM.stem), self.journal.newest(stream.stem)
        if first is None or state is None:
            return ORIGIN
        ids = [ORIGIN, *(batch for batch in first.chain.ids(after=ORIGIN) if batch <= state.loaded.last)]
        return ids[int(chance * len(ids))]

    def _elsewhere(self, what: str, chance: float) -> Cursor:
        state = self.journal.newest(STREAM.stem)
        first = state.chain.cursor.values[0].plain if state and state.chain.cursor else 0
        stamp = _plain(first)
        return Cursor.of(stamp + 2 if what == "forward" else int(stamp * chance))

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
        first, second = self.plain.newest(STREAM.stem), self.plain.newest(SECOND.stem)
        if first is None or second is None:
            return False
        half = first.chain
        top = max((Cursor.of(row.stamp, key) for key, row in self.source.rows.items()), default=START)
        read = half.cursor >= top and not (half.snapshot and not half.snapshot.done) and (half.cursor or half.snapshot)
        due = [next(half.ids(after=doc.loaded.last), None) for doc in (first, second)]
        return bool(read) and due == [None, None] and not self._lost(first, second)

    def _lost(self, first: Watermark, second: Watermark) -> bool:
        for doc in (first, second):
            ledger = self.warehouses[doc.stream.target].state.ledger
            keys = {(key.load_generation, key.batch) for key in ledger}
            for batch in first.chain.ids(after=ORIGIN):
                if doc.loaded.expects(batch) and (doc.loaded.landed_under(batch), batch) not in keys:
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
        self.seen: dict[Change, int] = {}

    def entry(self, entry: Entry) -> None:
        """The commit point of a change of a document."""
        new = Watermark.of_bytes(entry.document_bytes(), at="judge", stem=entry.document)
        old = self._states.get(entry.document)
        if (old.revision if old else 0) + 1 != entry.revision:
            raise Violation(f"entry {entry.revision} of {entry.document} follows {old.revision if old else 0}")
        self._states[entry.document] = new
        note = entry.note
        self.seen[note.change] = self.seen.get(note.change, 0) + 1
        self._require_epoch(entry)
        if note.change in BY_HAND:
            self._by_hand += 1
            if self._by_hand > self._world.asked:
                raise Violation("one change by a person was committed twice")
        if old is not None:
            self._moved(entry, old, new)
        if new.extracted is not None and entry.note.change not in {Change.LOAD, Change.FAIL, Change.TAKE}:
            self._read(entry, old, new)

    def _require_epoch(self, entry: Entry) -> None:
        note = entry.note
        if note.change in BY_HAND:
            return
        key = (entry.document, note.stage)
        if note.change is Change.TAKE:
            if note.epoch <= self._epochs.get(key, 0):
                raise Violation(f"epoch {note.epoch} of {key} after {self._epochs[key]}")
            self._epochs[key] = note.epoch
        elif note.epoch != self._epochs.get(key):
            raise Violation(f"an entry of epoch {note.epoch} of {key}, which is at {self._epochs.get(key)}")

    def _moved(self, entry: Entry, old: Watermark, new: Watermark) -> None:
        if entry.note.change in BY_HAND:
            generations = [(w.extracted.generation if w.extracted else 0, w.loaded.load_generation) for w in (old, new)]
            if any(after < before for before, after in zip(*generations, strict=True)):
                raise Violation("a person's change lowered a generation")
            if entry.note.change is not Change.UNDO and generations[0] == generations[1]:
                raise Violation(f"{entry.note.why} by a person opened no new generation: the ledger could undo it")
            return
        if old.extracted and new.extracted:
            before, after = old.extracted, new.extracted
            if after.generation != before.generation or after.seq < before.seq or after.cursor < before.cursor:
                raise Violation(f"the extracted mark moved from {before.last} to {after.last} by itself")
        if (new.loaded.load_generation, new.loaded.last) < (old.loaded.load_generation, old.loaded.last):
            raise Violation(f"the loaded mark moved from {old.loaded.last} to {new.loaded.last} by itself")
        if entry.note.change is Change.LOAD and not self._house(new).restores:
            self._in_ledger(new)

    def _in_ledger(self, new: Watermark) -> None:
        ledger = {(key.load_generation, key.batch) for key in self._house(new).state.ledger}
        for batch in self._chain().ids(after=ORIGIN):
            if new.loaded.expects(batch) and (new.loaded.landed_under(batch), batch) not in ledger:
                raise Violation(f"{new.stream}: the loaded mark is past {batch}, which the ledger does not hold")

    def _house(self, new: Watermark) -> Warehouse:
        return self._world.warehouses[new.stream.target]

    def _chain(self) -> Extracted:
        return self._states[STREAM.stem].chain

    def _read(self, entry: Entry, old: Watermark | None, new: Watermark) -> None:
        """Every row at or below the mark is in a link of the chain, unless a person chose to leave it out."""
        half, before = new.chain, old.chain if old else None
        if entry.note.change in BY_HAND:
            unread = before is None or (before.snapshot is not None and not before.snapshot.done) or not before.cursor
            low = START if unread or before is None else before.cursor
            if low < half.cursor and entry.note.change is not Change.UNDO:
                self._skipped.append((low, half.cursor))
        elif half.seq:
            stored = self._world.inner.read(f"batches/{STREAM.stem}/{half.last}.json")
            if stored is None:
                raise Violation(f"the mark is at batch {half.last}, which has no link")
            link = Link.of_bytes(stored.body, at="judge", stream=STREAM, id=half.last)
            if link.digest != half.chain:
                raise Violation(f"the link {half.last} is not the one that the mark was moved for")
            plan = Chain(self._world.plain, STREAM).plan(half.last)
            if plan is None or plan.digest != link.plan:
                raise Violation(f"the link {half.last} is not of the plan that was sealed")
            self._have |= {(stamp, key, version) for stamp, key, version in link.body.get("rows", [])}
        for key, row in self._world.source.rows.items():
            at = Cursor.of(row.stamp, key)
            if at <= half.cursor and (row.stamp, key, row.version) not in self._have and not self._left_out(at):
                raise Violation(f"row {at} at or below the mark {half.cursor} is in no link")

    def _left_out(self, at: Cursor) -> bool:
        return any(low < at <= high for low, high in self._skipped)

    def carried_out(self, plan: Plan) -> None:
        """Nobody reads for a plan but the one that stands at its number: two writers cannot both own it."""
        sealed = Chain(self._world.plain, STREAM).plan(plan.id)
        if sealed is None or sealed.digest != plan.digest:
            raise Violation(f"a plan of {plan.id} is carried out that is not the one that was sealed")

    def claim(self, key: str, body: bytes) -> None:
        """Epochs rise by one with every owner, and with none else."""
        found = parse(body, at=key)
        owner, epoch, released = found["owner"], found["epoch"], found["released"]
        before = self._claims.get(key)
        self._claims[key] = owner, epoch
        if before is not None and epoch != before[1] + (not released):
            raise Violation(f"{key}: epoch {epoch} of {owner} after {before}")

    def owner(self, owner: Owner) -> None:
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
            stream = StreamName.of_stem(stem)
            key = Claim(stream=stream, stage=stage, owner="", epoch=0, nonce="").key
            stored = self._world.inner.read(key)
            assert stored
            claim = Claim.of_bytes(stored.body, stream=stream, stage=stage)
            if claim.epoch > epoch and claim.owner != owner.process:
                raise Violation(f"{owner.process} renewed its lease after {claim.owner} took {stage} of {stream}")

    def end(self) -> None:
        """Everything has settled: sources and targets are equal, histories whole."""
        first = self._final(STREAM)
        for doc in (first, self._final(SECOND)):
            house = self._house(doc)
            loaded = doc.loaded
            for batch in first.chain.ids(after=ORIGIN):
                # What lies before the base landed under an earlier load generation; nobody may have lost it since.
                enough = {loaded.load_generation} if batch > loaded.base else {*range(1, loaded.load_generation)}
                landed = {key.batch for key in house.landed if key.load_generation in enough}
                if batch not in landed and not any(batch in span for span in loaded.skipped):
                    raise Violation(f"batch {batch} of the chain is not in {house.name}")
            for key, row in self._world.source.rows.items():
                if self._left_out(Cursor.of(row.stamp, key)):
                    continue
                there = house.state.rows.get(key)
                if there is None or there.version != row.version:
                    raise Violation(f"{house.name}: key {key} is {there}, the source has {row}")

    def _final(self, stream: StreamName) -> Watermark:
        state = self._world.plain.newest(stream.stem)
        assert state is not None
        entries = list(self._world.plain.entries(stream.stem, newest=state.revision))
        if len(entries) != state.revision:
            raise Violation(f"the history of {stream} has {len(entries)} entries, not {state.revision}")
        return state
