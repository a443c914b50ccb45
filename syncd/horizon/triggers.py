"""Detection of triggers that bypass the server's stamp."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from syncd.datatypes.mysql_quoting import decode_text
from syncd.datatypes.source_table import SourceColumn
from syncd.horizon.stamps import parse_clock_fraction

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
