"""Prints `docs/metrics.md` from the table of metrics.

python -m syncd.observe.metrics_page > docs/metrics.md
"""

import sys
from collections.abc import Iterable, Iterator

from syncd.observe.metric_table import BOARD_METRICS, CALL_METRICS, EVENT_METRICS, METRICS_STARTING_AT_ZERO, Metric

INTRODUCTION = """\
# Metrics

`GET /metrics` of the daemon ([http.md](http.md)) gives them as Prometheus reads them. This page is made from
`syncd/observe/metric_table.py`; a test holds it to that.

`stream` is `source/database.table`, `stage` is `extract` or `load`. No label holds anything whose values are without
number: no batch, no file, no error, no user. A stream that is taken out of the configuration takes its series along.
Counters begin at 0 with the process. `process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_open_fds`
and their like are there too; a histogram has `_bucket`, `_sum` and `_count`.

What alerts and the dashboard see rise is there for each stream before anything happens to it:
{counted}, and of `syncd_passes_total` those that `failed`.
"""
COMMON_QUESTIONS = """\
## What is asked of a dashboard most

| Question | Expression |
|---|---|
| How far behind is what people read? | `syncd_lag_seconds{stage="load"}` |
| Which stage is it? | `syncd_lag_seconds{stage="extract"}`: near the same, the first; near 0, the second |
| Is a promise broken? | `min by (stream) (syncd_lag_seconds{stage="load"}) > on (stream) max by (stream)\
 (syncd_promised_lag_seconds)`; `SyncdPromiseBroken` asks so of `extract` where there is no warehouse |
| Does anything fail? | `max by (stream, stage) (syncd_failures_in_a_row) > 2` |
| Is the daemon alive? | `syncd_heartbeat_age_seconds > 60`, and `up == 0` |
| Rows a second | `sum by (stream) (rate(syncd_rows_total{stage="load"}[5m]))` |
| What holds reading back? | `syncd_horizon_held_seconds > 600`: a transaction is open for that long |
| What does S3 bill? | `sum by (operation) (increase(syncd_s3_requests_total[1d]))` |
"""


def render_page() -> str:
    parts = (
        INTRODUCTION.format(counted=", ".join(f"`{one.name}`" for one in METRICS_STARTING_AT_ZERO)),
        *_render_section("Counted from what happens", EVENT_METRICS),
        *_render_section("Counted from what is asked of the outside", CALL_METRICS),
        *_render_section("Read off at each scrape", BOARD_METRICS),
        COMMON_QUESTIONS,
    )
    return "\n".join(parts)


def _render_section(title: str, metrics: Iterable[Metric]) -> Iterator[str]:
    rows = "\n".join(
        f"| `{one.name}` | {one.metric_type} | {_format_labels(one)} | {one.help_text} |" for one in metrics
    )
    yield f"## {title}\n\n| Metric | Type | Labels | What it tells |\n|---|---|---|---|\n{rows}\n"


def _format_labels(metric: Metric) -> str:
    return ", ".join(f"`{label}`" for label in metric.labels)


if __name__ == "__main__":
    sys.stdout.write(render_page())
