"""The source as a comparison reads it: one snapshot over one connection, and nothing but sums, keys and single rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from syncd.mysql.connection import Connection, map_driver_errors
from syncd.settings import SourceSettings
from syncd.verify.key_ranges import KeyRange
from syncd.verify.sides import RangeDigest, SourceRowDigest
from syncd.verify.source_sql import SourceSql
from watermarks.cursor import Cursor

_BEGIN_SNAPSHOT: Final = (
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
)

Row = tuple[Any, ...]


class MySqlSide:
    """The source in one snapshot; see the protocol."""

    def __init__(self, query: Callable[[str], Sequence[Row]], sql: SourceSql) -> None:
        self._query = query
        self._sql = sql
        self.fetched_count = 0

    def digests(self, key_range: KeyRange, ends: Sequence[Cursor]) -> Sequence[RangeDigest]:
        # One statement a range: each follows the key's index, and none has to find out where a row belongs.
        return [_to_digest(*self._fetch_rows(self._sql.digest(part))[0]) for part in key_range.split(ends)]

    def digests_by_prefix(self, key_range: KeyRange, prefix_length: int) -> Mapping[str, RangeDigest]:
        found = self._fetch_rows(self._sql.digests_by_prefix(key_range, prefix_length))
        return {_decode_group(group): _to_digest(rows, total) for group, rows, total in found}

    def positions(self, key_range: KeyRange, *, step: int, limit: int) -> Sequence[Cursor]:
        found: list[Cursor] = []
        low = key_range.low
        while len(found) < limit:
            rows = self._fetch_rows(self._sql.probe(KeyRange(low=low, high=key_range.high), rows=step))
            if not rows:
                break
            end = self._sql.position(rows[0])
            if end == low:  # more rows begin alike than one step holds
                break
            found.append(end)
            low = end
        return found

    def rows(self, key_range: KeyRange) -> Iterator[SourceRowDigest]:
        for key, digest, covered in self._fetch_rows(self._sql.rows(key_range)):
            yield SourceRowDigest(key=bytes(key), digest=int(digest), is_covered=bool(covered))

    def keys_above_mark(self, key_range: KeyRange, *, limit: int) -> Sequence[bytes]:
        return [bytes(key) for (key,) in self._fetch_rows(self._sql.keys_above_mark(key_range, limit=limit))]

    def values(self, key_range: KeyRange, keys: Sequence[bytes]) -> Sequence[Row]:
        """Rows as they travel, each with its position by key and the key's text behind."""
        return self._fetch_rows(self._sql.values(key_range, keys))

    def _fetch_rows(self, sql: str) -> Sequence[Row]:
        found = self._query(sql)
        self.fetched_count += len(found)
        return found


def _to_digest(rows: Any, total: Any) -> RangeDigest:  # noqa: ANN401  # a driver's numbers
    return RangeDigest(rows=int(rows), total=int(total or 0))


def _decode_group(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@contextmanager
def open_snapshot(connection: Connection, settings: SourceSettings) -> Iterator[Callable[[str], Sequence[Row]]]:
    """Asks in one snapshot, which begins now; no lock is taken."""

    def ask(sql: str) -> Sequence[Row]:
        with map_driver_errors(settings), connection.cursor() as cursor:
            cursor.execute(sql)
            return tuple(cursor.fetchall())

    for statement in _BEGIN_SNAPSHOT:
        ask(statement)
    try:
        yield ask
    finally:
        if connection.open:
            ask("ROLLBACK")
