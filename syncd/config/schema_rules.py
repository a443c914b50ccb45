"""What the keys of the configuration say of each other, as far as a JSON Schema can tell it."""

from typing import Any, Final, TypeAlias

from syncd.config.schema_patterns import WEB_URL
from syncd.config.value_parsers import SYSTEM_SCHEMAS

Schema: TypeAlias = dict[str, Any]

_PASSWORD: Final = r"^redshift://[^/?#]*:[^/?#@][^/?#]*@"  # noqa: S105  # where one would stand
_REFERENCE: Final = r"\$\{(?!window\})"
_NO_USER: Final = r"^redshift://(:[^@]*@|[^@/?#]+[/?#])"
_RESERVED: Final = "({})".format(
    "|".join("".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in word) for word in SYSTEM_SCHEMAS)
)
"""In either case: the patterns of JavaScript know no flag for it."""
_NAME: Final = r"[^.#\s][^.]*"
SCHEMA_NAME: Final = rf"^(?!{_RESERVED})[^.\s][^.]*$"
TARGET: Final = rf"^((?!{_RESERVED})[^.\s][^.]*\.)?(?![sS][yY][nN][cC][dD]_){_NAME}$"


def bind(schema: Schema) -> None:
    """Add to a schema of keys what they say of each other."""
    parts = schema["$defs"]
    parts["Iam"] |= {"oneOf": [_said("cluster"), _said("workgroup")]}
    parts["Warehouse"] |= {"allOf": list(_ways_in())}
    parts["Warehouse"]["properties"]["schema"] = _named(SCHEMA_NAME, parts["Warehouse"]["properties"]["schema"])
    parts["Table"]["properties"]["target"] = _named(TARGET, parts["Table"]["properties"]["target"])
    parts["Table"]["properties"]["query"] = _named(r"\$\{window\}", parts["Table"]["properties"]["query"])
    both = {"not": {"required": ["start", "first_run"]}}
    parts["Defaults"] |= both
    parts["Table"] |= {"allOf": [both, *(_where_mode(mode, {"required": ["mode"]}) for mode in _MODES)]}
    told = parts["Daemon"]["properties"]["notify"]
    told["items"] = {"anyOf": [WEB_URL, {"$ref": "#/$defs/Reference"}, told["items"]]}
    keys = schema["properties"]
    keys["defaults"] = {**keys["defaults"], "$ref": "#/$defs/Defaults"}
    for loose in ("type", "additionalProperties"):
        keys["defaults"].pop(loose, None)
    keys["tables"] |= {
        "additionalProperties": {"anyOf": [{"$ref": "#/$defs/Table"}, {"type": "null"}]},
        "propertyNames": {"minLength": 1},
    }
    schema["allOf"] = [
        {"anyOf": [_said("source"), _filled("sources")]},
        {"not": {"allOf": [_said("source"), _filled("sources")]}},
        {"not": {"allOf": [_said("warehouse"), _filled("warehouses")]}},
        *(_by_default(mode) for mode in _MODES),
    ]


_MODES: Final = ("upsert", "append", "history", "replace")


def _said(key: str) -> Schema:
    return {"required": [key], "properties": {key: {"not": {"type": "null"}}}}


def _filled(key: str) -> Schema:
    return {"required": [key], "properties": {key: {"minProperties": 1}}}


def _matches(key: str, pattern: str) -> Schema:
    return {"required": [key], "properties": {key: {"type": "string", "pattern": pattern}}}


def _named(pattern: str, one: Schema) -> Schema:
    """A text that has to look like this, unless it is filled in or none."""
    rule = {
        "if": {"type": "string", "not": {"pattern": r"\$\{(?!window\})"}},
        "then": {"type": "string", "pattern": pattern},
    }
    return {**one, **rule}


def _ways_in() -> list[Schema]:
    """One way in, and somebody who goes it."""
    password, unknown = _matches("url", _PASSWORD), _matches("url", _REFERENCE)
    iam, secret = _said("iam"), _said("secret")
    workgroup = {"required": ["iam"], "properties": {"iam": {"type": "object", **_said("workgroup")}}}
    return [
        {"anyOf": [password, unknown, iam, secret]},
        *({"not": {"allOf": [one, other]}} for one, other in ((password, iam), (password, secret), (iam, secret))),
        {"anyOf": [secret, workgroup, {"not": _matches("url", _NO_USER)}]},
    ]


def _where_mode(mode: str, told: Schema) -> Schema:
    """What a table of this mode may have as its cursor; `told` is how one knows its mode."""
    known = {**told, "properties": {"mode": {"const": mode}}}
    return {"if": known, "then": _cursor_of(mode)}


def _cursor_of(mode: str) -> Schema:
    cursor: Schema = {"properties": {"cursor": {"not": {"const": "none"}}}}
    if mode == "replace":
        cursor = {
            "required": ["cursor"],
            "properties": {"cursor": {"anyOf": [{"const": "none"}, {"pattern": _REFERENCE}]}},
        }
    if mode == "history":
        cursor = {"properties": {"cursor": {"not": {"enum": ["none", "id"]}}}}
    return cursor


def _by_default(mode: str) -> Schema:
    """The same of tables that say no mode, where the defaults say this one, or say none."""
    says: Schema = {
        "required": ["defaults"],
        "properties": {"defaults": {"required": ["mode"], "properties": {"mode": {"const": mode}}}},
    }
    if mode == "upsert":
        silent = {"not": {"required": ["defaults"], "properties": {"defaults": {"required": ["mode"]}}}}
        says = {"anyOf": [says, silent]}
    table: Schema = {"if": {"type": "object", "not": {"required": ["mode"]}}, "then": _cursor_of(mode)}
    if mode == "replace":
        table = {"allOf": [table, {"type": "object"}]}  # a table that says nothing has a cursor
    return {"if": says, "then": {"properties": {"tables": {"additionalProperties": table}}}}
