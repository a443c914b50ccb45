"""Common text of a value on both servers, from which digests are made.

Different values of a column have different texts. Equal values need not have equal texts: where a policy changed a
value on its way, the texts differ, and the row is compared by value.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from syncd.datatypes.columns import ColumnMapping, Policies, Policy, TransferType
from syncd.datatypes.mysql_quoting import quote_name as quote_source_name
from syncd.datatypes.source_table import SourceColumn
from syncd.redshift.column_types import TargetType
from syncd.redshift.quoting import quote_name as tquote_source_name

NULL_TEXT: Final = "'N'"
"""The text of NULL, which no other value has."""
SHORT_TEXT_BYTES: Final = 400
"""A longer text has a digest of its own."""
HEX_PIECE_BYTES: Final = 32_000
"""Bytes of a binary value whose hexadecimal digits fit into one text of Redshift."""
MAX_HEX_PIECES: Final = 3
MAX_COMPARED_BYTES: Final = HEX_PIECE_BYTES * MAX_HEX_PIECES
"""Bytes of a binary value that are compared; of the rest, only the length."""
_NUMBER_WIDTH: Final = 50
_DIGEST_WIDTH: Final = 65
_TARGET_INTEGER_TYPES: Final = frozenset({"smallint", "integer", "bigint"})
_PLAIN_INTEGER_TYPES: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_MAX_SOURCE_DIGITS: Final = 65


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonText:
    """SQL for the text of one column on both sides; it is never NULL, and shows where it ends."""

    name: str
    """The column name in files and target."""
    source_sql: str
    target_sql: str
    width: int
    """The maximum in bytes."""
    is_partial: bool = False
    """True if only the beginning of a very long value counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UncomparableColumn:
    """Column without a common text."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _ColumnPair:
    """Column on both sides."""

    column: SourceColumn
    mapping: ColumnMapping
    target_type: TargetType
    nulls_zero_dates: bool

    @property
    def source_name(self) -> str:
        return quote_source_name(self.mapping.column)

    @property
    def target_name(self) -> str:
        return tquote_source_name(self.mapping.name)


_Texts: TypeAlias = tuple[str, str, int]
"""Both texts and their width."""


def common_text_for(
    column: SourceColumn, mapping: ColumnMapping, target: TargetType | None, policies: Policies, *, is_key: bool
) -> CommonText | UncomparableColumn:
    """Return the text of a column, or the reason why it has none."""
    if target is None:
        return UncomparableColumn(name=mapping.name, reason="the target has no such column yet")
    type_name = TargetType.from_text(mapping.redshift).name
    if type_name == "super":
        return UncomparableColumn(name=mapping.name, reason="MySQL and Redshift print the same document differently")
    nulls = policies.zero_dates is Policy.NULL and not is_key
    texts = _texts_for(
        _ColumnPair(column=column, mapping=mapping, target_type=target, nulls_zero_dates=nulls), type_name
    )
    if texts is None:
        return UncomparableColumn(name=mapping.name, reason=f"the target's column is {target}")
    source_sql, target_sql, width = texts
    is_partial = mapping.redshift.startswith("VARBYTE") and (mapping.limit or 0) > MAX_COMPARED_BYTES
    return CommonText(
        name=mapping.name, source_sql=source_sql, target_sql=target_sql, width=width, is_partial=is_partial
    )


def _texts_for(pair: _ColumnPair, type_name: str) -> _Texts | None:
    """Return the texts; None where the target has a column of another type."""
    if type_name == "numeric" or type_name in _TARGET_INTEGER_TYPES:
        return _integer(pair) if pair.mapping.travel is TransferType.INTEGER else _decimal(pair)
    return _TEXT_BUILDERS[type_name](pair) if pair.target_type.name == type_name else None


def hash_sql(text: str) -> str:
    """Return the digest of a text in hexadecimal digits; not MD5, which MySQL 9.7 lacks."""
    return f"SHA2({text}, 256)"


def _coalesce(text: str) -> str:
    return f"COALESCE({text}, {NULL_TEXT})"


def _with_terminator(source: str, target: str, width: int) -> _Texts:
    """Return the texts of a value, never NULL, followed by a comma."""
    return f"CONCAT({_coalesce(source)}, ',')", f"{_coalesce(target)} || ','", width + 1


def _integer(pair: _ColumnPair) -> _Texts | None:
    column, target = pair.column, pair.target_type
    plain = "UNSIGNED" if column.is_unsigned or column.data_type == "bit" else "SIGNED"
    if target.name == "numeric" and target.sizes[1]:
        return _scaled_number(pair)
    if target.name != "numeric" and target.name not in _TARGET_INTEGER_TYPES:
        return None
    source = pair.source_name
    if "zerofill" in column.column_type.lower() or column.data_type not in _PLAIN_INTEGER_TYPES:
        source = f"CAST({source} AS {plain})"  # removes the leading zeros of ZEROFILL
    return _with_terminator(source, f"CAST({pair.target_name} AS VARCHAR(50))", _NUMBER_WIDTH)


def _decimal(pair: _ColumnPair) -> _Texts | None:
    target = pair.target_type
    if target.name != "numeric" or target.sizes[1] < (pair.column.scale or 0):
        return None
    return _scaled_number(pair)


def _scaled_number(pair: _ColumnPair) -> _Texts:
    """Return the texts of a number with the scale of the target."""
    precision, scale = pair.target_type.sizes
    digits = min(max(precision, scale + 20), _MAX_SOURCE_DIGITS)
    # With an explicit width, because both servers assume too short a width for some decimals.
    source = f"CAST(CAST({pair.source_name} AS DECIMAL({digits},{scale})) AS CHAR(80))"
    return _with_terminator(source, f"CAST({pair.target_name} AS VARCHAR(50))", _NUMBER_WIDTH)


def _boolean(pair: _ColumnPair) -> _Texts:
    target = f"CASE WHEN {pair.target_name} THEN '1' WHEN NOT {pair.target_name} THEN '0' END"
    return _with_terminator(f"CAST({pair.source_name} AS SIGNED)", target, 2)


def _double(pair: _ColumnPair) -> _Texts:
    return _with_terminator(
        _SOURCE_DOUBLES.text(f"({pair.source_name} * 1e0)"), _TARGET_DOUBLES.text(pair.target_name), _NUMBER_WIDTH
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _DoubleFormat:
    """Exact text of a double on one server.

    Multiplied by a power of two a double loses nothing: its 53 bits become an integer, which both servers print
    alike. The power is estimated by a logarithm, may be off by one, and is then corrected.
    """

    constant: Callable[[str], str]
    integer_type: str
    join_integers: Callable[[str, str], str]
    """Joins two integers to one text."""

    def text(self, value: str) -> str:
        size, constant = f"ABS({value})", self.constant
        # Not every server can represent the power for a very small number.
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


def _date(pair: _ColumnPair) -> _Texts:
    source = _null_zero_dates(pair, _cast_to_bytes(pair.source_name))
    return _with_terminator(source, f"TO_CHAR({pair.target_name}, 'YYYY-MM-DD')", 12)


def _timestamp(pair: _ColumnPair) -> _Texts:
    fraction = pair.column.fraction
    zeros = "0" * (6 - fraction) if fraction else ".000000"
    shown = f"CONCAT({pair.source_name}, '{zeros}')" if zeros else _cast_to_bytes(pair.source_name)
    source = _null_zero_dates(pair, shown)
    return _with_terminator(source, f"TO_CHAR({pair.target_name}, 'YYYY-MM-DD HH24:MI:SS.US')", 27)


def _cast_to_bytes(value: str) -> str:
    """Return a date as text in bytes: MariaDB takes twice as long to convert it to characters."""
    return f"CAST({value} AS BINARY)"


def _null_zero_dates(pair: _ColumnPair, shown: str) -> str:
    """Make an invalid date NULL, as in the target, where that is the policy of the stream."""
    if not pair.nulls_zero_dates:
        return shown
    date = pair.source_name
    return f"CASE WHEN MONTH({date}) = 0 OR DAYOFMONTH({date}) = 0 THEN NULL ELSE {shown} END"


def _text(pair: _ColumnPair) -> _Texts:
    source, target = pair.mapping.select, pair.target_name
    limit = max(pair.mapping.limit or 0, pair.target_type.width)
    # The length comes first, so the next text begins at a known place whatever this one contains.
    source_text = f"CONCAT(LENGTH({source}), ':', {source})"
    target_text = f"CAST(OCTET_LENGTH({target}) AS VARCHAR(10)) || ':' || {target}"
    if limit > SHORT_TEXT_BYTES:
        short = f"> {SHORT_TEXT_BYTES} THEN"
        source_text = f"CASE WHEN LENGTH({source}) {short} {hash_sql(source)} ELSE {source_text} END"
        target_text = f"CASE WHEN OCTET_LENGTH({target}) {short} {hash_sql(target)} ELSE {target_text} END"
    return _with_terminator(source_text, target_text, min(limit, SHORT_TEXT_BYTES) + 11)


def _bytes(pair: _ColumnPair) -> _Texts:
    source, target = pair.mapping.select, pair.target_name
    pieces = hex_piece_count(pair.mapping)
    begins = [1 + HEX_PIECE_BYTES * piece for piece in range(pieces)]
    source_texts = [hash_sql(f"LOWER(HEX({_piece(source, begin, pieces)}))") for begin in begins]
    target_texts = [hash_sql(f"LOWER(TO_HEX({_piece(target, begin, pieces)}))") for begin in begins]
    return _with_terminator(
        f"CONCAT(LENGTH({source}), ':', {', '.join(source_texts)})",
        f"CAST(OCTET_LENGTH({target}) AS VARCHAR(10)) || ':' || {' || '.join(target_texts)}",
        _DIGEST_WIDTH * pieces + 12,
    )


def hex_piece_count(mapping: ColumnMapping) -> int:
    """Return the number of hexadecimal texts for a binary column."""
    return min(-(-(mapping.limit or 1) // HEX_PIECE_BYTES), MAX_HEX_PIECES)


def _piece(value: str, begin: int, pieces: int) -> str:
    return value if pieces == 1 else f"SUBSTRING({value}, {begin}, {HEX_PIECE_BYTES})"


_TEXT_BUILDERS: Final[dict[str, Callable[[_ColumnPair], _Texts]]] = {
    "boolean": _boolean,
    "double precision": _double,
    "date": _date,
    "timestamp without time zone": _timestamp,
    "character varying": _text,
    "varbyte": _bytes,
}
