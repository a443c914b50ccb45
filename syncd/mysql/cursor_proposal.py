"""What a table's own description, and a few short looks at it, propose as its entry in the configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from syncd.datatypes.source_table import SourceColumn, SourceTable
from syncd.errors import ConfigError, SourceUnfit
from syncd.horizon import StampKind, find_stamp_kind
from syncd.settings import EpochUnit, Mode, StreamSettings
from syncd.tables.sort_order import StreamOrder, resolve_order

SMALL_TABLE_ROWS: Final = 100_000
"""Rows of a table that may be read whole each night."""
DISTKEY_MIN_ROWS: Final = 1_000_000
"""Rows from which on a distribution key is worth a thought."""
BUSY_ROWS_PER_DAY, QUIET_ROWS_PER_DAY = 100_000, 1_000
"""Rows a day from which on a table is read each minute, and below which each quarter of an hour is enough."""
NIGHTLY: Final = "0 3 * * *"
_CHANGE_TIME_NAMES: Final = (
    "update_at",
    "updated_at",
    "modified_at",
    "last_modified",
    "changed_at",
    "updated",
    "modified",
)
"""What columns are called that tell when a row changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSample:
    """What short looks at a table found; none where they found nothing in time."""

    rows: int | None = None
    """About so many, as the server guesses."""
    has_nulls: bool | None = None
    """Whether the order column is NULL somewhere."""
    sampled_rows: int = 0
    """So many of the newest entries of the index were looked at."""
    distinct_stamps: int | None = None
    """Different stamps among them."""
    rows_per_day: int | None = None
    widest_bytes: Mapping[str, int] = field(default_factory=dict[str, int])
    """Bytes of the longest value among some rows, by column of text."""
    unproven: str = ""
    """Why rows may change without a stamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProposal:
    """One entry of `tables`, why it says so, and what could not be proven."""

    table: str
    entry: Mapping[str, Any] = field(default_factory=dict[str, Any])
    reasons: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    omitted_reason: str = ""
    """Why it is not proposed at all; empty: it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderChoice:
    """By what a table could be read."""

    order: StreamOrder | None
    column: SourceColumn | None
    stamp: StampKind | None
    obstacle: str = ""
    """What stands in the way of a better one, with the statement that helps."""


def choose_order(table: SourceTable) -> OrderChoice:
    """The order column of a table: one that the server stamps, else one whose name tells; then the key that counts."""
    trouble = ""
    for column in _candidates(table):
        try:
            order = resolve_order(table, _settings(table, cursor=column.name))
        except (SourceUnfit, ConfigError) as error:
            trouble = trouble or f"{error.message}: {error.hint}"
            continue
        return OrderChoice(order=order, column=column, stamp=find_stamp_kind(column))
    if _has_auto_increment(table):
        return OrderChoice(
            order=resolve_order(table, _settings(table, cursor="id")), column=None, stamp=None, obstacle=trouble
        )
    return OrderChoice(order=None, column=None, stamp=None, obstacle=trouble)


def propose_table(
    table: SourceTable, choice: OrderChoice, sample: TableSample, *, is_zone_configured: bool = False
) -> TableProposal:
    """The entry of one table."""
    name = str(table)
    if table.kind.upper() != "BASE TABLE":
        return TableProposal(table=name, omitted_reason=f"it is a {table.kind.lower()}: name the table under it")
    small = sample.rows is not None and sample.rows <= SMALL_TABLE_ROWS
    size = "an unknown number of rows" if sample.rows is None else f"about {sample.rows:,} rows"
    if choice.order is None or (choice.column is None and small):
        if not small:
            return TableProposal(
                table=name, omitted_reason=f"{size}, and no order to read them by. {choice.obstacle}".strip()
            )
        because = (f"{size}: small enough to be read whole each night", *_to_reasons(choice.obstacle))
        return TableProposal(
            table=name, entry={"cursor": "none", "mode": Mode.REPLACE.value, "every": NIGHTLY}, reasons=because
        )
    if choice.column is None:
        return _propose_append(name, table, choice, size)
    return _propose_upsert(name, table, choice, sample, size, is_zone_configured=is_zone_configured)


def _propose_append(name: str, table: SourceTable, choice: OrderChoice, size: str) -> TableProposal:
    says = {"cursor": "id", "mode": Mode.APPEND.value, "sortkey": list(table.primary_key)}
    because = (f"{size}; the server counts {table.primary_key[0]} up, and no column tells when a row changed",)
    doubt = "that rows never change once they are written: changes would not be seen"
    return TableProposal(table=name, entry=says, reasons=(*because, *_to_reasons(choice.obstacle)), doubts=(doubt,))


def _propose_upsert(
    name: str, table: SourceTable, choice: OrderChoice, sample: TableSample, size: str, *, is_zone_configured: bool
) -> TableProposal:
    column, order = choice.column, choice.order
    assert column is not None
    assert order is not None
    says: dict[str, Any] = {} if column.name == "update_at" else {"cursor": column.name}
    says |= {} if table.primary_key else {"key": [key.name for key in order.key]}
    if column.data_type.endswith("int"):
        says["cursor_unit"] = "s"
    if (every := _propose_interval(sample.rows_per_day)) is not None:
        says["every"] = every
    if (sample.rows or 0) >= DISTKEY_MIN_ROWS:
        says["distkey"] = order.key[0].name
    says["sortkey"] = [column.name]
    daily = "" if sample.rows_per_day is None else f", about {sample.rows_per_day:,} of them changed in the last day"
    because = [
        f"{size}{daily}",
        f"{column.name} {column.column_type}, along index {order.index}",
        _describe_stamp(choice),
    ]
    if sample.distinct_stamps is not None and sample.sampled_rows:
        ties = sample.sampled_rows / max(sample.distinct_stamps, 1)
        because.append(f"{ties:.1f} rows for each stamp among the newest {sample.sampled_rows:,}")
    because.append(_describe_nulls(column, sample))
    if sample.widest_bytes:
        widest = ", ".join(f"{each} {size:,}" for each, size in sorted(sample.widest_bytes.items(), key=_by_size)[:5])
        because.append(f"widest text among some of the newest rows, in bytes: {widest}")
    return TableProposal(
        table=name,
        entry=says,
        reasons=tuple(because),
        doubts=tuple(_describe_doubts(choice, sample, is_zone_configured=is_zone_configured)),
    )


def _describe_nulls(column: SourceColumn, sample: TableSample) -> str:
    if sample.has_nulls is None:
        return f"whether {column.name} is NULL anywhere took too long"
    told = "NULL in some rows: only the first pass reads these" if sample.has_nulls else "never NULL"
    return f"{column.name} is {told}"


def _by_size(item: tuple[str, int]) -> int:
    return -item[1]


def _describe_doubts(choice: OrderChoice, sample: TableSample, *, is_zone_configured: bool) -> list[str]:
    column, doubts = choice.column, list[str]()
    assert column is not None
    if choice.stamp is None:
        doubts.append(f"that {column.name} is set at every insert and update: the server does not do it by itself")
    if choice.stamp is StampKind.WALL and not is_zone_configured:
        doubts.append(f"in which zone {column.name} is written: set `zone` at the source")
    if column.data_type.endswith("int"):
        doubts.append(f"what {column.name} counts: seconds are a guess")
    if sample.unproven:
        doubts.append(sample.unproven)
    return doubts


def _describe_stamp(choice: OrderChoice) -> str:
    told = "DEFAULT and ON UPDATE CURRENT_TIMESTAMP: the server stamps it at every insert and update"
    return told if choice.stamp else "no DEFAULT and ON UPDATE CURRENT_TIMESTAMP of its own digits: others stamp it"


def _propose_interval(rows_per_day: int | None) -> str | None:
    if rows_per_day is None or QUIET_ROWS_PER_DAY <= rows_per_day < BUSY_ROWS_PER_DAY:
        return None
    return "1m" if rows_per_day >= BUSY_ROWS_PER_DAY else "15m"


def _candidates(table: SourceTable) -> list[SourceColumn]:
    """Columns that may tell when a row changed, the surest first."""
    stamped = [column for column in table.columns if find_stamp_kind(column) is not None]
    told = [column for name in _CHANGE_TIME_NAMES if (column := table.find_column(name)) is not None]
    times = [
        column for column in told if column.data_type in {"datetime", "timestamp"} or column.data_type.endswith("int")
    ]
    named = sorted(stamped, key=lambda column: column.name.lower() not in _CHANGE_TIME_NAMES)
    return list(dict.fromkeys((*named, *times)))


def _has_auto_increment(table: SourceTable) -> bool:
    key = table.find_column(table.primary_key[0]) if len(table.primary_key) == 1 else None
    return key is not None and "auto_increment" in key.extra


def _settings(table: SourceTable, *, cursor: str) -> StreamSettings:
    key: tuple[str, ...] = ()
    if not table.primary_key:
        fit = [index for index in table.indexes if index.unique and index.whole and _are_not_null(table, index.columns)]
        key = fit[0].columns if fit else ()
    return StreamSettings(
        source="mysql", database=table.database, table=table.name, cursor=cursor, key=key, cursor_unit=EpochUnit.SECONDS
    )


def _are_not_null(table: SourceTable, names: tuple[str, ...]) -> bool:
    columns = [table.find_column(name) for name in names]
    return all(column is not None and not column.nullable for column in columns)


def _to_reasons(trouble: str) -> tuple[str, ...]:
    return (trouble,) if trouble else ()
