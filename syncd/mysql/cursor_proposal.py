"""What a table's own description, and a few short looks at it, propose as its entry in the configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from syncd.datatypes.source_table import Column, Table
from syncd.errors import ConfigError, SourceUnfit
from syncd.horizon import Stamp, stamp_of
from syncd.settings import EpochUnit, Mode, StreamSettings
from syncd.tables.sort_order import Order, order_of

SMALL: Final = 100_000
"""Rows of a table that may be read whole each night."""
MANY: Final = 1_000_000
"""Rows from which on a distribution key is worth a thought."""
BUSY, QUIET = 100_000, 1_000
"""Rows a day from which on a table is read each minute, and below which each quarter of an hour is enough."""
NIGHTLY: Final = "0 3 * * *"
_TELLING: Final = ("update_at", "updated_at", "modified_at", "last_modified", "changed_at", "updated", "modified")
"""What columns are called that tell when a row changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What short looks at a table found; none where they found nothing in time."""

    rows: int | None = None
    """About so many, as the server guesses."""
    nulls: bool | None = None
    """Whether the order column is NULL somewhere."""
    sampled: int = 0
    """So many of the newest entries of the index were looked at."""
    distinct: int | None = None
    """Different stamps among them."""
    rows_per_day: int | None = None
    widest: Mapping[str, int] = field(default_factory=dict[str, int])
    """Bytes of the longest value among some rows, by column of text."""
    unproven: str = ""
    """Why rows may change without a stamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One entry of `tables`, why it says so, and what could not be proven."""

    table: str
    says: Mapping[str, Any] = field(default_factory=dict[str, Any])
    because: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()
    left_out: str = ""
    """Why it is not proposed at all; empty: it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """By what a table could be read."""

    order: Order | None
    column: Column | None
    stamp: Stamp | None
    trouble: str = ""
    """What stands in the way of a better one, with the statement that helps."""


def choose(table: Table) -> Choice:
    """The order column of a table: one that the server stamps, else one whose name tells; then the key that counts."""
    trouble = ""
    for column in _candidates(table):
        try:
            order = order_of(table, _settings(table, cursor=column.name))
        except (SourceUnfit, ConfigError) as error:
            trouble = trouble or f"{error.message}: {error.hint}"
            continue
        return Choice(order=order, column=column, stamp=stamp_of(column))
    if _counts(table):
        return Choice(order=order_of(table, _settings(table, cursor="id")), column=None, stamp=None, trouble=trouble)
    return Choice(order=None, column=None, stamp=None, trouble=trouble)


def propose(table: Table, choice: Choice, found: Evidence, *, zone_told: bool = False) -> Proposal:
    """The entry of one table."""
    name = str(table)
    if table.kind.upper() != "BASE TABLE":
        return Proposal(table=name, left_out=f"it is a {table.kind.lower()}: name the table under it")
    small = found.rows is not None and found.rows <= SMALL
    size = "an unknown number of rows" if found.rows is None else f"about {found.rows:,} rows"
    if choice.order is None or (choice.column is None and small):
        if not small:
            return Proposal(table=name, left_out=f"{size}, and no order to read them by. {choice.trouble}".strip())
        because = (f"{size}: small enough to be read whole each night", *_told(choice.trouble))
        return Proposal(
            table=name, says={"cursor": "none", "mode": Mode.REPLACE.value, "every": NIGHTLY}, because=because
        )
    if choice.column is None:
        return _growing(name, table, choice, size)
    return _stamped(name, table, choice, found, size, zone_told=zone_told)


def _growing(name: str, table: Table, choice: Choice, size: str) -> Proposal:
    says = {"cursor": "id", "mode": Mode.APPEND.value, "sortkey": list(table.primary)}
    because = (f"{size}; the server counts {table.primary[0]} up, and no column tells when a row changed",)
    doubt = "that rows never change once they are written: changes would not be seen"
    return Proposal(table=name, says=says, because=(*because, *_told(choice.trouble)), unproven=(doubt,))


def _stamped(name: str, table: Table, choice: Choice, found: Evidence, size: str, *, zone_told: bool) -> Proposal:
    column, order = choice.column, choice.order
    assert column is not None
    assert order is not None
    says: dict[str, Any] = {} if column.name == "update_at" else {"cursor": column.name}
    says |= {} if table.primary else {"key": [key.name for key in order.key]}
    if column.data_type.endswith("int"):
        says["cursor_unit"] = "s"
    if (every := _every(found.rows_per_day)) is not None:
        says["every"] = every
    if (found.rows or 0) >= MANY:
        says["distkey"] = order.key[0].name
    says["sortkey"] = [column.name]
    daily = "" if found.rows_per_day is None else f", about {found.rows_per_day:,} of them changed in the last day"
    because = [f"{size}{daily}", f"{column.name} {column.column_type}, along index {order.index}", _stamp_told(choice)]
    if found.distinct is not None and found.sampled:
        ties = found.sampled / max(found.distinct, 1)
        because.append(f"{ties:.1f} rows for each stamp among the newest {found.sampled:,}")
    because.append(_nulls_told(column, found))
    if found.widest:
        widest = ", ".join(f"{each} {size:,}" for each, size in sorted(found.widest.items(), key=_by_size)[:5])
        because.append(f"widest text among some of the newest rows, in bytes: {widest}")
    return Proposal(
        table=name, says=says, because=tuple(because), unproven=tuple(_doubts(choice, found, zone_told=zone_told))
    )


def _nulls_told(column: Column, found: Evidence) -> str:
    if found.nulls is None:
        return f"whether {column.name} is NULL anywhere took too long"
    told = "NULL in some rows: only the first pass reads these" if found.nulls else "never NULL"
    return f"{column.name} is {told}"


def _by_size(item: tuple[str, int]) -> int:
    return -item[1]


def _doubts(choice: Choice, found: Evidence, *, zone_told: bool) -> list[str]:
    column, doubts = choice.column, list[str]()
    assert column is not None
    if choice.stamp is None:
        doubts.append(f"that {column.name} is set at every insert and update: the server does not do it by itself")
    if choice.stamp is Stamp.WALL and not zone_told:
        doubts.append(f"in which zone {column.name} is written: set `zone` at the source")
    if column.data_type.endswith("int"):
        doubts.append(f"what {column.name} counts: seconds are a guess")
    if found.unproven:
        doubts.append(found.unproven)
    return doubts


def _stamp_told(choice: Choice) -> str:
    told = "DEFAULT and ON UPDATE CURRENT_TIMESTAMP: the server stamps it at every insert and update"
    return told if choice.stamp else "no DEFAULT and ON UPDATE CURRENT_TIMESTAMP of its own digits: others stamp it"


def _every(rows_per_day: int | None) -> str | None:
    if rows_per_day is None or QUIET <= rows_per_day < BUSY:
        return None
    return "1m" if rows_per_day >= BUSY else "15m"


def _candidates(table: Table) -> list[Column]:
    """Columns that may tell when a row changed, the surest first."""
    stamped = [column for column in table.columns if stamp_of(column) is not None]
    told = [column for name in _TELLING if (column := table.column(name)) is not None]
    times = [
        column for column in told if column.data_type in {"datetime", "timestamp"} or column.data_type.endswith("int")
    ]
    named = sorted(stamped, key=lambda column: column.name.lower() not in _TELLING)
    return list(dict.fromkeys((*named, *times)))


def _counts(table: Table) -> bool:
    key = table.column(table.primary[0]) if len(table.primary) == 1 else None
    return key is not None and "auto_increment" in key.extra


def _settings(table: Table, *, cursor: str) -> StreamSettings:
    key: tuple[str, ...] = ()
    if not table.primary:
        fit = [index for index in table.indexes if index.unique and index.whole and _no_null(table, index.columns)]
        key = fit[0].columns if fit else ()
    return StreamSettings(
        source="mysql", database=table.database, table=table.name, cursor=cursor, key=key, cursor_unit=EpochUnit.SECONDS
    )


def _no_null(table: Table, names: tuple[str, ...]) -> bool:
    columns = [table.column(name) for name in names]
    return all(column is not None and not column.nullable for column in columns)


def _told(trouble: str) -> tuple[str, ...]:
    return (trouble,) if trouble else ()
