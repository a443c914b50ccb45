"""Whether a column that is declared in another way than before may hold other values now, in rows that nobody wrote to.

ALTER TABLE bends the values that are there to the new declaration and stamps no row, so that no later batch reads them.
What is known to change none is listed here; whatever is not listed may have changed some.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from syncd.datatypes.columns import ColumnMapping
from syncd.datatypes.source_table import SourceColumn, SourceTable
from watermarks.batch import BatchId

_MAX_SHOWN_CHARS: Final = 120
"""Characters of a declaration that are said: that of an ENUM may have tens of thousands."""

_WORDS: Final = re.compile(
    r"(?P<type>.+?)(?: character set (?P<charset>\w+))?(?P<required> not null)?(?P<computed> generated)?", re.DOTALL
)
_TYPE: Final = re.compile(r"(?P<name>\w+)(?:\((?P<args>.*)\))?(?P<more>[^()]*)", re.DOTALL)
_STORAGE_COMMENT: Final = re.compile(r"\s*/\*[^']*\*/$")
"""How MariaDB stores a column: compressed, or in the format of an older version."""
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
"""Bytes that the longest character takes as it is stored; of others four at most."""
_CHARSET_SUPERSETS: Final[Mapping[str | None, frozenset[str]]] = {
    "ascii": frozenset({"latin1", "utf8mb3", "utf8mb4"}),
    "latin1": frozenset({"utf8mb3", "utf8mb4"}),
    "utf8mb3": frozenset({"utf8mb4"}),
}
"""The character sets that have every character of another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedeclaredColumn:
    """A column whose values may have changed in rows that older batches of the chain have read."""

    since: BatchId
    """The first batch that read it as it is declared now."""
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


def describe_columns(table: SourceTable, passages: Sequence[ColumnMapping]) -> Mapping[str, str]:
    """How each column is declared, as far as its values go: the server's own words, by the name in files."""
    names = {passage.column: passage.name for passage in passages}
    return {names[column.name]: describe_column(column) for column in table.columns if column.name in names}


def describe_column(column: SourceColumn) -> str:
    """`varchar(50) character set utf8mb4 not null`: neither collation nor default, which change no value."""
    charset = f" character set {column.charset}" if column.charset else ""
    required = "" if column.nullable else " not null"
    return f"{column.column_type}{charset}{required}{' generated' if column.is_generated else ''}"


def merge_redeclared(
    before: Mapping[str, str], after: Mapping[str, str], known: Mapping[str, RedeclaredColumn], *, batch: BatchId
) -> Mapping[str, RedeclaredColumn]:
    """Every column whose values may have changed by this batch or an earlier one, and that has been there since.

    `was` and `told` are of the batch before, `now` is of this one. A later change takes the place of an earlier one:
    what is to be read again for it is more.
    """
    kept = {name: one for name, one in known.items() if name in after and name in before}
    new = {
        name: RedeclaredColumn(since=batch, before=_shorten(before[name]), after=_shorten(words))
        for name, words in after.items()
        if name in before and may_change_values(before[name], words)
    }
    return {**kept, **new}


def _shorten(words: str) -> str:
    return words if len(words) <= _MAX_SHOWN_CHARS else f"{words[:_MAX_SHOWN_CHARS]}..."


def may_change_values(before: str, after: str) -> bool:
    """Whether a column can hold other values by having become what it is declared now, of two `declaration`s."""
    if before == after:
        return False
    old, new = _ParsedDeclaration.parse(before), _ParsedDeclaration.parse(after)
    # Without strict mode NULLs become 0 or an empty text. A column that is computed from now on holds what it held
    # before by chance only.
    if (new.not_null and not old.not_null) or (new.is_generated and not old.is_generated):
        return True
    return not (_holds_values(new, old) and _holds_characters(new, old))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ParsedDeclaration:
    """A declaration, taken apart."""

    name: str
    """Of the type."""
    args: str
    unsigned: bool
    charset: str | None
    not_null: bool
    is_generated: bool

    @classmethod
    def parse(cls, words: str) -> Self:
        said = _WORDS.fullmatch(words)
        kind = _TYPE.fullmatch(_STORAGE_COMMENT.sub("", said["type"])) if said else None
        if said is None or kind is None:
            # Not a type as any server writes one: equal to itself, and to nothing else.
            return cls(name=words, args="", unsigned=False, charset=None, not_null=False, is_generated=False)
        charset = said["charset"]
        return cls(
            name=kind["name"].lower(),
            args=kind["args"] or "",
            unsigned="unsigned" in kind["more"].lower(),
            charset="utf8mb3" if charset == "utf8" else charset,
            not_null=bool(said["required"]),
            is_generated=bool(said["computed"]),
        )

    @property
    def numbers(self) -> tuple[int, ...]:
        """What stands in the brackets of a type that is no list."""
        return tuple(int(each) for each in self.args.split(",") if each)

    @property
    def size(self) -> int:
        """The one number there; digits after the second, where none is said, are none."""
        return self.numbers[0] if self.args else 0

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(_MEMBER.findall(self.args))


def _holds_values(new: _ParsedDeclaration, old: _ParsedDeclaration) -> bool:
    """Whether every value of the old type is a value of the new one, and stays what it is."""
    rule = _RULES.get(old.name, _is_same)
    return rule(new, old)


def _is_same(new: _ParsedDeclaration, old: _ParsedDeclaration) -> bool:
    return (new.name, new.args, new.unsigned) == (old.name, old.args, old.unsigned)


def _holds_characters(new: _ParsedDeclaration, old: _ParsedDeclaration) -> bool:
    return new.charset == old.charset or new.charset in _CHARSET_SUPERSETS.get(old.charset, frozenset())


def _holds_integers(new: _ParsedDeclaration, old: _ParsedDeclaration) -> bool:
    # What stands in the brackets is how wide it is shown: `int(11)` is MariaDB's word for `int`.
    if new.name not in _INTEGERS:
        return False
    (low, high), (lowest, highest) = _integer_range(old), _integer_range(new)
    return lowest <= low and high <= highest


def _integer_range(said: _ParsedDeclaration) -> tuple[int, int]:
    bits = _INTEGERS[said.name]
    return (0, 2**bits - 1) if said.unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _holds_decimals(new: _ParsedDeclaration, old: _ParsedDeclaration) -> bool:
    if new.name != "decimal" or (new.unsigned and not old.unsigned):
        return False
    (precision, scale), (more, finer) = old.numbers, new.numbers
    # What is too long for a number of Redshift is a text there, which shows how many digits it has.
    return finer == scale and more >= precision


def _holds_floats(new: _ParsedDeclaration, old: _ParsedDeclaration) -> bool:
    wide = new.name == old.name or (old.name, new.name) == ("float", "double")
    # Digits in brackets are rounded to.
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
    """Bytes of the longest text of a column, once it is stored in this character set."""
    width = _MAX_CHARACTER_BYTES.get(charset, 4)
    if old.name in _TEXTS:
        # What is all ASCII, or UTF-8 already, has the same bytes in what holds it.
        return _TEXTS[old.name] * (width if old.charset == "latin1" else 1)
    return old.size * width


def _holds_bytes(new: _ParsedDeclaration, old: _ParsedDeclaration) -> bool:
    # Not BINARY, which fills its values up with zero bytes.
    longest = _BLOBS.get(old.name, 0) or old.size
    return (new.size if new.name == "varbinary" else _BLOBS.get(new.name, -1)) >= longest


def _holds_members(new: _ParsedDeclaration, old: _ParsedDeclaration) -> bool:
    # A member is known by its name, wherever it stands; those of a SET are printed in the order of its type.
    left = iter(new.members)
    return new.name == old.name and all(member in left for member in old.members)


_RULES: Final[Mapping[str, Callable[[_ParsedDeclaration, _ParsedDeclaration], bool]]] = {
    **dict.fromkeys(_INTEGERS, _holds_integers),
    **dict.fromkeys(("float", "double"), _holds_floats),
    **dict.fromkeys(("bit", "datetime", "timestamp"), _holds_digits),
    **dict.fromkeys(("char", "varchar", *_TEXTS), _holds_texts),
    **dict.fromkeys(("varbinary", *_BLOBS), _holds_bytes),
    **dict.fromkeys(("enum", "set"), _holds_members),
    "decimal": _holds_decimals,
    # Not TIME, which is a text of as many digits as it is declared with.
    "year": _holds_years,
}
