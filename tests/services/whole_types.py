"""Tables of every type on their way through both stages, and what a target has to hold of them in the end.

The source says what it holds by expressions of the table of types, the warehouse by those below; nothing here is shared
with the product.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

import pymysql

from syncd.sandbox.mysql import MySqlAddress
from tests.services.type_table import BINARIES, COLUMNS, MARIADB, MOMENTS, NULS, NUMBERS, TEXT, TEXTS, Case, word
from tests.standin.clients import Client

MODES: Final = ("upsert", "append", "history", "replace")
MOMENT: Final = "DATE_FORMAT(update_at, '%Y-%m-%d %H:%i:%s.%f')"
LONGEST_DEFAULT: Final = 200
Words = tuple[str | None, ...]


def _accepted(case: Case) -> bool:
    return not case.refused and not case.mode


@dataclass(frozen=True)
class Group:
    """Cases side by side in one table; row n holds the n-th value of each."""

    name: str
    cases: tuple[Case, ...]

    @property
    def rows(self) -> int:
        return max(len(case.values) for case in self.cases)

    def on(self, kind: str) -> "Group":
        """Of these cases those that the server has."""
        return Group(self.name, tuple(case for case in self.cases if kind in case.on))

    def value(self, case: Case, place: int) -> str:
        """The SQL of one value; NULL beyond the last of the case."""
        if place > len(case.values):
            return "DEFAULT" if case in COLUMNS else "NULL"
        return case.values[place - 1]

    def refused(self, place: int) -> bool:
        """Whether a row of these values is put aside as it is read."""
        return any(place in case.refused for case in self.cases)


def _without_nul(case: Case) -> Case:
    """The case with NULL in the place of texts that hold a NUL character; they are a group of their own."""
    nuls = {place for place, value in enumerate(case.values, 1) if case.printed == TEXT and value in NULS}
    values = ("NULL" if place in nuls else value for place, value in enumerate(case.values, 1))
    return replace(case, values=tuple(values), refused=case.refused - nuls)


_PLAIN: Final = {
    name: tuple(map(_without_nul, cases))
    for name, cases in (("numbers", NUMBERS), ("moments", MOMENTS), ("texts", TEXTS), ("binaries", BINARIES))
}
WIDE: Final = tuple(Group(name, tuple(filter(_accepted, cases))) for name, cases in _PLAIN.items())
ALONE: Final = (
    *(Group(case.name, (case,)) for cases in _PLAIN.values() for case in cases if not _accepted(case)),
    Group("computed", COLUMNS),
    Group("nuls", tuple(case for case in TEXTS if case.name in {"varchar", "longtext"})),
)


@dataclass(frozen=True)
class Version:
    """One row as the source had it once."""

    n: int
    at: str
    place: int
    words: Words


@dataclass
class Stream:
    """One group's table under one mode, and every version of its rows that a pass can have read."""

    group: Group
    mode: str
    database: str
    address: MySqlAddress
    passes: list[list[Version]] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)

    @property
    def table(self) -> str:
        return f"{self.group.name}_{self.mode}"

    @property
    def configured(self) -> str:
        booleans = ", ".join(f"c_{case.name}" for case in self.group.cases if case.boolean)
        cursor = "none" if self.mode == "replace" else "update_at"
        return f"{self.database}.{self.table}: {{mode: {self.mode}, cursor: {cursor}, boolean: [{booleans}]}}"

    def create(self) -> None:
        group = self.group
        columns = "".join(f", c_{case.name} {case.ddl}" for case in group.cases)
        stamp = "update_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)"
        self.places = {n: n for n in range(1, group.rows + 1)}
        named = ", ".join(f"c_{case.name}" for case in group.cases)
        self._run(
            f"CREATE TABLE {self.table} (n BIGINT NOT NULL PRIMARY KEY{columns}, {stamp}, KEY (update_at, n))"
            " CHARACTER SET utf8mb4",
            *(f"INSERT INTO {self.table} (n, {named}) VALUES ({n}, {self._values(n)})" for n in self.places),
        )
        self._look()

    def change(self) -> None:
        """Every other row gets the values of the next one; one row is new, and one is deleted where that counts."""
        group = self.group
        for n in [n for n in self.places if n % 2 == 0]:
            self.places[n] = n % group.rows + 1
            values = zip(group.cases, self._values(self.places[n], apart=True), strict=True)
            self._run(f"UPDATE {self.table} SET {', '.join(f'c_{c.name} = {v}' for c, v in values)} WHERE n = {n}")
        new = group.rows + 1
        self.places[new] = 1
        named = ", ".join(f"c_{case.name}" for case in group.cases)
        self._run(f"INSERT INTO {self.table} (n, {named}) VALUES ({new}, {self._values(1)})")
        if self.mode == "replace":
            del self.places[1]
            self._run(f"DELETE FROM {self.table} WHERE n = 1")
        self._look()

    def _values(self, place: int, *, apart: bool = False) -> Any:
        values = [self.group.value(case, place) for case in self.group.cases]
        return values if apart else ", ".join(values)

    def _run(self, *statements: str) -> Sequence[tuple[Any, ...]]:
        modes = {case.mode for case in self.group.cases}
        with self.address.connect(database=self.database) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION time_zone = '+00:00', sql_mode = %s", (",".join(modes),))
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def _look(self) -> None:
        """Remember what the source has now, in its own words."""
        printed = ", ".join(re.sub(r"\bc\b", f"c_{case.name}", case.printed) for case in self.group.cases)
        rows = self._run(f"SELECT n, {MOMENT}, {printed} FROM {self.table} ORDER BY n")
        self.passes.append([self._version(*row) for row in rows])

    def _version(self, n: int, at: str, *printed: str | None) -> Version:
        place = self.places[n]
        words = (
            floating(case, _overridden(case, place, told)) for case, told in zip(self.group.cases, printed, strict=True)
        )
        return Version(n, at, place, tuple(words))

    # What has to be where.

    def read_in(self, number: int) -> list[Version]:
        """What the pass of this number can see that the one before it had not read."""
        if self.mode == "replace" or not number:
            return self.passes[number]
        before = {(version.n, version.at) for version in self.passes[number - 1]}
        return [version for version in self.passes[number] if (version.n, version.at) not in before]

    def put_aside_in(self, number: int) -> int:
        """How many rows of a pass go to quarantine as they are read."""
        return sum(self.group.refused(version.place) for version in self.read_in(number))

    @property
    def landed(self) -> list[tuple[Any, ...]]:
        """Every row of the target: n, its stamp, its words, and of versions where each ends."""
        passes = range(len(self.passes))
        read = [version for number in passes for version in self.read_in(number) if self._lands(version)]
        if self.mode == "replace":
            read = [version for version in self.passes[-1] if self._lands(version)]
        if self.mode == "upsert":
            read = list({version.n: version for version in read}.values())
        rows = sorted((version.n, version.at, version.words) for version in read)
        if self.mode != "history":
            return [(*row, None) for row in rows]
        ends = [
            after[1] if after and after[0] == row[0] else None
            for row, after in zip(rows, [*rows[1:], None], strict=True)
        ]
        return [(*row, end) for row, end in zip(rows, ends, strict=True)]

    def _lands(self, version: Version) -> bool:
        return not self.group.refused(version.place)

    def found(self, client: Client) -> list[tuple[Any, ...]]:
        """What the target holds, in the same words."""
        types = dict(
            client.rows(
                "select a.attname, format_type(a.atttypid, a.atttypmod) from pg_attribute a"
                ' join pg_class c on c."oid" = a.attrelid join pg_namespace s on s."oid" = c.relnamespace'
                f" where s.nspname = 'public' and c.relname = '{self.table}' and a.attnum > 0"
            )
        )
        shown = [asked(f"c_{case.name}", types) for case in self.group.cases]
        end = "_syncd_valid_to" if self.mode == "history" else "null"
        rows = client.rows(f"select n, update_at, {end}, {', '.join(shown)} from public.{self.table}")
        kinds = [types[f"c_{case.name}"] for case in self.group.cases]
        return sorted(
            (n, word(at), tuple(told(value, kind) for value, kind in zip(values, kinds, strict=True)), word(end))
            for n, at, end, *values in rows
        )

    def expected(self, client: Client) -> list[tuple[Any, ...]]:
        """What it has to hold; of documents what they say counts, not how they are laid out."""
        types = dict(client.rows(f"select \"column\", type from pg_table_def where tablename = '{self.table}'"))
        documents = [types[f"c_{case.name}"] == "super" for case in self.group.cases]
        return [
            (n, at, tuple(document_of(one) if doc else one for one, doc in zip(words, documents, strict=True)), end)
            for n, at, words, end in self.landed
        ]


@dataclass
class Grown:
    """A table that gets columns of every type: each with a constant default, and each NOT NULL without one."""

    name: str
    kind: str
    database: str
    address: MySqlAddress
    columns: dict[str, tuple[Case, int]] = field(default_factory=dict)
    """The case of each, and which of its values is the default; 0: none."""

    def create(self) -> None:
        stamp = "update_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)"
        self._run(
            f"CREATE TABLE {self.name} (n BIGINT NOT NULL PRIMARY KEY, {stamp}, KEY (update_at, n))",
            f"INSERT INTO {self.name} (n) VALUES (1), (2), (3)",
        )

    def grow(self, cases: Sequence[Case]) -> None:
        """What the server takes; a default that it refuses is tried no further."""
        self._run(f"ALTER TABLE {self.name} ADD COLUMN computed VARCHAR(36) DEFAULT (CONCAT('a', 'b'))")
        for case in (case for case in cases if self.kind in case.on):
            for place, value in enumerate(case.values, 1):
                plain = value not in {"NULL", "DEFAULT", *NULS} and len(value) < LONGEST_DEFAULT
                if plain and self._added(f"d_{case.name}", case, place, f"{case.ddl} DEFAULT {value}"):
                    break
            # MariaDB fills in an empty text, and no bytes, which are no document and no geometry.
            strange = self.kind == MARIADB and (case.name == "json" or "ST_" in case.printed)
            if " null" not in case.ddl and not strange:
                self._added(f"z_{case.name}", case, 0, f"{case.ddl} NOT NULL")
        self._run(
            f"INSERT INTO {self.name} (n) VALUES (4)",
            f"UPDATE {self.name} SET update_at = CURRENT_TIMESTAMP(6) WHERE n = 3",
        )

    def _added(self, name: str, case: Case, place: int, definition: str) -> bool:
        try:
            self._run(f"ALTER TABLE {self.name} ADD COLUMN {name} {definition}")
        except pymysql.err.MySQLError:
            return False
        self.columns[name] = (case, place)
        return True

    @property
    def computed(self) -> set[str]:
        """The columns whose default is an expression: there is no other way to write a geometry."""
        return {name for name, (case, place) in self.columns.items() if place and "ST_" in case.printed}

    def held(self, client: Client) -> dict[int, dict[str, str | None]]:
        """What the source holds, row by row; of documents what they say."""
        types = dict(client.rows(f"select \"column\", type from pg_table_def where tablename = '{self.name}'"))
        printed = [re.sub(r"\bc\b", name, case.printed) for name, (case, _) in self.columns.items()]
        rows = self._run(f"SELECT n, {', '.join(printed)} FROM {self.name}")
        return {
            n: {
                name: document_of(one) if types[name] == "super" else self._words(case, place, one)
                for one, (name, (case, place)) in zip(told, self.columns.items(), strict=True)
            }
            for n, *told in rows
        }

    def found(self, client: Client) -> list[tuple[int, dict[str, str | None]]]:
        """What the target holds, in the same words."""
        types = dict(client.rows(f"select \"column\", type from pg_table_def where tablename = '{self.name}'"))
        shown = [asked(name, types) for name in self.columns]
        rows = client.rows(f"select n, {', '.join(shown)} from public.{self.name}")
        return [
            (n, {name: told(one, types[name]) for one, name in zip(values, self.columns, strict=True)})
            for n, *values in rows
        ]

    @staticmethod
    def _words(case: Case, place: int, printed: str | None) -> str | None:
        if printed is not None and printed.startswith("0000-00-00"):
            return None
        return floating(case, case.expected.get(place, printed) if place else printed)

    def _run(self, *statements: str) -> Sequence[tuple[Any, ...]]:
        with self.address.connect(database=self.database) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION time_zone = '+00:00', sql_mode = ''")
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())


def streams(groups: Sequence[Group], kind: str, database: str, address: MySqlAddress) -> Iterator[Stream]:
    for group in groups:
        mine = group.on(kind)
        if mine.cases:
            yield from (Stream(mine, mode, database, address) for mode in MODES)


def _overridden(case: Case, place: int, told: str | None) -> str | None:
    return case.expected.get(place, told) if place <= len(case.values) else told


def floating(case: Case, told: str | None) -> str | None:
    if told is None or not case.name.startswith(("float", "double")) or "x" in told:
        return told
    return float(told).hex()


def asked(column: str, types: dict[str, str]) -> str:
    kind = types[column]
    if ("varying" in kind and "binary" in kind) or kind.startswith("varbyte"):
        return f"upper(to_hex({column}))"
    return f"json_serialize({column})" if kind == "super" else column


def told(value: Any, kind: str) -> str | None:
    if value is None:
        return None
    if kind == "super":
        return _document(value)
    if kind.startswith(("varbyte", "binary varying")):
        return str(value)
    return word(value)


def document_of(printed: str | None) -> str | None:
    return None if printed is None else _document(bytes.fromhex(printed).decode())


def _document(text: str) -> str:
    return json.dumps(
        json.loads(text, parse_float=lambda number: f"number {Decimal(number).normalize()}"), sort_keys=True
    )
