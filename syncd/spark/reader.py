"""The reader behind the port: one Spark job for a batch, one task and one connection for each of its windows."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final, Never

from syncd import errors as ours
from syncd.concurrency.polling import until
from syncd.concurrency.resource_pool import NOBODY, Places, Share
from syncd.concurrency.running_pass import UnderWay, beside
from syncd.lake.window_reads import Part, Read, Reading, WindowQuery
from syncd.s3.lake_client import Lake
from syncd.settings import SourceSettings
from syncd.spark.failures import error_of, is_too_wide
from syncd.spark.jdbc import address_of, marked, properties_of, table_of
from syncd.spark.spark_session import Session, Tasks, unweighed
from syncd.spark.task import TOLD, Work, named, part_of, write_window
from syncd.spark.trust_store import trust_of
from watermarks.errors import HintedError, Misuse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from syncd.datatypes.columns import Passage

ON_TOP: Final = 30.0
"""Seconds beyond `longest_read` after which a reading is given up: the server, which counts too, ends it first."""
GONE_BY_THEMSELVES: Final = 0.5
"""Seconds: a task sees at its next row that it was given up."""
_PLAIN_NAME: Final = re.compile(r"\w+")
_TOLD_BY_TASKS: Final[dict[str, type[HintedError]]] = {
    kind.__name__: kind
    for kind in (ours.RowOutside, ours.ValueRefused, ours.LakeDown, ours.LakeUnfit, ours.SchemaDrift, Misuse)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wave:
    """Windows that are read at once."""

    first: int
    """The number of the first of them in its batch."""
    queries: Sequence[WindowQuery]
    under_way: UnderWay
    left: Callable[[Tasks], None]
    """Hears of tasks that outlive their job."""


class SparkReader:
    """Reads the windows of one source, over connections that have their places there; for any number of threads."""

    def __init__(
        self,
        session: Session,
        source: SourceSettings,
        lake: Lake,
        *,
        driver: str = "mysql",
        proxy: Callable[[], tuple[str, int] | None] = lambda: None,
        places: "Places[Any] | None" = None,
        end: "Callable[[str], None]" = lambda _nonce: None,
    ) -> None:
        """Prepare; `proxy` leads to the source where nothing leads there straight, and is asked before each reading.

        `end` ends, at the server, statements that are read from still, after their reading was given up.
        """
        self._session = session
        self._source = source
        self._lake = lake
        self._driver = driver
        self._proxy = proxy
        self._places: Places[Any] = Places(source.max_connections) if places is None else places
        self._end = end
        self._wide: set[tuple[Passage, ...]] = set()
        """What was read here, and has rows that are weighed."""

    def prepare(self, *, little: bool) -> None:
        """Start the session."""
        self._session.prepare(little=little)

    def read(
        self,
        reading: Reading,
        *,
        tell: Callable[[int], None] = lambda _rows: None,
        under_way: UnderWay = NOBODY,
    ) -> Read:
        """Read every window whole and write its rows to parts; see the port."""
        told: list[dict[str, Any]] = []
        rows = 0
        try:
            for wave in self._waves(reading, under_way):
                told += self._read_wave(reading, wave, kept=_keys(told))
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

    def _waves(self, reading: Reading, under_way: UnderWay) -> Iterator["_Wave"]:
        """As many windows at once as there are connections and slots free: none waits in Spark, and all end in time."""
        queries, first = reading.queries, 0
        while first < len(queries):
            slots = self._session.slots(little=reading.little, under_way=under_way)
            # First the connections, then the slots: whoever has slots waits for nobody, and so gives them back.
            with (
                self._places.reading(min(len(queries) - first, slots.most), under_way) as places,
                slots.reading(places.count, under_way) as tasks,
            ):
                places.shrink(tasks.count)
                wave = _Wave(
                    first=first,
                    queries=queries[first : first + places.count],
                    under_way=under_way,
                    left=partial(self._outlived, reading.nonce, places, tasks),
                )
                yield wave
            first += len(wave.queries)

    def _outlived(self, nonce: str, places: Share[Any], slots: Share[Never], tasks: Tasks) -> None:
        """Keep the places of a job that was given up until the last of its tasks is gone, and its statements are.

        Spark counts a task as gone with its job, though its driver may wait for a row that does not come. Only the
        server knows, and only it can end that.
        """
        leave = places.hand_on(), slots.hand_on()

        def watch() -> None:
            try:
                until(lambda: not tasks.at_work, within=GONE_BY_THEMSELVES)
                with suppress(HintedError):  # a server that does not answer reads to nobody for long
                    self._end(nonce)
                until(lambda: not tasks.at_work, within=self._source.silence.total_seconds())
            finally:
                for each in leave:
                    each()

        beside(watch, name="reading-ends")

    def _read_wave(self, reading: Reading, wave: "_Wave", *, kept: frozenset[str]) -> list[dict[str, Any]]:
        queries = wave.queries
        work = Work(
            windows=tuple(query.window for query in queries),
            first=wave.first,
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
            lake=self._lake.settings,
        )
        statements = [marked(query.sql, reading.nonce) for query in queries]
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
            names = frame.columns
            if not all(map(_PLAIN_NAME.fullmatch, names)):
                # PySpark looks each column up by its name, and takes a point, a star or a backtick in it for its own.
                frame = frame.toDF(*(f"c{place}" for place in range(len(names))))
            rows = frame.mapInArrow(
                lambda batches: write_window(work, named(batches, names)), f"{TOLD} string"
            ).collect()
            return [json.loads(row[0]) for row in rows]

        within = self._source.longest_read.total_seconds() + ON_TOP
        try:
            told = self._session.run(
                job, within=within, little=reading.little, under_way=wave.under_way, left=wave.left
            )
        except HintedError:
            raise
        except Exception as error:  # noqa: BLE001  # PySpark, Py4J and sockets raise what they please
            if narrow and is_too_wide(error):
                self._wide.add(reading.passages)
                self._abandon(reading, kept)
                return self._read_wave(reading, wave, kept=kept)
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
        lake = self._lake
        with suppress(HintedError):
            for prefix in (reading.prefix, reading.quarantine):
                lake.abandon(prefix, mine=lambda key: mine in key)
                lake.drop([key for key, _ in lake.stray(prefix) if mine in key and key not in kept])


def _keys(told: Sequence[dict[str, Any]]) -> frozenset[str]:
    return frozenset(part["key"] for one in told for kind in ("parts", "quarantined") for part in one[kind])


def _parts(told: Sequence[dict[str, Any]], kind: str) -> tuple[Part, ...]:
    return tuple(part_of(part) for one in told for part in one[kind])
