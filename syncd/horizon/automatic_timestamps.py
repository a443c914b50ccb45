"""Columns that the server stamps at every insert and update, and triggers that write past the stamp."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from syncd.datatypes.mysql_quoting import decode_text
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


_QUOTES_AND_COMMENTS: Final = re.compile(
    r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|/\*(?!M?!).*?\*/|\#[^\n]*|--(?=\s|$)[^\n]*""", re.DOTALL
)
_ASSIGNMENT: Final = re.compile(r"(?:\bSET|,)\s*`?NEW`?\s*\.\s*(`(?:[^`]|``)+`|\w+)\s*:?=\s*([^;,]*)", re.IGNORECASE)
_INDIRECT_ASSIGNMENT: Final = re.compile(r"\b(?:CALL|INTO)\b[^;]*\bNEW`?\s*\.", re.IGNORECASE)
_MAY_SKIP: Final = re.compile(r"\b(?:IF|CASE|WHILE|LOOP|REPEAT|LEAVE|HANDLER)\b", re.IGNORECASE)
_END: Final = re.compile(r"\s+END\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeTrigger:
    """A trigger that runs before a row is written."""

    name: str
    event: str
    """`INSERT` or `UPDATE`."""
    statement: str


def parse_triggers(rows: Sequence[Sequence[object]]) -> tuple[BeforeTrigger, ...]:
    """Return triggers from rows of name, event and statement."""
    texts = (map(decode_text, row) for row in rows)
    return tuple(BeforeTrigger(name=name, event=event, statement=statement) for name, event, statement in texts)


def find_bypassing_trigger(triggers: Sequence[BeforeTrigger], stamp: SourceColumn, *, mariadb: bool) -> str:
    """Return which trigger writes rows without the server's stamp; empty if none does.

    MySQL decides before the triggers run whether the statement changes a row, and stamps only then; MariaDB decides
    after them.
    """
    stamped = any(_always_stamps(each, stamp) for each in triggers)
    for trigger in triggers:
        for name, value in _find_assignments(trigger):
            if _is_stamp_column(name, stamp):
                if parse_clock_fraction(value) != stamp.fraction:
                    return f"trigger {trigger.name} sets {stamp.name}"
            elif trigger.event.upper() == "UPDATE" and not mariadb and not stamped:
                return f"trigger {trigger.name} changes rows; MySQL stamps only rows that the statement itself changes"
    return ""


def _find_assignments(trigger: BeforeTrigger) -> Iterator[tuple[str, str]]:
    text = _QUOTES_AND_COMMENTS.sub(" ", trigger.statement)
    yield from ((match[1], _END.sub("", match[2])) for match in _ASSIGNMENT.finditer(text))
    if _INDIRECT_ASSIGNMENT.search(text):
        yield "", ""  # an unknown column


def _always_stamps(trigger: BeforeTrigger, stamp: SourceColumn) -> bool:
    if trigger.event.upper() != "UPDATE" or _MAY_SKIP.search(trigger.statement):
        return False
    return any(
        _is_stamp_column(name, stamp) and parse_clock_fraction(value) == stamp.fraction
        for name, value in _find_assignments(trigger)
    )


def _is_stamp_column(name: str, stamp: SourceColumn) -> bool:
    return name.strip("`").replace("``", "`").casefold() == stamp.name.casefold()
