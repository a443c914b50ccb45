"""Table of all metrics: name, type, labels and help text; docs/reference/metrics.md is made from it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class MetricType(StrEnum):
    """Type of a metric, as Prometheus calls it."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric."""

    name: str
    """Name in a scrape, with `_total` for a counter."""
    metric_type: MetricType
    labels: tuple[str, ...]
    help_text: str
    buckets: tuple[float, ...] = ()


DURATION_BUCKETS_SECONDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0)
QUERY_BUCKETS_SECONDS: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 600.0)
ROW_COUNT_BUCKETS: Final = (1.0, 100.0, 1_000.0, 10_000.0, 100_000.0, 1_000_000.0, 10_000_000.0)

_STREAM_AND_STAGE: Final = ("stream", "stage")


def _counter(name: str, labels: tuple[str, ...], help_text: str) -> Metric:
    return Metric(name=name, metric_type=MetricType.COUNTER, labels=labels, help_text=help_text)


def _gauge(name: str, labels: tuple[str, ...], help_text: str) -> Metric:
    return Metric(name=name, metric_type=MetricType.GAUGE, labels=labels, help_text=help_text)


def _histogram(name: str, labels: tuple[str, ...], help_text: str, buckets: tuple[float, ...]) -> Metric:
    return Metric(name=name, metric_type=MetricType.HISTOGRAM, labels=labels, help_text=help_text, buckets=buckets)


ROWS_TOTAL: Final = _counter(
    "syncd_rows_total", _STREAM_AND_STAGE, "Rows that were read into the lake, or loaded into the target."
)
FILES_TOTAL: Final = _counter("syncd_files_total", _STREAM_AND_STAGE, "Files that were written, or loaded.")
BYTES_TOTAL: Final = _counter("syncd_bytes_total", ("stream",), "Bytes of the files that were written.")
BATCHES_TOTAL: Final = _counter("syncd_batches_total", _STREAM_AND_STAGE, "Batches that were extracted, or loaded.")
ABANDONED_TOTAL: Final = _counter(
    "syncd_batches_abandoned_total",
    ("stream",),
    "Planned batches abandoned because they no longer fit the source.",
)
QUARANTINED_TOTAL: Final = _counter("syncd_quarantined_rows_total", _STREAM_AND_STAGE, "Rows that were quarantined.")
LOAD_RETRIES_TOTAL: Final = _counter("syncd_load_retries_total", ("stream",), "Loads that were retried.")
RELOADED_TOTAL: Final = _counter(
    "syncd_reloaded_batches_total",
    ("stream",),
    "Loaded batches that the warehouse had lost, as after a restore.",
)
ORPHANS_REMOVED_TOTAL: Final = _counter(
    "syncd_orphan_files_removed_total", ("stream",), "Files of interrupted attempts that were removed."
)
PASSES_TOTAL: Final = _counter(
    "syncd_passes_total",
    (*_STREAM_AND_STAGE, "state"),
    "Passes that ended, by result: `extracted`, `loaded`, `nothing new`, `waiting`, `failed`.",
)
FAILED_STATE: Final = "failed"
"""State whose first increase alerts watch, and whose series therefore begin at 0 for each stream and stage."""
S3_REQUESTS_TOTAL: Final = _counter(
    "syncd_s3_requests_total",
    ("operation", "status"),
    "Requests of this process to S3, one for each attempt; status 0: no answer. Requests of Spark's workers, which"
    " write the files, are not counted: see `syncd_files_total`.",
)
COPIES_TOTAL: Final = _counter("syncd_copies_total", ("warehouse",), "COPY statements that were sent.")

PASS_SECONDS: Final = _histogram(
    "syncd_pass_seconds", ("stage", "state"), "Duration of passes.", DURATION_BUCKETS_SECONDS
)
BATCH_SECONDS: Final = _histogram(
    "syncd_batch_seconds",
    ("stage",),
    "Duration of the extraction of a batch, or of the load of a cycle of batches.",
    DURATION_BUCKETS_SECONDS,
)
BATCH_ROWS: Final = _histogram(
    "syncd_batch_rows", ("stage",), "Rows of an extracted batch, or of a loaded cycle.", ROW_COUNT_BUCKETS
)
SOURCE_SECONDS: Final = _histogram(
    "syncd_source_query_seconds",
    ("source", "purpose"),
    "Duration of queries to a source, by purpose: `plan` or `horizon`. The reading of rows, which Spark does, is in"
    " `syncd_batch_seconds`.",
    QUERY_BUCKETS_SECONDS,
)
WAREHOUSE_SECONDS: Final = _histogram(
    "syncd_warehouse_statement_seconds",
    ("warehouse", "statement"),
    "Duration of statements, by their first word.",
    QUERY_BUCKETS_SECONDS,
)

LAG: Final = _gauge(
    "syncd_lag_seconds",
    _STREAM_AND_STAGE,
    "Current lag of a stage, in data time: of the lake for `extract`, of the target for `load`. Absent until it is"
    " known.",
)
COMPLETE: Final = _gauge(
    "syncd_complete_timestamp_seconds",
    _STREAM_AND_STAGE,
    "Instant up to which everything committed at the source is in the lake, or in the target.",
)
PROVEN: Final = _gauge("syncd_complete_proven", _STREAM_AND_STAGE, "1 if that instant is proven, 0 if it is assumed.")
PROMISED: Final = _gauge("syncd_promised_lag_seconds", ("stream",), "Lag that `fresh_within` promises.")
PENDING: Final = _gauge("syncd_pending_batches", ("stream",), "Extracted batches that are not loaded yet.")
FAILURES: Final = _gauge(
    "syncd_consecutive_failures", _STREAM_AND_STAGE, "Consecutive passes that failed; 0 if the last one did not."
)
RUNNING: Final = _gauge("syncd_stage_running", _STREAM_AND_STAGE, "1 while a pass is running.")
HELD_BACK: Final = _gauge("syncd_stage_held_back", _STREAM_AND_STAGE, "1 while a pass is due but held back.")
LAST_SUCCESS: Final = _gauge(
    "syncd_last_successful_pass_timestamp_seconds", _STREAM_AND_STAGE, "When the last pass without an error ended."
)
STREAMS: Final = _gauge(
    "syncd_streams",
    ("state",),
    "Streams by state: `failed`, `late`, `held back`, `waiting`, `not run yet`, `running`, `idle`.",
)
HORIZON_HELD: Final = _gauge(
    "syncd_horizon_held_seconds",
    ("source",),
    "Lag of a proven horizon behind the server's clock at the last poll: the age of the oldest transaction that may"
    " still write. Absent without a poll in the last ten minutes.",
)
HEARTBEAT_AGE: Final = _gauge(
    "syncd_heartbeat_age_seconds", (), "Seconds since the last iteration of the daemon's loop."
)
VERSION: Final = _gauge("syncd_info", ("version",), "1, with the running version as label.")

EVENT_METRICS: Final = (
    ROWS_TOTAL, FILES_TOTAL, BYTES_TOTAL, BATCHES_TOTAL, ABANDONED_TOTAL, QUARANTINED_TOTAL, LOAD_RETRIES_TOTAL,
    RELOADED_TOTAL, ORPHANS_REMOVED_TOTAL, PASSES_TOTAL, PASS_SECONDS, BATCH_SECONDS, BATCH_ROWS,
)  # fmt: skip
"""Metrics of events."""
METRICS_STARTING_AT_ZERO: Final = (ROWS_TOTAL, QUARANTINED_TOTAL, LOAD_RETRIES_TOTAL, RELOADED_TOTAL)
"""Counters that begin at 0 for each stream, so that alerts and dashboards see their first increase."""
CALL_METRICS: Final = (S3_REQUESTS_TOTAL, COPIES_TOTAL, SOURCE_SECONDS, WAREHOUSE_SECONDS)
"""Metrics of calls to other systems."""
BOARD_METRICS: Final = (
    LAG, COMPLETE, PROVEN, PROMISED, PENDING, FAILURES, RUNNING, HELD_BACK, LAST_SUCCESS, STREAMS, HORIZON_HELD,
    HEARTBEAT_AGE, VERSION,
)  # fmt: skip
"""Metrics read from the board at a scrape."""
ALL_METRICS: Final = (*EVENT_METRICS, *CALL_METRICS, *BOARD_METRICS)
