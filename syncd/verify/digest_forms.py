"""One text for a value on both servers: what a digest is made of.

Two values of a column have the same text only if they are the same. The other way round it need not hold: where a
policy changed a value on its way, its texts differ, and the row is looked at by itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from syncd.datatypes.columns import Passage, Policies, Policy, Travel
from syncd.datatypes.mysql_quoting import quoted as here_quoted
from syncd.datatypes.source_table import Column
from syncd.redshift.column_types import TargetType
from syncd.redshift.quoting import quoted as there_quoted

NONE: Final = "'N'"
"""The text of NULL; no other value has it."""
SHORT: Final = 400
"""Bytes: a longer text goes into a digest as one of its own."""
HEX_BYTES: Final = 32_000
"""Bytes of a binary value whose hexadecimal digits are one text in Redshift."""
HEX_PIECES: Final = 3
WHOLE_BYTES: Final = HEX_BYTES * HEX_PIECES
"""Bytes of a binary value that are compared: beyond, its length alone."""
_NUMBER_WIDTH: Final = 50
_DIGEST_WIDTH: Final = 65
_INTEGERS: Final = frozenset({"smallint", "integer", "bigint"})
_PRINTED_ALIKE: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_MOST_DIGITS_HERE: Final = 65


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The text of one column on both sides; it is never NULL, and where it ends can be seen from itself."""

    name: str
    """In files and in the target."""
    here: str
    """SQL of the source."""
    there: str
    """SQL of the warehouse."""
    width: int
    """Bytes, at most."""
    part: bool = False
    """Whether of a very long value only the beginning counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlike:
    """Why a column has no such text."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """One column on both sides."""

    column: Column
    passage: Passage
    target: TargetType
    nulls_zero_dates: bool

    @property
    def here(self) -> str:
        return here_quoted(self.passage.column)

    @property
    def there(self) -> str:
        return there_quoted(self.passage.name)


_Made: TypeAlias = tuple[str, str, int] | str
"""Both texts and their width; or why there is none."""


def form_of(
    column: Column, passage: Passage, target: TargetType | None, policies: Policies, *, key: bool
) -> Form | Unlike:
    """The text of a column, or why it has none."""
    if target is None:
        return Unlike(name=passage.name, reason="the target has no such column yet")
    nulls = policies.zero_dates is Policy.NULL and not key
    subject = _Subject(column=column, passage=passage, target=target, nulls_zero_dates=nulls)
    made = _maker(passage)(subject)
    if isinstance(made, str):
        return Unlike(name=passage.name, reason=made)
    here, there, width = made
    part = passage.redshift.startswith("VARBYTE") and (passage.limit or 0) > WHOLE_BYTES
    return Form(name=passage.name, here=here, there=there, width=width, part=part)


def _maker(passage: Passage) -> Callable[[_Subject], _Made]:
    kind = TargetType.of_text(passage.redshift).name
    if kind == "numeric" or kind in _INTEGERS:
        return _integer if passage.travel is Travel.INTEGER else _decimal
    return _MAKERS[kind]


def hashed(text: str) -> str:
    """The digest of a text, in hexadecimal digits; MySQL 9.7 has no MD5 any more."""
    return f"SHA2({text}, 256)"


def _coalesced(text: str) -> str:
    return f"COALESCE({text}, {NONE})"


def _ended(here: str, there: str, width: int) -> _Made:
    """A text from which it can be seen where it ends, and a comma behind it."""
    return f"CONCAT({_coalesced(here)}, ',')", f"{_coalesced(there)} || ','", width + 1


def _integer(subject: _Subject) -> _Made:
    column, target = subject.column, subject.target
    plain = "UNSIGNED" if column.unsigned or column.data_type == "bit" else "SIGNED"
    if target.name == "numeric" and target.sizes[1]:
        return _scaled(subject)
    if target.name != "numeric" and target.name not in _INTEGERS:
        return f"the target's column is {target}"
    here = subject.here
    if "zerofill" in column.column_type.lower() or column.data_type not in _PRINTED_ALIKE:
        here = f"CAST({here} AS {plain})"  # a number that is filled up with zeros for the eye loses them
    return _ended(here, f"CAST({subject.there} AS VARCHAR(50))", _NUMBER_WIDTH)


def _decimal(subject: _Subject) -> _Made:
    target = subject.target
    if target.name != "numeric" or target.sizes[1] < (subject.column.scale or 0):
        return f"the target's column is {target}"
    return _scaled(subject)


def _scaled(subject: _Subject) -> _Made:
    """A number with as many digits behind its point as the target has."""
    precision, scale = subject.target.sizes
    digits = min(max(precision, scale + 20), _MOST_DIGITS_HERE)
    # The width is said, for both servers take that of some decimals for too short.
    here = f"CAST(CAST({subject.here} AS DECIMAL({digits},{scale})) AS CHAR(80))"
    return _ended(here, f"CAST({subject.there} AS VARCHAR(50))", _NUMBER_WIDTH)


def _boolean(subject: _Subject) -> _Made:
    if subject.target.name != "boolean":
        return f"the target's column is {subject.target}"
    there = f"CASE WHEN {subject.there} THEN '1' WHEN NOT {subject.there} THEN '0' END"
    return _ended(f"CAST({subject.here} AS SIGNED)", there, 2)


def _double(subject: _Subject) -> _Made:
    if subject.target.name != "double precision":
        return f"the target's column is {subject.target}"
    return _ended(_HERE.text(f"({subject.here} * 1e0)"), _THERE.text(subject.there), _NUMBER_WIDTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Doubles:
    """How one server writes a double down exactly.

    Multiplied by a power of two a double stays what it is: its 53 bits become a whole number, and both servers print
    that alike. The power is guessed by a logarithm and may be one off, which is seen and mended.
    """

    constant: Callable[[str], str]
    whole: str
    joined: Callable[[str, str], str]
    """Two whole numbers as one text."""

    def text(self, value: str) -> str:
        size, constant = f"ABS({value})", self.constant
        # The power of a very small number is one that not every server holds.
        tiny = f"({value} * POWER({constant('2')}, 500))"
        return (
            f"CASE WHEN {value} = 0 THEN '0'"
            f" WHEN {size} < {constant('1e-280')} THEN {self._bits(tiny, less='500')}"
            f" WHEN {size} <= {constant('1.7976931348623157e308')} THEN {self._bits(value, less='0')}"
            f" WHEN {value} IS NOT NULL THEN 'strange' END"
        )

    def _bits(self, value: str, *, less: str) -> str:
        two = self.constant("2")
        guess = f"FLOOR(LN(NULLIF(ABS({value}), 0)) / {self.constant('0.6931471805599453')})"
        over = f"ABS({value}) / POWER({two}, {guess} - 1) / 4"
        power = f"({guess} + CASE WHEN {over} >= 1 THEN 1 WHEN {over} < {self.constant('0.5')} THEN -1 ELSE 0 END)"
        bits = f"{value} / POWER({two}, {power} - 1) / 2 * {self.constant('4503599627370496')}"
        return self.joined(f"CAST({bits} AS {self.whole})", f"CAST({power} - {less} AS {self.whole})")


_HERE: Final = _Doubles(
    constant=lambda number: number if "e" in number else f"{number}e0",
    whole="SIGNED",
    joined=lambda bits, power: f"CONCAT({bits}, 'e', {power})",
)
_THERE: Final = _Doubles(
    constant=lambda number: f"CAST('{number}' AS DOUBLE PRECISION)",
    whole="BIGINT",
    joined=lambda bits, power: f"CAST({bits} AS VARCHAR(30)) || 'e' || CAST({power} AS VARCHAR(30))",
)


def _date(subject: _Subject) -> _Made:
    if subject.target.name != "date":
        return f"the target's column is {subject.target}"
    here = _without_zeros(subject, _printed(subject.here))
    return _ended(here, f"TO_CHAR({subject.there}, 'YYYY-MM-DD')", 12)


def _moment(subject: _Subject) -> _Made:
    if subject.target != TargetType.of_text("timestamp"):
        return f"the target's column is {subject.target}"
    fraction = subject.column.fraction
    zeros = "0" * (6 - fraction) if fraction else ".000000"
    shown = f"CONCAT({subject.here}, '{zeros}')" if zeros else _printed(subject.here)
    here = _without_zeros(subject, shown)
    return _ended(here, f"TO_CHAR({subject.there}, 'YYYY-MM-DD HH24:MI:SS.US')", 27)


def _printed(value: str) -> str:
    """A date as text; as bytes, for MariaDB takes twice as long to make characters of it."""
    return f"CAST({value} AS BINARY)"


def _without_zeros(subject: _Subject, shown: str) -> str:
    """A date that no calendar has is NULL in the target, where that is the stream's policy."""
    if not subject.nulls_zero_dates:
        return shown
    return f"CASE WHEN MONTH({subject.here}) = 0 OR DAYOFMONTH({subject.here}) = 0 THEN NULL ELSE {shown} END"


def _text(subject: _Subject) -> _Made:
    if not subject.target.text:
        return f"the target's column is {subject.target}"
    here, there = subject.passage.select, subject.there
    limit = max(subject.passage.limit or 0, subject.target.width)
    # Its length in front: whatever stands in a text, where the next one begins is certain.
    mine = f"CONCAT(LENGTH({here}), ':', {here})"
    yours = f"CAST(OCTET_LENGTH({there}) AS VARCHAR(10)) || ':' || {there}"
    if limit > SHORT:
        mine = f"CASE WHEN LENGTH({here}) > {SHORT} THEN {hashed(here)} ELSE {mine} END"
        yours = f"CASE WHEN OCTET_LENGTH({there}) > {SHORT} THEN {hashed(there)} ELSE {yours} END"
    return _ended(mine, yours, min(limit, SHORT) + 11)


def _bytes(subject: _Subject) -> _Made:
    if subject.target.name != "varbyte":
        return f"the target's column is {subject.target}"
    here, there = subject.passage.select, subject.there
    pieces = min(-(-(subject.passage.limit or 1) // HEX_BYTES), HEX_PIECES)
    begins = [1 + HEX_BYTES * piece for piece in range(pieces)]
    mine = [hashed(f"LOWER(HEX({_piece(here, begin, pieces)}))") for begin in begins]
    yours = [hashed(f"LOWER(TO_HEX({_piece(there, begin, pieces)}))") for begin in begins]
    length = f"CAST(OCTET_LENGTH({there}) AS VARCHAR(10))"
    return _ended(
        f"CONCAT(LENGTH({here}), ':', {', '.join(mine)})",
        f"{length} || ':' || {' || '.join(yours)}",
        _DIGEST_WIDTH * pieces + 12,
    )


def _piece(value: str, begin: int, pieces: int) -> str:
    return value if pieces == 1 else f"SUBSTRING({value}, {begin}, {HEX_BYTES})"


def _document(_: _Subject) -> _Made:
    return "a document has no one text on both sides"


_MAKERS: Final[dict[str, Callable[[_Subject], _Made]]] = {
    "boolean": _boolean,
    "double precision": _double,
    "date": _date,
    "timestamp without time zone": _moment,
    "character varying": _text,
    "varbyte": _bytes,
    "super": _document,
}
