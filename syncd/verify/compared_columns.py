"""What is compared of one stream: which rows and columns, and the numbers that both servers make of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from syncd.datatypes.columns import Passage, Travel
from syncd.datatypes.source_table import Table
from syncd.errors import ConfigError
from syncd.lake import batch_number
from syncd.redshift.quoting import TableRef
from syncd.redshift.target_table import DELETED_AT, VALID_TO, Found
from syncd.settings import Deletes, Mode, StreamSettings
from syncd.tables.order_column import OrderColumn
from syncd.tables.row_identity import Identity
from syncd.tables.sort_order import Order
from syncd.verify.digest_forms import Form, Unlike, form_of, hashed
from syncd.verify.key_ranges import ThereColumn
from watermarks.batch import BatchId
from watermarks.cursor import Cursor, Kind
from watermarks.progress import ORIGIN

WIDEST: Final = 60_000
"""Bytes of a text that is digested at once; Redshift's texts end soon after."""
DIGITS: Final = 15
"""Hexadecimal digits of a digest that count: a whole number of 60 bits, which both servers add up without loss."""
_ALIKE: Final = frozenset({Kind.INT, Kind.DECIMAL, Kind.DATE, Kind.WALL, Kind.INSTANT})
_NUMBERED: Final = frozenset({"enum", "set"})
_ORDERED: Final = frozenset({"smallint", "integer", "bigint", "numeric", "date", "timestamp without time zone"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Which rows the promise covers, by their place in the stream's order."""

    upto: Cursor
    """The loaded mark."""
    since: Cursor | None = None
    """Where the stream began, if that was not with the first row."""
    seen: BatchId = ORIGIN
    """The last loaded batch: what it and those before it read, was read before anybody looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One stream on both sides."""

    settings: StreamSettings
    table: Table
    order: Order
    passages: tuple[Passage, ...]
    identity: Identity
    target: TableRef
    found: Found
    forms: tuple[Form, ...]
    unlike: tuple[Unlike, ...]

    @property
    def key_forms(self) -> tuple[Form, ...]:
        by_name = {form.name: form for form in self.forms}
        return tuple(by_name[name] for name in self.identity.key)

    @property
    def here_key(self) -> str:
        return f"CAST(CONCAT({', '.join(form.here for form in self.key_forms)}) AS BINARY)"

    @property
    def there_key(self) -> str:
        return " || ".join(form.there for form in self.key_forms)

    @property
    def key_width(self) -> int:
        return sum(form.width for form in self.key_forms)

    @property
    def here_digest(self) -> str:
        """A number of a row; equal rows have equal ones."""
        pieces = [f"CONCAT({', '.join(form.here for form in piece)})" for piece in _pieces(self.forms)]
        text = pieces[0] if len(pieces) == 1 else f"CONCAT({', '.join(map(hashed, pieces))})"
        return f"CAST(CONV(LEFT({hashed(text)}, {DIGITS}), 16, 10) AS UNSIGNED)"

    @property
    def there_digest(self) -> str:
        pieces = [" || ".join(form.there for form in piece) for piece in _pieces(self.forms)]
        text = pieces[0] if len(pieces) == 1 else " || ".join(map(hashed, pieces))
        return f"STRTOL(LEFT({hashed(text)}, {DIGITS}), 16)"

    @property
    def here_columns(self) -> tuple[OrderColumn, ...]:
        """The first columns of the key, as many as stand in one order on both servers."""
        return self.order.key[: len(self.there_columns)]

    @property
    def there_columns(self) -> tuple[ThereColumn, ...]:
        found: list[ThereColumn] = []
        for column, name in zip(self.order.key, self.identity.key, strict=True):
            if not self._alike(column, name):
                break
            found.append(ThereColumn(name=name, kind=column.kind))
        return tuple(found)

    def _alike(self, column: OrderColumn, name: str) -> bool:
        declared = self.table.column(column.name)
        ordered = name in self.found and self.found.columns[name].type.name in _ORDERED
        return column.kind in _ALIKE and ordered and declared is not None and declared.data_type not in _NUMBERED

    @property
    def cursor(self) -> ThereColumn | None:
        """The order column in the target, where it can be compared with a position."""
        name, time = self.identity.cursor, self.order.time
        if name is None or time is None or name not in self.found or time.kind not in _ALIKE:
            return None
        return ThereColumn(name=name, kind=time.kind)

    @property
    def keeps_versions(self) -> bool:
        """Whether a row of the source can be several in the target, of which the newest counts."""
        return self.settings.mode is Mode.APPEND and self.identity.cursor is not None

    @property
    def marks_gone(self) -> bool:
        """Whether a mark takes a row out: where rows that are gone are to be deleted, a marked one is still there."""
        deleted = self.deletes is Deletes.HARD and self.settings.mode is not Mode.HISTORY
        return DELETED_AT in self.found and not deleted

    @property
    def ends_versions(self) -> bool:
        return self.settings.mode is Mode.HISTORY and VALID_TO in self.found

    @property
    def ranked(self) -> bool:
        return batch_number.COLUMN in self.found

    @property
    def deletes(self) -> Deletes:
        return self.settings.target.deletes if self.settings.target else Deletes.IGNORE

    def is_text(self, name: str) -> bool:
        return name in self.found and self.found.columns[name].type.text

    def passage(self, name: str) -> Passage:
        return next(one for one in self.passages if one.name == name)

    @property
    def shown_columns(self) -> tuple[Passage, ...]:
        """The columns that a row is looked at by, once it is fetched."""
        return tuple(passage for passage in self.passages if passage.name in self.found)


def compared(
    *,
    settings: StreamSettings,
    table: Table,
    order: Order,
    passages: Sequence[Passage],
    identity: Identity,
    target: TableRef,
    found: Found,
) -> Compared:
    """How a stream is compared.

    Raises:
        ConfigError: its key has no common text.
    """
    forms: list[Form] = []
    unlike: list[Unlike] = []
    for passage in passages:
        column = table.column(passage.column)
        assert column
        standing = found.columns.get(passage.name)
        kind = standing.type if standing else None
        made = form_of(column, passage, kind, settings.policies, key=passage.name in identity.key)
        if isinstance(made, Form):
            forms.append(made)
        else:
            unlike.append(made)
    _require_key(settings, identity, unlike)
    return Compared(
        settings=settings,
        table=table,
        order=order,
        passages=tuple(passages),
        identity=identity,
        target=target,
        found=found,
        forms=tuple(forms),
        unlike=tuple(unlike),
    )


def _require_key(settings: StreamSettings, identity: Identity, unlike: Sequence[Unlike]) -> None:
    for one in unlike:
        if one.name in identity.key:
            raise ConfigError(
                f"{settings.name} cannot be compared by its key: {one.name}: {one.reason}",
                hint="Name another unique key of the table in the stream's `key`.",
            )


def _pieces(forms: Sequence[Form]) -> list[list[Form]]:
    """The forms in groups, of which each is one text that the warehouse can hold."""
    groups: list[list[Form]] = [[]]
    width = 0
    for form in forms:
        if width + form.width > WIDEST and groups[-1]:
            groups.append([])
            width = 0
        groups[-1].append(form)
        width += form.width
    return groups


def travels_as_text(passage: Passage) -> bool:
    return passage.travel is Travel.TEXT
