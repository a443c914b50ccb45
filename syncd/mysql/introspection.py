"""Table descriptions from `information_schema`, on every version of both servers."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from syncd.datatypes.mysql_quoting import decode_text, text_literal
from syncd.datatypes.source_table import SourceColumn, SourceIndex, SourceTable

RunQuery: TypeAlias = Callable[[str], Sequence[tuple[Any, ...]]]

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

_HIDDEN_INDEXES_SINCE: Final = {False: (8, 0, 0), True: (10, 6, 0)}
_HIDDEN_INDEX_EXPRESSIONS: Final = {False: "IS_VISIBLE = 'NO'", True: "IGNORED = 'YES'"}


def read_table_description(
    run_query: RunQuery, database: str, name: str, *, version: tuple[int, int, int], mariadb: bool
) -> SourceTable | None:
    """Return the description of a table as this user sees it; None if the user sees no such table."""
    hidden = _HIDDEN_INDEX_EXPRESSIONS[mariadb] if version >= _HIDDEN_INDEXES_SINCE[mariadb] else "FALSE"
    names = {"database": text_literal(database), "table": text_literal(name), "hidden": hidden}
    rows = run_query(_TABLE.format(**names))
    if not rows:
        return None
    [(stored_name, kind, engine, created, options)] = rows
    return SourceTable(
        database=database,
        name=decode_text(stored_name),
        kind=decode_text(kind),
        engine=_decode_optional_text(engine),
        columns=tuple(_parse_column(row) for row in run_query(_COLUMNS.format(**names))),
        indexes=_parse_indexes(run_query(_INDEXES.format(**names))),
        partitioned="partitioned" in decode_text(options or "").lower(),
        created=created.replace(tzinfo=UTC) if isinstance(created, datetime) else None,
    )


def _parse_column(row: Sequence[Any]) -> SourceColumn:
    name, kind, whole, nullable, length, octets, precision, scale, fraction, charset, collation, default, extra = row
    return SourceColumn(
        name=decode_text(name),
        data_type=decode_text(kind).lower(),
        column_type=decode_text(whole),
        nullable=decode_text(nullable) == "YES",
        length=_to_optional_int(length),
        octets=_to_optional_int(octets),
        precision=_to_optional_int(precision),
        scale=_to_optional_int(scale),
        fraction=_to_optional_int(fraction) or 0,
        charset=_decode_optional_text(charset),
        collation=_decode_optional_text(collation),
        default=_decode_optional_text(default),
        extra=decode_text(extra or "").lower(),
    )


def _parse_indexes(rows: Iterable[Sequence[Any]]) -> tuple[SourceIndex, ...]:
    # MariaDB sorts names that differ only by an accent as equal, so the parts of two indexes can alternate.
    parts = dict[str, list[Sequence[Any]]]()
    for row in rows:
        parts.setdefault(decode_text(row[0]), []).append(row)
    return tuple(_parse_index(name, found) for name, found in parts.items())


def _parse_index(name: str, parts: Sequence[Sequence[Any]]) -> SourceIndex:
    columns = list[str]()
    for _, _, column, collation, cut, _ in parts:
        if column is None or cut is not None or collation != "A":
            break
        columns.append(decode_text(column))
    return SourceIndex(
        name=name,
        columns=tuple(columns),
        unique=not int(parts[0][1]),
        whole=len(columns) == len(parts),
        visible=not any(part[5] for part in parts),
    )


def _decode_optional_text(raw: Any) -> str | None:  # noqa: ANN401  # as above
    return None if raw is None else decode_text(raw)


def _to_optional_int(raw: Any) -> int | None:  # noqa: ANN401  # as above
    return None if raw is None else int(raw)
