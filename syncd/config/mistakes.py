"""What pydantic finds wrong, in our words and at the place where a person would mend it."""

import re
from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel

from syncd.suggestions import nearest

_MEMBER: Final = re.compile(r"<\w+\.\w+: ('[^']*')>")
_QUOTED: Final = re.compile(r"'([^']*)'")


def written(place: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The place without what pydantic adds to it: the names of alternatives."""
    return tuple(part for part in place if not _is_alternative(part))


def _is_alternative(part: str | int) -> bool:
    return isinstance(part, str) and part.startswith(("literal[", "function-", "From"))


def told(found: Any, kind: type[BaseModel]) -> tuple[str, str]:  # noqa: ANN401, PLR0911  # a TypedDict of pydantic's core; a case each
    """One mistake of pydantic's in our words, and what would mend it."""
    last = str((written(found["loc"]) or ("",))[-1])
    match found["type"]:
        case "extra_forbidden":
            close = nearest(last, _keys(kind, found["loc"][:-1]))
            return "is not a key that is known here", f"Do you mean `{close}`?" if close else "Remove it."
        case "missing":
            return "is missing", ""
        case "literal_error" if last == "first_run":
            close = nearest(str(found["input"]), ("snapshot", "now"))
            return "must be snapshot, now or {from: INSTANT}", f"Do you mean `{close}`?" if close else ""
        case "enum" | "literal_error":
            expected = _MEMBER.sub(r"\1", str(found["ctx"]["expected"]))
            close = nearest(str(found["input"]), _QUOTED.findall(expected))
            return f"must be {expected}", f"Do you mean `{close}`?" if close else ""
        case "model_type" | "dict_type" | "dataclass_type":
            return "must have keys of its own, such as {key: value}", ""
        case "int_parsing" | "int_type" | "int_from_float":
            return "must be a whole number", ""
        case "greater_than":
            return f"must be greater than {found['ctx']['gt']}", ""
        case "value_error":
            return str(found["ctx"]["error"]), ""
        case _:
            return str(found["msg"])[:1].lower() + str(found["msg"])[1:], ""


def _keys(kind: type[BaseModel], place: tuple[str | int, ...]) -> list[str]:
    """The keys that may stand at a place of a model."""
    for part in place:
        inner = kind.model_fields.get(str(part))
        model = next(_models(inner.annotation), None) if inner is not None else None
        if model is None:
            break
        kind = model
    return [field.alias or name for name, field in kind.model_fields.items()]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:  # noqa: ANN401  # whatever typing made
    for one in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(one, type) and issubclass(one, BaseModel):
            yield one
