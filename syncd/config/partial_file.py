"""What is left of a part of the file without its mistakes, so that whatever does not hang on them is checked too."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from syncd.config.mistakes import strip_alternatives

M = TypeVar("M", bound=BaseModel)

_MAX_ROUNDS: Final = 5
"""What stands in for a mistake may itself not fit: so often it is tried."""
_DEPENDENT_KEYS: Final = ("cursor", "mode", "query", "start", "first_run")
"""The keys that a model weighs against each other."""
_STAND_IN_SOURCE_URL: Final = "mysql://-@-/-"
_STAND_INS: Final[Mapping[str, object]] = {
    "lake": {"url": "s3://-"},
    "tables": {"-": None},
    "from": "2000-01-01",
    "iam": {"cluster": "-"},
    "secret": "-",
    "host": "-",
    "user": "-",
}
"""What takes the place of something that has to be there, or whose absence would be a mistake of its own."""


def validate_without_mistakes(model: type[M], values: object) -> M | None:
    """The part without what is wrong in it; none where nothing is left.

    What it says instead is never used: a file with mistakes is refused.
    """
    left = deepcopy(values)
    for _ in range(_MAX_ROUNDS):
        try:
            return model.model_validate(left)
        except ValidationError as error:
            if not isinstance(left, dict):
                return None
            for found in error.errors(include_url=False, include_input=False):
                _remove_mistake(left, strip_alternatives(found["loc"]))
    return None


def _remove_mistake(values: dict[str, Any], key_path: tuple[str | int, ...]) -> None:
    if not key_path:
        for key in _DEPENDENT_KEYS:
            values.pop(key, None)
        return
    inner: Any = values
    for part in key_path[:-1]:
        inner = inner[part] if _has_part(inner, part) else None
    last = key_path[-1]
    stand_in = _stand_in_url(key_path) if last == "url" else _STAND_INS.get(str(last))
    if isinstance(inner, list):
        inner.clear()  # an item that is taken out would move the others
    elif isinstance(inner, dict) and stand_in is not None:
        inner[last] = deepcopy(stand_in)
    elif isinstance(inner, dict):
        inner.pop(last, None)


def _has_part(inner: object, part: str | int) -> bool:
    if isinstance(inner, list):
        return isinstance(part, int) and part < len(inner)
    return isinstance(inner, dict) and part in inner


def _stand_in_url(key_path: tuple[str | int, ...]) -> str:
    match key_path[0]:
        case "lake":
            return "s3://-"
        case "warehouse" | "warehouses":
            return "redshift://-:-@-/-"
        case "daemon":
            return "https://-"
        case _:
            return _STAND_IN_SOURCE_URL
