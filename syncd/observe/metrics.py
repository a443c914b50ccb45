"""Metrics for Prometheus: events and calls are counted, and what the board shows is read off at each scrape."""

from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from syncd.events import (
    BatchAbandoned,
    BatchesLanded,
    BatchExtracted,
    Event,
    LandingRetried,
    LedgerBehind,
    OrphansSwept,
    PassEnded,
    RowsPutAside,
)
from syncd.observe import metric_table as m
from syncd.observe.board import Board
from syncd.observe.board_view import BoardSeen, Mood, StageSeen, State, StreamSeen
from syncd.observe.horizon_holds import Held
from syncd.observe.stream_state import Listed
from syncd.ports.request_stats import Call, HorizonHeld, LakeAsked, SourceAsked, WarehouseAsked
from watermarks.clock import Clock
from watermarks.document import Stage

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
EXTRACT, LOAD = str(Stage.EXTRACT), str(Stage.LOAD)


class Metrics:
    """Counts what it is told: called with an event, and by `measure` with a call. Safe for several threads."""

    def __init__(self, board: Board, *, clock: Clock, age: Callable[[], float | None] = lambda: None) -> None:
        """Prepare; `age` tells since when the daemon's loop has not come round."""
        self.registry = CollectorRegistry()
        self._made = {one.name: _made(one, self.registry) for one in (*m.EVENTS, *m.CALLS)}
        self._of = dict[str, set[tuple[str, tuple[str, ...]]]]()
        """Which children there are of a stream: what is to be forgotten with it."""
        self._held = Held(clock=clock)
        self.registry.register(_Shown(board, self._held, age))
        ProcessCollector(registry=self.registry)

    def __call__(self, event: Event) -> None:
        stream = str(event.stream)
        match event:
            case BatchExtracted():
                self._extracted(stream, event)
            case BatchesLanded():
                self._moved(stream, LOAD, rows=event.rows, files=event.files, seconds=event.seconds)
                self._stream(m.BATCHES_TOTAL, stream, LOAD).inc(event.batches)
            case PassEnded():
                self._stream(m.PASSES_TOTAL, stream, str(event.stage), event.state).inc()
                self._child(m.PASS_SECONDS, str(event.stage), event.state).observe(event.seconds)
            case RowsPutAside():
                self._stream(m.QUARANTINED_TOTAL, stream, LOAD).inc(event.rows)
            case _:
                self._seldom(stream, event)

    def measure(self, call: Call) -> None:
        """Count one question to the outside."""
        match call:
            case LakeAsked():
                self._child(m.S3_REQUESTS_TOTAL, call.operation, str(call.status)).inc()
            case SourceAsked():
                self._child(m.SOURCE_SECONDS, call.source, call.about).observe(call.seconds)
            case HorizonHeld():
                self._held.note(call.source, call.seconds)
            case WarehouseAsked():
                self._child(m.WAREHOUSE_SECONDS, call.warehouse, call.statement).observe(call.seconds)
                if call.statement == "copy":
                    self._child(m.COPIES_TOTAL, call.warehouse).inc()

    def keep(self, listed: Iterable[Listed]) -> None:
        """Count these streams, each from 0 on before anything happens, and forget every other."""
        kept = {str(one.stream): one for one in listed}
        for stream in set(self._of) - set(kept):
            for name, labels in self._of.pop(stream):
                self._made[name].remove(*labels)
        for stream, one in kept.items():
            self._begin(stream, stages=(EXTRACT, LOAD) if one.target else (EXTRACT,))
        self._held.keep({one.stream.source for one in kept.values()})

    def text(self) -> bytes:
        """What a scrape gets."""
        return generate_latest(self.registry)

    def _begin(self, stream: str, *, stages: tuple[str, ...]) -> None:
        # A series that first appears with its first event has not risen, as Prometheus sees it.
        for one in m.COUNTED_FROM_0:
            if "stage" not in one.labels:
                self._stream(one, stream)
                continue
            for stage in stages:
                self._stream(one, stream, stage)
        for stage in stages:
            self._stream(m.PASSES_TOTAL, stream, stage, m.FAILED)

    def _extracted(self, stream: str, event: BatchExtracted) -> None:
        self._moved(stream, EXTRACT, rows=event.rows, files=event.files, seconds=event.seconds)
        self._stream(m.BATCHES_TOTAL, stream, EXTRACT).inc()
        self._stream(m.BYTES_TOTAL, stream).inc(event.bytes)
        if event.quarantined:
            self._stream(m.QUARANTINED_TOTAL, stream, EXTRACT).inc(event.quarantined)

    def _moved(self, stream: str, stage: str, *, rows: int, files: int, seconds: float) -> None:
        self._stream(m.ROWS_TOTAL, stream, stage).inc(rows)
        self._stream(m.FILES_TOTAL, stream, stage).inc(files)
        self._child(m.BATCH_SECONDS, stage).observe(seconds)
        self._child(m.BATCH_ROWS, stage).observe(rows)

    def _seldom(self, stream: str, event: Event) -> None:
        match event:
            case BatchAbandoned():
                self._stream(m.ABANDONED_TOTAL, stream).inc()
            case LandingRetried():
                self._stream(m.RETRIES_TOTAL, stream).inc()
            case LedgerBehind():
                self._stream(m.RELANDED_TOTAL, stream).inc(event.batches)
            case OrphansSwept():
                self._stream(m.SWEPT_TOTAL, stream).inc(event.files)
            case _:
                return

    def _stream(self, one: m.Measure, *labels: str) -> Any:  # noqa: ANN401  # of the library's kind for it
        self._of.setdefault(labels[0], set()).add((one.name, labels))
        return self._child(one, *labels)

    def _child(self, one: m.Measure, *labels: str) -> Any:  # noqa: ANN401  # as above
        return self._made[one.name].labels(*labels)


def _made(one: m.Measure, registry: CollectorRegistry) -> Any:  # noqa: ANN401  # as above
    if one.shape is m.Shape.HISTOGRAM:
        return Histogram(one.name, one.tells, one.labels, registry=registry, buckets=one.buckets)
    return Counter(one.name, one.tells, one.labels, registry=registry)


class _Shown(Collector):
    """What the board shows, as gauges of this moment: a stream that is gone is gone here too."""

    def __init__(self, board: Board, held: Held, age: Callable[[], float | None]) -> None:
        self._board = board
        self._held = held
        self._age = age

    def describe(self) -> Iterable[Any]:
        return [_family(one) for one in m.SHOWN]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        families = {one.name: _family(one) for one in m.SHOWN}
        seen = self._board.view()
        for name, labels, value in (*_of_streams(seen), *self._of_all(seen)):
            families[name].add_metric(labels, value)
        yield from families.values()

    def _of_all(self, seen: BoardSeen) -> Iterator["Sample"]:
        for mood in Mood:
            yield m.STREAMS.name, (mood,), seen.count(mood)
        for source, seconds in self._held.view().items():
            yield m.HELD.name, (source,), seconds
        age = self._age()
        if age is not None:
            yield m.HEARTBEAT.name, (), age
        yield m.VERSION.name, (version("syncd"),), 1


Sample = tuple[str, tuple[str, ...], float]


def _family(one: m.Measure) -> GaugeMetricFamily:
    return GaugeMetricFamily(one.name, one.tells, labels=one.labels)


def _of_streams(seen: BoardSeen) -> Iterator[Sample]:
    for stream in seen.streams:
        yield from _of_stream(stream)
        for stage in stream.stages:
            yield from _of_stage(str(stream.stream), stage)


def _of_stream(stream: StreamSeen) -> Iterator[Sample]:
    label = (str(stream.stream),)
    if stream.promised is not None:
        yield m.PROMISED.name, label, stream.promised.total_seconds()
    if stream.target:
        yield m.PENDING.name, label, stream.pending


def _of_stage(stream: str, stage: StageSeen) -> Iterator[Sample]:
    labels = (stream, str(stage.stage))
    if stage.complete is not None:
        yield m.LAG.name, labels, stage.complete.behind.total_seconds()
        yield m.COMPLETE.name, labels, stage.complete.upto.timestamp()
        yield m.PROVEN.name, labels, float(stage.complete.proven)
    if stage.last_good is not None:
        yield m.LAST_GOOD.name, labels, stage.last_good.timestamp()
    yield m.FAILURES.name, labels, stage.trouble.times if stage.trouble else 0
    yield m.RUNNING.name, labels, float(stage.running)
    yield m.HELD_BACK.name, labels, float(stage.state is State.HELD_BACK)
