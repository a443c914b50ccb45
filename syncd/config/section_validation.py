"""Validation of one section of the file: pydantic's errors as mistakes, and the rest of the section without them."""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from syncd.config.mistakes import KeyPath
from syncd.config.yaml_reader import ConfigDocument
from syncd.suggestions import closest_name

M = TypeVar("M", bound=BaseModel)

_MEMBER: Final = re.compile(r"<\w+\.\w+: ('[^']*')>")
_QUOTED: Final = re.compile(r"'([^']*)'")
_MAX_ROUNDS: Final = 5
"""Validation rounds after which a section is given up: a placeholder may itself not fit."""
_DEPENDENT_KEYS: Final = ("cursor", "mode", "query", "start", "first_run")
"""Keys that the model checks against each other."""
_PLACEHOLDERS: Final[Mapping[str, object]] = {
    "lake": {"url": "s3://-"},
    "tables": {"-": None},
    "from": "2000-01-01",
    "iam": {"cluster": "-"},
    "secret": "-",
    "host": "-",
    "user": "-",
}
"""Values in place of required keys, and of keys whose absence would be another mistake."""
_PLACEHOLDER_URLS: Final[Mapping[str | int, str]] = {
    "lake": "s3://-",
    "warehouse": "redshift://-:-@-/-",
    "warehouses": "redshift://-:-@-/-",
    "daemon": "https://-",
}
_PLACEHOLDER_SOURCE_URL: Final = "mysql://-@-/-"


def validate_section(model: type[M], values: object, key_path: KeyPath, document: ConfigDocument) -> M | None:
    """Validate a section, and report its mistakes; return what is valid in it, or None where nothing is.

    The valid rest is checked further, so that one run reports all mistakes. It never becomes settings, because a file
    with mistakes is refused.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            place = (*key_path, *_strip_alternatives(details["loc"]))
            is_unknown_key = details["type"] == "extra_forbidden"
            document.report_mistake(place, *_describe_mistake(details, model), key=is_unknown_key)
    return _validate_without_mistakes(model, values)


def _strip_alternatives(key_path: KeyPath) -> KeyPath:
    """Remove the names of union members that pydantic adds to a place."""
    alternatives = ("literal[", "function-", "From")
    return tuple(part for part in key_path if not (isinstance(part, str) and part.startswith(alternatives)))


def _describe_mistake(error: Any, model: type[BaseModel]) -> tuple[str, str]:  # noqa: ANN401, PLR0911  # a TypedDict of pydantic's core; a case each
    """Return message and remedy for one error of pydantic."""
    last = str((_strip_alternatives(error["loc"]) or ("",))[-1])
    match error["type"]:
        case "extra_forbidden":
            close = closest_name(last, _known_keys(model, error["loc"][:-1]))
            return "is not a known key", f"Do you mean `{close}`?" if close else "Remove it."
        case "missing":
            return "is missing", ""
        case "literal_error" if last == "first_run":
            close = closest_name(str(error["input"]), ("snapshot", "now"))
            return "must be snapshot, now or {from: INSTANT}", f"Do you mean `{close}`?" if close else ""
        case "enum" | "literal_error":
            expected = _MEMBER.sub(r"\1", str(error["ctx"]["expected"]))
            close = closest_name(str(error["input"]), _QUOTED.findall(expected))
            return f"must be {expected}", f"Do you mean `{close}`?" if close else ""
        case "model_type" | "dict_type" | "dataclass_type":
            return "must have keys of its own, such as {key: value}", ""
        case "int_parsing" | "int_type" | "int_from_float":
            return "must be a whole number", ""
        case "greater_than":
            return f"must be greater than {error['ctx']['gt']}", ""
        case "value_error":
            return str(error["ctx"]["error"]), ""
        case _:
            return str(error["msg"])[:1].lower() + str(error["msg"])[1:], ""


def _known_keys(model: type[BaseModel], key_path: KeyPath) -> list[str]:
    for part in key_path:
        field = model.model_fields.get(str(part))
        inner = next(_model_types(field.annotation), None) if field is not None else None
        if inner is None:
            break
        model = inner
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_types(annotation: Any) -> Iterator[type[BaseModel]]:  # noqa: ANN401  # any type annotation
    for candidate in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            yield candidate


def _validate_without_mistakes(model: type[M], values: object) -> M | None:
    rest = deepcopy(values)
    for _ in range(_MAX_ROUNDS):
        try:
            return model.model_validate(rest)
        except ValidationError as error:
            if not isinstance(rest, dict):
                return None
            for details in error.errors(include_url=False, include_input=False):
                _remove_mistake(rest, _strip_alternatives(details["loc"]))
    return None


def _remove_mistake(values: dict[str, Any], key_path: KeyPath) -> None:
    if not key_path:
        for key in _DEPENDENT_KEYS:
            values.pop(key, None)
        return
    parent: Any = values
    for part in key_path[:-1]:
        parent = parent[part] if _has_part(parent, part) else None
    last = key_path[-1]
    if last == "url":
        placeholder: object = _PLACEHOLDER_URLS.get(key_path[0], _PLACEHOLDER_SOURCE_URL)
    else:
        placeholder = _PLACEHOLDERS.get(str(last))
    if isinstance(parent, list):
        parent.clear()  # removing one item would move the others
    elif isinstance(parent, dict) and placeholder is not None:
        parent[last] = deepcopy(placeholder)
    elif isinstance(parent, dict):
        parent.pop(last, None)


def _has_part(parent: object, part: str | int) -> bool:
    if isinstance(parent, list):
        return isinstance(part, int) and part < len(parent)
    return isinstance(parent, dict) and part in parent
