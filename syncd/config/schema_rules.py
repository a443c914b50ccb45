"""Constraints between keys of the configuration, as far as a JSON Schema can express them."""

from typing import Final

from syncd.config.schema_patterns import REFERENCE_PATTERN, WEB_URL_SCHEMA, JsonSchema
from syncd.config.value_parsers import SYSTEM_SCHEMA_PREFIXES

_URL_WITH_PASSWORD: Final = r"^redshift://[^/?#]*:[^/?#@][^/?#]*@"  # noqa: S105  # a pattern, not a password
_URL_WITHOUT_USER: Final = r"^redshift://(:[^@]*@|[^@/?#]+[/?#])"
_RESERVED: Final = "({})".format(
    "|".join("".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in word) for word in SYSTEM_SCHEMA_PREFIXES)
)
"""Matches in either case, because patterns of JSON Schema have no flag for it."""
_NAME: Final = r"[^.#\s][^.]*"
SCHEMA_NAME_PATTERN: Final = rf"^(?!{_RESERVED})[^.\s][^.]*$"
TARGET_NAME_PATTERN: Final = rf"^((?!{_RESERVED})[^.\s][^.]*\.)?(?![sS][yY][nN][cC][dD]_){_NAME}$"


def add_key_constraints(schema: JsonSchema) -> None:
    """Add the constraints between keys to a schema of keys."""
    parts = schema["$defs"]
    parts["Iam"] |= {"oneOf": [_key_is_set("cluster"), _key_is_set("workgroup")]}
    parts["Warehouse"] |= {"allOf": list(_login_rules())}
    parts["Warehouse"]["properties"]["schema"] = _with_pattern(
        SCHEMA_NAME_PATTERN, parts["Warehouse"]["properties"]["schema"]
    )
    parts["Table"]["properties"]["target"] = _with_pattern(TARGET_NAME_PATTERN, parts["Table"]["properties"]["target"])
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


_MODES: Final = ("upsert", "append", "history", "replace")


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
