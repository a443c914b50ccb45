"""Proposal of a configuration entry for a table, from its description and a small sample."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from operator import itemgetter
from typing import Any, Final

from syncd.datatypes.source_table import SourceColumn, SourceTable
from syncd.errors import ConfigError, SourceUnfit
from syncd.horizon import StampKind, find_stamp_kind
from syncd.settings import EpochUnit, Mode, StreamSettings
from syncd.tables.sort_order import StreamOrder, resolve_order

SMALL_TABLE_ROWS: Final = 100_000
"""Tables up to this size may be read whole each night."""
DISTKEY_MIN_ROWS: Final = 1_000_000
"""Tables from this size on deserve a distribution key."""
BUSY_ROWS_PER_DAY, QUIET_ROWS_PER_DAY = 100_000, 1_000
"""Tables with more changes a day are read each minute; those with fewer than the second, every 15 minutes."""
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
"""Usual names of columns that hold the time of the last change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSample:
    """Results of a few bounded queries on a table; None if a query failed or took too long."""

    rows: int | None = None
    """The server's estimate."""
    has_nulls: bool | None = None
    """Whether the order column is NULL in some row."""
    sampled_rows: int = 0
    """Number of the newest index entries in the sample."""
    distinct_stamps: int | None = None
    """Distinct stamps among them."""
    rows_per_day: int | None = None
    widest_bytes: Mapping[str, int] = field(default_factory=dict[str, int])
    """Bytes of the longest sampled value, by text column."""
    unproven: str = ""
    """Why rows may change without a new stamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProposal:
    """One entry of `tables`, with its reasons and its unproven assumptions."""

    table: str
    entry: Mapping[str, Any] = field(default_factory=dict[str, Any])
    reasons: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    omitted_reason: str = ""
    """Why no entry is proposed; empty if one is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderChoice:
    """The order by which a table could be read."""

    order: StreamOrder | None
    column: SourceColumn | None
    stamp: StampKind | None
    obstacle: str = ""
    """What prevents a better order, with the statement that solves it."""


def choose_order(table: SourceTable) -> OrderChoice:
    """Choose the order column: one that the server stamps, one with a usual name, or the AUTO_INCREMENT key."""
    obstacle = ""
    for column in _candidates(table):
        try:
            order = resolve_order(table, _settings(table, cursor=column.name))
        except (SourceUnfit, ConfigError) as error:
            obstacle = obstacle or f"{error.message}: {error.hint}"
            continue
        return OrderChoice(order=order, column=column, stamp=find_stamp_kind(column))
    if _has_auto_increment(table):
        order = resolve_order(table, _settings(table, cursor="id"))
        return OrderChoice(order=order, column=None, stamp=None, obstacle=obstacle)
    return OrderChoice(order=None, column=None, stamp=None, obstacle=obstacle)


def propose_table(
    table: SourceTable, choice: OrderChoice, sample: TableSample, *, is_zone_configured: bool = False
) -> TableProposal:
    """Return the configuration entry of one table."""
    name = str(table)
    if table.kind.upper() != "BASE TABLE":
        return TableProposal(table=name, omitted_reason=f"it is a {table.kind.lower()}: name its base table")
    small = sample.rows is not None and sample.rows <= SMALL_TABLE_ROWS
    size = "an unknown number of rows" if sample.rows is None else f"about {sample.rows:,} rows"
    if choice.order is None or (choice.column is None and small):
        if not small:
            reason = f"{size}, and no order in which to read them. {choice.obstacle}".strip()
            return TableProposal(table=name, omitted_reason=reason)
        reasons = (f"{size}: small enough to be read whole each night", *_to_reasons(choice.obstacle))
        entry = {"cursor": "none", "mode": Mode.REPLACE.value, "every": NIGHTLY}
        return TableProposal(table=name, entry=entry, reasons=reasons)
    if choice.column is None:
        return _propose_append(name, table, choice, size)
    return _propose_upsert(name, table, choice, sample, size, is_zone_configured=is_zone_configured)


def _propose_append(name: str, table: SourceTable, choice: OrderChoice, size: str) -> TableProposal:
    entry = {"cursor": "id", "mode": Mode.APPEND.value, "sortkey": list(table.primary_key)}
    reason = f"{size}; {table.primary_key[0]} is AUTO_INCREMENT, and no column contains the time of the last change"
    doubt = "that rows never change once they are written: changes would not be seen"
    return TableProposal(table=name, entry=entry, reasons=(reason, *_to_reasons(choice.obstacle)), doubts=(doubt,))


def _propose_upsert(
    name: str, table: SourceTable, choice: OrderChoice, sample: TableSample, size: str, *, is_zone_configured: bool
) -> TableProposal:
    column, order = choice.column, choice.order
    assert column is not None
    assert order is not None
    entry: dict[str, Any] = {} if column.name == "update_at" else {"cursor": column.name}
    entry |= {} if table.primary_key else {"key": [key.name for key in order.key]}
    if column.data_type.endswith("int"):
        entry["cursor_unit"] = "s"
    if (every := _propose_interval(sample.rows_per_day)) is not None:
        entry["every"] = every
    if (sample.rows or 0) >= DISTKEY_MIN_ROWS:
        entry["distkey"] = order.key[0].name
    entry["sortkey"] = [column.name]
    return TableProposal(
        table=name,
        entry=entry,
        reasons=_describe_reasons(choice, sample, size),
        doubts=tuple(_describe_doubts(choice, sample, is_zone_configured=is_zone_configured)),
    )


def _describe_reasons(choice: OrderChoice, sample: TableSample, size: str) -> tuple[str, ...]:
    column, order = choice.column, choice.order
    assert column is not None
    assert order is not None
    daily = "" if sample.rows_per_day is None else f", about {sample.rows_per_day:,} of them changed in the last day"
    reasons = [
        f"{size}{daily}",
        f"{column.name} {column.column_type}, along index {order.index}",
        _describe_stamp(choice),
    ]
    if sample.distinct_stamps is not None and sample.sampled_rows:
        ties = sample.sampled_rows / max(sample.distinct_stamps, 1)
        reasons.append(f"{ties:.1f} rows for each stamp among the newest {sample.sampled_rows:,}")
    reasons.append(_describe_nulls(column, sample))
    if sample.widest_bytes:
        widest = ", ".join(
            f"{each} {size:,}" for each, size in nlargest(5, sample.widest_bytes.items(), key=itemgetter(1))
        )
        reasons.append(f"widest text among some of the newest rows, in bytes: {widest}")
    return tuple(reasons)


def _describe_nulls(column: SourceColumn, sample: TableSample) -> str:
    if sample.has_nulls is None:
        return f"the check for NULL in {column.name} took too long"
    return (
        f"{column.name} is {'NULL in some rows: only the first pass reads these' if sample.has_nulls else 'never NULL'}"
    )


def _describe_doubts(choice: OrderChoice, sample: TableSample, *, is_zone_configured: bool) -> list[str]:
    column, doubts = choice.column, list[str]()
    assert column is not None
    if choice.stamp is None:
        doubts.append(f"that {column.name} is set at every insert and update: the server does not set it")
    if choice.stamp is StampKind.WALL and not is_zone_configured:
        doubts.append(f"in which zone {column.name} is written: set `zone` at the source")
    if column.data_type.endswith("int"):
        doubts.append(f"in which unit {column.name} counts: seconds are assumed")
    if sample.unproven:
        doubts.append(sample.unproven)
    return doubts


def _describe_stamp(choice: OrderChoice) -> str:
    if choice.stamp:
        return "DEFAULT and ON UPDATE CURRENT_TIMESTAMP: the server stamps it at every insert and update"
    return "no DEFAULT and ON UPDATE CURRENT_TIMESTAMP with its own digits: the application stamps it"


def _propose_interval(rows_per_day: int | None) -> str | None:
    if rows_per_day is None or QUIET_ROWS_PER_DAY <= rows_per_day < BUSY_ROWS_PER_DAY:
        return None
    return "1m" if rows_per_day >= BUSY_ROWS_PER_DAY else "15m"


def _candidates(table: SourceTable) -> list[SourceColumn]:
    """Return the columns that may hold the time of the last change, the surest first."""
    stamped = [column for column in table.columns if find_stamp_kind(column) is not None]
    named = [column for name in _CHANGE_TIME_NAMES if (column := table.find_column(name)) is not None]
    times = [each for each in named if each.data_type in {"datetime", "timestamp"} or each.data_type.endswith("int")]
    stamped.sort(key=lambda column: column.name.lower() not in _CHANGE_TIME_NAMES)
    return list(dict.fromkeys((*stamped, *times)))


def _has_auto_increment(table: SourceTable) -> bool:
    key = table.find_column(table.primary_key[0]) if len(table.primary_key) == 1 else None
    return key is not None and "auto_increment" in key.extra


def _settings(table: SourceTable, *, cursor: str) -> StreamSettings:
    key: tuple[str, ...] = ()
    if not table.primary_key:
        unique = (each for each in table.indexes if each.unique and each.whole and _are_not_null(table, each.columns))
        key = next((index.columns for index in unique), ())
    return StreamSettings(
        source="mysql", database=table.database, table=table.name, cursor=cursor, key=key, cursor_unit=EpochUnit.SECONDS
    )


def _are_not_null(table: SourceTable, names: tuple[str, ...]) -> bool:
    columns = [table.find_column(name) for name in names]
    return all(column is not None and not column.nullable for column in columns)


def _to_reasons(obstacle: str) -> tuple[str, ...]:
    return (obstacle,) if obstacle else ()
