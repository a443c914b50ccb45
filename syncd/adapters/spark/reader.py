"""The reader behind the port: one Spark job for a batch, one task and one connection for each of its windows."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from syncd.adapters.s3 import Lake
from syncd.adapters.spark.failures import error_of, is_too_wide
from syncd.adapters.spark.jdbc import address_of, properties_of, table_of
from syncd.adapters.spark.session import Session, unweighed
from syncd.adapters.spark.task import TOLD, Work, part_of, write_window
from syncd.adapters.spark.trust import trust_of
from syncd.core import errors as ours
from syncd.core.reading import Part, Read, Reading, WindowQuery
from syncd.core.settings import LakeSettings, SourceSettings
from watermarks.errors import HintedError, Misuse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from syncd.core.columns import Passage

ON_TOP: Final = 30.0
"""Seconds beyond `longest_read` after which a reading is given up: the server, which counts too, ends it first."""
_TOLD_BY_TASKS: Final[dict[str, type[HintedError]]] = {
    kind.__name__: kind
    for kind in (ours.RowOutside, ours.ValueRefused, ours.LakeDown, ours.LakeUnfit, ours.SchemaDrift, Misuse)
}


class SparkReader:
    """Reads the windows of one source, over at most `max_connections` connections at once."""

    def __init__(
        self,
        session: Session,
        source: SourceSettings,
        lake: LakeSettings,
        *,
        driver: str = "mysql",
        proxy: Callable[[], tuple[str, int] | None] = lambda: None,
    ) -> None:
        """Prepare; `proxy` leads to the source where nothing leads there straight, and is asked before each reading."""
        self._session = session
        self._source = source
        self._lake = lake
        self._driver = driver
        self._proxy = proxy
        self._connections = threading.BoundedSemaphore(source.max_connections)
        self._taking = threading.Lock()
        self._wide: set[tuple[Passage, ...]] = set()
        """What was read here, and has rows that are weighed."""

    def prepare(self, *, little: bool) -> None:
        """Start the session."""
        self._session.prepare(little=little)

    def read(self, reading: Reading, *, tell: Callable[[int], None] = lambda _rows: None) -> Read:
        """Read every window whole and write its rows to parts; see the port."""
        told: list[dict[str, Any]] = []
        rows = 0
        try:
            for first, queries in self._waves(reading):
                with self._taken(len(queries)):
                    told += self._read_wave(reading, first, queries, kept=_keys(told))
                rows = sum(part["rows"] for one in told for part in one["parts"])
                tell(rows)
        except BaseException:
            self._abandon(reading)
            raise
        return Read(
            parts=_parts(told, "parts"),
            quarantined=_parts(told, "quarantined"),
            troubles=dict(sum((Counter(one["troubles"]) for one in told), Counter[str]())),
        )

    def _waves(self, reading: Reading) -> Iterator[tuple[int, Sequence[WindowQuery]]]:
        """As many windows at once as there are connections and slots: then none of them waits, and all end in time."""
        queries, little = reading.queries, reading.little
        if not queries:
            return
        slots = self._session.run(lambda spark: spark.sparkContext.defaultParallelism, within=ON_TOP, little=little)
        width = max(1, min(self._source.max_connections, slots))
        for first in range(0, len(queries), width):
            yield first, queries[first : first + width]

    @contextmanager
    def _taken(self, count: int) -> Iterator[None]:
        """Hold so many connections; one reading collects its share at a time, so that two never wait for each other."""
        with self._taking:
            for taken in range(count):
                if not self._connections.acquire(timeout=self._source.longest_read.total_seconds()):
                    self._connections.release(taken) if taken else None
                    raise ours.SourceDown(f"no connection was free for {self._source.longest_read}")
        try:
            yield
        finally:
            self._connections.release(count)

    def _read_wave(
        self, reading: Reading, first: int, queries: Sequence[WindowQuery], *, kept: frozenset[str]
    ) -> list[dict[str, Any]]:
        work = Work(
            windows=tuple(query.window for query in queries),
            first=first,
            passages=reading.passages,
            order=reading.order,
            keys=reading.keys,
            policies=reading.policies,
            prefix=reading.prefix,
            quarantine=reading.quarantine,
            batch=reading.batch,
            nonce=reading.nonce,
            part_bytes=reading.part_bytes,
            lake=self._lake,
        )
        statements = [query.sql for query in queries]
        # The MariaDB driver takes rows of any length.
        narrow = self._driver == "mysql" and reading.passages not in self._wide

        def job(spark: "SparkSession") -> list[dict[str, Any]]:
            spark = unweighed(spark) if narrow else spark
            trust = trust_of(spark, self._source.ca, driver=self._driver)
            properties = properties_of(
                self._source,
                driver=self._driver,
                identity=reading.identity,
                trust=trust,
                proxy=self._proxy(),
                narrow=narrow,
            )
            address = address_of(self._source, driver=self._driver)
            # The partitions of a union keep its order, and so a task knows its window by its number.
            frame = reduce(
                lambda some, more: some.union(more),
                [spark.read.jdbc(address, table_of(statement), properties=properties) for statement in statements],
            )
            rows = frame.mapInArrow(lambda batches: write_window(work, batches), f"{TOLD} string").collect()
            return [json.loads(row[0]) for row in rows]

        within = self._source.longest_read.total_seconds() + ON_TOP
        try:
            told = self._session.run(job, within=within, little=reading.little)
        except HintedError:
            raise
        except Exception as error:  # noqa: BLE001  # PySpark, Py4J and sockets raise what they please
            if narrow and is_too_wide(error):
                self._wide.add(reading.passages)
                self._abandon(reading, kept)
                return self._read_wave(reading, first, queries, kept=kept)
            raise error_of(error, self._source) from None  # a trace of Java helps nobody, and shows statements
        for one in told:
            if "error" in one:
                raise _TOLD_BY_TASKS.get(one["error"], ours.ReaderDown)(one["message"], hint=one["hint"])
        if len(told) != len(queries):
            raise ours.ReaderDown(f"{len(queries)} windows were to be read, and {len(told)} answered")
        return told

    def _abandon(self, reading: Reading, kept: frozenset[str] = frozenset()) -> None:
        """Give up what this attempt has begun, and take away what it finished, but for what is kept.

        What tasks that are still at work leave after that goes with the batch, when the next attempt is done.
        """
        mine = f"-{reading.nonce}-"
        with suppress(HintedError):
            lake = Lake.of(self._lake)
            for prefix in (reading.prefix, reading.quarantine):
                lake.abandon(prefix, mine=lambda key: mine in key)
                lake.drop([key for key, _ in lake.stray(prefix) if mine in key and key not in kept])


def _keys(told: Sequence[dict[str, Any]]) -> frozenset[str]:
    return frozenset(part["key"] for one in told for kind in ("parts", "quarantined") for part in one[kind])


def _parts(told: Sequence[dict[str, Any]], kind: str) -> tuple[Part, ...]:
    return tuple(part_of(part) for one in told for part in one[kind])
