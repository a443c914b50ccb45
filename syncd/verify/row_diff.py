"""Comparison of single rows by value; source rows are converted as for files, by the same code."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import cached_property
from json import JSONDecodeError, loads
from typing import Any, Final, Protocol, Self

import pyarrow as pa

from syncd.datatypes.columns import ColumnMapping, TransferType
from syncd.lake.quarantine import without_fail_policy
from syncd.parquet.batch_conversion import Conversion
from syncd.parquet.column_values import SOURCE_ARROW_TYPES, arrow_type
from syncd.verify.compared_columns import ComparisonSubject, KeyRange
from syncd.verify.digest_forms import MAX_COMPARED_BYTES
from syncd.verify.result import Difference, DifferenceKind
from syncd.verify.sides import Row, SourceRowDigest, TargetRowDigest
from syncd.verify.target_side import fetch_expressions
from watermarks.cursor import Cursor

RowValues = Mapping[str, Any]


class RowFetcher(Protocol):
    """Side that returns whole rows."""

    def values(self, key_range: KeyRange, keys: Sequence[bytes]) -> Sequence[Row]: ...


QuarantinedVersions = frozenset[tuple[object, ...]]
"""Key and stamp of the quarantined rows, in both forms in which files hold them."""


class _FetchedSourceRow:
    """Row of the source, before and after conversion."""

    def __init__(self, raw: RowValues, typed: RowValues | None, position: Cursor) -> None:
        self.raw = raw
        self.typed = typed
        """None where a policy refuses the row."""
        self.position = position

    @property
    def values(self) -> RowValues:
        return self.typed or self.raw


class RowComparer:
    """Comparer of single rows: `sides.ValueComparer`."""

    def __init__(
        self,
        subject: ComparisonSubject,
        *,
        source: RowFetcher,
        target: RowFetcher,
        load_quarantined: Callable[[], QuarantinedVersions],
    ) -> None:
        self._subject = subject
        self._source = source
        self._target = target
        self._load_quarantined = load_quarantined
        self._mappings = subject.fetched_columns
        self._version_columns = tuple(filter(None, (*subject.identity.key, subject.identity.cursor)))
        policies = without_fail_policy(subject.settings.policies)
        self._conversion = Conversion(self._mappings, policies, frozenset(self._version_columns))

    def find_lost(self, key_range: KeyRange, keys: Sequence[SourceRowDigest]) -> Iterator[Difference | None]:
        source_rows = self._fetch_source_rows(key_range, [row.key for row in keys])
        for digest in keys:
            if (row := source_rows.get(digest.key)) is None:
                continue
            if self._is_quarantined(row):
                yield None
                continue
            yield Difference(
                kind=DifferenceKind.LOST,
                key=self._key_values(row.values),
                source_digest=_format_digest(digest.digest),
                position=row.position,
            )

    def find_ghosts(self, key_range: KeyRange, keys: Sequence[TargetRowDigest]) -> Iterator[Difference]:
        target_rows = self._fetch_target_rows(key_range, [row.key for row in keys])
        for digest in keys:
            row = target_rows[digest.key][0]
            yield Difference(
                kind=DifferenceKind.GHOST,
                key=self._key_values(row),
                target_digest=_format_digest(digest.digest),
                file_key=self._file_key(row),
            )

    def find_different(
        self, key_range: KeyRange, pairs: Sequence[tuple[SourceRowDigest, Sequence[TargetRowDigest]]]
    ) -> Iterator[Difference | None]:
        keys = [digest.key for digest, _ in pairs]
        source_rows, target_rows = self._fetch_source_rows(key_range, keys), self._fetch_target_rows(key_range, keys)
        for digest, others in pairs:
            row, rows = source_rows.get(digest.key), target_rows.get(digest.key, [])
            if row is None or not rows:
                continue
            columns = self._unequal_columns(row, rows[0])
            if not columns and len(others) == 1:
                continue  # a policy changed the value, and the target has the changed value
            if self._is_quarantined(row):
                yield None
                continue
            yield Difference(
                kind=DifferenceKind.DOUBLED if len(others) > 1 else self._difference_kind(row, rows[0]),
                key=self._key_values(row.values),
                columns=columns,
                source_digest=_format_digest(digest.digest),
                target_digest=", ".join(_format_digest(other.digest) for other in others),
                source_values={name: row.values[name] for name in columns},
                target_values={name: rows[0][name] for name in columns},
                position=row.position,
            )

    def _difference_kind(self, source: _FetchedSourceRow, target: RowValues) -> DifferenceKind:
        cursor = self._subject.identity.cursor
        if cursor is None or source.typed is None or cursor not in target:
            return DifferenceKind.DIFFERENT
        source_stamp, target_stamp = source.typed[cursor], target[cursor]
        is_older = target_stamp is None or (source_stamp is not None and target_stamp < source_stamp)
        return DifferenceKind.STALE if is_older else DifferenceKind.DIFFERENT

    def _unequal_columns(self, source: _FetchedSourceRow, target: RowValues) -> tuple[str, ...]:
        typed = source.typed
        return tuple(
            mapping.name
            for mapping in self._mappings
            if typed is None or not _is_equal(mapping, typed[mapping.name], target[mapping.name])
        )

    def _key_values(self, row: RowValues) -> Mapping[str, object]:
        values = {name: row[name] for name in self._subject.identity.key}
        return {name: value.hex() if isinstance(value, bytes) else value for name, value in values.items()}

    def _file_key(self, target: RowValues) -> Mapping[str, Any]:
        key: dict[str, Any] = {}
        for name in self._subject.identity.key:
            type_, value = arrow_type(self._subject.mapping_for(name).parquet), target[name]
            if pa.types.is_decimal(type_):
                value = Decimal(value)
            key[name] = int(value) if pa.types.is_integer(type_) else value
        return key

    def _is_quarantined(self, row: _FetchedSourceRow) -> bool:
        """Return whether this version of the row was quarantined, by either stage."""
        versions = self._quarantined_versions
        if not versions:
            return False
        forms = (row.raw, row.typed) if row.typed is not None else (row.raw,)
        return any(tuple(form[name] for name in self._version_columns) in versions for form in forms)

    @cached_property
    def _quarantined_versions(self) -> QuarantinedVersions:
        return self._load_quarantined()

    def _fetch_source_rows(self, key_range: KeyRange, keys: Sequence[bytes]) -> dict[bytes, _FetchedSourceRow]:
        width = len(self._mappings)
        order = self._subject.order.key
        rows = self._source.values(key_range, keys)
        batch = self._raw_batch([row[:width] for row in rows])
        by_key: dict[bytes, _FetchedSourceRow] = {}
        for row, raw, typed in zip(rows, batch.to_pylist(), self._typed_rows(batch), strict=True):
            values = zip(order, row[width:-1], strict=True)
            position = Cursor(tuple(column.parse_value(value) for column, value in values))
            by_key[bytes(row[-1])] = _FetchedSourceRow(raw, typed, position)
        return by_key

    def _raw_batch(self, rows: Sequence[Row]) -> pa.RecordBatch:
        columns: dict[str, Any] = {}
        for index, mapping in enumerate(self._mappings):
            values = [_raw_value(mapping, row[index]) for row in rows]
            columns[mapping.name] = pa.array(values, SOURCE_ARROW_TYPES[mapping.travel])
        return pa.RecordBatch.from_pydict(columns)

    def _typed_rows(self, batch: pa.RecordBatch) -> list[RowValues | None]:
        converted = self._conversion.convert(batch)
        if converted.refused is None:
            return list(converted.batch.to_pylist())
        single = (self._conversion.convert(batch.slice(index, 1)).batch for index in range(batch.num_rows))
        return [row.to_pylist()[0] if row.num_rows else None for row in single]

    def _fetch_target_rows(self, key_range: KeyRange, keys: Sequence[bytes]) -> dict[bytes, list[RowValues]]:
        by_key: dict[bytes, list[RowValues]] = {}
        for row in self._target.values(key_range, keys):
            values = iter(row)
            typed = {
                mapping.name: _target_value([next(values) for _ in fetch_expressions(mapping)])
                for mapping in self._mappings
            }
            by_key.setdefault(str(row[-1]).encode(), []).append(typed)
        return by_key


def _raw_value(mapping: ColumnMapping, value: Any) -> Any:  # noqa: ANN401  # whatever the driver made of it
    if value is None:
        return None
    if mapping.travel is TransferType.TEXT and isinstance(value, bytes):
        return value.decode("ascii")
    if mapping.travel is TransferType.BYTES and isinstance(value, str):
        return value.encode()
    return int(value) if mapping.travel is TransferType.INTEGER else value


def _target_value(parts: Sequence[Any]) -> Any:  # noqa: ANN401  # as above
    """Return a value in the form of files."""
    if len(parts) > 1:
        return None if parts[0] is None else _TruncatedBytes(int(parts[0]), bytes.fromhex("".join(map(str, parts[1:]))))
    value = parts[0]
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return value


class _TruncatedBytes(bytes):
    """First bytes of a binary value, with its whole length."""

    length: int

    def __new__(cls, length: int, first: bytes) -> Self:
        value = super().__new__(cls, first)
        value.length = length
        return value


def _is_equal(mapping: ColumnMapping, source: Any, target: Any) -> bool:  # noqa: ANN401  # values of any type
    if source is None or target is None:
        return source is None and target is None
    if mapping.redshift == "SUPER":
        return _parse_document(source) == _parse_document(target)
    if isinstance(target, _TruncatedBytes):
        return len(source) == target.length and bytes(source[:MAX_COMPARED_BYTES]) == bytes(target)
    return bool(source == target)


def _parse_document(value: Any) -> object:  # noqa: ANN401  # text or bytes
    """Return the values of a document: 1.0 equals 1, and spaces and the order of names do not count."""
    text = value.decode() if isinstance(value, bytes) else str(value)
    try:
        return loads(text, parse_int=_parse_number, parse_float=_parse_number)
    except (JSONDecodeError, InvalidOperation):
        return text


_EXACT_DOUBLE_DIGITS: Final = 15
"""Digits that a double always keeps."""


def _parse_number(text: str) -> object:
    exact = Decimal(text)
    return exact if len(exact.as_tuple().digits) <= _EXACT_DOUBLE_DIGITS else float(text)


def _format_digest(digest: int) -> str:
    return f"{digest:015x}"
