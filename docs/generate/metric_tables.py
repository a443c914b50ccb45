"""Tables of the page about metrics, generated from the list of metrics."""

from collections.abc import Iterable

from syncd.observe.metric_table import METRICS_STARTING_AT_ZERO, Metric


def metric_table(measures: Iterable[Metric]) -> str:
    rows = "\n".join(
        f"| `{measure.name}` | {measure.metric_type} | {_labels(measure)} | {measure.help_text} |"
        for measure in measures
    )
    return f"| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n{rows}"


def metrics_from_zero() -> str:
    return ", ".join(f"`{measure.name}`" for measure in METRICS_STARTING_AT_ZERO)


def _labels(measure: Metric) -> str:
    return ", ".join(f"`{label}`" for label in measure.labels)
