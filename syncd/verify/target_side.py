"""The warehouse as a comparison reads it: one snapshot, and nothing but sums, keys and single rows."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any, Final

from syncd.redshift.session import Session
from syncd.verify.key_ranges import Range, ThereColumn
from syncd.verify.sides import Digest, ThereRow
from syncd.verify.target_sql import ThereSql
from watermarks.cursor import Cursor, Kind, Value

INSERTED_AT_ONCE: Final = 5_000

Row = tuple[Any, ...]


class ThereSide:
    """The warehouse in the transaction of a session; see the protocol."""

    def __init__(self, session: Session, sql: ThereSql, *, longest: timedelta) -> None:
        self._session = session
        self._sql = sql
        self._longest = longest
        self.fetched = 0

    def begin(self) -> None:
        """Take the snapshot."""
        self._rows(self._sql.begin)

    def digests(self, one: Range, ends: Sequence[Cursor]) -> Sequence[Digest]:
        found = {int(group): _digest(rows, total) for group, rows, total in self._rows(self._sql.digests(one, ends))}
        return [found.get(place, Digest()) for place in range(len(ends) + 1)]

    def digests_by_digit(self, one: Range, digits: int) -> Mapping[str, Digest]:
        found = self._rows(self._sql.digests_by_digit(one, digits))
        return {str(group): _digest(rows, total) for group, rows, total in found}

    def positions(self, one: Range, *, step: int, most: int) -> Sequence[Cursor]:
        columns = self._sql.compared.there_columns
        found = self._rows(self._sql.positions(one, step=step))
        return [position(columns, row) for row in islice(found, most)]

    def rows(self, one: Range) -> Iterator[ThereRow]:
        for key, digest in self._rows(self._sql.rows(one)):
            yield ThereRow(key=str(key).encode(), digest=int(digest))

    def leave_out(self, keys: Sequence[bytes]) -> None:
        self._session.run(self._sql.create_fresh)
        texts = (key.decode() for key in keys)
        while some := list(islice(texts, INSERTED_AT_ONCE)):
            self._session.run(self._sql.insert_fresh(some), within=self._longest)
        self._sql = ThereSql(compared=self._sql.compared, bounds=self._sql.bounds, fresh=True)

    def values(self, one: Range, keys: Sequence[bytes]) -> Sequence[Row]:
        """Rows as the driver has them, each with the key's text behind."""
        return self._rows(self._sql.values(one, [key.decode() for key in keys]))

    def _rows(self, sql: str) -> Sequence[Row]:
        found = self._session.rows(sql, within=self._longest)
        self.fetched += len(found)
        return found


def _digest(rows: Any, total: Any) -> Digest:  # noqa: ANN401  # a driver's numbers
    return Digest(rows=int(rows), total=int(total or 0))


def position(columns: Sequence[ThereColumn], row: Row) -> Cursor:
    """The position that a row of these columns tells."""
    return Cursor(tuple(_value(column, raw) for column, raw in zip(columns, row, strict=True)))


def _value(column: ThereColumn, raw: object) -> Value:
    if column.kind is Kind.INT:
        return Value(Kind.INT, int(str(raw)))
    if isinstance(raw, datetime):
        naive = raw.replace(tzinfo=None)
        return Value(column.kind, naive.replace(tzinfo=UTC) if column.kind is Kind.INSTANT else naive)
    assert isinstance(raw, Decimal | date)
    return Value(column.kind, raw)
