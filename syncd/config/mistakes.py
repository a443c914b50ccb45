"""What pydantic finds wrong, in our words and at the place where a person would mend it."""

import re
from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel

from syncd.suggestions import closest_name

_MEMBER: Final = re.compile(r"<\w+\.\w+: ('[^']*')>")
_QUOTED: Final = re.compile(r"'([^']*)'")


def strip_alternatives(key_path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The place without what pydantic adds to it: the names of alternatives."""
    return tuple(part for part in key_path if not _is_alternative(part))


def _is_alternative(part: str | int) -> bool:
    return isinstance(part, str) and part.startswith(("literal[", "function-", "From"))


def describe_mistake(error: Any, model: type[BaseModel]) -> tuple[str, str]:  # noqa: ANN401, PLR0911  # a TypedDict of pydantic's core; a case each
    """One mistake of pydantic's in our words, and what would mend it."""
    last = str((strip_alternatives(error["loc"]) or ("",))[-1])
    match error["type"]:
        case "extra_forbidden":
            close = closest_name(last, _known_keys(model, error["loc"][:-1]))
            return "is not a key that is known here", f"Do you mean `{close}`?" if close else "Remove it."
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


def _known_keys(model_type: type[BaseModel], key_path: tuple[str | int, ...]) -> list[str]:
    """The keys that may stand at a place of a model."""
    for part in key_path:
        inner = model_type.model_fields.get(str(part))
        model = next(_model_types(inner.annotation), None) if inner is not None else None
        if model is None:
            break
        model_type = model
    return [field.alias or name for name, field in model_type.model_fields.items()]


def _model_types(annotation: Any) -> Iterator[type[BaseModel]]:  # noqa: ANN401  # whatever typing made
    for one in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(one, type) and issubclass(one, BaseModel):
            yield one
