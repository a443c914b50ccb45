"""JSON Schema of `syncd.yaml`, for editors: built from the model, with the descriptions of the documentation.

python -m syncd.config.json_schema docs/reference/configuration.md > syncd/config/syncd.schema.json
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pydantic.json_schema import models_json_schema

from syncd.config.model import Defaults, File, Table
from syncd.config.value_parsers import REFERENCE_PATTERN, SYSTEM_SCHEMA_PREFIXES
from syncd.config.value_types import WEB_URL_SCHEMA, JsonSchema
from syncd.settings import Mode

SHIPPED_SCHEMA_PATH: Final = Path(__file__).with_name("syncd.schema.json")
_REFERENCE_SCHEMA: Final = {"type": "string", "pattern": rf"{REFERENCE_PATTERN}[^}}]*\}}"}
"""A value that the environment or a file provides, so that the schema cannot check it."""
_REFERENCE_LINK: Final = {"$ref": "#/$defs/Reference"}
_PARTS: Final = {
    "source": ("Source",),
    "lake": ("Lake",),
    "warehouse": ("Warehouse",),
    "spark": ("Spark",),
    "daemon": ("Daemon",),
    "tables": ("Defaults", "Table"),
}
"""Parts of the model by the section of the documentation that describes them."""
_SECTION: Final = re.compile(r"^## `(\w+)`.*?$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ROW: Final = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \| (.*?) \| (.*?) ?\|$", re.MULTILINE)
_OMITTED_KEYS: Final = frozenset({"title", "default", "description"})
"""Keys that pydantic adds for readers of Python."""
_URL_WITH_PASSWORD: Final = r"^redshift://[^/?#]*:[^/?#@][^/?#]*@"  # noqa: S105  # a pattern, not a password
_URL_WITHOUT_USER: Final = r"^redshift://(:[^@]*@|[^@/?#]+[/?#])"
_RESERVED: Final = "({})".format(
    "|".join("".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in word) for word in SYSTEM_SCHEMA_PREFIXES)
)
"""Matches in either case, because patterns of JSON Schema have no flag for it."""
_NAME: Final = r"[^.#\s][^.]*"
_SCHEMA_NAME_PATTERN: Final = rf"^(?!{_RESERVED})[^.\s][^.]*$"
_TARGET_NAME_PATTERN: Final = rf"^((?!{_RESERVED})[^.\s][^.]*\.)?(?![sS][yY][nN][cC][dD]_){_NAME}$"
_MODES: Final = tuple(Mode)


def build_schema(page: str) -> JsonSchema:
    """Build the schema with the descriptions from a page that documents the keys."""
    _, generated = models_json_schema([(File, "validation"), (Table, "validation")])
    parts = _simplify(generated)["$defs"]
    schema: JsonSchema = {**parts.pop("File"), "$defs": parts}
    parts["Reference"] = _REFERENCE_SCHEMA
    parts["Defaults"] = {
        **parts["Table"],
        "properties": {key: parts["Table"]["properties"][key] for key in Defaults.model_fields},
    }
    for part, key, sentence in _parse_key_descriptions(page):
        if key in parts[part]["properties"]:
            parts[part]["properties"][key] = {**parts[part]["properties"][key], "description": sentence}
    _add_key_constraints(schema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "syncd.yaml", **schema}


def _simplify(schema: Any) -> Any:  # noqa: ANN401  # any JSON value
    """Drop the keys for readers of Python, and allow a reference in place of each plain value."""
    match schema:
        case list():
            return [_simplify(item) for item in schema]
        case {"type": "string" | "integer" | "boolean" as kind}:
            kept = {key: value for key, value in schema.items() if key not in _OMITTED_KEYS}
            return {"anyOf": [kept, *_text_alternatives(kind, kept), _REFERENCE_LINK]}
        case dict():
            return {
                key: {name: _simplify(inner) for name, inner in value.items()}
                if key in {"properties", "$defs"}
                else _simplify(value)
                for key, value in schema.items()
                if key not in _OMITTED_KEYS
            }
        case _:
            return schema


def _text_alternatives(kind: str, schema: JsonSchema) -> Iterator[JsonSchema]:
    """Yield the forms in which a value may also be written as text."""
    if kind == "integer":
        yield {"type": "string", "pattern": "^0*[1-9][0-9]*$" if "exclusiveMinimum" in schema else "^-?[0-9]+$"}
    if kind == "boolean":
        yield {"enum": ["yes", "no", "on", "off"]}


def _parse_key_descriptions(page: str) -> Iterator[tuple[str, str, str]]:
    """Yield part, key and description from the tables of the page."""
    for section, body in _SECTION.findall(page):
        for keys, default_text, text in _ROW.findall(body):
            meaning = f"{text[:1].upper()}{text[1:]}".replace("`", "")
            default = f"Default: {default_text.replace('`', '')}" if default_text else ""
            sentence = ". ".join(part for part in (meaning.rstrip("."), default) if part)
            yield from ((part, key, sentence) for part in _PARTS.get(section, ()) for key in re.findall(r"\w+", keys))


def _add_key_constraints(schema: JsonSchema) -> None:
    """Add the constraints between keys to a schema of keys."""
    parts = schema["$defs"]
    parts["Iam"] |= {"oneOf": [_key_is_set("cluster"), _key_is_set("workgroup")]}
    parts["Warehouse"] |= {"allOf": list(_login_rules())}
    parts["Warehouse"]["properties"]["schema"] = _with_pattern(
        _SCHEMA_NAME_PATTERN, parts["Warehouse"]["properties"]["schema"]
    )
    parts["Table"]["properties"]["target"] = _with_pattern(_TARGET_NAME_PATTERN, parts["Table"]["properties"]["target"])
    parts["Table"]["properties"]["query"] = _with_pattern(r"\$\{window\}", parts["Table"]["properties"]["query"])
    both = {"not": {"required": ["start", "first_run"]}}
    parts["Defaults"] |= both
    parts["Table"] |= {"allOf": [both, *(_cursor_rule_for_mode(mode, {"required": ["mode"]}) for mode in _MODES)]}
    notify = parts["Daemon"]["properties"]["notify"]
    notify["items"] = {"anyOf": [WEB_URL_SCHEMA, {"$ref": "#/$defs/Reference"}, notify["items"]]}
    keys = schema["properties"]
    keys["defaults"] = {**keys["defaults"], "$ref": "#/$defs/Defaults"}
    for loose in ("type", "additionalProperties"):
        keys["defaults"].pop(loose, None)
    keys["tables"] |= {
        "additionalProperties": {"anyOf": [{"$ref": "#/$defs/Table"}, {"type": "null"}]},
        "propertyNames": {"minLength": 1},
    }
    schema["allOf"] = [
        {"anyOf": [_key_is_set("source"), _key_has_entries("sources")]},
        {"not": {"allOf": [_key_is_set("source"), _key_has_entries("sources")]}},
        {"not": {"allOf": [_key_is_set("warehouse"), _key_has_entries("warehouses")]}},
        *(_cursor_rule_for_default_mode(mode) for mode in _MODES),
    ]


def _key_is_set(key: str) -> JsonSchema:
    return {"required": [key], "properties": {key: {"not": {"type": "null"}}}}


def _key_has_entries(key: str) -> JsonSchema:
    return {"required": [key], "properties": {key: {"minProperties": 1}}}


def _key_matches(key: str, pattern: str) -> JsonSchema:
    return {"required": [key], "properties": {key: {"type": "string", "pattern": pattern}}}


def _with_pattern(pattern: str, schema: JsonSchema) -> JsonSchema:
    """Require a text to match the pattern, unless it holds a reference."""
    rule = {
        "if": {"type": "string", "not": {"pattern": REFERENCE_PATTERN}},
        "then": {"type": "string", "pattern": pattern},
    }
    return {**schema, **rule}


def _login_rules() -> list[JsonSchema]:
    """Require one login, and a user for it."""
    password, unknown = _key_matches("url", _URL_WITH_PASSWORD), _key_matches("url", REFERENCE_PATTERN)
    iam, secret = _key_is_set("iam"), _key_is_set("secret")
    workgroup = {"required": ["iam"], "properties": {"iam": {"type": "object", **_key_is_set("workgroup")}}}
    return [
        {"anyOf": [password, unknown, iam, secret]},
        *({"not": {"allOf": [one, other]}} for one, other in ((password, iam), (password, secret), (iam, secret))),
        {"anyOf": [secret, workgroup, {"not": _key_matches("url", _URL_WITHOUT_USER)}]},
    ]


def _cursor_rule_for_mode(mode: str, condition: JsonSchema) -> JsonSchema:
    """Restrict the cursor of the tables of one mode, where `condition` holds."""
    known = {**condition, "properties": {"mode": {"const": mode}}}
    return {"if": known, "then": _cursor_schema(mode)}


def _cursor_schema(mode: str) -> JsonSchema:
    cursor: JsonSchema = {"properties": {"cursor": {"not": {"const": "none"}}}}
    if mode == "replace":
        cursor = {
            "required": ["cursor"],
            "properties": {"cursor": {"anyOf": [{"const": "none"}, {"pattern": REFERENCE_PATTERN}]}},
        }
    if mode == "history":
        cursor = {"properties": {"cursor": {"not": {"enum": ["none", "id"]}}}}
    return cursor


def _cursor_rule_for_default_mode(mode: str) -> JsonSchema:
    """Restrict the cursor of the tables that leave `mode` to `defaults`, where that is this mode."""
    by_default: JsonSchema = {
        "required": ["defaults"],
        "properties": {"defaults": {"required": ["mode"], "properties": {"mode": {"const": mode}}}},
    }
    if mode == "upsert":
        unset = {"not": {"required": ["defaults"], "properties": {"defaults": {"required": ["mode"]}}}}
        by_default = {"anyOf": [by_default, unset]}
    table: JsonSchema = {"if": {"type": "object", "not": {"required": ["mode"]}}, "then": _cursor_schema(mode)}
    if mode == "replace":
        table = {"allOf": [table, {"type": "object"}]}  # an empty table has a cursor
    return {"if": by_default, "then": {"properties": {"tables": {"additionalProperties": table}}}}


if __name__ == "__main__":
    documented = Path(sys.argv[1]).read_text(encoding="utf-8")
    sys.stdout.write(json.dumps(build_schema(documented), indent=1, ensure_ascii=False) + "\n")
