"""Tables as `information_schema` tells of them, on every version of both servers."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from syncd.datatypes.mysql_quoting import text_literal
from syncd.datatypes.source_table import Column, Index, Table

Ask: TypeAlias = Callable[[str], Sequence[tuple[Any, ...]]]

_TABLE: Final = """
SELECT TABLE_NAME, TABLE_TYPE, ENGINE, CREATE_TIME, CREATE_OPTIONS FROM information_schema.TABLES
WHERE TABLE_SCHEMA = {database} AND TABLE_NAME = {table}"""

_COLUMNS: Final = """
SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, CHARACTER_MAXIMUM_LENGTH, CHARACTER_OCTET_LENGTH,
  NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION, CHARACTER_SET_NAME, COLLATION_NAME, COLUMN_DEFAULT, EXTRA
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = {database} AND TABLE_NAME = {table} ORDER BY ORDINAL_POSITION"""

_INDEXES: Final = """
SELECT INDEX_NAME, NON_UNIQUE, COLUMN_NAME, COLLATION, SUB_PART, {hidden} FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = {database} AND TABLE_NAME = {table} AND INDEX_TYPE = 'BTREE' ORDER BY INDEX_NAME, SEQ_IN_INDEX"""

_FIRST_THAT_HIDE: Final = {False: (8, 0, 0), True: (10, 6, 0)}
_HIDDEN: Final = {False: "IS_VISIBLE = 'NO'", True: "IGNORED = 'YES'"}


def describe(ask: Ask, database: str, name: str, *, version: tuple[int, int, int], mariadb: bool) -> Table | None:
    """The table as this user may see it; None where they see none."""
    hidden = _HIDDEN[mariadb] if version >= _FIRST_THAT_HIDE[mariadb] else "FALSE"
    names = {"database": text_literal(database), "table": text_literal(name), "hidden": hidden}
    found = ask(_TABLE.format(**names))
    if not found:
        return None
    [(named, kind, engine, created, options)] = found
    return Table(
        database=database,
        name=_text(named),
        kind=_text(kind),
        engine=_maybe(engine),
        columns=tuple(_column(row) for row in ask(_COLUMNS.format(**names))),
        indexes=_indexes(ask(_INDEXES.format(**names))),
        partitioned="partitioned" in _text(options or "").lower(),
        created=created.replace(tzinfo=UTC) if isinstance(created, datetime) else None,
    )


def _column(row: Sequence[Any]) -> Column:
    name, kind, whole, nullable, length, octets, precision, scale, fraction, charset, collation, default, extra = row
    return Column(
        name=_text(name),
        data_type=_text(kind).lower(),
        column_type=_text(whole),
        nullable=_text(nullable) == "YES",
        length=_number(length),
        octets=_number(octets),
        precision=_number(precision),
        scale=_number(scale),
        fraction=_number(fraction) or 0,
        charset=_maybe(charset),
        collation=_maybe(collation),
        default=_maybe(default),
        extra=_text(extra or "").lower(),
    )


def _indexes(rows: Iterable[Sequence[Any]]) -> tuple[Index, ...]:
    # MariaDB sorts names that differ by an accent as one, and so the parts of two indexes come by turns.
    parts = dict[str, list[Sequence[Any]]]()
    for row in rows:
        parts.setdefault(_text(row[0]), []).append(row)
    return tuple(_index(name, found) for name, found in parts.items())


def _index(name: str, parts: Sequence[Sequence[Any]]) -> Index:
    columns = list[str]()
    for _, _, column, collation, cut, _ in parts:
        if column is None or cut is not None or collation != "A":
            break
        columns.append(_text(column))
    return Index(
        name=name,
        columns=tuple(columns),
        unique=not int(parts[0][1]),
        whole=len(columns) == len(parts),
        visible=not any(part[5] for part in parts),
    )


def _text(raw: Any) -> str:  # noqa: ANN401  # MySQL 8 gives some of these as bytes
    return raw.decode() if isinstance(raw, bytes) else str(raw)


def _maybe(raw: Any) -> str | None:  # noqa: ANN401  # as above
    return None if raw is None else _text(raw)


def _number(raw: Any) -> int | None:  # noqa: ANN401  # as above
    return None if raw is None else int(raw)
