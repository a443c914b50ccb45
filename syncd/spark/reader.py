"""Spark reader: one job for a batch, with one task and one connection for each of its windows."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final, Never

from syncd import errors
from syncd.concurrency.resource_pool import NO_PASS, PoolShare, ResourcePool
from syncd.concurrency.running_pass import RunningPass, run_in_thread
from syncd.concurrency.thread_helpers import wait_until
from syncd.lake.read_requests import Part, ReadRequest, ReadResult, WindowQuery
from syncd.s3.lake_client import S3Lake
from syncd.settings import SourceSettings
from syncd.spark.failures import is_row_too_wide, map_spark_error
from syncd.spark.jdbc import (
    as_subquery,
    build_connection_properties,
    build_jdbc_url,
    mark_statement,
    prepare_trust_store,
)
from syncd.spark.pyspark_gateway import narrow_row_session
from syncd.spark.spark_session import SparkJob, WarmSparkSession
from syncd.spark.window_task import RESULT_COLUMN, ReadTaskSpec, WindowWriter, rename_fields
from watermarks.errors import HintedError, Misuse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from syncd.datatypes.columns import ColumnMapping

READ_TIMEOUT_MARGIN_SECONDS: Final = 30.0
"""Beyond `longest_read` a read is cancelled; the server normally ends it first."""
TASK_EXIT_GRACE_SECONDS: Final = 0.5
"""A task notices its cancellation at its next row."""
_PLAIN_NAME: Final = re.compile(r"\w+")
_TASK_ERRORS: Final[dict[str, type[HintedError]]] = {
    kind.__name__: kind
    for kind in (
        errors.RowOutsideWindow,
        errors.ValueRefused,
        errors.LakeDown,
        errors.LakeUnfit,
        errors.SchemaDrift,
        Misuse,
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wave:
    """Windows that are read at once."""

    first_window: int
    """Number of the first of them in its batch."""
    queries: Sequence[WindowQuery]
    on_cancel: Callable[[SparkJob[Any]], None]
    """Receives the job before it is cancelled."""


class SparkReader:
    """Reader of the windows of one source for one pass, within the connection limit of the source."""

    def __init__(
        self,
        session: WarmSparkSession,
        source: SourceSettings,
        lake: S3Lake,
        *,
        driver: str = "mysql",
        proxy: Callable[[], tuple[str, int] | None] = lambda: None,
        pool: "ResourcePool[Any] | None" = None,
        kill_statements: "Callable[[str], None]" = lambda _nonce: None,
        wide_mappings: "set[tuple[ColumnMapping, ...]] | None" = None,
        running_pass: RunningPass = NO_PASS,
    ) -> None:
        """Create the reader; `proxy` returns the SOCKS proxy to the source, if there is one, before each read.

        `kill_statements` ends the statements of a cancelled read at the server. `wide_mappings` are the column
        mappings whose rows are measured, because one of them was wide; all readers of a source share and extend them.
        """
        self._session = session
        self._source = source
        self._lake = lake
        self._driver = driver
        self._proxy = proxy
        self._pool: ResourcePool[Any] = ResourcePool(source.max_connections) if pool is None else pool
        self._kill_statements = kill_statements
        self._wide_mappings = set[tuple["ColumnMapping", ...]]() if wide_mappings is None else wide_mappings
        self._running_pass = running_pass

    def prepare(self, *, little: bool) -> None:
        self._session.prepare(little=little)

    def read(self, reading: ReadRequest, *, tell: Callable[[int], None] = lambda _rows: None) -> ReadResult:
        """Read every window completely and write its rows to parts; see the port `BatchReader`."""
        results: list[dict[str, Any]] = []
        rows = 0
        try:
            for wave in self._waves(reading):
                results += self._read_wave(reading, wave, kept_keys=_part_keys(results))
                rows = sum(part["rows"] for one in results for part in one["parts"])
                tell(rows)
        except BaseException:
            self._abandon(reading)
            raise
        return ReadResult(
            parts=_parse_parts(results, "parts"),
            quarantined_parts=_parse_parts(results, "quarantined"),
            problem_counts=dict(sum((Counter(one["troubles"]) for one in results), Counter[str]())),
        )

    def _waves(self, reading: ReadRequest) -> Iterator[_Wave]:
        """Yield as many windows as there are free connections and slots: none waits in Spark, and all end in time."""
        queries, first = reading.queries, 0
        while first < len(queries):
            slots = self._session.slots(little=reading.is_small, running_pass=self._running_pass)
            # First the connections, then the slots: a holder of slots waits for nothing, so it returns them.
            with (
                self._pool.acquire_for_reading(min(len(queries) - first, slots.size), self._running_pass) as places,
                slots.acquire_for_reading(places.count, self._running_pass) as tasks,
            ):
                places.shrink(tasks.count)
                wave = _Wave(
                    first_window=first,
                    queries=queries[first : first + places.count],
                    on_cancel=partial(self._release_after_tasks, reading.nonce, places, tasks),
                )
                yield wave
            first += len(wave.queries)

    def _release_after_tasks(
        self, nonce: str, places: PoolShare[Any], slots: PoolShare[Never], job: SparkJob[Any]
    ) -> None:
        """Keep the connections and slots of a cancelled job until its last task and statement have ended.

        Spark counts a task as ended with its job, although its driver may still wait for a row. Only the server
        knows, and only the server can end that.
        """
        leave = places.detach(), slots.detach()

        def watch() -> None:
            try:
                wait_until(lambda: not job.running_task_count, timeout_seconds=TASK_EXIT_GRACE_SECONDS)
                with suppress(HintedError):  # a server that does not answer does not run the statement for long
                    self._kill_statements(nonce)
                wait_until(lambda: not job.running_task_count, timeout_seconds=self._source.silence.total_seconds())
            finally:
                for each in leave:
                    each()

        run_in_thread(watch, name="reading-ends")

    def _read_wave(self, reading: ReadRequest, wave: _Wave, *, kept_keys: frozenset[str]) -> list[dict[str, Any]]:
        # The MariaDB driver takes rows of any length.
        narrow = self._driver == "mysql" and reading.columns not in self._wide_mappings
        try:
            results = self._session.run(
                partial(self._run_tasks, reading, wave, narrow=narrow),
                within=self._source.longest_read.total_seconds() + READ_TIMEOUT_MARGIN_SECONDS,
                little=reading.is_small,
                running_pass=self._running_pass,
                on_cancel=wave.on_cancel,
            )
        except HintedError:
            raise
        except Exception as error:  # noqa: BLE001  # PySpark, Py4J and sockets raise anything
            if narrow and is_row_too_wide(error):
                self._wide_mappings.add(reading.columns)
                self._abandon(reading, kept_keys)
                return self._read_wave(reading, wave, kept_keys=kept_keys)
            raise map_spark_error(error, self._source) from None  # a Java trace shows statements
        for result in results:
            if "error" in result:
                raise _TASK_ERRORS.get(result["error"], errors.ReaderDown)(result["message"], hint=result["hint"])
        if len(results) != len(wave.queries):
            raise errors.ReaderDown(f"{len(results)} of {len(wave.queries)} windows returned a result")
        return results

    def _run_tasks(
        self, reading: ReadRequest, wave: _Wave, spark: "SparkSession", *, narrow: bool
    ) -> list[dict[str, Any]]:
        """Read the windows of a wave, one task for each, and return the results of the tasks."""
        frame = self._make_frame(narrow_row_session(spark) if narrow else spark, reading, wave, narrow=narrow)
        spec, names = self._task_spec(reading, wave), frame.columns
        if not all(map(_PLAIN_NAME.fullmatch, names)):
            # PySpark looks up columns by name, and interprets a dot, a star or a backtick in it.
            frame = frame.toDF(*(f"c{place}" for place in range(len(names))))
        rows = frame.mapInArrow(
            lambda batches: WindowWriter(spec).write(rename_fields(batches, names)), f"{RESULT_COLUMN} string"
        ).collect()
        return [json.loads(row[0]) for row in rows]

    def _task_spec(self, reading: ReadRequest, wave: _Wave) -> ReadTaskSpec:
        return ReadTaskSpec(
            windows=tuple(query.window for query in wave.queries),
            first_window=wave.first_window,
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
            lake=self._lake.settings,
        )

    def _make_frame(self, spark: "SparkSession", reading: ReadRequest, wave: _Wave, *, narrow: bool) -> "DataFrame":
        properties = build_connection_properties(
            self._source,
            driver=self._driver,
            identity=reading.server_identity,
            trust_store=prepare_trust_store(spark, self._source.ca, driver=self._driver),
            proxy=self._proxy(),
            only_narrow_rows=narrow,
        )
        address = build_jdbc_url(self._source, driver=self._driver)
        statements = [as_subquery(mark_statement(query.sql, reading.nonce)) for query in wave.queries]
        # The partitions of a union keep its order, so the number of a task is that of its window.
        return reduce(
            lambda some, more: some.union(more),
            [spark.read.jdbc(address, statement, properties=properties) for statement in statements],
        )

    def _abandon(self, reading: ReadRequest, kept_keys: frozenset[str] = frozenset()) -> None:
        """Abort the uploads of this attempt and delete its finished parts, except those in `kept_keys`.

        Parts that leftover tasks write later are removed with the batch, when the next attempt is done.
        """
        mine = f"-{reading.nonce}-"
        lake = self._lake
        with suppress(HintedError):
            for prefix in (reading.part_prefix, reading.quarantine_prefix):
                lake.abort_uploads(prefix, mine=lambda key: mine in key)
                lake.delete_objects(
                    [
                        found.key
                        for found in lake.list_objects(prefix)
                        if mine in found.key and found.key not in kept_keys
                    ]
                )


def _part_keys(results: Sequence[dict[str, Any]]) -> frozenset[str]:
    return frozenset(part["key"] for one in results for kind in ("parts", "quarantined") for part in one[kind])


def _parse_parts(results: Sequence[dict[str, Any]], kind: str) -> tuple[Part, ...]:
    return tuple(Part.from_fields(part) for one in results for part in one[kind])
