"""Subject of a comparison: the rows and columns of one stream, and their digests on both servers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from syncd.datatypes.columns import ColumnMapping
from syncd.datatypes.source_table import SourceTable
from syncd.errors import ConfigError
from syncd.lake import batch_number
from syncd.mysql.sql import PositionColumn, after_condition, upto_condition, window_condition
from syncd.redshift.quoting import TableRef, quote_name, value_literal
from syncd.redshift.target_table import DELETED_AT, VALID_TO, ExistingTable
from syncd.settings import Deletes, Mode, StreamSettings
from syncd.tables.order_column import OrderColumn
from syncd.tables.sort_order import RowIdentity, StreamOrder
from syncd.verify.digest_forms import CommonText, UncomparableColumn, common_text_for, hash_sql
from watermarks.batch import BatchId
from watermarks.cursor import START_CURSOR, Cursor, CursorValue, ValueKind
from watermarks.progress import BEFORE_FIRST_BATCH
from watermarks.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """Rows with a key after one position up to another, and with a key digest that starts with some digits."""

    low: Cursor = START_CURSOR
    high: Cursor | None = None
    """None: no upper end."""
    digest_prefix: str = ""
    """For keys whose positions the warehouse orders differently, or that many rows share in part."""

    def split(self, ends: Sequence[Cursor]) -> "tuple[KeyRange, ...]":
        """Divide the range at these positions."""
        lows, highs = (self.low, *ends), (*ends, self.high)
        return tuple(replace(self, low=low, high=high) for low, high in zip(lows, highs, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetKeyColumn:
    """Column of the key in the warehouse whose values are ordered as at the source."""

    name: str
    kind: ValueKind

    @property
    def sql(self) -> str:
        return quote_name(self.name)

    def literal(self, value: CursorValue) -> str:
        return value_literal(value)


def key_range_condition(columns: Sequence[PositionColumn], key_range: KeyRange) -> str:
    """Return the condition for a row between the positions of a range."""
    if key_range.high is not None:
        return window_condition(columns, Window(key_range.low, key_range.high))
    return after_condition(columns, key_range.low) if key_range.low else "TRUE"


def range_number_sql(columns: Sequence[PositionColumn], ends: Sequence[Cursor]) -> str:
    """Return the number of the range that a row lies in, where these positions divide a range.

    It is a binary search: for a hundred ranges, a row is compared with seven positions.
    """
    return _bisect_ends(columns, ends, 0, len(ends))


def _bisect_ends(columns: Sequence[PositionColumn], ends: Sequence[Cursor], first: int, last: int) -> str:
    if first == last:
        return str(first)
    middle = (first + last) // 2
    lower = _bisect_ends(columns, ends, first, middle)
    upper = _bisect_ends(columns, ends, middle + 1, last)
    return f"CASE WHEN {upto_condition(columns, ends[middle])} THEN {lower} ELSE {upper} END"


MAX_TEXT_BYTES: Final = 60_000
"""Longest text for one digest, slightly below the limit of Redshift's texts."""
DIGEST_HEX_DIGITS: Final = 15
"""Digits of a digest that are used: an integer of 60 bits, which both servers sum without loss."""
_SAME_ORDER_KINDS: Final = frozenset(
    {ValueKind.INT, ValueKind.DECIMAL, ValueKind.DATE, ValueKind.WALL, ValueKind.INSTANT}
)
_ENUMERATED_TYPES: Final = frozenset({"enum", "set"})
_ORDERED_TARGET_TYPES: Final = frozenset(
    {"smallint", "integer", "bigint", "numeric", "date", "timestamp without time zone"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonBounds:
    """Rows that the promise covers, by their place in the order of the stream."""

    upto: Cursor
    """The loaded mark."""
    since: Cursor | None = None
    """The start of the stream, unless it started with the first row."""
    last_batch: BatchId = BEFORE_FIRST_BATCH
    """The last loaded batch. Batches up to it were read before the comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonSubject:
    """One stream on both sides."""

    settings: StreamSettings
    table: SourceTable
    order: StreamOrder
    columns: tuple[ColumnMapping, ...]
    identity: RowIdentity
    target: TableRef
    existing: ExistingTable
    texts: tuple[CommonText, ...]
    uncomparable: tuple[UncomparableColumn, ...]

    @property
    def key_texts(self) -> tuple[CommonText, ...]:
        by_name = {form.name: form for form in self.texts}
        return tuple(by_name[name] for name in self.identity.key)

    @property
    def source_key(self) -> str:
        return f"CAST(CONCAT({', '.join(form.source_sql for form in self.key_texts)}) AS BINARY)"

    @property
    def target_key(self) -> str:
        return " || ".join(form.target_sql for form in self.key_texts)

    @property
    def key_width(self) -> int:
        return sum(form.width for form in self.key_texts)

    @property
    def source_digest(self) -> str:
        """The digest of a row as an integer; equal rows have equal digests."""
        pieces = [f"CONCAT({', '.join(form.source_sql for form in piece)})" for piece in _group_by_width(self.texts)]
        text = pieces[0] if len(pieces) == 1 else f"CONCAT({', '.join(map(hash_sql, pieces))})"
        return f"CAST(CONV(LEFT({hash_sql(text)}, {DIGEST_HEX_DIGITS}), 16, 10) AS UNSIGNED)"

    @property
    def target_digest(self) -> str:
        pieces = [" || ".join(form.target_sql for form in piece) for piece in _group_by_width(self.texts)]
        text = pieces[0] if len(pieces) == 1 else " || ".join(map(hash_sql, pieces))
        return f"STRTOL(LEFT({hash_sql(text)}, {DIGEST_HEX_DIGITS}), 16)"

    @property
    def source_columns(self) -> tuple[OrderColumn, ...]:
        """The first columns of the key that both servers order alike."""
        return self.order.key[: len(self.target_columns)]

    @property
    def target_columns(self) -> tuple[TargetKeyColumn, ...]:
        columns = zip(self.order.key, self.identity.key, strict=True)
        return tuple(
            TargetKeyColumn(name=name, kind=column.kind)
            for column, name in takewhile(lambda pair: self._has_same_order(*pair), columns)
        )

    def _has_same_order(self, column: OrderColumn, name: str) -> bool:
        declared = self.table.find_column(column.name)
        ordered = name in self.existing and self.existing.columns[name].type.name in _ORDERED_TARGET_TYPES
        return (
            column.kind in _SAME_ORDER_KINDS
            and ordered
            and declared is not None
            and declared.data_type not in _ENUMERATED_TYPES
        )

    @property
    def cursor_column(self) -> TargetKeyColumn | None:
        """The order column in the target, where its values compare with a position."""
        name, time = self.identity.cursor, self.order.time_column
        if name is None or time is None or name not in self.existing or time.kind not in _SAME_ORDER_KINDS:
            return None
        return TargetKeyColumn(name=name, kind=time.kind)

    @property
    def keeps_versions(self) -> bool:
        """True if the target can hold several versions of a row, of which the newest counts."""
        return self.settings.mode is Mode.APPEND and self.identity.cursor is not None

    @property
    def has_delete_marks(self) -> bool:
        """True if a marked row counts as deleted; where deleted rows must be removed, it counts as present."""
        deleted = self.deletes is Deletes.HARD and self.settings.mode is not Mode.HISTORY
        return DELETED_AT in self.existing and not deleted

    @property
    def ends_versions(self) -> bool:
        return self.settings.mode is Mode.HISTORY and VALID_TO in self.existing

    @property
    def has_batch_numbers(self) -> bool:
        return batch_number.BATCH_COLUMN in self.existing

    @property
    def deletes(self) -> Deletes:
        return self.settings.target.deletes if self.settings.target else Deletes.IGNORE

    def mapping_for(self, name: str) -> ColumnMapping:
        return next(mapping for mapping in self.columns if mapping.name == name)

    @property
    def fetched_columns(self) -> tuple[ColumnMapping, ...]:
        """The columns that are compared by value."""
        return tuple(mapping for mapping in self.columns if mapping.name in self.existing)


def build_comparison_subject(
    *,
    settings: StreamSettings,
    table: SourceTable,
    order: StreamOrder,
    mappings: Sequence[ColumnMapping],
    identity: RowIdentity,
    target: TableRef,
    existing: ExistingTable,
) -> ComparisonSubject:
    """Return the subject of a comparison.

    Raises:
        ConfigError: the key cannot be compared.
    """
    texts: list[CommonText] = []
    uncomparable: list[UncomparableColumn] = []
    for mapping in mappings:
        column = table.find_column(mapping.column)
        assert column
        target_column = existing.columns.get(mapping.name)
        target_type = target_column.type if target_column else None
        is_key = mapping.name in identity.key
        text = common_text_for(column, mapping, target_type, settings.policies, is_key=is_key)
        if isinstance(text, CommonText):
            texts.append(text)
        elif is_key:
            raise ConfigError(
                f"{settings.name} cannot be compared by its key: {text.name}: {text.reason}",
                hint="Name another unique key of the table in the stream's `key`.",
            )
        else:
            uncomparable.append(text)
    return ComparisonSubject(
        settings=settings,
        table=table,
        order=order,
        columns=tuple(mappings),
        identity=identity,
        target=target,
        existing=existing,
        texts=tuple(texts),
        uncomparable=tuple(uncomparable),
    )


def _group_by_width(forms: Sequence[CommonText]) -> list[list[CommonText]]:
    """Group the texts so that the warehouse can hold each group as one text."""
    groups: list[list[CommonText]] = [[]]
    width = 0
    for form in forms:
        if width + form.width > MAX_TEXT_BYTES and groups[-1]:
            groups.append([])
            width = 0
        groups[-1].append(form)
        width += form.width
    return groups
