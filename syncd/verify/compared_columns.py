"""What is compared of one stream: which rows and columns, and the numbers that both servers make of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from syncd.datatypes.columns import ColumnMapping, TransferType
from syncd.datatypes.source_table import SourceTable
from syncd.errors import ConfigError
from syncd.lake import batch_number
from syncd.redshift.quoting import TableRef
from syncd.redshift.target_table import DELETED_AT, VALID_TO, ExistingTable
from syncd.settings import Deletes, Mode, StreamSettings
from syncd.tables.order_column import OrderColumn
from syncd.tables.row_identity import RowIdentity
from syncd.tables.sort_order import StreamOrder
from syncd.verify.digest_forms import CommonText, UncomparableColumn, common_text_for, hash_sql
from syncd.verify.key_ranges import TargetKeyColumn
from watermarks.batch import BatchId
from watermarks.cursor import Cursor, ValueKind
from watermarks.progress import BEFORE_FIRST_BATCH

MAX_TEXT_BYTES: Final = 60_000
"""Bytes of a text that is digested at once; Redshift's texts end soon after."""
DIGEST_HEX_DIGITS: Final = 15
"""Hexadecimal digits of a digest that count: a whole number of 60 bits, which both servers add up without loss."""
_SAME_ORDER_KINDS: Final = frozenset(
    {ValueKind.INT, ValueKind.DECIMAL, ValueKind.DATE, ValueKind.WALL, ValueKind.INSTANT}
)
_ENUMERATED_TYPES: Final = frozenset({"enum", "set"})
_ORDERED_TARGET_TYPES: Final = frozenset(
    {"smallint", "integer", "bigint", "numeric", "date", "timestamp without time zone"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonBounds:
    """Which rows the promise covers, by their place in the stream's order."""

    upto: Cursor
    """The loaded mark."""
    since: Cursor | None = None
    """Where the stream began, if that was not with the first row."""
    last_batch: BatchId = BEFORE_FIRST_BATCH
    """The last loaded batch: what it and those before it read, was read before anybody looks."""


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
        """A number of a row; equal rows have equal ones."""
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
        """The first columns of the key, as many as stand in one order on both servers."""
        return self.order.key[: len(self.target_columns)]

    @property
    def target_columns(self) -> tuple[TargetKeyColumn, ...]:
        found: list[TargetKeyColumn] = []
        for column, name in zip(self.order.key, self.identity.key, strict=True):
            if not self._has_same_order(column, name):
                break
            found.append(TargetKeyColumn(name=name, kind=column.kind))
        return tuple(found)

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
        """The order column in the target, where it can be compared with a position."""
        name, time = self.identity.cursor, self.order.time_column
        if name is None or time is None or name not in self.existing or time.kind not in _SAME_ORDER_KINDS:
            return None
        return TargetKeyColumn(name=name, kind=time.kind)

    @property
    def keeps_versions(self) -> bool:
        """Whether a row of the source can be several in the target, of which the newest counts."""
        return self.settings.mode is Mode.APPEND and self.identity.cursor is not None

    @property
    def has_delete_marks(self) -> bool:
        """Whether a mark takes a row out: where rows that are gone are to be deleted, a marked one is still there."""
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

    def is_text_column(self, name: str) -> bool:
        return name in self.existing and self.existing.columns[name].type.is_text

    def mapping_for(self, name: str) -> ColumnMapping:
        return next(one for one in self.columns if one.name == name)

    @property
    def fetched_columns(self) -> tuple[ColumnMapping, ...]:
        """The columns that a row is looked at by, once it is fetched."""
        return tuple(passage for passage in self.columns if passage.name in self.existing)


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
    """How a stream is compared.

    Raises:
        ConfigError: its key has no common text.
    """
    forms: list[CommonText] = []
    unlike: list[UncomparableColumn] = []
    for passage in mappings:
        column = table.find_column(passage.column)
        assert column
        standing = existing.columns.get(passage.name)
        kind = standing.type if standing else None
        made = common_text_for(column, passage, kind, settings.policies, is_key=passage.name in identity.key)
        if isinstance(made, CommonText):
            forms.append(made)
        else:
            unlike.append(made)
    _require_comparable_key(settings, identity, unlike)
    return ComparisonSubject(
        settings=settings,
        table=table,
        order=order,
        columns=tuple(mappings),
        identity=identity,
        target=target,
        existing=existing,
        texts=tuple(forms),
        uncomparable=tuple(unlike),
    )


def _require_comparable_key(
    settings: StreamSettings, identity: RowIdentity, uncomparable: Sequence[UncomparableColumn]
) -> None:
    for one in uncomparable:
        if one.name in identity.key:
            raise ConfigError(
                f"{settings.name} cannot be compared by its key: {one.name}: {one.reason}",
                hint="Name another unique key of the table in the stream's `key`.",
            )


def _group_by_width(forms: Sequence[CommonText]) -> list[list[CommonText]]:
    """The forms in groups, of which each is one text that the warehouse can hold."""
    groups: list[list[CommonText]] = [[]]
    width = 0
    for form in forms:
        if width + form.width > MAX_TEXT_BYTES and groups[-1]:
            groups.append([])
            width = 0
        groups[-1].append(form)
        width += form.width
    return groups


def travels_as_text(mapping: ColumnMapping) -> bool:
    return mapping.travel is TransferType.TEXT
