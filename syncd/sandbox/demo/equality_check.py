"""Whether a table is the same on both sides, value by value.

It asks the servers through their own drivers and knows nothing of how rows travel:
what the product converts wrongly is not converted wrongly here too. Both sides are
held in memory, so it is for a demonstration and not for a large table.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from syncd.sandbox.demo.demo_tables import Shown

if TYPE_CHECKING:
    from syncd.sandbox import mysql, warehouse

MOST_EXAMPLES: Final = 3
OURS: Final = "_syncd_"
_BINARY: Final = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_PLAIN: Final[Mapping[str, str]] = {
    "bit": "{} + 0",
    "float": "CAST({} AS DOUBLE)",  # its text would be rounded
    "time": "CAST({} AS CHAR)",
    **dict.fromkeys(_BINARY, "LOWER(HEX({}))"),
}
"""How columns of some types are asked for at the source, so that what comes back can be compared."""
_HEXED: Final = "LOWER(TO_HEX({}))"
"""The same for binary in the warehouse: its driver would make text of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One table on both sides."""

    table: str
    mode: str
    source_rows: int
    warehouse_rows: int
    missing: int = 0
    """Rows of the source that the warehouse lacks."""
    extra: int = 0
    """Rows of the warehouse that the source has not, or has once."""
    different: int = 0
    """Rows with another value."""
    values: int = 0
    """Values compared."""
    examples: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        return not (self.missing or self.extra or self.different)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """The columns of a table at the source, with their types, and which of them are its key."""

    types: Mapping[str, str]
    key: tuple[str, ...]

    def keyed(self, rows: Sequence[Sequence[Any]]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Every row as texts, under its key."""
        places = [list(self.types).index(name) for name in self.key]
        for row in rows:
            texts = tuple(text_of(value, kind) for value, kind in zip(row, self.types.values(), strict=True))
            yield tuple(texts[place] for place in places), texts


def compare(shown: Shown, source: "mysql.Connection", target: "warehouse.Connection") -> Compared:
    """One table of the shop and what the warehouse has of it."""
    columns = _columns(shown.table, source)
    here = list(columns.keyed(_source_rows(shown.table, columns, source)))
    found = _target_columns(shown.table, target)
    if found != set(columns.types):
        told = f"its columns are {', '.join(sorted(found)) or 'none'}"
        return Compared(
            table=shown.table,
            mode=shown.mode,
            source_rows=len(here),
            warehouse_rows=0,
            missing=max(len(here), 1),
            examples=(told,),
        )
    there = list(columns.keyed(_target_rows(shown, columns, target)))
    return _judged(shown, columns, here, there)


def text_of(value: object, kind: str) -> str:
    """One form for a value, whichever driver it came from; `kind` is its type in MySQL."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return f"'{value}" if kind != "json" else f"json {_document(value)}"
    return next((form(value) for types, form in _FORMS if isinstance(value, types)), repr(value))


def _document(text: str) -> str:
    return json.dumps(json.loads(text, parse_float=_number), sort_keys=True, ensure_ascii=False)


def _number(text: str) -> str:
    return f"number {Decimal(text).normalize()}"


def _moment(value: datetime) -> str:
    return (value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value).isoformat(" ", "microseconds")


_FORMS: Final[tuple[tuple[Any, Callable[[Any], str]], ...]] = (
    (int, lambda value: str(int(value))),  # of BOOLEAN too
    (Decimal, lambda value: format(value, "f")),
    (datetime, _moment),
    (date, date.isoformat),
)


def _columns(table: str, source: "mysql.Connection") -> _Columns:
    with source.cursor() as cursor:
        cursor.execute(
            "SELECT column_name, data_type, column_key FROM information_schema.columns"
            " WHERE table_schema = DATABASE() AND table_name = %s ORDER BY ordinal_position",
            (table,),
        )
        rows = cursor.fetchall()
    return _Columns(
        types={name.lower(): kind.lower() for name, kind, _ in rows},
        key=tuple(name.lower() for name, _, key in rows if key == "PRI"),
    )


def _source_rows(table: str, columns: _Columns, source: "mysql.Connection") -> Sequence[Sequence[Any]]:
    asked = ", ".join(_PLAIN.get(kind, "{}").format(f"`{name}`") for name, kind in columns.types.items())
    with source.cursor() as cursor:
        cursor.execute(f"SELECT {asked} FROM `{table}`")
        rows: Sequence[Sequence[Any]] = cursor.fetchall()
    return rows


def _target_columns(table: str, target: "warehouse.Connection") -> set[str]:
    cursor = target.cursor()
    cursor.execute(
        'SELECT a.attname FROM pg_attribute a JOIN pg_class c ON c."oid" = a.attrelid'
        ' JOIN pg_namespace n ON n."oid" = c.relnamespace'
        f" WHERE n.nspname = 'public' AND c.relname = '{table}' AND a.attnum > 0 AND NOT a.attisdropped"
    )
    return {str(name) for (name,) in cursor.fetchall() if not str(name).startswith(OURS)}


def _target_rows(shown: Shown, columns: _Columns, target: "warehouse.Connection") -> Sequence[Sequence[Any]]:
    asked = ", ".join((_HEXED if kind in _BINARY else "{}").format(f'"{name}"') for name, kind in columns.types.items())
    cursor = target.cursor()
    cursor.execute(f'SELECT {asked} FROM public."{shown.table}" WHERE {shown.current}')
    rows: Sequence[Sequence[Any]] = cursor.fetchall()
    return rows


_Rows = list[tuple[tuple[str, ...], tuple[str, ...]]]


def _judged(shown: Shown, columns: _Columns, here: _Rows, there: _Rows) -> Compared:
    mine, yours = dict(here), dict(there)
    missing = [key for key in mine if key not in yours]
    strange = [key for key in yours if key not in mine]
    doubled = [key for key, times in Counter(key for key, _ in there).items() if times > 1]
    different = [key for key, row in mine.items() if key in yours and yours[key] != row]
    examples = [
        *(f"{_named(columns, key)} is missing in the warehouse" for key in missing),
        *(f"{_named(columns, key)} is not at the source" for key in strange),
        *(f"{_named(columns, key)} is there more than once" for key in doubled),
        *(f"{_named(columns, key)}: {_difference(columns, mine[key], yours[key])}" for key in different),
    ]
    return Compared(
        table=shown.table,
        mode=shown.mode,
        source_rows=len(here),
        warehouse_rows=len(there),
        missing=len(missing),
        extra=len(strange) + len(there) - len(yours),
        different=len(different),
        values=len(here) * len(columns.types),
        examples=tuple(examples[:MOST_EXAMPLES]),
    )


def _named(columns: _Columns, key: tuple[str, ...]) -> str:
    return ", ".join(f"{name} = {value.removeprefix(chr(39))}" for name, value in zip(columns.key, key, strict=True))


def _difference(columns: _Columns, mine: tuple[str, ...], yours: tuple[str, ...]) -> str:
    name, here, there = next(found for found in zip(columns.types, mine, yours, strict=True) if found[1] != found[2])
    return f"{name} is {here[:60]} at the source and {there[:60]} in the warehouse"
