"""The JSON Schema of `syncd.yaml`, for editors: made from the model, and from what the documentation says of each key.

python -m syncd.config.json_schema docs/configuration.md > syncd/config/syncd.schema.json
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic.json_schema import models_json_schema

from syncd.config.model import Defaults, File, Table
from syncd.config.schema_rules import add_key_constraints

JsonSchema: TypeAlias = dict[str, Any]

SHIPPED_SCHEMA_PATH: Final = Path(__file__).with_name("syncd.schema.json")
"""The schema as it is shipped."""
REFERENCE_SCHEMA: Final = {"type": "string", "pattern": r"\$\{(?!window\})[^}]*\}"}
"""A value that the environment or a file fills in: nobody knows it before."""
_REFERENCE_LINK: Final = {"$ref": "#/$defs/Reference"}
_PARTS: Final = {
    "source": ("Source",),
    "lake": ("Lake",),
    "warehouse": ("Warehouse",),
    "spark": ("Spark",),
    "daemon": ("Daemon",),
    "tables": ("Defaults", "Table"),
}
"""Which parts a section of the documentation tells of."""
_SECTION: Final = re.compile(r"^## `(\w+)`.*?$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ROW: Final = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \| (.*?) \| (.*?) ?\|$", re.MULTILINE)
_OMITTED_KEYS: Final = frozenset({"title", "default", "description"})
"""What pydantic adds for readers of Python."""


def build_schema(page: str) -> JsonSchema:
    """The schema, with the sentences of a page that documents the keys."""
    _, made = models_json_schema([(File, "validation"), (Table, "validation")])
    parts = _simplify(made)["$defs"]
    found: JsonSchema = {**parts.pop("File"), "$defs": parts}
    parts["Reference"] = REFERENCE_SCHEMA
    parts["Defaults"] = {
        **parts["Table"],
        "properties": {key: parts["Table"]["properties"][key] for key in Defaults.model_fields},
    }
    for part, key, sentence in _parse_key_descriptions(page):
        if key in parts[part]["properties"]:
            parts[part]["properties"][key] = {**parts[part]["properties"][key], "description": sentence}
    add_key_constraints(found)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "syncd.yaml", **found}


def _simplify(schema: Any) -> Any:  # noqa: ANN401  # whatever JSON holds
    """The schema without what is for readers of Python; a reference may take the place of each plain value."""
    match schema:
        case list():
            return [_simplify(one) for one in schema]
        case {"type": "string" | "integer" | "boolean" as kind}:
            kept = {key: value for key, value in schema.items() if key not in _OMITTED_KEYS}
            return {"anyOf": [kept, *_text_alternatives(kind, kept), _REFERENCE_LINK]}
        case dict():
            return {
                key: {name: _simplify(one) for name, one in value.items()}
                if key in {"properties", "$defs"}
                else _simplify(value)
                for key, value in schema.items()
                if key not in _OMITTED_KEYS
            }
        case _:
            return schema


def _text_alternatives(kind: str, schema: JsonSchema) -> Iterator[JsonSchema]:
    """How a value may be written as text, too."""
    if kind == "integer":
        yield {"type": "string", "pattern": "^0*[1-9][0-9]*$" if "exclusiveMinimum" in schema else "^-?[0-9]+$"}
    if kind == "boolean":
        yield {"enum": ["yes", "no", "on", "off"]}


def _parse_key_descriptions(page: str) -> Iterator[tuple[str, str, str]]:
    """Part, key and what the page says of it."""
    for section, body in _SECTION.findall(page):
        for keys, default, text in _ROW.findall(body):
            said = f"{text[:1].upper()}{text[1:]}".replace("`", "")
            unless = f"Default: {default.replace('`', '')}" if default else ""
            sentence = ". ".join(part for part in (said.rstrip("."), unless) if part)
            yield from ((part, key, sentence) for part in _PARTS.get(section, ()) for key in re.findall(r"\w+", keys))


if __name__ == "__main__":
    documented = Path(sys.argv[1]).read_text(encoding="utf-8")
    sys.stdout.write(json.dumps(build_schema(documented), indent=1, ensure_ascii=False) + "\n")
