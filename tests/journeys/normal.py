"""What differs from one run to the next, each by a rule with a name, and the words that stand for it on the page.

Nothing else is touched: counts of rows, numbers of batches, words and exit codes have to be those of the page. A table
is laid out anew where one of its cells has changed, since its columns are as wide as what is in them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

FEWEST_COLUMNS: Final = 4
"""Less than that is no table."""
_GAP: Final = re.compile(r" {2,}")
_FULL: Final = re.compile(r"^( +)warn( +disk .*)\n +-> Make room.*$", re.MULTILINE)
_COUNTS: Final = re.compile(r"^(\d+) pass, (\d+) warn", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that differs, how it is found, and the word for it."""

    what: str
    found: re.Pattern[str]
    word: str
    unless: Callable[[str], bool] = lambda _text: False

    def __call__(self, text: str) -> str:
        return self.found.sub(lambda match: match[0] if self.unless(match[0]) else match.expand(self.word), text)


def _is_of_the_shop(text: str) -> bool:
    """Whether an instant is one of the shop's own, which are the same each time."""
    return date.fromisoformat(text[:10]) < datetime.now(UTC).date() - timedelta(days=2)


RULES: Final = (
    Rule(
        what="instants of the run; those of the shop stay",
        found=re.compile(r"20\d\d-\d\d-\d\d([ T])\d\d:\d\d:\d\d\.\d{1,6}"),
        word=r"YYYY-MM-DD\1hh:mm:ss.ffffff",
        unless=_is_of_the_shop,
    ),
    Rule(
        what="the same without fractions",
        found=re.compile(r"20\d\d-\d\d-\d\d([ T])\d\d:\d\d:\d\d(?!\.)"),
        word=r"YYYY-MM-DD\1hh:mm:ss",
        unless=_is_of_the_shop,
    ),
    Rule(what="the day in a file's name", found=re.compile(r"/20\d\d/\d\d/\d\d/"), word="/YYYY/MM/DD/"),
    Rule(what="the attempt in a file's name", found=re.compile(r"-[0-9a-f]{12}-\d+\.parquet"), word="-ATTEMPT.parquet"),
    Rule(
        what="how far clocks are apart",
        found=re.compile(r"\d+\.\d s (?:behind|ahead of) \(give or take \d+\.\d s\)"),
        word="N.N s apart (give or take N.N s) from",
    ),
    Rule(what="seconds", found=re.compile(r"\b\d+\.\d s\b"), word="N.N s"),
    Rule(what="sizes", found=re.compile(r"\b\d[\d,.]* (?:B|kB|MB|GB)\b"), word="N.N kB"),
    Rule(what="guesses of MySQL", found=re.compile(r"\babout [\d,]+ (?=rows|of)"), word="about N "),
    Rule(what="processes", found=re.compile(r"\b[\w.-]+-\d+-[0-9a-f]{24}\b"), word="HOST-PID-NONCE"),
    Rule(what="who is at the keyboard", found=re.compile(r"\b[\w.-]+@(?!127)[\w-]+\b(?=  )"), word="you@host"),
    Rule(what="the version of MariaDB", found=re.compile(r"\bMariaDB \d+\.\d+\.\d+"), word="MariaDB N.N.N"),
)
"""In the order in which they are looked for."""

COLUMNS: Final[Mapping[str, str]] = {
    "seconds": "N.N",
    "read s": "N.N",
    "load s": "N.N",
    "size": "N.N kB",
    "read lag": "Ns",
    "load lag": "Ns",
}
"""Cells of tables by the head of their column; nothing, and nothing to wait for, stay what they are."""
STAY: Final = frozenset({"-", "0s", "0", "0 B"})


def normal(text: str, *, places: Mapping[str, str]) -> str:
    """The text with words for what differs; `places` are addresses and directories of this run."""
    lines = _roomy(text).splitlines()
    found: list[str] = []
    while lines:
        many = _table(lines)
        if many:
            found += _laid_out([_cells(line) for line in lines[:many]], places)
        else:
            found.append(_worded(lines[0], places))
            many = 1
        del lines[:many]
    return "\n".join(found) + "\n" if found else ""


def _roomy(text: str) -> str:
    """What a preflight says where there is room: how full the disk is, is no matter of `syncd`."""
    text, full = _FULL.subn(r"\1pass\2", text)
    return _COUNTS.sub(lambda match: f"{int(match[1]) + full} pass, {int(match[2]) - full} warn", text)


def _worded(text: str, places: Mapping[str, str]) -> str:
    for place in sorted(places, key=len, reverse=True):
        text = text.replace(place, places[place])
    for rule in RULES:
        text = rule(text)
    return text


def _table(lines: Sequence[str]) -> int:
    """How many lines from the first on are one table: each begins every column where the head does."""
    starts = [0, *(match.end() for match in _GAP.finditer(lines[0]))]
    if len(starts) < FEWEST_COLUMNS or lines[0].startswith(" "):
        return 0
    many = 1
    while many < len(lines) and all(
        lines[many][start : start + 1].strip() and lines[many][max(start - 2, 0) : start].isspace() == (start > 0)
        for start in starts
    ):
        many += 1
    return many if many > 1 else 0


def _cells(line: str) -> list[str]:
    return _GAP.split(line)


def _laid_out(rows: list[list[str]], places: Mapping[str, str]) -> list[str]:
    head, *body = rows
    worded = [
        [_cell(name, cell, places) for name, cell in zip(head, row, strict=True)] if len(row) == len(head) else row
        for row in body
    ]
    widths = [max(len(row[place]) for row in (head, *worded)) for place in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *worded)
    ]


def _cell(name: str, cell: str, places: Mapping[str, str]) -> str:
    if name in COLUMNS and cell not in STAY:
        return COLUMNS[name]
    return _worded(f"{cell}  ", places).removesuffix("  ")
