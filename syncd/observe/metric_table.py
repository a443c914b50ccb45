"""Every metric there is: its name, its kind, its labels, what it tells; the page of them is made from it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class MetricType(StrEnum):
    """What Prometheus calls its type."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric."""

    name: str
    """As it is scraped; of a counter with `_total`."""
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
    "syncd_rows_total", _STREAM_AND_STAGE, "Rows that were read into the lake, or landed in the target."
)
FILES_TOTAL: Final = _counter("syncd_files_total", _STREAM_AND_STAGE, "Files that were written, or landed.")
BYTES_TOTAL: Final = _counter("syncd_bytes_total", ("stream",), "Bytes of the files that were written.")
BATCHES_TOTAL: Final = _counter("syncd_batches_total", _STREAM_AND_STAGE, "Batches that were extracted, or landed.")
ABANDONED_TOTAL: Final = _counter(
    "syncd_batches_abandoned_total", ("stream",), "Batches that were planned for a world that was gone."
)
QUARANTINED_TOTAL: Final = _counter("syncd_quarantined_rows_total", _STREAM_AND_STAGE, "Rows that were put aside.")
LOAD_RETRIES_TOTAL: Final = _counter("syncd_landing_retries_total", ("stream",), "Landings that were tried again.")
RELOADED_TOTAL: Final = _counter(
    "syncd_relanded_batches_total", ("stream",), "Batches that the warehouse had lost, as after a restore."
)
SWEPT_TOTAL: Final = _counter("syncd_swept_files_total", ("stream",), "Files of cut-off attempts that were removed.")
PASSES_TOTAL: Final = _counter(
    "syncd_passes_total",
    (*_STREAM_AND_STAGE, "state"),
    "Passes that ended, by how: `extracted`, `loaded`, `nothing new`, `waiting`, `failed`.",
)
FAILED_STATE: Final = "failed"
"""The one of these that is looked at for its first rise, and so is there from 0 on for each stream and stage."""
S3_REQUESTS_TOTAL: Final = _counter(
    "syncd_s3_requests_total",
    ("operation", "status"),
    "Requests of this process to S3, each attempt by itself; status 0: no answer came. Spark's workers, who write the"
    " files, are not among them: see `syncd_files_total`.",
)
COPIES_TOTAL: Final = _counter("syncd_copies_total", ("warehouse",), "COPY statements that were sent.")

PASS_SECONDS: Final = _histogram(
    "syncd_pass_seconds", ("stage", "state"), "How long passes took.", DURATION_BUCKETS_SECONDS
)
BATCH_SECONDS: Final = _histogram(
    "syncd_batch_seconds",
    ("stage",),
    "How long a batch took to extract, or a cycle of batches to land.",
    DURATION_BUCKETS_SECONDS,
)
BATCH_ROWS: Final = _histogram(
    "syncd_batch_rows", ("stage",), "Rows of a batch, or of a cycle that landed.", ROW_COUNT_BUCKETS
)
SOURCE_SECONDS: Final = _histogram(
    "syncd_source_query_seconds",
    ("source", "about"),
    "How long questions to a source took, by what they are about: `plan` or `horizon`. The reading of rows, which"
    " Spark does, is in `syncd_batch_seconds`.",
    QUERY_BUCKETS_SECONDS,
)
WAREHOUSE_SECONDS: Final = _histogram(
    "syncd_warehouse_statement_seconds",
    ("warehouse", "statement"),
    "How long statements took, by their first word.",
    QUERY_BUCKETS_SECONDS,
)

LAG: Final = _gauge(
    "syncd_lag_seconds",
    _STREAM_AND_STAGE,
    "How far behind now a stage is, in data time: of `extract` the lake, of `load` the target. Absent until it is"
    " known.",
)
COMPLETE: Final = _gauge(
    "syncd_complete_timestamp_seconds",
    _STREAM_AND_STAGE,
    "Up to when everything that was committed at the source is in the lake, or in the target.",
)
PROVEN: Final = _gauge(
    "syncd_complete_proven", _STREAM_AND_STAGE, "1 where that instant is proven, 0 where it is assumed."
)
PROMISED: Final = _gauge("syncd_promised_lag_seconds", ("stream",), "What `fresh_within` promises, where it does.")
PENDING: Final = _gauge("syncd_pending_batches", ("stream",), "Batches that are extracted and not loaded.")
FAILURES: Final = _gauge(
    "syncd_failures_in_a_row", _STREAM_AND_STAGE, "Passes in a row that ended in an error; 0: the last one did not."
)
RUNNING: Final = _gauge("syncd_stage_running", _STREAM_AND_STAGE, "1 while a pass is under way.")
HELD_BACK: Final = _gauge("syncd_stage_held_back", _STREAM_AND_STAGE, "1 while a pass is due and may not run.")
LAST_SUCCESS: Final = _gauge(
    "syncd_last_good_pass_timestamp_seconds", _STREAM_AND_STAGE, "When the last pass without an error ended."
)
STREAMS: Final = _gauge(
    "syncd_streams",
    ("state",),
    "Streams by how they stand: `failed`, `late`, `held back`, `waiting`, `not run yet`, `running`, `idle`.",
)
HORIZON_HELD: Final = _gauge(
    "syncd_horizon_held_seconds",
    ("source",),
    "How far behind the server's clock the horizon was at the last poll, where it is proven: the age of the oldest"
    " transaction that may still write. Absent where there was no poll for ten minutes.",
)
HEARTBEAT_AGE: Final = _gauge("syncd_heartbeat_age_seconds", (), "Since when the daemon's loop has not come round.")
VERSION: Final = _gauge("syncd_info", ("version",), "1, with the version that runs.")

EVENT_METRICS: Final = (
    ROWS_TOTAL, FILES_TOTAL, BYTES_TOTAL, BATCHES_TOTAL, ABANDONED_TOTAL, QUARANTINED_TOTAL, LOAD_RETRIES_TOTAL,
    RELOADED_TOTAL, SWEPT_TOTAL, PASSES_TOTAL, PASS_SECONDS, BATCH_SECONDS, BATCH_ROWS,
)  # fmt: skip
"""What events are counted into."""
METRICS_STARTING_AT_ZERO: Final = (ROWS_TOTAL, QUARANTINED_TOTAL, LOAD_RETRIES_TOTAL, RELOADED_TOTAL)
"""What alerts and the dashboard see rise: each stream has these before anything happens."""
CALL_METRICS: Final = (S3_REQUESTS_TOTAL, COPIES_TOTAL, SOURCE_SECONDS, WAREHOUSE_SECONDS)
"""What questions to the outside are counted into."""
BOARD_METRICS: Final = (
    LAG, COMPLETE, PROVEN, PROMISED, PENDING, FAILURES, RUNNING, HELD_BACK, LAST_SUCCESS, STREAMS, HORIZON_HELD,
    HEARTBEAT_AGE, VERSION,
)  # fmt: skip
"""What the board shows at the moment of a scrape."""
ALL_METRICS: Final = (*EVENT_METRICS, *CALL_METRICS, *BOARD_METRICS)
