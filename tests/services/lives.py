"""Random lives of a target: a source that changes, batches that read it and land, and an oracle that says what stands.

The oracle takes the batches one by one, in the order in which they were read, as docs/decisions/0008, 0011, 0027 and
0036 say. The warehouse takes them as a life has it: some at a time or all together, once and again, over what a person
set, reset and took back, and after a restore of an older snapshot. What stands in the end must be the same.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from syncd.datatypes.source_table import SourceColumn
from syncd.lake.batch_number import batch_to_number
from syncd.settings import Deletes, Mode
from tests.services.prepared import ID, NAME, Prepared, moment
from tests.services.prepared import Row as FileRow
from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchLink
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.operator import Operator
from watermarks.progress import BEFORE_FIRST_BATCH
from watermarks.window import Window

if TYPE_CHECKING:
    from tests.integration.load.conftest import Loader, Reader

KEYS: Final = 4
CHUNK: Final = 2
"""Keys that one batch of a first pass reads."""
ASIDE: Final = 0.2
"""How often a row is put aside, to be replayed later."""
UPDATE_AT: Final = SourceColumn(name="update_at", data_type="datetime", column_type="datetime(6)", fraction=6)

Position = tuple[int, int]
"""A second and a key; -1 stands before the keys of its second."""
Range = tuple[Position, Position]
"""What comes after the one, up to and including the other."""
BEFORE_ALL: Final = (0, 0)


def instant(second: int | None) -> datetime | None:
    return None if second is None else moment(second).replace(tzinfo=None)


def cursor_of(position: Position) -> Cursor:
    second, key = position
    stamp = moment(second).replace(tzinfo=None)
    return Cursor.from_values(stamp) if key < 0 else Cursor.from_values(stamp, key)


@dataclass(frozen=True, slots=True)
class Row:
    key: int
    second: int | None
    """Of its order column, which may be NULL."""
    name: str

    def __str__(self) -> str:
        return f"{self.key}@{self.second}:{self.name}"

    @property
    def file(self) -> FileRow:
        return {"id": self.key, "name": self.name, "update_at": None if self.second is None else moment(self.second)}

    @property
    def position(self) -> Position:
        """NULL is older than everything."""
        return (-1 if self.second is None else self.second, self.key)

    def lies_in(self, low: Position, high: Position) -> bool:
        return low < self.position <= high


@dataclass(frozen=True, slots=True, kw_only=True)
class Burial:
    """A batch of tombstones: keys that the source has no longer, and what was known when it was looked."""

    id: BatchId = BEFORE_FIRST_BATCH
    keys: tuple[int, ...]
    upto: int
    seen: BatchId


@dataclass(slots=True)
class Version:
    """A row of the target."""

    row: Row
    batch: BatchId
    """What its column says: the batch that first read it, or the tombstones by which it is marked."""
    gone: bool = False
    end: int | None = None

    @property
    def age(self) -> tuple[BatchId, Position]:
        return self.batch, self.row.position


@dataclass
class Oracle:
    """What has to stand in a target, batch by batch."""

    mode: Mode
    deletes: Deletes
    held: dict[tuple[int, int | None], Version] = field(default_factory=dict)
    burials: dict[BatchId, Burial] = field(default_factory=dict)

    def read(self, batch: BatchId, rows: Iterable[Row], window: Range | None = None) -> None:
        """What was read by keys has no window: a range that was read again is what this reading found."""
        if window and self.mode is Mode.APPEND:
            self.held = {each: version for each, version in self.held.items() if not version.row.lies_in(*window)}
        for row in rows:
            self._put(row, batch)

    def replay(self, origin: BatchId, rows: Iterable[Row]) -> None:
        """They are as old as the batch that first read them."""
        for row in rows:
            standing = self.held.get(self._identity(row))
            if standing is None or standing.batch <= origin or self._had_come_back(row, origin, standing):
                self._put(row, origin)
                self._take_place(self.held[self._identity(row)], origin)

    def bury(self, burial: Burial) -> None:
        self.burials[burial.id] = burial
        for key in burial.keys:
            versions = self._versions(key)
            # In history the older ones have ended already.
            for version in versions[-1:] if self.mode is Mode.HISTORY else versions:
                if self._is_meant(version, burial):
                    self._mark_or_delete(version, burial)

    def alive(self) -> set[int]:
        """The keys that the target shows."""
        return {version.row.key for version in self.held.values() if not version.gone}

    def content(self) -> list[tuple[Any, ...]]:
        return sorted(map(self._shown, self.held.values()), key=repr)

    @property
    def columns(self) -> str:
        """Those of which its content tells."""
        end = ", _syncd_valid_to" if self.mode is Mode.HISTORY else ""
        return f"id, update_at, name, _syncd_batch{end}{', _syncd_deleted_at is not null' if self.marks else ''}"

    @property
    def marks(self) -> bool:
        """Whether rows that are gone stay, and say so."""
        return self.deletes is not Deletes.IGNORE and (self.deletes is Deletes.SOFT or self.mode is Mode.HISTORY)

    def _identity(self, row: Row) -> tuple[int, int | None]:
        return row.key, None if self.mode is Mode.UPSERT else row.second

    def _put(self, row: Row, batch: BatchId) -> None:
        self.held[self._identity(row)] = Version(row, batch=batch)
        if self.mode is Mode.HISTORY:
            self._end_versions(row.key)

    def _had_come_back(self, row: Row, origin: BatchId, standing: Version) -> bool:
        """Whether the tombstones by which a row is marked do not mean what a replay brings in its place."""
        return self.marks and standing.gone and not self._is_meant(Version(row, origin), self.burials[standing.batch])

    def _take_place(self, version: Version, origin: BatchId) -> None:
        """Tombstones since that marked other versions of the row mean this one too, though it was not there.

        In history they mean the newest alone: of a version that is marked nobody knows which batch read it, so the
        position decides; and the first tombstones alone count, for what later ones met was read after these.
        """
        others = [other for other in self._versions(version.row.key) if other.gone and other.batch > origin]
        since = sorted({other.batch for other in others}) if self.marks else []
        for batch in since:
            if self.mode is Mode.HISTORY:
                numbered = [other for other in self._versions(version.row.key) if other.batch == batch]
                behind = any(other.row.position < version.row.position for other in numbered)
                if behind:
                    meant = self._is_meant(version, self.burials[batch])
                    version.batch, version.gone = batch, meant
                    version.end = self.burials[batch].upto if meant else None
                self._end_versions(version.row.key)
                return
            if self._is_meant(version, self.burials[batch]):
                version.gone, version.batch = True, batch
                return

    def _versions(self, key: int) -> list[Version]:
        """Oldest first."""
        return sorted((version for version in self.held.values() if version.row.key == key), key=lambda one: one.age)

    def _end_versions(self, key: int) -> None:
        """Each version ends where the next one begins, and none before it began."""
        versions = self._versions(key)
        versions[-1].end = versions[-1].end if versions[-1].gone else None
        for version, later in pairwise(versions):
            began, following = version.row.second, later.row.second
            if following is None:
                following = began  # it has ended; when, nobody knows
            end = following if following is None or began is None else max(began, following)
            kept = version.gone and (following is None or (version.end is not None and version.end < following))
            version.end = version.end if kept else end

    def _is_meant(self, version: Version, burial: Burial) -> bool:
        below = version.row.second is None or version.row.second <= burial.upto
        return below or (version.batch <= burial.seen and self.mode is not Mode.HISTORY)

    def _mark_or_delete(self, version: Version, burial: Burial) -> None:
        if self.deletes is Deletes.IGNORE or version.gone:
            return
        if not self.marks:
            del self.held[self._identity(version.row)]
            return
        version.gone, version.batch = True, burial.id
        if self.mode is Mode.HISTORY:
            version.end = burial.upto if version.end is None else min(version.end, burial.upto)

    def _shown(self, version: Version) -> tuple[Any, ...]:
        row = version.row
        end = (instant(version.end),) if self.mode is Mode.HISTORY else ()
        gone = (version.gone,) if self.marks else ()
        return (row.key, instant(row.second), row.name, batch_to_number(version.batch), *end, *gone)


@dataclass
class Source:
    """A table of few keys whose rows come, change, go and come back."""

    chance: random.Random
    log: list[str]
    nulls: bool
    """Whether positions may be NULL."""
    rows: dict[int, Row] = field(default_factory=dict)
    gone: dict[int, Row] = field(default_factory=dict)
    second: int = 10
    """Its clock."""
    changes: int = 0

    def change(self, mark: Position) -> None:
        for _ in range(self.chance.randint(1, 3)):
            self.changes += 1
            self._change(self.chance.randint(1, KEYS), self.chance.random(), mark)

    def delete(self, key: int) -> None:
        if key in self.rows:
            self.gone[key] = self.rows.pop(key)
            self.log.append(f"  delete {self.gone[key]}")

    def found(self, condition: Callable[[Row], bool]) -> list[Row]:
        return [row for _, row in sorted(self.rows.items()) if condition(row)]

    def _change(self, key: int, way: float, mark: Position) -> None:
        if way < 0.3 and key in self.rows:
            self.delete(key)
        elif way < 0.45 and key in self.gone and key not in self.rows:
            self._write(self.gone[key])  # from a backup, with the position that it had
        elif way < 0.52 and self.nulls:
            self._write(Row(key, None, f"v{self.changes}"))
        else:
            self._write(Row(key, self._stamp(way, mark), f"v{self.changes}"))

    def _stamp(self, way: float, mark: Position) -> int:
        """That of the clock; at times one of the future, or of an UPDATE that began a while ago."""
        now = self.second
        self.second += self.chance.randint(0, 2)
        return now + 4 if way > 0.93 else max(now - 2, mark[0] + 1) if way > 0.86 else now

    def _write(self, row: Row) -> None:
        self.rows[row.key] = row
        self.log.append(f"  write {row}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """How far the source is read."""

    mark: Position | None = None
    horizon: int | None = None
    """Of a first pass, as long as it is under way."""
    key: int = 0
    """The last one that the first pass has read."""


class Life:
    """Two streams that read the same: batches of one land as they go, those of the other all together in the end."""

    def __init__(
        self, make: Callable[..., Prepared], loader: "Loader", warehouse: "Reader", seed: int, oracle: Oracle
    ) -> None:
        self.chance, self.played = random.Random(seed), Counter[str]()
        self.log = [f"seed {seed}: {oracle.mode}, deletes {oracle.deletes}"]
        self.loader, self.warehouse, self.oracle = loader, warehouse, oracle
        self.source = Source(self.chance, self.log, nulls=self.chance.random() < 0.5)
        words = {"mode": oracle.mode, "layout": {"deletes": oracle.deletes}, "columns": (ID, NAME, UPDATE_AT)}
        self.apart, self.together = make(**words), make(**words)
        self.person = Operator(journal=loader.journal, author="ann", reason="a test")
        self.last, self.links = BEFORE_FIRST_BATCH, list[BatchId]()
        self.reached = Reached()
        self.asides: list[tuple[BatchId, list[Row]]] = []
        self.found_gone: list[Burial] = []
        self.undo_of: Callable[[], object] | None = None
        """Takes back the last change by a person, if that was not done yet."""
        self.backup = ""

    def live(self, steps: int) -> None:
        often = [*5 * [self.increment], *3 * [self.look, self.load]]
        reads = [self.ahead, self.by_key, self.by_range, self.replay, self.abandon, self.bury]
        by_hand = [self.set_extracted, self.reset_extracted, self.reset_loaded, self.set_loaded, self.undo]
        self.source.change(BEFORE_ALL)
        if self.chance.random() < 0.5:
            self.reached = Reached(horizon=self.source.second)
        later = self.chance.choices([*often, *reads, *by_hand, self.back_up, self.restore], k=steps - 3)
        for step in [self.increment, self.increment, self.load, *later]:
            if self.chance.random() < 0.7:
                self.source.change(self.reached.mark or BEFORE_ALL)
            step()
        if self.links:
            self._judge_all()

    def _judge_all(self) -> None:
        self._judge(self.apart, "as they went")
        self._judge(self.together, "all together")
        self._reset_loaded()
        again = self.chance.choice(["again one by one", "again all together", "again, into a new table"])
        if again == "again, into a new table":
            self._run(f'drop table if exists "{self.apart.table}"')
        self._judge(self.apart, again, limit=1 if again == "again one by one" else None)
        self.played[again] += 1

    def _judge(self, stream: Prepared, how: str, limit: int | None = None) -> None:
        while self._land(stream, limit):
            pass
        due = self.oracle.content()
        found = self.warehouse.rows(stream, self.oracle.columns) if self._exists(stream.table) else []
        missing, surplus = ([row for row in some if row not in others] for some, others in ((due, found), (found, due)))
        assert sorted(found, key=repr) == due, f"{self.log[0]}, landed {how}: missing {missing}, surplus {surplus}"

    # What reads.

    def increment(self) -> None:
        """The next rows behind the mark, as far as the horizon lets see; a chunk, while a first pass is under way."""
        if self.reached.horizon is not None:
            self._chunk(self.reached.horizon)
            return
        low, horizon = self.reached.mark or BEFORE_ALL, self.source.second - self.chance.choice([0, 0, 1, 3])
        places = sorted(row.position for row in self.source.found(lambda row: row.lies_in(low, (horizon, -1))))
        if not places:
            return
        high = places[-1] if self.chance.random() < 0.7 else self.chance.choice(places)
        rows = self.source.found(lambda row: row.lies_in(low, high))
        self._read("increment", rows, lambda s, files: s.increment(*files, high=cursor_of(high)), (low, high))
        self.reached = Reached(mark=high)

    def _chunk(self, horizon: int) -> None:
        low, high = self.reached.key, self.reached.key + CHUNK
        rows = self.source.found(lambda row: low < row.key <= high and row.position < (horizon, -1))
        bound, done = cursor_of((horizon, -1)), high >= KEYS
        self._read("chunk", rows, lambda s, files: s.chunk(*files, horizon=bound, done=done))
        self.reached = Reached(mark=(horizon, -1)) if done else replace(self.reached, key=high)

    def ahead(self) -> None:
        """What lies above the horizon too; a table that appends has no such batches."""
        rows = self.source.found(lambda row: row.position > (self.reached.mark or BEFORE_ALL))
        if rows and self.oracle.mode is not Mode.APPEND:
            self._read("ahead", rows, lambda s, files: s.beside(BatchKind.AHEAD, *files))

    def by_key(self) -> None:
        keys = self.chance.sample(range(1, KEYS + 1), 2)
        if rows := self.source.found(lambda row: row.key in keys):
            self._read("by key", rows, lambda s, files: s.beside(BatchKind.REPAIR, *files))

    def by_range(self) -> None:
        low, high = sorted((self.chance.randint(8, self.source.second), -1) for _ in range(2))
        if low < high and self.reached.mark:
            rows = self.source.found(lambda row: row.lies_in(low, high))
            window = Window(cursor_of(low), cursor_of(high))
            self._read(
                "by range", rows, lambda s, files: s.beside(BatchKind.REPAIR, *files, window=window), (low, high)
            )

    def replay(self) -> None:
        """Bring back what a batch has put aside."""
        if self.asides:
            origin, put = self.asides.pop(self.chance.randrange(len(self.asides)))
            files = [row.file for row in put]
            more = f"of {origin} {listed(put)}"
            self._link("replay", lambda s: s.beside(BatchKind.REPLAY, *files, origin=origin), more)
            self.oracle.replay(origin, put)

    def abandon(self) -> None:
        """A plan that nobody carries out becomes a link without files."""

        def given_up(stream: Prepared) -> BatchLink:
            state = self.loader.journal.read_newest(stream.stream.stem)
            mark = state.required_extract_progress.cursor if state else START_CURSOR
            stream.sealed(
                BatchDraft(kind=BatchKind.REPLAY, basis=stream._world(mark), high=mark, origin=self.links[-1])
            )
            stream.refuses_plans = True
            link = stream.beside(BatchKind.REPAIR)
            stream.refuses_plans = False
            assert link.kind is BatchKind.ABANDONED
            return link

        if self.links:
            self._link("abandoned", given_up)

    def look(self) -> None:
        """Compare what was read with the source, as if all of it had landed; often the tombstones follow at once."""
        self.source.delete(self.chance.randint(1, KEYS))  # or there would seldom be anything to find
        gone = sorted(self.oracle.alive() - set(self.source.rows))
        if self.reached.mark and gone:
            self.found_gone.append(Burial(keys=tuple(gone), upto=self.reached.mark[0], seen=self.last))
            self._log("look", str(gone))
        if self.chance.random() < 0.6:
            self.bury()

    def bury(self) -> None:
        if self.found_gone:
            found = self.found_gone.pop()
            upto = cursor_of((found.upto, -1))
            what = f"{found.keys} up to {found.upto}, seen {found.seen}"
            self._link("tombstones", lambda s: s.bury(*found.keys, upto=upto, seen=found.seen), what)
            self.oracle.bury(replace(found, id=self.last))

    def _read(
        self,
        what: str,
        rows: list[Row],
        make: Callable[[Prepared, list[FileRow]], BatchLink],
        window: Range | None = None,
    ) -> None:
        """Read these rows in both streams, but for some that are put aside."""
        aside = [row for row in rows if self.chance.random() < ASIDE]
        kept = [row for row in rows if row not in aside]
        more = f"in {window} {listed(kept)} aside {listed(aside)}"
        self._link(what, lambda s: make(s, [row.file for row in kept]), more)
        self.oracle.read(self.last, kept, window)
        if aside:
            self.asides.append((self.last, aside))

    def _link(self, what: str, make: Callable[[Prepared], BatchLink], more: str = "") -> None:
        self.last = self.last.next
        self._log(what, f"{self.last} {more}")
        assert [make(stream).id for stream in (self.apart, self.together)] == [self.last, self.last]
        self.links.append(self.last)

    # What a person does; with the loaded half only where batches land as they go.

    def set_extracted(self) -> None:
        if self.reached.mark and self.reached.horizon is None:
            mark = (self.chance.randint(8, self.reached.mark[0]), -1)
            self._log("set extracted", str(mark))
            cursor = cursor_of(mark)
            self._move(lambda s: self.person.set_marks(s.stream, extract_cursor=cursor), Reached(mark=mark))

    def reset_extracted(self) -> None:
        if self.reached.mark:
            self._log("reset extracted")
            self._move(
                lambda s: self.person.reset_marks(s.stream, reset_load=False), Reached(horizon=self.source.second)
            )

    def _move(self, change: Callable[[Prepared], object], reached: Reached) -> None:
        before = self.reached
        self._open_generation(change, reached)
        self.undo_of = lambda: self._open_generation(lambda s: self.person.undo(s.stream), before)

    def _open_generation(self, change: Callable[[Prepared], object], reached: Reached) -> None:
        change(self.apart)
        change(self.together)
        self.last, self.reached = BatchId(self.last.generation + 1, 0), reached

    def reset_loaded(self) -> None:
        if self.links:
            self._log("reset loaded")
            self._reset_loaded()

    def _reset_loaded(self) -> None:
        self.person.reset_marks(self.apart.stream, reset_extract=False)
        self.undo_of = lambda: self.person.undo(self.apart.stream)

    def set_loaded(self) -> None:
        """Back to a batch that has landed. None is left out: an undo that would land such a one is refused."""
        state = self.loader.journal.read_newest(self.apart.stream.stem)
        landed = [batch for batch in self.links if state and batch <= state.load_progress.last_batch]
        if landed:
            after = self.chance.choice(landed)
            self._log("set loaded", f"after {after}")
            self.person.set_marks(self.apart.stream, load_after=after)
            self.undo_of = lambda: self.person.undo(self.apart.stream)

    def undo(self) -> None:
        if self.undo_of:
            self._log("undo")
            self.undo_of()
            self.undo_of = None

    # What lands.

    def load(self) -> None:
        """Batch by batch, or as much as there is at a time; not always to the end."""
        if self.links:
            limit = self.chance.choice([1, 1, None])
            self._log("load", "batch by batch" if limit else "")
            while self._land(self.apart, limit) and self.chance.random() < 0.7:
                pass

    def _land(self, stream: Prepared, limit: int | None) -> bool:
        """Land, and say whether more is due. The ledger is compared with the mark, even if nothing is due."""
        return bool(self.loader.load(stream, limit=limit, compare=True).pending_batches)

    def back_up(self) -> None:
        """Keep a snapshot of the table and of its ledger; of one without a row there is nothing to restore."""
        table = self.apart.table
        if self._has_rows():
            self._log("back up")
            self.backup = f"{table}_{len(self.log)}"
            self._run(f'create table "{self.backup}" as select * from "{table}"')
            self._run(f'create table "ledger_{self.backup}" as select * from {self._ledger}')

    def restore(self) -> None:
        if self.backup:
            self._log("restore")
            self._run(f'delete from "{self.apart.table}"')
            self._run(f'insert into "{self.apart.table}" select * from "{self.backup}"')
            self._run(f"delete from {self._ledger}")
            self._run(f'insert into syncd_ledger select * from "ledger_{self.backup}"')
            self.load()

    @property
    def _ledger(self) -> str:
        return f"syncd_ledger where table_name = 'public.{self.apart.table}'"

    def _run(self, sql: str) -> None:
        self.warehouse.client.run(sql)

    def _exists(self, table: str) -> bool:
        return bool(self.warehouse.client.rows(f"select 1 from pg_class where relname = '{table}'"))

    def _has_rows(self) -> bool:
        return self._exists(self.apart.table) and bool(self.warehouse.rows(self.apart, "id", "1"))

    def _log(self, what: str, more: str = "") -> None:
        self.played[what] += 1
        self.log.append(f"{what} {more}".rstrip())


def listed(rows: Iterable[Row]) -> str:
    return f"[{', '.join(map(str, rows))}]"
