"""Detection of columns that the server itself stamps at every insert and update: only those prove a horizon."""

import re
from enum import StrEnum
from typing import Final

from syncd.datatypes.source_table import SourceColumn

_NOW: Final = re.compile(r"(?:current_timestamp|now|localtimestamp|localtime)(?:\((\d?)\))?", re.IGNORECASE)
_QUOTED: Final = re.compile(r"`(?:[^`]|``)*`")
_ACTION: Final = re.compile(r"ON UPDATE (?:CASCADE|SET NULL|SET DEFAULT)|ON DELETE SET (?:NULL|DEFAULT)", re.IGNORECASE)
_PERIOD: Final = re.compile(r"\s*PERIOD FOR (?!SYSTEM_TIME\b)", re.IGNORECASE)
_ON_UPDATE: Final = re.compile(r"\bon update ([^\s,]+)", re.IGNORECASE)


class StampKind(StrEnum):
    """Kind of a column that the server stamps."""

    INSTANT = "instant"
    """TIMESTAMP: no time zone is needed."""
    WALL = "wall"
    """DATETIME: the session time zone of the writers is needed to find the instant."""


def find_stamp_kind(column: SourceColumn) -> StampKind | None:
    """Return how the server stamps the column at insert and update; None if it does not do both.

    Fractions must be the column's own: a stamp with fewer digits than the column would lie below the bound.
    """
    kind = {"timestamp": StampKind.INSTANT, "datetime": StampKind.WALL}.get(column.data_type.lower())
    on_update = _ON_UPDATE.search(column.extra)
    if kind is None or column.default is None or on_update is None:
        return None
    fractions = (parse_clock_fraction(column.default), parse_clock_fraction(on_update[1]))
    return kind if fractions == (column.fraction, column.fraction) else None


def find_unstamped_change(create_statement: str) -> str:
    """Return what changes rows without a new stamp, according to SHOW CREATE TABLE; empty if nothing does.

    That is a foreign key, which is named, or the period of a MariaDB table. Rows that a foreign key deletes count as
    any deleted rows, which no cursor sees.
    """
    for line in create_statement.splitlines():
        bare = _QUOTED.sub("``", line)
        if _PERIOD.match(bare):
            return "FOR PORTION OF its period splits rows and keeps their old stamp"
        if bare.lstrip().upper().startswith("CONSTRAINT") and (action := _ACTION.search(bare)):
            name = _QUOTED.search(line)
            return f"{action[0]} of {name[0] if name else 'a foreign key'} changes rows without a new stamp"
    return ""


def parse_clock_fraction(call: str) -> int | None:
    """Return the fractional digits of a call of the clock; None if it is no such call."""
    match = _NOW.fullmatch(call.strip())
    return int(match[1] or 0) if match else None
