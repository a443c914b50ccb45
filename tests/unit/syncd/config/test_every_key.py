"""Every key of the configuration file has an effect on the settings."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

import pytest

from syncd.config.check import build_settings
from syncd.config.mistakes import Misconfigured
from syncd.config.model import (
    ConfigSection,
    Daemon,
    Defaults,
    File,
    From,
    Iam,
    Lake,
    Notify,
    Source,
    Spark,
    Table,
    Tunnel,
    Warehouse,
)
from syncd.config.yaml_reader import parse_document
from syncd.settings import Settings

WAREHOUSE: Final = {"url": "redshift://loader@cluster:5439/dev", "secret": "s"}
TUNNEL: Final = {"host": "bastion", "user": "ops"}
BASE: Final[dict[str, Any]] = {
    "source": {"url": "mysql://sync@db/shop", "tunnel": TUNNEL, "primary": {"url": "mysql://sync@first"}},
    "lake": {"url": "s3://lake"},
    "warehouse": WAREHOUSE,
    "spark": {},
    "daemon": {"notify": [{"url": "https://hooks/1"}]},
    "defaults": {},
    "tables": {"orders": {"mode": "upsert"}, "items": {}},
}
SOURCE_VALUES: Final[dict[str, Any]] = {
    "url": "mysql://sync@other/shop",
    "tls": "disable",
    "ca": "ca.pem",
    "zone": "Europe/Berlin",
    "max_connections": 9,
    "tunnel": None,
    "primary": None,
    "silence": "77s",
    "longest_read": "7m",
    "max_threads_running": 7,
    "max_replica_lag": "7s",
    "reread": "7m",
    "catch_up": "7s",
}
TABLE_VALUES: Final[dict[str, Any]] = {
    "every": "7m",
    "priority": 7,
    "longest_run": "7h",
    "batch_rows": 7,
    "max_pending": 7,
    "max_refused": 7,
    "mode": "history",
    "first_run": "now",
    "start": "2025-01-01",
    "settle": "7s",
    "ahead_after": "7m",
    "deletes": "soft",
    "metadata": ["batch"],
    "grants": ["analysts"],
    "fresh_within": "7m",
    "null_cursor": "fail",
    "zero_dates": "quarantine",
    "oversize": "truncate",
    "out_of_range": "fail",
    "invalid_text": "quarantine",
}
SECTIONS: Final[dict[str, tuple[type[ConfigSection], tuple[str | int, ...], dict[str, Any]]]] = {
    "source": (Source, ("source",), SOURCE_VALUES),
    "primary": (Source, ("source", "primary"), SOURCE_VALUES | {"tunnel": TUNNEL, "primary": {"url": "mysql://s@a"}}),
    "tunnel": (
        Tunnel,
        ("source", "tunnel"),
        {"host": "other", "user": "other", "port": 7, "key_file": "/k", "known_hosts": "/h"},
    ),
    "lake": (Lake, ("lake",), {"url": "s3://other", "region": "eu-west-1", "endpoint": "https://s3.local"}),
    "warehouse": (
        Warehouse,
        ("warehouse",),
        {
            "url": "redshift://loader@other:5439/dev",
            "tls": "disable",
            "ca": "ca.pem",
            "schema": "sales",
            "iam_role": "arn:aws:iam::1:role/r",
            "iam": {"cluster": "c"},
            "secret": "other",
            "tunnel": TUNNEL,
            "query_group": "etl",
            "max_sessions": 7,
            "silence": "77s",
            "longest_statement": "7m",
        },
    ),
    "spark": (
        Spark,
        ("spark",),
        {
            "master": "spark://m:7077",
            "driver_memory": "7g",
            "driver": "mariadb",
            "idle_stop": "7m",
            "conf": {"spark.a": "b"},
        },
    ),
    "daemon": (
        Daemon,
        ("daemon",),
        {"http": "127.0.0.1:7", "token": "t", "stop_timeout": "7s", "notify": [], "markers": True},
    ),
    "notify": (
        Notify,
        ("daemon", "notify", 0),
        {"url": "https://hooks/2", "channel": "slack", "again": "7h"},
    ),
    "defaults": (Defaults, ("defaults",), TABLE_VALUES),
    "table": (
        Table,
        ("tables", "orders"),
        TABLE_VALUES
        | {
            "source": "other",
            "to": "other",
            "target": "sales.orders2",
            "cursor": "changed_at",
            "cursor_unit": "ms",
            "key": ["a"],
            "query": "SELECT * FROM orders WHERE ${window}",
            "boolean": ["paid"],
            "after": ["items"],
            "zone": "Europe/Berlin",
            "distkey": "a",
            "sortkey": ["a"],
            "encode": {"a": "raw"},
        },
    ),
    "first_run": (
        From,
        ("tables", "orders", "first_run"),
        {"from": "2025-01-02", "by": "born"},
    ),
    "iam": (Iam, ("warehouse", "iam"), {"cluster": "c2", "workgroup": "w", "region": "eu-west-1"}),
}


PLACEHOLDERS: Final[dict[str, dict[str, Any]]] = {
    "first_run": {"from": "2025-01-01"},
    "iam": {"cluster": "c"},
}
"""Values of sections that the base does not have."""
CHOICES: Final = {("table", "source"), ("table", "to")}
"""Keys that choose among several servers; a server that does not exist is refused."""
EXCLUDED_BY: Final = {
    ("warehouse", "iam"): "secret",
    ("iam", "workgroup"): "cluster",
}
"""Keys that cannot stand beside the key under test."""


def keys_of(model: type[ConfigSection]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield field.alias or name


CASES: Final = [(name, key) for name, (model, _, _) in SECTIONS.items() for key in keys_of(model)]


def read(file: dict[str, Any]) -> Settings:
    return build_settings(parse_document(json.dumps(file), path="syncd.yaml", environ={}))


def test_every_section_of_the_file_is_covered() -> None:
    covered = {model for model, _, _ in SECTIONS.values()}

    assert {*ConfigSection.__subclasses__(), *Defaults.__subclasses__()} - covered == {File}


@pytest.mark.parametrize(("section", "key"), CASES)
def test_a_key_changes_the_settings(section: str, key: str) -> None:
    _, path, values = SECTIONS[section]
    file = deepcopy(BASE)
    parents: list[Any] = [file]
    for name in path[:-1]:
        parents.append(parents[-1][name])
    if section in PLACEHOLDERS:
        parents[-1][path[-1]] = dict(PLACEHOLDERS[section])
        if path[0] == "warehouse":
            del file["warehouse"]["secret"]
    place = parents[-1][path[-1]]
    before = read(file)

    place.pop(EXCLUDED_BY.get((section, key)), None)
    place[key] = values[key]

    if (section, key) in CHOICES:
        with pytest.raises(Misconfigured):
            read(file)
    else:
        assert read(file) != before
