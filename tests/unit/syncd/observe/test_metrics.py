"""What Prometheus is told."""

import re
from datetime import timedelta

from prometheus_client.parser import text_string_to_metric_families

from syncd.errors import TransactionConflict, WarehouseDown
from syncd.events import BatchAbandoned, LedgerBehind, LoadRetried, OrphansRemoved, RowsQuarantined
from syncd.observe.metric_table import ALL_METRICS, MetricType
from syncd.observe.metrics import Metrics
from syncd.observe.stream_state import ConfiguredStream
from syncd.ports.request_stats import (
    HorizonLagMeasured,
    LakeRequested,
    SourceQueried,
    SourceQueryPurpose,
    WarehouseQueried,
)
from tests.builders import NOON, ORDERS
from tests.unit.syncd.observe.stories import EXTRACT, LOAD, began, ended, extracted, landed, make_board
from watermarks.batch import BatchId
from watermarks.testing import ManualClock


def samples(metrics: Metrics) -> dict[str, float]:
    """Every sample by its name and the values of its labels, in the order of the table."""
    order = [label for one in ALL_METRICS for label in one.labels]
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for one in family.samples:
            values = [one.labels[label] for label in sorted(set(one.labels) & set(order), key=order.index)]
            found[" ".join((one.name, *values))] = one.value
    return found


def make_metrics(clock: ManualClock | None = None) -> Metrics:
    """Metrics that heard of everything once."""
    clock = clock or ManualClock(NOON)
    board = make_board(clock, promised_lag=timedelta(seconds=60))
    metrics = Metrics(board, clock=clock, heartbeat_age=lambda: 0.25)
    for event in (
        began(EXTRACT),
        extracted(1, quarantined=2),
        ended(EXTRACT, batches=1, rows=100, state="extracted", behind=3),
        landed(1, 3),
        ended(LOAD, error=WarehouseDown("away")),
        RowsQuarantined(stream=ORDERS, batch=BatchId(1, 1), rows=5, reason="too long"),
        LoadRetried(stream=ORDERS, error=TransactionConflict("collided"), seconds=1.0),
        LedgerBehind(stream=ORDERS, batches=4),
        OrphansRemoved(stream=ORDERS, files=6),
        BatchAbandoned(stream=ORDERS, batch=BatchId(1, 2)),
    ):
        board(event)
        metrics(event)
    for call in (
        LakeRequested(operation="PutObject", status=200),
        SourceQueried(source="shop", purpose=SourceQueryPurpose.PLAN, seconds=0.01),
        HorizonLagMeasured(source="shop", seconds=40.0),
        WarehouseQueried(warehouse="main", statement="copy", seconds=3.0),
        WarehouseQueried(warehouse="main", statement="commit", seconds=1.0),
    ):
        metrics.on_call(call)
    return metrics


def test_events_are_counted() -> None:
    found = samples(make_metrics())

    stream = str(ORDERS)
    assert found[f"syncd_rows_total {stream} extract"] == 100
    assert found[f"syncd_bytes_total {stream}"] == 5_000
    assert found[f"syncd_batches_total {stream} load"] == 3
    assert found[f"syncd_quarantined_rows_total {stream} extract"] == 2
    assert found[f"syncd_quarantined_rows_total {stream} load"] == 5
    assert found[f"syncd_passes_total {stream} load failed"] == 1
    assert found[f"syncd_reloaded_batches_total {stream}"] == 4
    assert found[f"syncd_orphan_files_removed_total {stream}"] == 6
    assert found["syncd_batch_seconds_count load"] == 1


def test_calls_are_counted() -> None:
    found = samples(make_metrics())

    assert found["syncd_s3_requests_total PutObject 200"] == 1
    assert found["syncd_source_query_seconds_count shop plan"] == 1
    assert found["syncd_horizon_held_seconds shop"] == 40
    assert found["syncd_copies_total main"] == 1
    assert found["syncd_warehouse_statement_seconds_sum main commit"] == 1


def test_what_the_board_shows_is_read_at_the_scrape() -> None:
    found = samples(make_metrics())

    stream = str(ORDERS)
    assert found[f"syncd_lag_seconds {stream} extract"] == 3
    assert found[f"syncd_complete_proven {stream} load"] == 1
    assert found[f"syncd_consecutive_failures {stream} load"] == 1
    assert found["syncd_streams failed"] == 1
    assert found["syncd_heartbeat_age_seconds"] == 0.25
    assert found["process_open_fds"] > 0


def test_names_and_labels_follow_the_conventions() -> None:
    assert len({one.name for one in ALL_METRICS}) == len(ALL_METRICS)
    for one in ALL_METRICS:
        assert re.fullmatch(r"syncd_[a-z0-9_]+", one.name), one.name
        assert one.name.endswith("_total") is (one.metric_type is MetricType.COUNTER), one.name
        assert set(one.labels) <= {
            "stream", "stage", "state", "source", "purpose", "warehouse", "statement", "operation", "status", "version",
        }, one.name  # fmt: skip


def test_every_metric_is_there_and_no_other() -> None:
    told = make_metrics().render().decode()

    families = {family.name for family in text_string_to_metric_families(told)}
    own = {name for name in families if name.startswith("syncd_") and not name.endswith("_created")}
    assert own == {one.name.removesuffix("_total") for one in ALL_METRICS}


def test_a_stream_that_is_gone_takes_its_series_along() -> None:
    metrics = make_metrics()

    metrics.set_streams([])

    counted = [name for name in samples(metrics) if str(ORDERS) in name and "_total" in name]
    assert not counted


def test_a_stream_that_is_listed_is_counted_from_0() -> None:
    """Prometheus sees a rise only where it has seen what it rises from."""
    metrics = Metrics(make_board(), clock=ManualClock(NOON))

    metrics.set_streams([ConfiguredStream(stream=ORDERS, target="public.orders")])

    assert {
        name: count for name, count in samples(metrics).items() if name.startswith("syncd_") and "_total" in name
    } == {
        f"syncd_rows_total {ORDERS} extract": 0,
        f"syncd_rows_total {ORDERS} load": 0,
        f"syncd_quarantined_rows_total {ORDERS} extract": 0,
        f"syncd_quarantined_rows_total {ORDERS} load": 0,
        f"syncd_load_retries_total {ORDERS}": 0,
        f"syncd_reloaded_batches_total {ORDERS}": 0,
        f"syncd_passes_total {ORDERS} extract failed": 0,
        f"syncd_passes_total {ORDERS} load failed": 0,
    }


def test_a_stream_without_a_target_is_counted_for_what_it_has() -> None:
    metrics = Metrics(make_board(target=""), clock=ManualClock(NOON))

    metrics.set_streams([ConfiguredStream(stream=ORDERS)])
    found = samples(metrics)

    assert found[f"syncd_rows_total {ORDERS} extract"] == 0
    assert f"syncd_rows_total {ORDERS} load" not in found


def test_what_was_counted_of_a_stream_that_stays_is_kept() -> None:
    metrics = make_metrics()

    metrics.set_streams([ConfiguredStream(stream=ORDERS, target="public.orders")])

    assert samples(metrics)[f"syncd_reloaded_batches_total {ORDERS}"] == 4


def test_a_poll_is_forgotten_when_nobody_has_polled_for_long() -> None:
    """A transaction whose end nobody was there to see is not held to be open for ever."""
    clock = ManualClock(NOON)
    metrics = make_metrics(clock)

    clock.advance(599)
    young = samples(metrics)
    clock.advance(1)

    assert young["syncd_horizon_held_seconds shop"] == 40
    assert "syncd_horizon_held_seconds shop" not in samples(metrics)


def test_a_source_that_is_gone_takes_its_poll_along() -> None:
    metrics = make_metrics()
    metrics.on_call(HorizonLagMeasured(source="other", seconds=900.0))

    metrics.set_streams([ConfiguredStream(stream=ORDERS, target="public.orders")])

    assert {name for name in samples(metrics) if "horizon_held" in name} == {"syncd_horizon_held_seconds shop"}


def test_two_of_them_share_nothing() -> None:
    first, second = make_metrics(), Metrics(make_board(), clock=ManualClock(NOON))

    assert "syncd_rows_total shop/shop.orders extract" in samples(first)
    assert "syncd_rows_total shop/shop.orders extract" not in samples(second)
