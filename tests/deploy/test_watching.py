"""Alerts and dashboard ask for metrics that the daemon has, from its first scrape on, and of several daemons too."""

import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from syncd.config.check import build_settings
from syncd.config.yaml_reader import parse_document
from syncd.daemon.monitor import DaemonMonitor
from syncd.events import PassEnded
from syncd.observe.board import configured_streams
from syncd.observe.metric_table import BOARD_METRICS, CALL_METRICS, EVENT_METRICS, MetricType
from syncd.ports.request_stats import HorizonLagMeasured
from tests.builders import NOON
from tests.unit.syncd.observe.stories import EXTRACT, LOAD, ended
from watermarks.testing import ManualClock

DEPLOY = Path(__file__).parents[2] / "deploy"
PAGE = (DEPLOY.parent / "docs" / "reference" / "metrics.md").read_text()
MEASURES = {one.name: one for one in (*EVENT_METRICS, *CALL_METRICS, *BOARD_METRICS)}
ALERTS = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "syncd.json").read_text())
OF_PROMETHEUS: Final = {"job", "instance"}
"""Labels that come with each scrape."""
TABLES: Final = ("orders", "events")
SETTINGS: Final = """
source: {url: "mysql://s@h/shop"}
lake: {url: "s3://b"}
daemon: {http: "127.0.0.1:0"}
defaults: {fresh_within: 10m}
tables: {orders: {}, events: {}}
"""
WAREHOUSE: Final = 'warehouse: {url: "redshift://w:x@h/dev"}\n'
Sample = tuple[str, dict[str, str]]


@dataclass(frozen=True)
class Scraped:
    """A daemon whose page of metrics is read as Prometheus does."""

    watching: DaemonMonitor
    url: str
    has_target: bool

    def samples(self) -> list[Sample]:
        with urllib.request.urlopen(f"{self.url}metrics", timeout=10) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
        return [(one.name, dict(one.labels)) for family in families for one in family.samples]

    def pass_over_all(self) -> None:
        """Each stage of each stream has one pass, and the horizon a poll."""
        for listed in configured_streams(self.watching._settings):
            for stage in (EXTRACT, LOAD) if self.has_target else (EXTRACT,):
                self._tell(ended(stage, stream=listed.stream, behind=3))
        self.watching.meter(HorizonLagMeasured(source="mysql", seconds=700))

    def _tell(self, event: PassEnded) -> None:
        for reader in self.watching.readers:
            reader(event)


@contextmanager
def scraped(*, has_target: bool) -> Iterator[Scraped]:
    text = SETTINGS + (WAREHOUSE if has_target else "")
    clock = ManualClock(NOON)
    watching = DaemonMonitor(build_settings(parse_document(text, path="syncd.yaml", environ={})), clock=clock)
    with watching.serve_http(last_iteration_at=clock.monotonic, report=lambda _: None) as server:
        assert server is not None
        yield Scraped(watching, server.url, has_target)


@cache
def at_the_start() -> list[Sample]:
    """What a daemon shows before anything happened."""
    with scraped(has_target=True) as daemon:
        return daemon.samples()


@cache
def after_a_pass(*, has_target: bool = True) -> list[Sample]:
    with scraped(has_target=has_target) as daemon:
        daemon.pass_over_all()
        return daemon.samples()


def selected(expression: str) -> Iterator[Sample]:
    """What an expression asks for: names, and the labels that it wants to be equal."""
    for name, _, wanted in re.findall(r"\b((?:syncd|process)_\w+)(\{([^}]*)\})?", expression):
        yield name, dict(re.findall(r'(\w+)="([^"]*)"', wanted))


def found(asked: Sample, told: list[Sample]) -> list[dict[str, str]]:
    name, labels = asked
    return [has for called, has in told if called == name and labels.items() <= has.items()]


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in ALERTS)
    yield from (target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"])
    yield from (one["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query")


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_an_expression_asks_for_metrics_and_labels_that_there_are(expression: str) -> None:
    named = [(name, re.sub(r"_(bucket|sum|count)$", "", name)) for name in re.findall(r"\bsyncd_\w+", expression)]
    plain = expression if named else ""

    for told, name in named:
        assert name in MEASURES
        assert (told != name) == (MEASURES[name].metric_type == "histogram")
    labels = {label for _, name in named for label in MEASURES[name].labels} | {"le"} | OF_PROMETHEUS
    asked = set(re.findall(r"(\w+)\s*=~?\s*\"", plain))
    for listed in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", plain):
        asked |= {one.strip() for one in listed.split(",")}
    asked |= set(re.findall(r"label_values\(\w+, (\w+)\)", plain))
    assert asked <= labels


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_an_expression_is_whole(expression: str) -> None:
    depth = 0
    for sign in re.sub(r'"[^"]*"', "", expression):
        depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(sign, 0)
        assert depth >= 0
    assert depth == 0


def test_rates_are_of_what_is_counted_and_gauges_are_taken_as_they_are() -> None:
    for expression in expressions():
        for name in re.findall(r"(?:rate|increase)\((syncd_\w+)", expression):
            assert MEASURES[re.sub(r"_bucket$", "", name)].metric_type in {"counter", "histogram"}
        for name in re.findall(r"deriv\((syncd_\w+)", expression):
            assert MEASURES[name].metric_type == "gauge"


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_is_wrong_and_names_labels_that_are_left(rule: dict[str, Any]) -> None:
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in {"page", "warn"}
    assert set(rule["annotations"]) == {"summary", "runbook"}
    assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s"))
    summed = re.search(r"\bby \(([^)]*)\)", rule["expr"])
    metrics = re.findall(r"\bsyncd_\w+", rule["expr"])
    left = {one.strip() for one in summed[1].split(",")} if summed else {"instance"}
    if not summed and metrics:
        left |= set(MEASURES[metrics[0]].labels)
    assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= left


def test_panels_lie_beside_each_other_and_have_names_of_their_own() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in DASHBOARD["panels"]]

    assert len(set(places)) == len(places)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)
    assert len({panel["title"] for panel in DASHBOARD["panels"]}) == len(places)


# Over real pages of metrics.


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_what_may_rise_is_there_before_it_does(expression: str) -> None:
    """A counter that appears with its first event did not rise, as Prometheus sees it."""
    told = at_the_start()

    for asked in selected(expression):
        name, _ = asked
        if name in MEASURES and MEASURES[name].metric_type is MetricType.COUNTER and "stream" in MEASURES[name].labels:
            assert {has["stream"] for has in found(asked, told)} == {f"mysql/shop.{table}" for table in TABLES}


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_finds_what_it_asks_for_once_each_stage_had_a_pass(rule: dict[str, Any]) -> None:
    told = after_a_pass()

    for asked in selected(rule["expr"]):
        assert found(asked, told), asked


def test_a_promise_is_held_to_the_lake_where_there_is_no_warehouse() -> None:
    (rule,) = (rule for rule in ALERTS if rule["alert"] == "SyncdPromiseBroken")
    told = after_a_pass(has_target=False)

    there = {(name, *labels.values()) for name, labels in selected(rule["expr"]) if found((name, labels), told)}
    assert there == {("syncd_lag_seconds", "extract"), ("syncd_promised_lag_seconds",)}
    assert "unless on (stream) syncd_pending_batches" in " ".join(rule["expr"].split())


def asked_of_several() -> Iterator[str]:
    """Expressions that hold one series against another."""
    told = (*expressions(), *re.findall(r"`([^`]*syncd_[^`]*)`", PAGE))
    for expression in sorted({" ".join(one.split()) for one in told}):
        without_sets = re.sub(r"\b(?:unless|and|or) on \([^)]*\) \w*", "", expression)
        if re.search(r"\bon ?\(", without_sets):
            yield without_sets


@pytest.mark.parametrize("expression", sorted(set(asked_of_several())))
def test_series_are_matched_one_to_one_however_many_daemons_tell_of_a_stream(expression: str) -> None:
    told = [*after_a_pass(), *after_a_pass()]

    assert "group_" not in expression
    for asked in selected(expression):
        assert len(found(asked, told)) == 2 * len(TABLES)
    for before in re.split(r"\bsyncd_\w+", expression)[:-1]:
        assert re.search(r"\b(?:min|max|sum) by \(stream\) \($", before), expression


def test_a_transaction_that_nobody_looks_for_any_more_is_not_told_of_for_ever() -> None:
    (rule,) = (rule for rule in ALERTS if rule["alert"] == "SyncdTransactionHolds")
    with scraped(has_target=True) as daemon:
        daemon.pass_over_all()
        clock = daemon.watching._clock
        assert isinstance(clock, ManualClock)
        clock.advance(timedelta(hours=1).total_seconds())

        assert not [one for one in selected(rule["expr"]) if found(one, daemon.samples())]
