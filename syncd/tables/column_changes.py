"""Detection of redeclared columns whose stored values may have changed without a write to their rows.

ALTER TABLE converts the existing values to the new declaration and stamps no row, so no later batch reads them. The
changes listed here are known to keep every value; any other may have changed some.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from syncd.datatypes.columns import ColumnMapping
from syncd.datatypes.source_table import SourceColumn, SourceTable
from watermarks.batch import BatchId

_MAX_SHOWN_CHARS: Final = 120
"""Longest shown part of a declaration: an ENUM may have tens of thousands of characters."""

_WORDS: Final = re.compile(
    r"(?P<type>.+?)(?: character set (?P<charset>\w+))?(?P<required> not null)?(?P<computed> generated)?", re.DOTALL
)
_TYPE: Final = re.compile(r"(?P<name>\w+)(?:\((?P<args>.*)\))?(?P<more>[^()]*)", re.DOTALL)
_STORAGE_COMMENT: Final = re.compile(r"\s*/\*[^']*\*/$")
"""A comment of MariaDB about a column's storage: compressed, or in an older format."""
_MEMBER: Final = re.compile(r"'((?:[^']|'')*)'", re.DOTALL)

_INTEGERS: Final[Mapping[str, int]] = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_TEXTS: Final[Mapping[str, int]] = {
    "tinytext": 2**8 - 1,
    "text": 2**16 - 1,
    "mediumtext": 2**24 - 1,
    "longtext": 2**32 - 1,
}
_BLOBS: Final[Mapping[str, int]] = {
    "tinyblob": 2**8 - 1,
    "blob": 2**16 - 1,
    "mediumblob": 2**24 - 1,
    "longblob": 2**32 - 1,
}
_MAX_CHARACTER_BYTES: Final[Mapping[str | None, int]] = {"ascii": 1, "latin1": 1, "utf8mb3": 3}
"""Most bytes of one stored character; four in other character sets."""
_CHARSET_SUPERSETS: Final[Mapping[str | None, frozenset[str]]] = {
    "ascii": frozenset({"latin1", "utf8mb3", "utf8mb4"}),
    "latin1": frozenset({"utf8mb3", "utf8mb4"}),
    "utf8mb3": frozenset({"utf8mb4"}),
}
"""Character sets that contain every character of another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedeclaredColumn:
    """A column whose values may have changed in rows that older batches of the chain have read."""

    since: BatchId
    """The first batch that read it with its present declaration."""
    before: str
    after: str

    @property
    def reason(self) -> str:
        return f"it was declared {self.before}, and is {self.after}"

    def to_fields(self) -> dict[str, Any]:
        return {"since": str(self.since), "was": self.before, "now": self.after}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        return cls(since=BatchId.from_text(fields["since"]), before=fields["was"], after=fields["now"])


def describe_columns(table: SourceTable, mappings: Sequence[ColumnMapping]) -> Mapping[str, str]:
    """Return the declaration of each column by its name in files, in the server's words."""
    names = {mapping.column: mapping.name for mapping in mappings}
    return {names[column.name]: describe_column(column) for column in table.columns if column.name in names}


def describe_column(column: SourceColumn) -> str:
    """Return a declaration such as `varchar(50) character set utf8mb4 not null`.

    Collation and default are left out, because they change no value.
    """
    charset = f" character set {column.charset}" if column.charset else ""
    required = "" if column.nullable else " not null"
    return f"{column.column_type}{charset}{required}{' generated' if column.is_generated else ''}"


def merge_redeclared(
    before: Mapping[str, str], after: Mapping[str, str], known: Mapping[str, RedeclaredColumn], *, batch: BatchId
) -> Mapping[str, RedeclaredColumn]:
    """Return every column whose values may have changed by this batch or an earlier one, and that still exists.

    `before` and `known` are of the previous batch, `after` is of this one. A later change replaces an earlier one,
    because it requires more to be read again.
    """
    kept = {name: column for name, column in known.items() if name in after and name in before}
    new = {
        name: RedeclaredColumn(since=batch, before=_shorten(before[name]), after=_shorten(declaration))
        for name, declaration in after.items()
        if name in before and may_change_values(before[name], declaration)
    }
    return {**kept, **new}


def _shorten(declaration: str) -> str:
    return declaration if len(declaration) <= _MAX_SHOWN_CHARS else f"{declaration[:_MAX_SHOWN_CHARS]}..."


def may_change_values(before: str, after: str) -> bool:
    """Return whether a column's values may differ after a change between two declarations."""
    if before == after:
        return False
    old, new = _ParsedDeclaration.parse(before), _ParsedDeclaration.parse(after)
    # Without strict mode NULLs become 0 or an empty text. A column that becomes generated keeps its values only by
    # chance.
    if (new.not_null and not old.not_null) or (new.is_generated and not old.is_generated):
        return True
    return not (_holds_values(new, old) and _holds_characters(new, old))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ParsedDeclaration:
    """The parts of a declaration."""

    name: str
    """Name of the type."""
    args: str
    unsigned: bool
    charset: str | None
    not_null: bool
    is_generated: bool

    @classmethod
    def parse(cls, declaration: str) -> Self:
        parts = _WORDS.fullmatch(declaration)
        kind = _TYPE.fullmatch(_STORAGE_COMMENT.sub("", parts["type"])) if parts else None
        if parts is None or kind is None:
            # An unknown type is equal only to itself.
            return cls(name=declaration, args="", unsigned=False, charset=None, not_null=False, is_generated=False)
        charset = parts["charset"]
        return cls(
            name=kind["name"].lower(),
            args=kind["args"] or "",
            unsigned="unsigned" in kind["more"].lower(),
            charset="utf8mb3" if charset == "utf8" else charset,
            not_null=bool(parts["required"]),
            is_generated=bool(parts["computed"]),
        )

    @property
    def numbers(self) -> tuple[int, ...]:
        """Return the numbers in the brackets of a type."""
        return tuple(int(each) for each in self.args.split(",") if each)

    @property
    def size(self) -> int:
        """Return the one number in the brackets; a missing number of fractional digits is 0."""
        return self.numbers[0] if self.args else 0

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(_MEMBER.findall(self.args))


def _holds_values(new: _ParsedDeclaration, old: _ParsedDeclaration) -> bool:
    """Return whether the new type keeps every value of the old one unchanged."""
    return _RULES.get(old.name, _is_same)(new, old)


def _is_same(new: _ParsedDeclaration, old: _ParsedDeclaration) -> bool:
    return (new.name, new.args, new.unsigned) == (old.name, old.args, old.unsigned)


def _holds_characters(new: _ParsedDeclaration, old: _ParsedDeclaration) -> bool:
    return new.charset == old.charset or new.charset in _CHARSET_SUPERSETS.get(old.charset, frozenset())


def _holds_integers(new: _ParsedDeclaration, old: _ParsedDeclaration) -> bool:
    # The number in the brackets is a display width: MariaDB writes `int` as `int(11)`.
    if new.name not in _INTEGERS:
        return False
    (low, high), (lowest, highest) = _integer_range(old), _integer_range(new)
    return lowest <= low and high <= highest


def _integer_range(declaration: _ParsedDeclaration) -> tuple[int, int]:
    bits = _INTEGERS[declaration.name]
    return (0, 2**bits - 1) if declaration.unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _holds_decimals(new: _ParsedDeclaration, old: _ParsedDeclaration) -> bool:
    if new.name != "decimal" or (new.unsigned and not old.unsigned):
        return False
    (precision, scale), (more, finer) = old.numbers, new.numbers
    # A number that is too long for Redshift is a text there, which shows its number of digits.
    return finer == scale and more >= precision


def _holds_floats(new: _ParsedDeclaration, old: _ParsedDeclaration) -> bool:
    wide = new.name == old.name or (old.name, new.name) == ("float", "double")
    # Digits in brackets round the value.
    return wide and new.args in {"", old.args if new.name == old.name else ""} and (old.unsigned or not new.unsigned)


def _holds_digits(new: _ParsedDeclaration, old: _ParsedDeclaration) -> bool:
    return new.name == old.name and new.size >= old.size


def _holds_years(new: _ParsedDeclaration, old: _ParsedDeclaration) -> bool:
    return new.name == old.name and {new.args, old.args} <= {"", "4"}


def _holds_texts(new: _ParsedDeclaration, old: _ParsedDeclaration) -> bool:
    if new.name == old.name == "char" or new.name == "varchar":
        return new.size >= (old.size if old.name in {"char", "varchar"} else _TEXTS[old.name])
    return new.name in _TEXTS and _TEXTS[new.name] >= _max_text_bytes(old, new.charset)


def _max_text_bytes(old: _ParsedDeclaration, charset: str | None) -> int:
    """Return the most bytes of a column's text, stored in this character set."""
    width = _MAX_CHARACTER_BYTES.get(charset, 4)
    if old.name in _TEXTS:
        # ASCII and UTF-8 text keeps its bytes in a larger character set.
        return _TEXTS[old.name] * (width if old.charset == "latin1" else 1)
    return old.size * width


def _holds_bytes(new: _ParsedDeclaration, old: _ParsedDeclaration) -> bool:
    # Not BINARY, which pads its values with zero bytes.
    longest = _BLOBS.get(old.name, 0) or old.size
    return (new.size if new.name == "varbinary" else _BLOBS.get(new.name, -1)) >= longest


def _holds_members(new: _ParsedDeclaration, old: _ParsedDeclaration) -> bool:
    # Members are matched by name, in the order of the type, in which a SET prints its members.
    remaining = iter(new.members)
    return new.name == old.name and all(member in remaining for member in old.members)


_RULES: Final[Mapping[str, Callable[[_ParsedDeclaration, _ParsedDeclaration], bool]]] = {
    **dict.fromkeys(_INTEGERS, _holds_integers),
    **dict.fromkeys(("float", "double"), _holds_floats),
    **dict.fromkeys(("bit", "datetime", "timestamp"), _holds_digits),
    **dict.fromkeys(("char", "varchar", *_TEXTS), _holds_texts),
    **dict.fromkeys(("varbinary", *_BLOBS), _holds_bytes),
    **dict.fromkeys(("enum", "set"), _holds_members),
    "decimal": _holds_decimals,
    # Not TIME: its text has as many fractional digits as declared.
    "year": _holds_years,
}
