"""What the keys of the configuration say of each other, as far as a JSON Schema can tell it."""

from typing import Any, Final, TypeAlias

from syncd.config.schema_patterns import WEB_URL_SCHEMA
from syncd.config.value_parsers import SYSTEM_SCHEMA_PREFIXES

JsonSchema: TypeAlias = dict[str, Any]

_URL_WITH_PASSWORD: Final = r"^redshift://[^/?#]*:[^/?#@][^/?#]*@"  # noqa: S105  # where one would stand
_REFERENCE_PATTERN: Final = r"\$\{(?!window\})"
_URL_WITHOUT_USER: Final = r"^redshift://(:[^@]*@|[^@/?#]+[/?#])"
_RESERVED: Final = "({})".format(
    "|".join("".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in word) for word in SYSTEM_SCHEMA_PREFIXES)
)
"""In either case: the patterns of JavaScript know no flag for it."""
_NAME: Final = r"[^.#\s][^.]*"
SCHEMA_NAME_PATTERN: Final = rf"^(?!{_RESERVED})[^.\s][^.]*$"
TARGET_NAME_PATTERN: Final = rf"^((?!{_RESERVED})[^.\s][^.]*\.)?(?![sS][yY][nN][cC][dD]_){_NAME}$"


def add_key_constraints(schema: JsonSchema) -> None:
    """Add to a schema of keys what they say of each other."""
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
    told = parts["Daemon"]["properties"]["notify"]
    told["items"] = {"anyOf": [WEB_URL_SCHEMA, {"$ref": "#/$defs/Reference"}, told["items"]]}
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
    """A text that has to look like this, unless it is filled in or none."""
    rule = {
        "if": {"type": "string", "not": {"pattern": r"\$\{(?!window\})"}},
        "then": {"type": "string", "pattern": pattern},
    }
    return {**schema, **rule}


def _login_rules() -> list[JsonSchema]:
    """One way in, and somebody who goes it."""
    password, unknown = _key_matches("url", _URL_WITH_PASSWORD), _key_matches("url", _REFERENCE_PATTERN)
    iam, secret = _key_is_set("iam"), _key_is_set("secret")
    workgroup = {"required": ["iam"], "properties": {"iam": {"type": "object", **_key_is_set("workgroup")}}}
    return [
        {"anyOf": [password, unknown, iam, secret]},
        *({"not": {"allOf": [one, other]}} for one, other in ((password, iam), (password, secret), (iam, secret))),
        {"anyOf": [secret, workgroup, {"not": _key_matches("url", _URL_WITHOUT_USER)}]},
    ]


def _cursor_rule_for_mode(mode: str, condition: JsonSchema) -> JsonSchema:
    """What a table of this mode may have as its cursor; `told` is how one knows its mode."""
    known = {**condition, "properties": {"mode": {"const": mode}}}
    return {"if": known, "then": _cursor_schema(mode)}


def _cursor_schema(mode: str) -> JsonSchema:
    cursor: JsonSchema = {"properties": {"cursor": {"not": {"const": "none"}}}}
    if mode == "replace":
        cursor = {
            "required": ["cursor"],
            "properties": {"cursor": {"anyOf": [{"const": "none"}, {"pattern": _REFERENCE_PATTERN}]}},
        }
    if mode == "history":
        cursor = {"properties": {"cursor": {"not": {"enum": ["none", "id"]}}}}
    return cursor


def _cursor_rule_for_default_mode(mode: str) -> JsonSchema:
    """The same of tables that say no mode, where the defaults say this one, or say none."""
    says: JsonSchema = {
        "required": ["defaults"],
        "properties": {"defaults": {"required": ["mode"], "properties": {"mode": {"const": mode}}}},
    }
    if mode == "upsert":
        silent = {"not": {"required": ["defaults"], "properties": {"defaults": {"required": ["mode"]}}}}
        says = {"anyOf": [says, silent]}
    table: JsonSchema = {"if": {"type": "object", "not": {"required": ["mode"]}}, "then": _cursor_schema(mode)}
    if mode == "replace":
        table = {"allOf": [table, {"type": "object"}]}  # a table that says nothing has a cursor
    return {"if": says, "then": {"properties": {"tables": {"additionalProperties": table}}}}
