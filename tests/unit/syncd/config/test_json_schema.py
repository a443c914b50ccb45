"""The schema for editors against the validator: on files as people write them, and on odd values at every key."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from syncd.config import model
from syncd.config.check import build_settings
from syncd.config.json_schema import SHIPPED_SCHEMA_PATH, build_schema
from syncd.config.mistakes import Misconfigured
from syncd.config.yaml_reader import ConfigDocument, parse_document

ROOT = Path(__file__).parents[4]
CORPUS = ROOT / "tests" / "fixtures" / "config"
ENVIRON = {"MYSQL_PASSWORD": "x", "REDSHIFT_PASSWORD": "y", "SOME": "5"}
SCHEMA: dict[str, Any] = json.loads(SHIPPED_SCHEMA_PATH.read_text())
EDITOR = Draft202012Validator(SCHEMA)


def files(kind: str) -> list[Path]:
    return sorted((CORPUS / kind).glob("*.yaml"))


def as_an_editor_reads(body: str) -> Any:
    """The plain values, dates as text and references as they are written."""

    class Loader(yaml.SafeLoader):
        pass

    Loader.yaml_implicit_resolvers = {
        first: [(tag, form) for tag, form in forms if not tag.endswith(":timestamp")]
        for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return yaml.load(body, Loader)


def validator_accepts(body: str) -> bool:
    try:
        build_settings(parse_document(body, path="syncd.yaml", environ=ENVIRON))
    except Misconfigured:
        return False
    return True


def test_the_schema_is_one_and_is_up_to_date() -> None:
    Draft202012Validator.check_schema(SCHEMA)

    assert build_schema((ROOT / "docs" / "reference" / "configuration.md").read_text()) == SCHEMA, "make schema"


@pytest.mark.parametrize("path", files("good"), ids=lambda path: path.stem)
def test_a_good_file_is_accepted_by_both(path: Path) -> None:
    body = path.read_text()

    assert validator_accepts(body)
    assert [error.message for error in EDITOR.iter_errors(as_an_editor_reads(body))] == []


@pytest.mark.parametrize("path", files("bad"), ids=lambda path: path.stem)
def test_a_bad_file_is_refused_by_both(path: Path) -> None:
    body = path.read_text()

    assert not validator_accepts(body)
    assert not EDITOR.is_valid(as_an_editor_reads(body))


@pytest.mark.parametrize("path", files("beyond"), ids=lambda path: path.stem)
def test_what_no_schema_can_tell_is_told_by_the_validator(path: Path) -> None:
    """Each of these files says in its first line why: names that others give, the calendar, the environment."""
    body = path.read_text()

    assert body.startswith("# ")
    assert not validator_accepts(body)
    assert EDITOR.is_valid(as_an_editor_reads(body))


LEAST: dict[str, Any] = {
    "source": {"url": "mysql://sync@db/shop"},
    "lake": {"url": "s3://acme-lake"},
    "warehouse": {"url": "redshift://loader:x@h/dev"},
    "tables": {"orders": {}},
}
PLACES: dict[str, tuple[type[model.ConfigSection], tuple[str, ...], dict[str, Any]]] = {
    "source": (model.Source, ("source",), {}),
    "tunnel": (model.Tunnel, ("source", "tunnel"), {"host": "h", "user": "u"}),
    "lake": (model.Lake, ("lake",), {}),
    "warehouse": (model.Warehouse, ("warehouse",), {}),
    "spark": (model.Spark, ("spark",), {}),
    "daemon": (model.Daemon, ("daemon",), {}),
    "defaults": (model.Defaults, ("defaults",), {}),
    "table": (model.Table, ("tables", "orders"), {}),
    "replaced table": (model.Table, ("tables", "orders"), {"cursor": "none", "mode": "replace"}),
    "file": (model.File, (), {}),
}
ODD: tuple[Any, ...] = (
    None, True, 0, 1, -1, 1.5, "", " ", "x", "5", "5m", "5x", "1g", "0 3 * * *", "2026-01-31", "2026-13-01",
    "2026-01-31 25:00", "off", ":80", "h:99999", "verify", "prefer", "none", "id", "replace", "history", "append",
    "now", "null", "truncate", "mysql://u@h/d", "mysql://h/d", "mysql://u@h:0/d", "mysql://u:p@[::1]:3306/d",
    "s3://b/p",
    "s3://", "redshift://u:p@h/d", "redshift://u:p@h/d/e", "redshift://u@h/d", "redshift://h/d", "redshift://u:p@h",
    "a.b", "syncd_x", "pg_x", "#x", "a.b.c", "role x y", "SELECT ${window}", [], ["a"], [5], ["batch"], {}, {"a": "b"},
    {"a": 5}, {"a": "raw"}, {"from": "2026-01-31"}, {"from": "x"}, {"cluster": "c"},
    {"cluster": "c", "workgroup": "w"},
    {"host": "h", "user": "u"}, {"url": "mysql://u@h/d"}, [{"url": "https://h", "again": "1h"}], ["https://h"],
)  # fmt: skip
NAMED_ELSEWHERE = {"zone", "to", "source", "after"}
"""What a text at these keys has to be stands in no schema: the calendar's zones, and names that the file gives."""
SOME_KEYS = {"defaults": ["mode", "first_run", "start"], "replaced table": ["cursor", "mode", "query"]}
"""Where the others are judged as they are at a table."""
UNWRITTEN = {("markers", "0"), ("markers", 0), ("markers", 1)}
"""What the validator takes for a truth, and nobody writes; and a truth for a number."""


QUICK = {"warehouse", "daemon", "defaults", "replaced table"}


@pytest.mark.parametrize("place", [pytest.param(p, marks=[] if p in QUICK else [pytest.mark.long]) for p in PLACES])
def test_an_odd_value_is_judged_alike(place: str) -> None:
    kind, way, beside = PLACES[place]
    judged: dict[tuple[bool, bool], list[tuple[str, Any]]] = {}
    for key in SOME_KEYS.get(place, [field.alias or name for name, field in kind.model_fields.items()]):
        for value in ODD:
            values = deepcopy(LEAST)
            part = values
            for step in way:
                part = part.setdefault(step, {})
            part.update({**beside, key: value})
            verdicts = (judges(values), bool(EDITOR.is_valid(values)))
            judged.setdefault(verdicts, []).append((key, value))

    too_lax = [(key, value) for key, value in judged.get((False, True), []) if key not in NAMED_ELSEWHERE]
    too_strict = [one for one in judged.get((True, False), []) if one not in UNWRITTEN and one[1] is not True]
    assert (too_lax, too_strict) == ([], [])


def judges(values: dict[str, Any]) -> bool:
    try:
        build_settings(ConfigDocument(path="syncd.yaml", values=values))
    except Misconfigured:
        return False
    return True
