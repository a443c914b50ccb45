"""Comparison of a table on both sides, value by value.

It queries the servers through their own drivers and shares no code with the product,
so that an error in a conversion is not repeated here. It holds both sides in memory,
which suits a demonstration and not a large table.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from syncd.sandbox.mysql import MySqlAddress
from syncd.sandbox.s3 import S3Address
from syncd.sandbox.warehouse import RedshiftAddress
from syncd.settings import Mode

if TYPE_CHECKING:
    from syncd.sandbox import mysql, warehouse


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTable:
    """One table of the shop."""

    table: str
    mode: Mode
    config_entry: str = ""

    @property
    def current_rows_condition(self) -> str:
        """Condition for the warehouse rows that the source holds now."""
        return "_syncd_valid_to IS NULL" if self.mode is Mode.HISTORY else "TRUE"


DEMO_TABLES: Final = (
    DemoTable(table="countries", mode=Mode.REPLACE, config_entry="{cursor: none, mode: replace, every: 10s}"),
    DemoTable(table="customers", mode=Mode.HISTORY, config_entry="{mode: history}"),
    DemoTable(table="orders", mode=Mode.UPSERT),
    DemoTable(table="order_lines", mode=Mode.UPSERT),
    DemoTable(table="events", mode=Mode.APPEND, config_entry="{cursor: id, mode: append}"),
)
_HEADER: Final = """\
# Written by `syncd demo`. The same file with your servers in it is all that `syncd run` needs;
# write passwords as ${NAME} there. Every key: docs/reference/configuration.md
"""


def render_configuration(mysql: MySqlAddress, s3: S3Address, redshift: RedshiftAddress) -> str:
    """Return the text of `syncd.yaml` for a sandbox."""
    tables = "".join(f"  {mysql.database}.{one.table}: {one.config_entry}".rstrip() + "\n" for one in DEMO_TABLES)
    return (
        f"{_HEADER}source:\n  url: {mysql.url}\n  zone: UTC\n"
        f"lake:\n  url: {s3.url}/syncd\n  endpoint: {s3.endpoint}\n  region: {s3.region}\n"
        f"warehouse:\n  url: {redshift.url}\n"
        f"daemon: {{http: off, stop_timeout: 20s}}\ndefaults: {{every: 1s}}\n"
        f"tables:\n{tables}"
    )


MAX_EXAMPLES: Final = 3
OWN_COLUMN_PREFIX: Final = "_syncd_"
_BINARY_TYPES: Final = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_SOURCE_EXPRESSIONS: Final[Mapping[str, str]] = {
    "bit": "{} + 0",
    "float": "CAST({} AS DOUBLE)",  # its text would be rounded
    "time": "CAST({} AS CHAR)",
    **dict.fromkeys(_BINARY_TYPES, "LOWER(HEX({}))"),
}
"""Expressions with which columns of some types are read at the source, so that their values can be compared."""
_TARGET_BINARY_EXPRESSION: Final = "LOWER(TO_HEX({}))"
"""The expression for binary columns in the warehouse: its driver would make text of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableComparison:
    """One table on both sides."""

    table: str
    mode: str
    source_rows: int
    warehouse_rows: int
    missing: int = 0
    """Rows of the source that the warehouse lacks."""
    extra: int = 0
    """Rows of the warehouse that the source lacks, or holds once."""
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
    """Columns of a table at the source, with their types and its key."""

    types: Mapping[str, str]
    key: tuple[str, ...]

    def rows_by_key(self, rows: Sequence[Sequence[Any]]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Yield every row as texts, under its key."""
        places = [list(self.types).index(name) for name in self.key]
        for row in rows:
            texts = tuple(normalize_value(value, kind) for value, kind in zip(row, self.types.values(), strict=True))
            yield tuple(texts[place] for place in places), texts


def compare_table(demo_table: DemoTable, source: "mysql.Connection", target: "warehouse.Connection") -> TableComparison:
    """Compare one table of the shop with the warehouse."""
    columns = _read_columns(demo_table.table, source)
    source_rows = list(columns.rows_by_key(_read_source_rows(demo_table.table, columns, source)))
    target_columns = _read_target_columns(demo_table.table, target)
    if target_columns != set(columns.types):
        problem = f"its columns are {', '.join(sorted(target_columns)) or 'none'}"
        return TableComparison(
            table=demo_table.table,
            mode=demo_table.mode,
            source_rows=len(source_rows),
            warehouse_rows=0,
            missing=max(len(source_rows), 1),
            examples=(problem,),
        )
    target_rows = list(columns.rows_by_key(_read_target_rows(demo_table, columns, target)))
    return _compare_rows(demo_table, columns, source_rows, target_rows)


def normalize_value(value: object, mysql_type: str) -> str:
    """Return one form for a value, whichever driver it came from; `mysql_type` is its type in MySQL."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return f"'{value}" if mysql_type != "json" else f"json {_normalize_json(value)}"
    return next((form(value) for types, form in _FORMATTERS if isinstance(value, types)), repr(value))


def _normalize_json(text: str) -> str:
    return json.dumps(json.loads(text, parse_float=_normalize_number), sort_keys=True, ensure_ascii=False)


def _normalize_number(text: str) -> str:
    return f"number {Decimal(text).normalize()}"


def _format_datetime(value: datetime) -> str:
    return (value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value).isoformat(" ", "microseconds")


_FORMATTERS: Final[tuple[tuple[Any, Callable[[Any], str]], ...]] = (
    (int, lambda value: str(int(value))),  # of BOOLEAN too
    (Decimal, lambda value: format(value, "f")),
    (datetime, _format_datetime),
    (date, date.isoformat),
)


def _read_columns(table: str, source: "mysql.Connection") -> _Columns:
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


def _read_source_rows(table: str, columns: _Columns, source: "mysql.Connection") -> Sequence[Sequence[Any]]:
    select = ", ".join(_SOURCE_EXPRESSIONS.get(kind, "{}").format(f"`{name}`") for name, kind in columns.types.items())
    with source.cursor() as cursor:
        cursor.execute(f"SELECT {select} FROM `{table}`")
        rows: Sequence[Sequence[Any]] = cursor.fetchall()
    return rows


def _read_target_columns(table: str, target: "warehouse.Connection") -> set[str]:
    cursor = target.cursor()
    cursor.execute(
        'SELECT a.attname FROM pg_attribute a JOIN pg_class c ON c."oid" = a.attrelid'
        ' JOIN pg_namespace n ON n."oid" = c.relnamespace'
        f" WHERE n.nspname = 'public' AND c.relname = '{table}' AND a.attnum > 0 AND NOT a.attisdropped"
    )
    return {str(name) for (name,) in cursor.fetchall() if not str(name).startswith(OWN_COLUMN_PREFIX)}


def _read_target_rows(
    demo_table: DemoTable, columns: _Columns, target: "warehouse.Connection"
) -> Sequence[Sequence[Any]]:
    select = ", ".join(
        (_TARGET_BINARY_EXPRESSION if kind in _BINARY_TYPES else "{}").format(f'"{name}"')
        for name, kind in columns.types.items()
    )
    cursor = target.cursor()
    cursor.execute(f'SELECT {select} FROM public."{demo_table.table}" WHERE {demo_table.current_rows_condition}')
    rows: Sequence[Sequence[Any]] = cursor.fetchall()
    return rows


_Rows = list[tuple[tuple[str, ...], tuple[str, ...]]]


def _compare_rows(demo_table: DemoTable, columns: _Columns, source_rows: _Rows, target_rows: _Rows) -> TableComparison:
    source, target = dict(source_rows), dict(target_rows)
    missing = [key for key in source if key not in target]
    extra = [key for key in target if key not in source]
    doubled = [key for key, times in Counter(key for key, _ in target_rows).items() if times > 1]
    different = [key for key, row in source.items() if key in target and target[key] != row]
    examples = [
        *(f"{_describe_key(columns, key)} is missing in the warehouse" for key in missing),
        *(f"{_describe_key(columns, key)} is not at the source" for key in extra),
        *(f"{_describe_key(columns, key)} is in the warehouse more than once" for key in doubled),
        *(
            f"{_describe_key(columns, key)}: {_describe_difference(columns, source[key], target[key])}"
            for key in different
        ),
    ]
    return TableComparison(
        table=demo_table.table,
        mode=demo_table.mode,
        source_rows=len(source_rows),
        warehouse_rows=len(target_rows),
        missing=len(missing),
        extra=len(extra) + len(target_rows) - len(target),
        different=len(different),
        values=len(source_rows) * len(columns.types),
        examples=tuple(examples[:MAX_EXAMPLES]),
    )


def _describe_key(columns: _Columns, key: tuple[str, ...]) -> str:
    return ", ".join(f"{name} = {value.removeprefix(chr(39))}" for name, value in zip(columns.key, key, strict=True))


def _describe_difference(columns: _Columns, source_row: tuple[str, ...], target_row: tuple[str, ...]) -> str:
    name, source, target = next(
        column for column in zip(columns.types, source_row, target_row, strict=True) if column[1] != column[2]
    )
    return f"{name} is {source[:60]} at the source and {target[:60]} in the warehouse"
