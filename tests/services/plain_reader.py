"""A reader without a JVM: the statements over a connection of the product, and its own tasks behind them."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pymysql.cursors

from syncd.datatypes.columns import Travel
from syncd.lake.manifest import part_of
from syncd.lake.window_reads import Read, Reading, WindowQuery
from syncd.mysql.connection import connect
from syncd.parquet.column_values import TRAVELS
from syncd.settings import LakeSettings, SourceSettings
from syncd.spark.task import TOLD, Work, write_window

AT_ONCE = 20_000


@dataclass
class PlainReader:
    """Reads windows one after the other."""

    source: SourceSettings
    lake: LakeSettings

    def prepare(self, *, little: bool) -> None:
        """Nothing has to be made ready."""

    def read(self, reading: Reading, *, tell: Callable[[int], None] = lambda _rows: None) -> Read:
        told = [self._window(reading, number, query, tell) for number, query in enumerate(reading.queries)]
        troubles: dict[str, int] = {}
        for one in told:
            for name, count in one["troubles"].items():
                troubles[name] = troubles.get(name, 0) + count
        return Read(
            parts=tuple(part_of(part) for one in told for part in one["parts"]),
            quarantined=tuple(part_of(part) for one in told for part in one["quarantined"]),
            troubles=troubles,
        )

    def _window(self, reading: Reading, number: int, query: WindowQuery, tell: Callable[[int], None]) -> dict[str, Any]:
        work = Work(
            windows=(query.window,),
            first=number,
            passages=reading.passages,
            order=reading.order,
            keys=reading.keys,
            cursor=reading.cursor,
            policies=reading.policies,
            prefix=reading.prefix,
            quarantine=reading.quarantine,
            batch=reading.batch,
            nonce=reading.nonce,
            part_bytes=reading.part_bytes,
            lake=self.lake,
        )
        [answer] = write_window(work, self._batches(reading, query.sql, tell))
        told: dict[str, Any] = json.loads(answer.column(TOLD)[0].as_py())
        assert "error" not in told, told
        return told

    def _batches(self, reading: Reading, sql: str, tell: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        travels = {passage.name: passage.travel for passage in reading.passages}
        connection = connect(self.source)
        try:
            with connection.cursor(pymysql.cursors.SSCursor) as cursor:
                cursor.execute(sql)
                names = [column[0] for column in cursor.description]
                while rows := cursor.fetchmany(AT_ONCE):
                    tell(len(rows))
                    yield pa.RecordBatch.from_pydict(
                        {
                            name: _column(values, travels.get(name))
                            for name, values in zip(names, zip(*rows, strict=True), strict=True)
                        }
                    )
        finally:
            connection.close()


def _column(values: Sequence[Any], travel: Travel | None) -> pa.Array:
    if travel is None:
        return pa.array(values)
    return pa.array([_sent(value, travel) for value in values], TRAVELS[travel])


def _sent(value: Any, travel: Travel) -> Any:
    if value is None:
        return None
    if travel is Travel.INTEGER:
        return int(value)
    if travel is Travel.TEXT and isinstance(value, bytes):
        return value.decode("ascii")
    return value.encode() if travel is Travel.BYTES and isinstance(value, str) else value
