"""The warehouse as a comparison reads it: one snapshot, and nothing but sums, keys and single rows."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any, Final

from syncd.redshift.session import WarehouseSession
from syncd.verify.key_ranges import KeyRange, TargetKeyColumn
from syncd.verify.sides import RangeDigest, TargetRowDigest
from syncd.verify.target_sql import TargetSql
from watermarks.cursor import Cursor, CursorValue, ValueKind

KEYS_PER_INSERT: Final = 5_000

Row = tuple[Any, ...]


class RedshiftSide:
    """The warehouse in the transaction of a session; see the protocol."""

    def __init__(self, session: WarehouseSession, sql: TargetSql, *, statement_timeout: timedelta) -> None:
        self._session = session
        self._sql = sql
        self._statement_timeout = statement_timeout
        self.fetched_count = 0

    def take_snapshot(self) -> None:
        """Take the snapshot."""
        self._fetch(self._sql.snapshot_query)

    def digests(self, key_range: KeyRange, ends: Sequence[Cursor]) -> Sequence[RangeDigest]:
        found = {
            int(group): _range_digest(rows, total)
            for group, rows, total in self._fetch(self._sql.digests(key_range, ends))
        }
        return [found.get(place, RangeDigest()) for place in range(len(ends) + 1)]

    def digests_by_prefix(self, key_range: KeyRange, prefix_length: int) -> Mapping[str, RangeDigest]:
        found = self._fetch(self._sql.digests_by_prefix(key_range, prefix_length))
        return {str(group): _range_digest(rows, total) for group, rows, total in found}

    def positions(self, key_range: KeyRange, *, step: int, limit: int) -> Sequence[Cursor]:
        columns = self._sql.subject.target_columns
        found = self._fetch(self._sql.positions(key_range, step=step))
        return [position_from_row(columns, row) for row in islice(found, limit)]

    def rows(self, key_range: KeyRange) -> Iterator[TargetRowDigest]:
        for key, digest in self._fetch(self._sql.rows(key_range)):
            yield TargetRowDigest(key=str(key).encode(), digest=int(digest))

    def exclude_keys(self, keys: Sequence[bytes]) -> None:
        self._session.run(self._sql.create_excluded_keys)
        texts = (key.decode() for key in keys)
        while some := list(islice(texts, KEYS_PER_INSERT)):
            self._session.run(self._sql.insert_excluded_keys(some), within=self._statement_timeout)
        self._sql = TargetSql(subject=self._sql.subject, bounds=self._sql.bounds, has_excluded_keys=True)

    def values(self, key_range: KeyRange, keys: Sequence[bytes]) -> Sequence[Row]:
        """Rows as the driver has them, each with the key's text behind."""
        return self._fetch(self._sql.values(key_range, [key.decode() for key in keys]))

    def _fetch(self, sql: str) -> Sequence[Row]:
        found = self._session.rows(sql, within=self._statement_timeout)
        self.fetched_count += len(found)
        return found


def _range_digest(rows: Any, total: Any) -> RangeDigest:  # noqa: ANN401  # a driver's numbers
    return RangeDigest(rows=int(rows), total=int(total or 0))


def position_from_row(columns: Sequence[TargetKeyColumn], row: Row) -> Cursor:
    """The position that a row of these columns tells."""
    return Cursor(tuple(_cursor_value(column, raw) for column, raw in zip(columns, row, strict=True)))


def _cursor_value(column: TargetKeyColumn, raw: object) -> CursorValue:
    if column.kind is ValueKind.INT:
        return CursorValue(ValueKind.INT, int(str(raw)))
    if isinstance(raw, datetime):
        naive = raw.replace(tzinfo=None)
        return CursorValue(column.kind, naive.replace(tzinfo=UTC) if column.kind is ValueKind.INSTANT else naive)
    assert isinstance(raw, Decimal | date)
    return CursorValue(column.kind, raw)
