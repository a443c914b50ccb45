"""Whether the server itself stamps a column at every insert and update: only then can a horizon prove anything."""

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
    """What stands in a column that the server stamps."""

    INSTANT = "instant"
    """TIMESTAMP: no zone is needed."""
    WALL = "wall"
    """DATETIME: the session zone of the writers is needed to find the instant."""


def find_stamp_kind(column: SourceColumn) -> StampKind | None:
    """How the server stamps the column, at insert and at update; None where either is left to others.

    Fractions must be the column's own: a stamp cut shorter than the column would lie below the bound.
    """
    kind = {"timestamp": StampKind.INSTANT, "datetime": StampKind.WALL}.get(column.data_type.lower())
    on_update = _ON_UPDATE.search(column.extra)
    if kind is None or column.default is None or on_update is None:
        return None
    fractions = (parse_clock_fraction(column.default), parse_clock_fraction(on_update[1]))
    return kind if fractions == (column.fraction, column.fraction) else None


def find_unstamped_change(create_statement: str) -> str:
    """What changes rows of a table and leaves their stamp as it was, by what SHOW CREATE TABLE prints.

    That is a foreign key, which is named, or the period of a table of MariaDB.
    Rows that a foreign key deletes are gone, as any that are deleted: no cursor sees that either, and nobody thinks so.
    """
    for line in create_statement.splitlines():
        bare = _QUOTED.sub("``", line)
        if _PERIOD.match(bare):
            return "what FOR PORTION OF its period leaves of a row keeps the stamp that it had"
        if bare.lstrip().upper().startswith("CONSTRAINT") and (action := _ACTION.search(bare)):
            name = _QUOTED.search(line)
            return f"{action[0]} of {name[0] if name else 'a foreign key'} changes rows and stamps them not"
    return ""


def parse_clock_fraction(call: str) -> int | None:
    """The digits after the second that a call of the clock gives; None where it is no such call."""
    match = _NOW.fullmatch(call.strip())
    return int(match[1] or 0) if match else None
