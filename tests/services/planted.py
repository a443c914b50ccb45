"""Thirty-seven differences among many rows: lost, stale, ghosts, changed by one byte, NULL against empty."""

import random
from collections.abc import Callable

from syncd.verify.result import DifferenceKind

LAYOUT = (
    "id BIGINT UNSIGNED PRIMARY KEY, name VARCHAR(60) NULL, total DECIMAL(18,4) NOT NULL, flags BIT(8) NOT NULL,"
    " placed_at DATETIME(6) NOT NULL, took TIME NULL, rate DOUBLE NOT NULL, update_at DATETIME(6) NOT NULL DEFAULT"
    " CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (update_at, id)"
)
COUNTS = {"lost": 10, "stale": 6, "ghost": 8, "byte": 7, "null": 6}
assert sum(COUNTS.values()) == 37
KINDS = {
    "lost": DifferenceKind.LOST,
    "stale": DifferenceKind.STALE,
    "ghost": DifferenceKind.GHOST,
    "byte": DifferenceKind.DIFFERENT,
    "null": DifferenceKind.DIFFERENT,
}
_THERE = {
    "lost": "delete from {t} where id in ({ids})",
    "stale": "update {t} set name = 'as it was', update_at = dateadd(hour, -1, update_at) where id in ({ids})",
    "byte": "update {t} set name = left(name, len(name) - 1) || '#' where id in ({ids})",
    "null": "update {t} set name = null where id in ({ids})",
}


def statements(table: str, rows: int) -> tuple[str, ...]:
    """Make the table, with so many thousand rows; every fifth name is empty."""
    numbers = "WITH RECURSIVE c AS (SELECT 1 n UNION ALL SELECT n + 1 FROM c WHERE n < 1000)"
    values = (
        "IF({i} MOD 5 = 0, '', CONCAT('note of row ', {i})), {i} / 7, {i} MOD 256, '2025-01-01' + INTERVAL {i} SECOND,"
        " SEC_TO_TIME({i} MOD 80000), {i} / 3e0, '2026-01-01' + INTERVAL {i} * 10 MICROSECOND"
    )
    first = f"INSERT INTO {table} {numbers} SELECT n, {values.format(i='n')} FROM c"
    copies = [
        f"INSERT INTO {table} SELECT m.id + k.i * 1000, "
        + values.format(i="(m.id + k.i * 1000)")
        + f" FROM {table} m JOIN (WITH RECURSIVE k AS (SELECT {at} i UNION ALL SELECT i + 1 FROM k WHERE i <"
        f" {min(at + 100, rows // 1000) - 1}) SELECT i FROM k) k WHERE m.id <= 1000"
        for at in range(1, rows // 1000, 100)
    ]
    return (f"DROP TABLE IF EXISTS {table}", f"CREATE TABLE {table} ({LAYOUT}) CHARACTER SET utf8mb4", first, *copies)


def plant(
    table: str, rows: int, *, here: Callable[[str], object], there: Callable[[str], object]
) -> dict[int, DifferenceKind]:
    """Make both sides differ; which rows, and how."""
    rng = random.Random(37)
    planted: dict[int, DifferenceKind] = {}
    for name, count in COUNTS.items():
        wants_empty = name == "null"
        ids: list[int] = []
        while len(ids) < count:
            key = rng.randint(1, rows)
            if key not in planted and (key % 5 == 0) is wants_empty:
                planted[key] = KINDS[name]
                ids.append(key)
        listed = ", ".join(map(str, ids))
        if name == "ghost":
            here(f"DELETE FROM {table} WHERE id IN ({listed})")
        else:
            there(_THERE[name].format(t=table, ids=listed))
    return planted
