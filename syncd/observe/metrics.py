"""Metrics for Prometheus: counters of events and calls, and gauges read from the board at each scrape."""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from syncd.events import (
    BatchAbandoned,
    BatchesLoaded,
    BatchExtracted,
    LedgerBehind,
    LoadRetried,
    OrphansRemoved,
    PassEnded,
    RowsQuarantined,
    StreamEvent,
)
from syncd.observe import metric_table as m
from syncd.observe.board import Board
from syncd.observe.board_view import BoardView, StageState, StageView, StreamState, StreamView
from syncd.observe.stream_state import ConfiguredStream
from syncd.ports.request_stats import ExternalCall, HorizonLagMeasured, LakeRequested, SourceQueried, WarehouseQueried
from watermarks.clock import Clock
from watermarks.document import Stage

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
EXTRACT_LABEL, LOAD_LABEL = str(Stage.EXTRACT), str(Stage.LOAD)
HOLD_VALID_SECONDS: Final = 600.0
"""Age at which the hold seen by a poll no longer counts: it may have ended since."""


class Metrics:
    """Registry of all metrics, fed with events and with calls to other systems. Thread-safe."""

    def __init__(self, board: Board, *, clock: Clock, heartbeat_age: Callable[[], float | None] = lambda: None) -> None:
        """Make the registry; `heartbeat_age` returns the seconds since the last iteration of the daemon's loop."""
        self.registry = CollectorRegistry()
        self._collectors = {
            one.name: _make_collector(one, self.registry) for one in (*m.EVENT_METRICS, *m.CALL_METRICS)
        }
        self._children_by_stream = dict[str, set[tuple[str, tuple[str, ...]]]]()
        """Series of each stream, which are removed with it."""
        self._horizon_holds = HorizonHoldTimes(clock=clock)
        self.registry.register(_BoardCollector(board, self._horizon_holds, heartbeat_age))
        ProcessCollector(registry=self.registry)

    def __call__(self, event: StreamEvent) -> None:
        stream = str(event.stream)
        match event:
            case BatchExtracted():
                self._on_batch_extracted(stream, event)
            case BatchesLoaded():
                self._count_batch(stream, LOAD_LABEL, rows=event.rows, files=event.files, seconds=event.seconds)
                self._stream_child(m.BATCHES_TOTAL, stream, LOAD_LABEL).inc(event.batches)
            case PassEnded():
                self._stream_child(m.PASSES_TOTAL, stream, str(event.stage), event.state).inc()
                self._child(m.PASS_SECONDS, str(event.stage), event.state).observe(event.seconds)
            case RowsQuarantined():
                self._stream_child(m.QUARANTINED_TOTAL, stream, LOAD_LABEL).inc(event.rows)
            case _:
                self._on_rare_event(stream, event)

    def on_call(self, call: ExternalCall) -> None:
        """Count one call to another system."""
        match call:
            case LakeRequested():
                self._child(m.S3_REQUESTS_TOTAL, call.operation, str(call.status)).inc()
            case SourceQueried():
                self._child(m.SOURCE_SECONDS, call.source, call.purpose).observe(call.seconds)
            case HorizonLagMeasured():
                self._horizon_holds.record(call.source, call.seconds)
            case WarehouseQueried():
                self._child(m.WAREHOUSE_SECONDS, call.warehouse, call.statement).observe(call.seconds)
                if call.statement == "copy":
                    self._child(m.COPIES_TOTAL, call.warehouse).inc()

    def set_streams(self, streams: Iterable[ConfiguredStream]) -> None:
        """Count these streams, each from 0 on, and remove the series of all others."""
        kept = {str(one.stream): one for one in streams}
        for stream in set(self._children_by_stream) - set(kept):
            for name, labels in self._children_by_stream.pop(stream):
                self._collectors[name].remove(*labels)
        for stream, one in kept.items():
            self._initialize_series(stream, stages=(EXTRACT_LABEL, LOAD_LABEL) if one.target else (EXTRACT_LABEL,))
        self._horizon_holds.retain_sources({one.stream.source for one in kept.values()})

    def render(self) -> bytes:
        return generate_latest(self.registry)

    def _initialize_series(self, stream: str, *, stages: tuple[str, ...]) -> None:
        # Prometheus sees no increase in a series that first appears with its first event.
        for one in m.METRICS_STARTING_AT_ZERO:
            if "stage" not in one.labels:
                self._stream_child(one, stream)
                continue
            for stage in stages:
                self._stream_child(one, stream, stage)
        for stage in stages:
            self._stream_child(m.PASSES_TOTAL, stream, stage, m.FAILED_STATE)

    def _on_batch_extracted(self, stream: str, event: BatchExtracted) -> None:
        self._count_batch(stream, EXTRACT_LABEL, rows=event.rows, files=event.files, seconds=event.seconds)
        self._stream_child(m.BATCHES_TOTAL, stream, EXTRACT_LABEL).inc()
        self._stream_child(m.BYTES_TOTAL, stream).inc(event.bytes)
        if event.quarantined:
            self._stream_child(m.QUARANTINED_TOTAL, stream, EXTRACT_LABEL).inc(event.quarantined)

    def _count_batch(self, stream: str, stage: str, *, rows: int, files: int, seconds: float) -> None:
        self._stream_child(m.ROWS_TOTAL, stream, stage).inc(rows)
        self._stream_child(m.FILES_TOTAL, stream, stage).inc(files)
        self._child(m.BATCH_SECONDS, stage).observe(seconds)
        self._child(m.BATCH_ROWS, stage).observe(rows)

    def _on_rare_event(self, stream: str, event: StreamEvent) -> None:
        match event:
            case BatchAbandoned():
                self._stream_child(m.ABANDONED_TOTAL, stream).inc()
            case LoadRetried():
                self._stream_child(m.LOAD_RETRIES_TOTAL, stream).inc()
            case LedgerBehind():
                self._stream_child(m.RELOADED_TOTAL, stream).inc(event.batches)
            case OrphansRemoved():
                self._stream_child(m.ORPHANS_REMOVED_TOTAL, stream).inc(event.files)
            case _:
                return

    def _stream_child(self, metric: m.Metric, *labels: str) -> Any:  # noqa: ANN401  # a counter or a histogram
        self._children_by_stream.setdefault(labels[0], set()).add((metric.name, labels))
        return self._child(metric, *labels)

    def _child(self, metric: m.Metric, *labels: str) -> Any:  # noqa: ANN401  # as above
        return self._collectors[metric.name].labels(*labels)


class HorizonHoldTimes:
    """Seconds for which transactions held the horizon of each source, as its last poll saw. Thread-safe."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._last_polls: dict[str, tuple[float, float]] = {}
        """Held seconds, and the time of the poll."""

    def record(self, source: str, seconds: float) -> None:
        with self._guard:
            self._last_polls[source] = seconds, self._clock.monotonic()

    def retain_sources(self, sources: Collection[str]) -> None:
        with self._guard:
            self._last_polls = {source: poll for source, poll in self._last_polls.items() if source in sources}

    def current(self) -> Mapping[str, float]:
        """Return the held seconds of each source that was polled lately."""
        since = self._clock.monotonic() - HOLD_VALID_SECONDS
        with self._guard:
            return {source: seconds for source, (seconds, at) in self._last_polls.items() if at > since}


def _make_collector(metric: m.Metric, registry: CollectorRegistry) -> Any:  # noqa: ANN401  # as above
    if metric.metric_type is m.MetricType.HISTOGRAM:
        return Histogram(metric.name, metric.help_text, metric.labels, registry=registry, buckets=metric.buckets)
    return Counter(metric.name, metric.help_text, metric.labels, registry=registry)


class _BoardCollector(Collector):
    """Gauges read from the board at each scrape, so that a removed stream has none."""

    def __init__(
        self, board: Board, horizon_holds: HorizonHoldTimes, heartbeat_age: Callable[[], float | None]
    ) -> None:
        self._board = board
        self._horizon_holds = horizon_holds
        self._heartbeat_age = heartbeat_age

    def describe(self) -> Iterable[Any]:
        return [_make_family(one) for one in m.BOARD_METRICS]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        families = {one.name: _make_family(one) for one in m.BOARD_METRICS}
        seen = self._board.view()
        for name, labels, value in (*_streams_samples(seen), *self._overall_samples(seen)):
            families[name].add_metric(labels, value)
        yield from families.values()

    def _overall_samples(self, view: BoardView) -> Iterator["MetricSample"]:
        for state in StreamState:
            yield m.STREAMS.name, (state,), view.count(state)
        for source, seconds in self._horizon_holds.current().items():
            yield m.HORIZON_HELD.name, (source,), seconds
        age = self._heartbeat_age()
        if age is not None:
            yield m.HEARTBEAT_AGE.name, (), age
        yield m.VERSION.name, (version("syncd"),), 1


MetricSample = tuple[str, tuple[str, ...], float]


def _make_family(metric: m.Metric) -> GaugeMetricFamily:
    return GaugeMetricFamily(metric.name, metric.help_text, labels=metric.labels)


def _streams_samples(view: BoardView) -> Iterator[MetricSample]:
    for stream in view.streams:
        yield from _stream_samples(stream)
        for stage in stream.stages:
            yield from _stage_samples(str(stream.stream), stage)


def _stream_samples(stream: StreamView) -> Iterator[MetricSample]:
    label = (str(stream.stream),)
    if stream.promised_lag is not None:
        yield m.PROMISED.name, label, stream.promised_lag.total_seconds()
    if stream.target:
        yield m.PENDING.name, label, stream.pending_batches


def _stage_samples(stream: str, stage: StageView) -> Iterator[MetricSample]:
    labels = (stream, str(stage.stage))
    if stage.complete is not None:
        yield m.LAG.name, labels, stage.complete.lag.total_seconds()
        yield m.COMPLETE.name, labels, stage.complete.upto.timestamp()
        yield m.PROVEN.name, labels, float(stage.complete.is_proven)
    if stage.last_success_at is not None:
        yield m.LAST_SUCCESS.name, labels, stage.last_success_at.timestamp()
    yield m.FAILURES.name, labels, stage.failure.times if stage.failure else 0
    yield m.RUNNING.name, labels, float(stage.running)
    yield m.HELD_BACK.name, labels, float(stage.state is StageState.HELD_BACK)
