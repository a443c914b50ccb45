"""The source as a comparison reads it: one snapshot over one connection, and nothing but sums, keys and single rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from syncd.mysql.connection import Connection, mapped
from syncd.settings import SourceSettings
from syncd.verify.key_ranges import Range
from syncd.verify.sides import Digest, HereRow
from syncd.verify.source_sql import HereSql
from watermarks.cursor import Cursor

_BEGIN: Final = (
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
)

Row = tuple[Any, ...]


class HereSide:
    """The source in one snapshot; see the protocol."""

    def __init__(self, ask: Callable[[str], Sequence[Row]], sql: HereSql) -> None:
        self._ask = ask
        self._sql = sql
        self.fetched = 0

    def digests(self, one: Range, ends: Sequence[Cursor]) -> Sequence[Digest]:
        # One statement a range: each follows the key's index, and none has to find out where a row belongs.
        return [_digest(*self._rows(self._sql.digest(part))[0]) for part in one.divided(ends)]

    def digests_by_digit(self, one: Range, digits: int) -> Mapping[str, Digest]:
        found = self._rows(self._sql.digests_by_digit(one, digits))
        return {_word(group): _digest(rows, total) for group, rows, total in found}

    def positions(self, one: Range, *, step: int, most: int) -> Sequence[Cursor]:
        found: list[Cursor] = []
        low = one.low
        while len(found) < most:
            rows = self._rows(self._sql.probe(Range(low=low, high=one.high), rows=step))
            if not rows:
                break
            end = self._sql.position(rows[0])
            if end == low:  # more rows begin alike than one step holds
                break
            found.append(end)
            low = end
        return found

    def rows(self, one: Range) -> Iterator[HereRow]:
        for key, digest, covered in self._rows(self._sql.rows(one)):
            yield HereRow(key=bytes(key), digest=int(digest), covered=bool(covered))

    def fresh(self, one: Range, *, most: int) -> Sequence[bytes]:
        return [bytes(key) for (key,) in self._rows(self._sql.fresh(one, most=most))]

    def values(self, one: Range, keys: Sequence[bytes]) -> Sequence[Row]:
        """Rows as they travel, each with its position by key and the key's text behind."""
        return self._rows(self._sql.values(one, keys))

    def _rows(self, sql: str) -> Sequence[Row]:
        found = self._ask(sql)
        self.fetched += len(found)
        return found


def _digest(rows: Any, total: Any) -> Digest:  # noqa: ANN401  # a driver's numbers
    return Digest(rows=int(rows), total=int(total or 0))


def _word(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@contextmanager
def snapshot(connection: Connection, settings: SourceSettings) -> Iterator[Callable[[str], Sequence[Row]]]:
    """Asks in one snapshot, which begins now; no lock is taken."""

    def ask(sql: str) -> Sequence[Row]:
        with mapped(settings), connection.cursor() as cursor:
            cursor.execute(sql)
            return tuple(cursor.fetchall())

    for statement in _BEGIN:
        ask(statement)
    try:
        yield ask
    finally:
        if connection.open:
            ask("ROLLBACK")
