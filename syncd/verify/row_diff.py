"""Rows that differ, looked at value by value: those of the source as files would hold them, by what makes files."""

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
from syncd.verify.compared_columns import ComparisonSubject
from syncd.verify.digest_forms import MAX_COMPARED_BYTES
from syncd.verify.key_ranges import KeyRange
from syncd.verify.result import Difference, DifferenceKind
from syncd.verify.sides import SourceRowDigest, TargetRowDigest
from syncd.verify.target_sql import fetch_expressions
from watermarks.cursor import Cursor

Row = tuple[Any, ...]
RowValues = Mapping[str, Any]


class RowFetcher(Protocol):
    """A side that gives whole rows."""

    def values(self, key_range: KeyRange, keys: Sequence[bytes]) -> Sequence[Row]: ...


QuarantinedVersions = frozenset[tuple[object, ...]]
"""Key and stamp of the rows in quarantine, in both forms in which they lie there."""


class _FetchedSourceRow:
    """One row of the source."""

    def __init__(self, raw: RowValues, typed: RowValues | None, position: Cursor) -> None:
        self.raw = raw
        self.typed = typed
        """None where a policy lets no such row pass."""
        self.position = position


class RowComparer:
    """Compares single rows; see the protocol."""

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
        names = {*subject.identity.key, subject.identity.cursor} - {None}
        policies = without_fail_policy(subject.settings.policies)
        self._conversion = Conversion(self._mappings, policies, frozenset(filter(None, names)))

    def find_lost(self, key_range: KeyRange, keys: Sequence[SourceRowDigest]) -> Iterator[Difference | None]:
        mine = self._fetch_source_rows(key_range, [row.key for row in keys])
        for row in keys:
            if (found := mine.get(row.key)) is None:
                continue
            if self._is_quarantined(found):
                yield None
                continue
            yield Difference(
                kind=DifferenceKind.LOST,
                key=self._key_values(found),
                source_digest=_format_digest(row.digest),
                position=found.position,
            )

    def find_ghosts(self, key_range: KeyRange, keys: Sequence[TargetRowDigest]) -> Iterator[Difference]:
        yours = self._fetch_target_rows(key_range, [row.key for row in keys])
        for row in keys:
            found = yours[row.key][0]
            key = {name: found[name] for name in self._subject.identity.key}
            yield Difference(
                kind=DifferenceKind.GHOST,
                key=_plain_key(key),
                target_digest=_format_digest(row.digest),
                file_key=self._file_key(found),
            )

    def find_different(
        self, key_range: KeyRange, pairs: Sequence[tuple[SourceRowDigest, Sequence[TargetRowDigest]]]
    ) -> Iterator[Difference | None]:
        keys = [row.key for row, _ in pairs]
        mine, yours = self._fetch_source_rows(key_range, keys), self._fetch_target_rows(key_range, keys)
        for row, others in pairs:
            found, rows = mine.get(row.key), yours.get(row.key, [])
            if found is None or not rows:
                continue
            columns = self._unequal_columns(found, rows[0])
            if not columns and len(others) == 1:
                continue  # a policy changed a value on its way, and it is what the policy makes of it
            if self._is_quarantined(found):
                yield None
                continue
            kind = DifferenceKind.DOUBLED if len(others) > 1 else self._difference_kind(found, rows[0])
            told = found.typed or found.raw
            yield Difference(
                kind=kind,
                key=self._key_values(found),
                columns=columns,
                source_digest=_format_digest(row.digest),
                target_digest=", ".join(_format_digest(other.digest) for other in others),
                source_values={name: told[name] for name in columns},
                target_values={name: rows[0][name] for name in columns},
                position=found.position,
            )

    def _difference_kind(self, mine: _FetchedSourceRow, yours: RowValues) -> DifferenceKind:
        cursor = self._subject.identity.cursor
        if cursor is None or mine.typed is None or cursor not in yours:
            return DifferenceKind.DIFFERENT
        here, there = mine.typed[cursor], yours[cursor]
        older = there is None or (here is not None and there < here)
        return DifferenceKind.STALE if older else DifferenceKind.DIFFERENT

    def _unequal_columns(self, mine: _FetchedSourceRow, yours: RowValues) -> tuple[str, ...]:
        typed = mine.typed
        if typed is None:
            return tuple(passage.name for passage in self._mappings)
        return tuple(
            passage.name
            for passage in self._mappings
            if not _is_equal(passage, typed[passage.name], yours[passage.name])
        )

    def _key_values(self, mine: _FetchedSourceRow) -> Mapping[str, object]:
        told = mine.typed or mine.raw
        return _plain_key({name: told[name] for name in self._subject.identity.key})

    def _file_key(self, yours: RowValues) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        for name in self._subject.identity.key:
            kind = arrow_type(self._subject.mapping_for(name).parquet)
            value = yours[name]
            found[name] = int(value) if pa.types.is_integer(kind) else value
            if pa.types.is_decimal(kind):
                found[name] = Decimal(value)
        return found

    # Quarantine.

    def _is_quarantined(self, mine: _FetchedSourceRow) -> bool:
        """Whether this very version was put aside, by either stage."""
        known = self._quarantined_versions
        if not known:
            return False
        names = self._version_columns
        forms = (mine.raw, mine.typed) if mine.typed is not None else (mine.raw,)
        return any(tuple(form[name] for name in names) in known for form in forms)

    @cached_property
    def _quarantined_versions(self) -> QuarantinedVersions:
        return self._load_quarantined()

    @property
    def _version_columns(self) -> tuple[str, ...]:
        identity = self._subject.identity
        return (*identity.key, *((identity.cursor,) if identity.cursor else ()))

    # Rows of both sides.

    def _fetch_source_rows(self, key_range: KeyRange, keys: Sequence[bytes]) -> dict[bytes, _FetchedSourceRow]:
        width = len(self._mappings)
        order = self._subject.order.key
        rows = self._source.values(key_range, keys)
        batch = self._raw_batch([row[:width] for row in rows])
        typed = self._typed_rows(batch)
        found: dict[bytes, _FetchedSourceRow] = {}
        for row, travelled, made in zip(rows, batch.to_pylist(), typed, strict=True):
            position = Cursor(tuple(column.parse_value(raw) for column, raw in zip(order, row[width:-1], strict=True)))
            found[bytes(row[-1])] = _FetchedSourceRow(travelled, made, position)
        return found

    def _raw_batch(self, rows: Sequence[Row]) -> pa.RecordBatch:
        columns = {
            passage.name: pa.array(
                [_raw_value(passage, row[place]) for row in rows], SOURCE_ARROW_TYPES[passage.travel]
            )
            for place, passage in enumerate(self._mappings)
        }
        return pa.RecordBatch.from_pydict(columns)

    def _typed_rows(self, batch: pa.RecordBatch) -> list[RowValues | None]:
        done = self._conversion.convert(batch)
        if done.refused is None:
            return list(done.batch.to_pylist())
        single = (self._conversion.convert(batch.slice(place, 1)).batch for place in range(batch.num_rows))
        return [one.to_pylist()[0] if one.num_rows else None for one in single]

    def _fetch_target_rows(self, key_range: KeyRange, keys: Sequence[bytes]) -> dict[bytes, list[RowValues]]:
        found: dict[bytes, list[RowValues]] = {}
        for row in self._target.values(key_range, keys):
            values = iter(row)
            typed = {
                passage.name: _target_value([next(values) for _ in fetch_expressions(passage)])
                for passage in self._mappings
            }
            found.setdefault(str(row[-1]).encode(), []).append(typed)
        return found


def _raw_value(mapping: ColumnMapping, value: Any) -> Any:  # noqa: ANN401  # whatever the driver made of it
    if value is None:
        return None
    if mapping.travel is TransferType.TEXT and isinstance(value, bytes):
        return value.decode("ascii")
    if mapping.travel is TransferType.BYTES and isinstance(value, str):
        return value.encode()
    return int(value) if mapping.travel is TransferType.INTEGER else value


def _target_value(parts: Sequence[Any]) -> Any:  # noqa: ANN401  # as above
    """A value as files hold it, of what the driver gave."""
    if len(parts) > 1:
        return None if parts[0] is None else _TruncatedBytes(int(parts[0]), bytes.fromhex("".join(map(str, parts[1:]))))
    value = parts[0]
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return value


class _TruncatedBytes(bytes):
    """The first bytes of a binary value, and how long all of it is."""

    length: int

    def __new__(cls, length: int, first: bytes) -> Self:
        made = super().__new__(cls, first)
        made.length = length
        return made


def _is_equal(mapping: ColumnMapping, mine: Any, yours: Any) -> bool:  # noqa: ANN401  # values of any type
    if mine is None or yours is None:
        return mine is None and yours is None
    if mapping.redshift == "SUPER":
        return _parse_document(mine) == _parse_document(yours)
    if isinstance(yours, _TruncatedBytes):
        return len(mine) == yours.length and bytes(mine[:MAX_COMPARED_BYTES]) == bytes(yours)
    return bool(mine == yours)


def _parse_document(value: Any) -> object:  # noqa: ANN401  # text or bytes
    """A document as its values: 1.0 and 1 are one number, and spaces and the order of names say nothing."""
    text = value.decode() if isinstance(value, bytes) else str(value)
    try:
        return loads(text, parse_int=_parse_number, parse_float=_parse_number)
    except (JSONDecodeError, InvalidOperation):
        return text


_EXACT_DOUBLE_DIGITS: Final = 15
"""Digits that a double keeps for certain."""


def _parse_number(text: str) -> object:
    exact = Decimal(text)
    return exact if len(exact.as_tuple().digits) <= _EXACT_DOUBLE_DIGITS else float(text)


def _format_digest(digest: int) -> str:
    return f"{digest:015x}"


def _plain_key(key: Mapping[str, Any]) -> Mapping[str, object]:
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in key.items()}
