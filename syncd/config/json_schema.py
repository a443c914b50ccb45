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
from syncd.config.schema_patterns import REFERENCE_PATTERN, JsonSchema
from syncd.config.schema_rules import add_key_constraints

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
    add_key_constraints(schema)
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


if __name__ == "__main__":
    documented = Path(sys.argv[1]).read_text(encoding="utf-8")
    sys.stdout.write(json.dumps(build_schema(documented), indent=1, ensure_ascii=False) + "\n")
