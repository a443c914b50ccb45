"""How rows in scratch tables become rows of the target: the statements of each mode, in their order."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from syncd.datatypes.columns import LONGEST_BYTES
from syncd.errors import SchemaDrift
from syncd.lake import batch_number
from syncd.lake.manifest import Manifest
from syncd.lake.tombstones import Tombstones
from syncd.redshift.casts import cast
from syncd.redshift.column_types import TargetType
from syncd.redshift.constants import constant, scratch_constant
from syncd.redshift.copy_statement import Load
from syncd.redshift.order_ranges import inside, ranges_of
from syncd.redshift.quoting import TableRef, literal, quoted, text_literal
from syncd.redshift.target_table import DELETED_AT, LOADED_AT, VALID_TO, Found
from syncd.settings import Mode
from syncd.tables.column_defaults import Added
from syncd.tables.row_identity import Identity
from watermarks.batch import BatchId, Kind, Link

BATCH: Final = quoted(batch_number.COLUMN)
PLACE: Final = quoted("_syncd_place")
JOINED: Final = "syncd_joined"
"""What an UPDATE joins to the target: where a table has the very name of what is joined to it, no server takes them."""
_DOCUMENT: Final = TargetType("super")
_SCRATCH_DOCUMENT: Final = TargetType("varbyte", (LONGEST_BYTES,))
"""In which a document comes: `Passage.scratch`."""


def column(rows: str, name: str) -> str:
    return f"{rows}.{quoted(name)}"


def batch(rows: str) -> str:
    """The number of the batch that read a row; rows that were there before us are older than all."""
    return f"COALESCE({rows}.{BATCH}, 0)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Everything that the statements of one landing are made of."""

    table: TableRef
    found: Found
    """The target's columns as they are by now."""
    loads: tuple[Load, ...]
    burials: tuple[Load, ...] = ()
    """Keys of rows that are gone at the source."""
    read: tuple[tuple[Link, Manifest], ...] = ()
    """Every batch of the landing that read something, in order; those that found no row too."""
    added: Mapping[str, Added] = field(default_factory=dict[str, Added])
    """Columns that rows of older batches lack, and what they hold in these."""
    anew: BatchId | None = None
    """Batches up to this one have landed before, and so may what came after them; None: none has."""
    traces: Mapping[BatchId, Tombstones] = field(default_factory=dict[BatchId, Tombstones])
    """Tombstones by which rows are marked whose keys a replay brings, the oldest first."""

    @property
    def identity(self) -> Identity:
        """That of the newest batch: loads are in the order in which shapes came up."""
        loads = self.loads or self.burials
        if not loads:
            return self.read[-1][1].identity
        return max(loads, key=lambda load: load.links[-1].id).manifests[-1].identity

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the target that are filled: by the files, or by what their rows lack and hold all the same."""
        held = {name for load in self.loads for name in load.names}
        oldest = min((link.rank for load in self.loads for link in load.links), default=None)
        later = {name for name, one in self.added.items() if oldest is not None and oldest < one.since}
        return tuple(name for name in self.found.columns if name in held | later)

    def same(self, one: str | Load, other: str | Load, *, cursor: bool = False) -> str:
        """The condition under which two rows are one and the same, or one version of it; those of a load are cast."""
        conditions = [self._equal(name, one, other) for name in self.identity.key]
        if cursor and self.identity.cursor:
            mine, yours = (self.value(each, self.identity.cursor) for each in (one, other))
            conditions.append(f"({mine} = {yours} OR ({mine} IS NULL AND {yours} IS NULL))")
        return " AND ".join(conditions)

    def value(self, rows: str | Load, name: str) -> str:
        """A column of these rows, so that it compares with what the target holds."""
        return column(rows, name) if isinstance(rows, str) else self._as_one(rows, name, of=rows.table)

    def _equal(self, name: str, one: str | Load, other: str | Load) -> str:
        mine, yours = self.value(one, name), self.value(other, name)
        if not self.is_text(name):
            return f"{mine} = {yours}"
        # Redshift does not see blanks at the end of a text, and MySQL may.
        return f"{mine} = {yours} AND OCTET_LENGTH({mine}) = OCTET_LENGTH({yours})"

    def grouping(self, rows: str, *, cursor: bool = False) -> str:
        """What makes rows one, or one version of it."""
        found: list[str] = []
        for name in self.identity.key:
            mine = column(rows, name)
            found += [mine, f"OCTET_LENGTH({mine})"] if self.is_text(name) else [mine]
        if cursor and self.identity.cursor:
            found.append(column(rows, self.identity.cursor))
        return ", ".join(found)

    def age(self, rows: str, direction: str) -> str:
        """The order of the versions of a row; the oldest is lowest."""
        found = [batch(rows)]
        if self.identity.cursor:
            cursor = column(rows, self.identity.cursor)
            # NULL is older than everything; where it sorts by itself is not the same everywhere.
            found += [f"CASE WHEN {cursor} IS NULL THEN 0 ELSE 1 END", cursor]
        return ", ".join(f"{each} {direction}" for each in found)

    def newer(self, than: Load) -> str:
        """The condition under which a row of the target came after one of a load."""
        mine, yours = batch(self.table.sql), batch(than.table)
        if self.identity.cursor is None:
            return f"{mine} > {yours}"
        cursors = f"{column(self.table.sql, self.identity.cursor)} > {self.value(than, self.identity.cursor)}"
        return f"({mine} > {yours} OR ({mine} = {yours} AND {cursors}))"

    def meant(self, tombstones: Tombstones, rows: str | Load, *, seen: str) -> str:
        """The condition under which tombstones mean a version that was read before them.

        `seen`: the condition of having been read when it was looked, which counts whatever the stamp; or empty.
        """
        if self.identity.cursor is None:
            return "TRUE"
        cursor = self.value(rows, self.identity.cursor)
        bounds = f"{cursor} IS NULL OR {cursor} <= {literal(tombstones.upto.values[0])}"
        if seen and VALID_TO not in self.found:  # none ends before it began
            bounds += f" OR {seen}"
        return f"({bounds})"

    def meant_of(self, origin: BatchId, tombstones: Tombstones, rows: str | Load) -> str:
        """The same of versions which that batch first read."""
        return self.meant(tombstones, rows, seen="TRUE" if origin <= tombstones.seen else "")

    @property
    def missed(self) -> Iterator[tuple[BatchId, BatchId, Tombstones]]:
        """What a replay's rows were not there for: the batch that first read them, and tombstones since."""
        for origin in dict.fromkeys(link.rank for load in self.replays for link in load.links if _replays(link)):
            yield from ((origin, number, each) for number, each in self.traces.items() if number > origin)

    @property
    def replays(self) -> tuple[Load, ...]:
        """The loads that bring something back."""
        return tuple(load for load in self.loads if any(map(_replays, load.links)))

    def replayed(self, origin: BatchId | None = None) -> str:
        """The rows of the target whose keys replays bring back: of what that batch first read, or of all; as `t`."""
        keys = self.keys(self.replays, number=batch_number.number_of(origin) if origin else None)
        return f"{self.table.sql} t JOIN ({keys}) b ON {self.same('t', 'b')}"

    def key_of(self, rows: str) -> str:
        return ", ".join(column(rows, name) for name in self.identity.key)

    def is_text(self, name: str) -> bool:
        return name in self.found and self.found.columns[name].type.text

    def merged(self) -> str:
        """All rows of all loads, columns that a load lacks as NULL; where loads differ in a type, in the target's."""
        return " UNION ALL ".join(self._rows_of(load) for load in self.loads)

    def keys(self, loads: Iterable[Load], *, number: int | None = None) -> str:
        """The key of each row of these loads, or of one batch of theirs, once: joined to it, nothing becomes more.

        Grouped as rows are told apart: UNION and DISTINCT take texts for one that differ in blanks at their ends.
        """
        rows = " UNION ALL ".join(self._key_of(load) for load in loads)
        condition = "" if number is None else f" WHERE r.{BATCH} = {number}"
        return f"SELECT {self.key_of('r')} FROM ({rows}) r{condition} GROUP BY {self.grouping('r')}"

    def _key_of(self, load: Load) -> str:
        columns = [f"{self._as_one(load, name)} AS {quoted(name)}" for name in self.identity.key]
        return f"SELECT {', '.join((*columns, BATCH))} FROM {load.table}"

    def versions(self, keys: str, place: str) -> str:
        """Each version that the target has of these keys, once, and its place among those of its row."""
        assert self.identity.cursor is not None
        known = ", ".join(column("t", name) for name in (*self.identity.key, self.identity.cursor))
        each = (
            f"SELECT {known}, {batch('t')} AS {BATCH} FROM {self.table.sql} t JOIN ({keys}) k ON {self.same('t', 'k')}"
            f" GROUP BY {self.grouping('t', cursor=True)}, {batch('t')}"
        )
        return f"SELECT {known}, t.{BATCH}, {place} AS {PLACE} FROM ({each}) t"

    def _rows_of(self, load: Load) -> str:
        columns = [f"{self._held(load, name)} AS {quoted(name)}" for name in self.names]
        return f"SELECT {', '.join((*columns, BATCH))} FROM {load.table}"

    def _held(self, load: Load, name: str) -> str:
        """The value of a load's rows; in a column that was added after they were read, its default."""
        nothing = f"CAST(NULL AS {self._common(name)})"
        own = self._as_one(load, name) if name in load.names else nothing
        one = self.added.get(name)
        if one is None or min(link.rank for link in load.links) >= one.since:
            return own
        value = scratch_constant(one.value, self._common(name), document=self._is_document(name))
        if max(link.rank for link in load.links) < one.since:
            return value
        return f"CASE WHEN {BATCH} < {batch_number.number_of(one.since)} THEN {value} ELSE {own} END"

    def _as_one(self, load: Load, name: str, *, of: str = "") -> str:
        """A column of one load in the type of all: a union would choose by rules of its own."""
        value = column(of, name) if of else quoted(name)
        if not self._is_mixed(name):
            return value
        [was] = (each.scratch for each in load.passages if each.name == name)
        return cast(value, TargetType.of_text(was), self._common(name))

    def _is_document(self, name: str) -> bool:
        return self.found.columns[name].type == _DOCUMENT

    def _common(self, name: str) -> TargetType:
        """The type of a column in which all loads come together."""
        types = self._scratch_types(name)
        if self._is_mixed(name) or not types:
            return _SCRATCH_DOCUMENT if self._is_document(name) else self.found.columns[name].type.widest
        return types.pop()

    def _is_mixed(self, name: str) -> bool:
        """Whether files hold the column in types of which the target's is not the only one."""
        types = self._scratch_types(name)
        kind = (_SCRATCH_DOCUMENT if self._is_document(name) else self.found.columns[name].type).name
        return len(types) > 1 or any(each.name != kind for each in types)

    def _scratch_types(self, name: str) -> set[TargetType]:
        loads = (*self.loads, *self.burials)
        loaded = (each.scratch for load in loads for each in load.passages if each.name == name)
        return set(map(TargetType.of_text, loaded))

    def insert(self, rows: str, *, where: str = "") -> str:
        """Put rows into the target, typed as it is."""
        filled = [(quoted(name), self._typed(name)) for name in self.names]
        if batch_number.COLUMN in self.found:
            filled.append((BATCH, BATCH))
        if LOADED_AT in self.found:
            filled.append((quoted(LOADED_AT), "GETDATE()"))
        columns, values = zip(*filled, strict=True)
        condition = f" WHERE {where}" if where else ""
        return (
            f"INSERT INTO {self.table.sql} ({', '.join(columns)}) SELECT {', '.join(values)} FROM ({rows}) r{condition}"
        )

    def _typed(self, name: str) -> str:
        return f"JSON_PARSE({quoted(name)})" if self._is_document(name) else quoted(name)

    def newest(self, *, cursor: bool = False) -> str:
        """The insertion of the newest version of each row, or of each version once."""
        numbered = (
            f"SELECT m.*, ROW_NUMBER() OVER (PARTITION BY {self.grouping('m', cursor=cursor)}"
            f" ORDER BY {self.age('m', 'DESC')}) AS {PLACE} FROM ({self.merged()}) m"
        )
        return self.insert(numbered, where=f"{PLACE} = 1")


def _replays(link: Link) -> bool:
    return link.kind is Kind.REPLAY


def traces_statement(landing: Landing) -> str:
    """By which batches of tombstones rows are marked whose keys the replays of a landing bring."""
    return f"SELECT DISTINCT {batch('t')} FROM {landing.replayed()} WHERE {column('t', DELETED_AT)} IS NOT NULL"


def statements(landing: Landing, mode: Mode) -> tuple[str, ...]:
    """What makes the scratch tables' rows part of the target."""
    if mode is Mode.REPLACE:
        # Not TRUNCATE, which would commit what has been done so far.
        return (f"DELETE FROM {landing.table.sql}", *((landing.insert(landing.merged()),) if landing.loads else ()))
    if not landing.loads:
        return tuple(_emptied(landing)) if mode is Mode.APPEND else ()
    return (*_outranked(landing, versions=mode is not Mode.UPSERT), *_MODES[mode](landing))


def filled(landing: Landing, landed: Collection[BatchId], *, stood: Found) -> Iterator[str]:
    """Give the rows of the target what they hold in columns that came after them; one statement a batch that had some.

    `landed`: the batches of this landing. A column comes with one of them; or with a later one than the first that had
    it, where that one was left out. `stood`: the target before it got them. One that had such a column had it from
    before it was dropped at the source, or from somebody else: what stands there is no longer true.
    """
    news: dict[BatchId, list[str]] = {}
    for name, one in landing.added.items():
        came = one.since in landed or name not in stood
        if came and name in landing.found and (one.value is not None or name in stood):
            news.setdefault(one.since, []).append(name)
    ranked = batch_number.COLUMN in landing.found
    for since, names in sorted(news.items()):
        values = (f"{quoted(n)} = {constant(landing.added[n].value, landing.found.columns[n].type)}" for n in names)
        older = f" WHERE {batch(landing.table.sql)} < {batch_number.number_of(since)}" if ranked else ""
        yield f"UPDATE {landing.table.sql} SET {', '.join(values)}{older}"


def _outranked(landing: Landing, *, versions: bool) -> Iterator[str]:
    """Take rows that were read before others of the target out of the way: of the row, or of this version."""
    ranked = batch_number.COLUMN in landing.found
    replays = [(load, link) for load in landing.replays for link in load.links if _replays(link)]
    if replays and not ranked:
        stream = replays[0][1].stream
        raise SchemaDrift(
            f"{landing.table} has no column {batch_number.COLUMN}: nothing tells which of two versions is newer",
            hint=f"ALTER TABLE {landing.table.sql} ADD COLUMN {BATCH} BIGINT;  Then, to number the rows that stand:"
            f" syncd watermark reset -t {stream.database}.{stream.table} --redshift-only",
        )
    older = [(load, "=", link.rank) for load, link in replays]
    if landing.anew and ranked:
        # Landed again, over what came after them: no reader shall see a row as it once was.
        older += [(load, "<=", landing.anew) for load in landing.loads if load.links[0].id <= landing.anew]
    for load, sign, rank in older:
        yield (
            f"DELETE FROM {load.table} USING {landing.table.sql}"
            f" WHERE {load.table}.{BATCH} {sign} {batch_number.number_of(rank)}"
            f" AND {landing.newer(load)}"
            f" AND {landing.same(load, landing.table.sql, cursor=versions)}{_spared(landing, load)}"
        )


def _spared(landing: Landing, load: Load) -> str:
    """Of what a replay brings, a row that is marked outranks none that its tombstones do not mean: it had come back."""
    table = landing.table.sql
    return "".join(
        f" AND NOT ({load.table}.{BATCH} = {batch_number.number_of(origin)} AND {column(table, DELETED_AT)} IS NOT NULL"
        f" AND {batch(table)} = {batch_number.number_of(number)} AND NOT {landing.meant_of(origin, each, load)})"
        for origin, number, each in landing.missed
    )


def _upsert(landing: Landing) -> Iterator[str]:
    yield from _deleted(landing)
    yield landing.newest()


def _deleted(landing: Landing, *, cursor: bool = False) -> Iterator[str]:
    for load in landing.loads:
        yield (
            f"DELETE FROM {landing.table.sql} USING {load.table}"
            f" WHERE {landing.same(landing.table.sql, load, cursor=cursor)}"
        )


def _append(landing: Landing) -> Iterator[str]:
    """What lies in a range that was read again goes, and what was read there comes."""
    yield from _emptied(landing)
    yield from _deleted(landing, cursor=True)
    yield landing.newest(cursor=True)
    yield from _marked(landing)


def _emptied(landing: Landing) -> Iterator[str]:
    """Take out what lies in the ranges that were read, whether a row was found there or not."""
    ranked = batch_number.COLUMN in landing.found
    for one in ranges_of(landing.read, anew=landing.anew is not None):
        if condition := inside(one, landing.identity, landing.found):
            # What a later batch has read of the range stays, where an earlier one lands again.
            older = f" AND {batch(landing.table.sql)} < {batch_number.number_of(one.first)}" if ranked else ""
            yield f"DELETE FROM {landing.table.sql} WHERE {condition}{older}"


def _history(landing: Landing) -> Iterator[str]:
    """Every version of a row once; each ends where the next one begins."""
    yield from _deleted(landing, cursor=True)
    yield landing.newest(cursor=True)
    yield from _placed(landing)
    yield _ended(landing)


def _marked(landing: Landing) -> Iterator[str]:
    """Mark what a replay brings of rows that were found gone meanwhile: what has marked the others means it as well."""
    table = landing.table.sql
    for origin, number, tombstones in landing.missed:
        others = (
            f"SELECT {landing.key_of('t')} FROM {landing.replayed(origin)} WHERE {column('t', DELETED_AT)} IS NOT NULL"
            f" AND {batch('t')} = {batch_number.number_of(number)} GROUP BY {landing.grouping('t')}"
        )
        yield (
            f"UPDATE {table} SET {marks_of(number, tombstones)} FROM ({others}) {JOINED}"
            f" WHERE {landing.same(table, JOINED)}"
            f" AND {batch(table)} = {batch_number.number_of(origin)} AND {landing.meant_of(origin, tombstones, table)}"
            f" AND {column(table, DELETED_AT)} IS NULL"
        )


def _placed(landing: Landing) -> Iterator[str]:
    """Put what a replay brings behind the version that was marked in its absence, where it is the later one.

    Of a version that is marked nothing tells any more which batch read it, so the order column decides between the two.
    What comes behind takes the number of the tombstones, and their mark if they mean it.
    """
    assert landing.identity.cursor is not None
    table, cursor = landing.table.sql, landing.identity.cursor
    mine, before = column(table, cursor), column(JOINED, cursor)
    for origin, number, tombstones in landing.missed:
        later = ", ".join(str(batch_number.number_of(each)) for each in landing.traces if each > origin)
        # What the first tombstones since have marked; whatever later ones met was read after these.
        first = f"ROW_NUMBER() OVER (PARTITION BY {landing.grouping('t')} ORDER BY {landing.age('t', 'ASC')})"
        versions = (
            f"SELECT {landing.key_of('t')}, {column('t', cursor)}, {batch('t')} AS {BATCH}, {first} AS {PLACE}"
            f" FROM {landing.replayed(origin)} WHERE {batch('t')} IN ({later})"
        )
        meant = landing.meant_of(origin, tombstones, table)
        yield (
            f"UPDATE {table} SET {BATCH} = {batch_number.number_of(number)},"
            f" {quoted(DELETED_AT)} = CASE WHEN {meant} THEN {_gone_at(tombstones)} END,"
            f" {quoted(VALID_TO)} = CASE WHEN {meant} THEN {literal(tombstones.upto.values[0])} END"
            f" FROM ({versions}) {JOINED} WHERE {landing.same(table, JOINED)} AND {JOINED}.{PLACE} = 1"
            f" AND {JOINED}.{BATCH} = {batch_number.number_of(number)}"
            f" AND {batch(table)} = {batch_number.number_of(origin)}"
            f" AND ({mine} > {before} OR ({mine} IS NOT NULL AND {before} IS NULL))"
        )


def _gone_at(tombstones: Tombstones) -> str:
    at = tombstones.gone_at.replace(tzinfo=None).isoformat(" ", "microseconds")
    return f"CAST({text_literal(at)} AS TIMESTAMP)"


def marks_of(number: BatchId, tombstones: Tombstones) -> str:
    """What a row that is gone says: since when, and by which batch, so that no replay of older ones brings it back."""
    return f"{quoted(DELETED_AT)} = {_gone_at(tombstones)}, {BATCH} = {batch_number.number_of(number)}"


def _ended(landing: Landing) -> str:
    """Say anew when each version of the touched rows ended: late ones have come between."""
    assert landing.identity.cursor is not None
    table, cursor = landing.table.sql, landing.identity.cursor
    window = f"OVER (PARTITION BY {landing.grouping('t')} ORDER BY {landing.age('t', 'ASC')})"
    # One that a version without a position follows has ended too; when, nobody knows.
    known = f"CASE WHEN LEAD(t.{BATCH}) {window} IS NOT NULL THEN {column('t', cursor)} END"
    next_one = f"COALESCE(LEAD({column('t', cursor)}) {window}, {known})"
    versions = landing.versions(landing.keys(landing.loads), next_one)
    following, began = f"{JOINED}.{PLACE}", column(JOINED, cursor)
    return (
        f"UPDATE {table} SET {quoted(VALID_TO)} = CASE {_kept_end(landing, following)}"
        f"WHEN {following} < {began} THEN {began} ELSE {following} END"
        f" FROM ({versions}) {JOINED} WHERE {landing.same(table, JOINED, cursor=True)}"
        f" AND {batch(table)} = {JOINED}.{BATCH}"
    )


def _kept_end(landing: Landing, following: str) -> str:
    """A version whose row was found gone ended then, whenever the next one began."""
    if DELETED_AT not in landing.found:
        return ""
    gone, end = (column(landing.table.sql, name) for name in (DELETED_AT, VALID_TO))
    return f"WHEN {gone} IS NOT NULL AND ({following} IS NULL OR {end} < {following}) THEN {end} "


_MODES: Final[dict[Mode, Callable[[Landing], Iterator[str]]]] = {
    Mode.UPSERT: _upsert,
    Mode.APPEND: _append,
    Mode.HISTORY: _history,
}
