"""A reader without a JVM: the statements over a connection of the product, and its own tasks behind them."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pymysql.cursors

from syncd.datatypes.columns import TransferType
from syncd.lake.read_requests import Part, ReadRequest, ReadResult, WindowQuery
from syncd.mysql.connection import connect
from syncd.parquet.column_values import SOURCE_ARROW_TYPES
from syncd.settings import LakeSettings, SourceSettings
from syncd.spark.window_task import RESULT_COLUMN, ReadTaskSpec, WindowWriter

AT_ONCE = 20_000


@dataclass
class PlainReader:
    """Reads windows one after the other."""

    source: SourceSettings
    lake: LakeSettings

    def prepare(self, *, little: bool) -> None:
        """Nothing has to be made ready."""

    def read(self, reading: ReadRequest, *, tell: Callable[[int], None] = lambda _rows: None) -> ReadResult:
        told = [self._window(reading, number, query, tell) for number, query in enumerate(reading.queries)]
        troubles: dict[str, int] = {}
        for one in told:
            for name, count in one["troubles"].items():
                troubles[name] = troubles.get(name, 0) + count
        return ReadResult(
            parts=tuple(Part.from_fields(part) for one in told for part in one["parts"]),
            quarantined_parts=tuple(Part.from_fields(part) for one in told for part in one["quarantined"]),
            problem_counts=troubles,
        )

    def _window(
        self, reading: ReadRequest, number: int, query: WindowQuery, tell: Callable[[int], None]
    ) -> dict[str, Any]:
        work = ReadTaskSpec(
            windows=(query.window,),
            first_window=number,
            columns=reading.columns,
            order=reading.order,
            keys=reading.identity_columns,
            cursor_field=reading.cursor,
            policies=reading.policies,
            prefix=reading.part_prefix,
            quarantine_prefix=reading.quarantine_prefix,
            batch=reading.batch_number,
            nonce=reading.nonce,
            part_bytes=reading.part_bytes,
            lake=self.lake,
        )
        [answer] = WindowWriter(work).write(self._batches(reading, query.sql, tell))
        told: dict[str, Any] = json.loads(answer.column(RESULT_COLUMN)[0].as_py())
        assert "error" not in told, told
        return told

    def _batches(self, reading: ReadRequest, sql: str, tell: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        travels = {passage.name: passage.travel for passage in reading.columns}
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


def _column(values: Sequence[Any], travel: TransferType | None) -> pa.Array:
    if travel is None:
        return pa.array(values)
    return pa.array([_sent(value, travel) for value in values], SOURCE_ARROW_TYPES[travel])


def _sent(value: Any, travel: TransferType) -> Any:
    if value is None:
        return None
    if travel is TransferType.INTEGER:
        return int(value)
    if travel is TransferType.TEXT and isinstance(value, bytes):
        return value.decode("ascii")
    return value.encode() if travel is TransferType.BYTES and isinstance(value, str) else value
