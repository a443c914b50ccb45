"""One text for a value on both servers: what a digest is made of.

Two values of a column have the same text only if they are the same. The other way round it need not hold: where a
policy changed a value on its way, its texts differ, and the row is looked at by itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from syncd.datatypes.columns import ColumnMapping, Policies, Policy, TransferType
from syncd.datatypes.mysql_quoting import quote_name as here_quoted
from syncd.datatypes.source_table import SourceColumn
from syncd.redshift.column_types import TargetType
from syncd.redshift.quoting import quote_name as there_quoted

NULL_TEXT: Final = "'N'"
"""The text of NULL; no other value has it."""
SHORT_TEXT_BYTES: Final = 400
"""Bytes: a longer text goes into a digest as one of its own."""
HEX_PIECE_BYTES: Final = 32_000
"""Bytes of a binary value whose hexadecimal digits are one text in Redshift."""
MAX_HEX_PIECES: Final = 3
MAX_COMPARED_BYTES: Final = HEX_PIECE_BYTES * MAX_HEX_PIECES
"""Bytes of a binary value that are compared: beyond, its length alone."""
_NUMBER_WIDTH: Final = 50
_DIGEST_WIDTH: Final = 65
_TARGET_INTEGER_TYPES: Final = frozenset({"smallint", "integer", "bigint"})
_PLAIN_INTEGER_TYPES: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_MAX_SOURCE_DIGITS: Final = 65


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonText:
    """The text of one column on both sides; it is never NULL, and where it ends can be seen from itself."""

    name: str
    """In files and in the target."""
    source_sql: str
    """SQL of the source."""
    target_sql: str
    """SQL of the warehouse."""
    width: int
    """Bytes, at most."""
    is_partial: bool = False
    """Whether of a very long value only the beginning counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UncomparableColumn:
    """Why a column has no such text."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _ColumnPair:
    """One column on both sides."""

    column: SourceColumn
    mapping: ColumnMapping
    target_type: TargetType
    nulls_zero_dates: bool

    @property
    def source_name(self) -> str:
        return here_quoted(self.mapping.column)

    @property
    def target_name(self) -> str:
        return there_quoted(self.mapping.name)


_TextsOrReason: TypeAlias = tuple[str, str, int] | str
"""Both texts and their width; or why there is none."""


def common_text_for(
    column: SourceColumn, mapping: ColumnMapping, target: TargetType | None, policies: Policies, *, is_key: bool
) -> CommonText | UncomparableColumn:
    """The text of a column, or why it has none."""
    if target is None:
        return UncomparableColumn(name=mapping.name, reason="the target has no such column yet")
    nulls = policies.zero_dates is Policy.NULL and not is_key
    subject = _ColumnPair(column=column, mapping=mapping, target_type=target, nulls_zero_dates=nulls)
    made = _text_builder(mapping)(subject)
    if isinstance(made, str):
        return UncomparableColumn(name=mapping.name, reason=made)
    here, there, width = made
    part = mapping.redshift.startswith("VARBYTE") and (mapping.limit or 0) > MAX_COMPARED_BYTES
    return CommonText(name=mapping.name, source_sql=here, target_sql=there, width=width, is_partial=part)


def _text_builder(mapping: ColumnMapping) -> Callable[[_ColumnPair], _TextsOrReason]:
    kind = TargetType.from_text(mapping.redshift).name
    if kind == "numeric" or kind in _TARGET_INTEGER_TYPES:
        return _integer if mapping.travel is TransferType.INTEGER else _decimal
    return _TEXT_BUILDERS[kind]


def hash_sql(text: str) -> str:
    """The digest of a text, in hexadecimal digits; MySQL 9.7 has no MD5 any more."""
    return f"SHA2({text}, 256)"


def _coalesce(text: str) -> str:
    return f"COALESCE({text}, {NULL_TEXT})"


def _with_terminator(here: str, there: str, width: int) -> _TextsOrReason:
    """A text from which it can be seen where it ends, and a comma behind it."""
    return f"CONCAT({_coalesce(here)}, ',')", f"{_coalesce(there)} || ','", width + 1


def _integer(subject: _ColumnPair) -> _TextsOrReason:
    column, target = subject.column, subject.target_type
    plain = "UNSIGNED" if column.is_unsigned or column.data_type == "bit" else "SIGNED"
    if target.name == "numeric" and target.sizes[1]:
        return _scaled_number(subject)
    if target.name != "numeric" and target.name not in _TARGET_INTEGER_TYPES:
        return f"the target's column is {target}"
    here = subject.source_name
    if "zerofill" in column.column_type.lower() or column.data_type not in _PLAIN_INTEGER_TYPES:
        here = f"CAST({here} AS {plain})"  # a number that is filled up with zeros for the eye loses them
    return _with_terminator(here, f"CAST({subject.target_name} AS VARCHAR(50))", _NUMBER_WIDTH)


def _decimal(subject: _ColumnPair) -> _TextsOrReason:
    target = subject.target_type
    if target.name != "numeric" or target.sizes[1] < (subject.column.scale or 0):
        return f"the target's column is {target}"
    return _scaled_number(subject)


def _scaled_number(subject: _ColumnPair) -> _TextsOrReason:
    """A number with as many digits behind its point as the target has."""
    precision, scale = subject.target_type.sizes
    digits = min(max(precision, scale + 20), _MAX_SOURCE_DIGITS)
    # The width is said, for both servers take that of some decimals for too short.
    here = f"CAST(CAST({subject.source_name} AS DECIMAL({digits},{scale})) AS CHAR(80))"
    return _with_terminator(here, f"CAST({subject.target_name} AS VARCHAR(50))", _NUMBER_WIDTH)


def _boolean(subject: _ColumnPair) -> _TextsOrReason:
    if subject.target_type.name != "boolean":
        return f"the target's column is {subject.target_type}"
    there = f"CASE WHEN {subject.target_name} THEN '1' WHEN NOT {subject.target_name} THEN '0' END"
    return _with_terminator(f"CAST({subject.source_name} AS SIGNED)", there, 2)


def _double(subject: _ColumnPair) -> _TextsOrReason:
    if subject.target_type.name != "double precision":
        return f"the target's column is {subject.target_type}"
    return _with_terminator(
        _SOURCE_DOUBLES.text(f"({subject.source_name} * 1e0)"), _TARGET_DOUBLES.text(subject.target_name), _NUMBER_WIDTH
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _DoubleFormat:
    """How one server writes a double down exactly.

    Multiplied by a power of two a double stays what it is: its 53 bits become a whole number, and both servers print
    that alike. The power is guessed by a logarithm and may be one off, which is seen and mended.
    """

    constant: Callable[[str], str]
    integer_type: str
    join_integers: Callable[[str, str], str]
    """Two whole numbers as one text."""

    def text(self, value: str) -> str:
        size, constant = f"ABS({value})", self.constant
        # The power of a very small number is one that not every server holds.
        tiny = f"({value} * POWER({constant('2')}, 500))"
        return (
            f"CASE WHEN {value} = 0 THEN '0'"
            f" WHEN {size} < {constant('1e-280')} THEN {self._bits_and_power(tiny, less='500')}"
            f" WHEN {size} <= {constant('1.7976931348623157e308')} THEN {self._bits_and_power(value, less='0')}"
            f" WHEN {value} IS NOT NULL THEN 'strange' END"
        )

    def _bits_and_power(self, value: str, *, less: str) -> str:
        two = self.constant("2")
        guess = f"FLOOR(LN(NULLIF(ABS({value}), 0)) / {self.constant('0.6931471805599453')})"
        over = f"ABS({value}) / POWER({two}, {guess} - 1) / 4"
        power = f"({guess} + CASE WHEN {over} >= 1 THEN 1 WHEN {over} < {self.constant('0.5')} THEN -1 ELSE 0 END)"
        bits = f"{value} / POWER({two}, {power} - 1) / 2 * {self.constant('4503599627370496')}"
        return self.join_integers(
            f"CAST({bits} AS {self.integer_type})", f"CAST({power} - {less} AS {self.integer_type})"
        )


_SOURCE_DOUBLES: Final = _DoubleFormat(
    constant=lambda number: number if "e" in number else f"{number}e0",
    integer_type="SIGNED",
    join_integers=lambda bits, power: f"CONCAT({bits}, 'e', {power})",
)
_TARGET_DOUBLES: Final = _DoubleFormat(
    constant=lambda number: f"CAST('{number}' AS DOUBLE PRECISION)",
    integer_type="BIGINT",
    join_integers=lambda bits, power: f"CAST({bits} AS VARCHAR(30)) || 'e' || CAST({power} AS VARCHAR(30))",
)


def _date(subject: _ColumnPair) -> _TextsOrReason:
    if subject.target_type.name != "date":
        return f"the target's column is {subject.target_type}"
    here = _null_zero_dates(subject, _cast_to_bytes(subject.source_name))
    return _with_terminator(here, f"TO_CHAR({subject.target_name}, 'YYYY-MM-DD')", 12)


def _timestamp(subject: _ColumnPair) -> _TextsOrReason:
    if subject.target_type != TargetType.from_text("timestamp"):
        return f"the target's column is {subject.target_type}"
    fraction = subject.column.fraction
    zeros = "0" * (6 - fraction) if fraction else ".000000"
    shown = f"CONCAT({subject.source_name}, '{zeros}')" if zeros else _cast_to_bytes(subject.source_name)
    here = _null_zero_dates(subject, shown)
    return _with_terminator(here, f"TO_CHAR({subject.target_name}, 'YYYY-MM-DD HH24:MI:SS.US')", 27)


def _cast_to_bytes(value: str) -> str:
    """A date as text; as bytes, for MariaDB takes twice as long to make characters of it."""
    return f"CAST({value} AS BINARY)"


def _null_zero_dates(subject: _ColumnPair, shown: str) -> str:
    """A date that no calendar has is NULL in the target, where that is the stream's policy."""
    if not subject.nulls_zero_dates:
        return shown
    return f"CASE WHEN MONTH({subject.source_name}) = 0 OR DAYOFMONTH({subject.source_name}) = 0 THEN NULL ELSE {shown} END"


def _text(subject: _ColumnPair) -> _TextsOrReason:
    if not subject.target_type.is_text:
        return f"the target's column is {subject.target_type}"
    here, there = subject.mapping.select, subject.target_name
    limit = max(subject.mapping.limit or 0, subject.target_type.width)
    # Its length in front: whatever stands in a text, where the next one begins is certain.
    mine = f"CONCAT(LENGTH({here}), ':', {here})"
    yours = f"CAST(OCTET_LENGTH({there}) AS VARCHAR(10)) || ':' || {there}"
    if limit > SHORT_TEXT_BYTES:
        mine = f"CASE WHEN LENGTH({here}) > {SHORT_TEXT_BYTES} THEN {hash_sql(here)} ELSE {mine} END"
        yours = f"CASE WHEN OCTET_LENGTH({there}) > {SHORT_TEXT_BYTES} THEN {hash_sql(there)} ELSE {yours} END"
    return _with_terminator(mine, yours, min(limit, SHORT_TEXT_BYTES) + 11)


def _bytes(subject: _ColumnPair) -> _TextsOrReason:
    if subject.target_type.name != "varbyte":
        return f"the target's column is {subject.target_type}"
    here, there = subject.mapping.select, subject.target_name
    pieces = min(-(-(subject.mapping.limit or 1) // HEX_PIECE_BYTES), MAX_HEX_PIECES)
    begins = [1 + HEX_PIECE_BYTES * piece for piece in range(pieces)]
    mine = [hash_sql(f"LOWER(HEX({_piece(here, begin, pieces)}))") for begin in begins]
    yours = [hash_sql(f"LOWER(TO_HEX({_piece(there, begin, pieces)}))") for begin in begins]
    length = f"CAST(OCTET_LENGTH({there}) AS VARCHAR(10))"
    return _with_terminator(
        f"CONCAT(LENGTH({here}), ':', {', '.join(mine)})",
        f"{length} || ':' || {' || '.join(yours)}",
        _DIGEST_WIDTH * pieces + 12,
    )


def _piece(value: str, begin: int, pieces: int) -> str:
    return value if pieces == 1 else f"SUBSTRING({value}, {begin}, {HEX_PIECE_BYTES})"


def _document(_: _ColumnPair) -> _TextsOrReason:
    return "a document has no one text on both sides"


_TEXT_BUILDERS: Final[dict[str, Callable[[_ColumnPair], _TextsOrReason]]] = {
    "boolean": _boolean,
    "double precision": _double,
    "date": _date,
    "timestamp without time zone": _timestamp,
    "character varying": _text,
    "varbyte": _bytes,
    "super": _document,
}
