"""Alerts and dashboard ask for metrics that the daemon has."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from syncd.observe.measures import CALLS, EVENTS, SHOWN

DEPLOY = Path(__file__).parents[2] / "deploy"
MEASURES = {one.name: one for one in (*EVENTS, *CALLS, *SHOWN)}
ALERTS = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "syncd.json").read_text())
OF_PROMETHEUS = {"up", "job"}


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
        assert (told != name) == (MEASURES[name].shape == "histogram")
    labels = {label for _, name in named for label in MEASURES[name].labels} | {"le"}
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
            assert MEASURES[re.sub(r"_bucket$", "", name)].shape in {"counter", "histogram"}
        for name in re.findall(r"deriv\((syncd_\w+)", expression):
            assert MEASURES[name].shape == "gauge"


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
