"""What is left of a part of the file without its mistakes, so that whatever does not hang on them is checked too."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from syncd.config.mistakes import written

M = TypeVar("M", bound=BaseModel)

_ROUNDS: Final = 5
"""What stands in for a mistake may itself not fit: so often it is tried."""
_BOUND_TOGETHER: Final = ("cursor", "mode", "query", "start", "first_run")
"""The keys that a model weighs against each other."""
_NOWHERE: Final = "mysql://-@-/-"
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


def mended(kind: type[M], values: object) -> M | None:
    """The part without what is wrong in it; none where nothing is left.

    What it says instead is never used: a file with mistakes is refused.
    """
    left = deepcopy(values)
    for _ in range(_ROUNDS):
        try:
            return kind.model_validate(left)
        except ValidationError as error:
            if not isinstance(left, dict):
                return None
            for found in error.errors(include_url=False, include_input=False):
                _mend(left, written(found["loc"]))
    return None


def _mend(values: dict[str, Any], place: tuple[str | int, ...]) -> None:
    if not place:
        for key in _BOUND_TOGETHER:
            values.pop(key, None)
        return
    inner: Any = values
    for part in place[:-1]:
        inner = inner[part] if _holds(inner, part) else None
    last = place[-1]
    stand_in = _url_of(place) if last == "url" else _STAND_INS.get(str(last))
    if isinstance(inner, list):
        inner.clear()  # an item that is taken out would move the others
    elif isinstance(inner, dict) and stand_in is not None:
        inner[last] = deepcopy(stand_in)
    elif isinstance(inner, dict):
        inner.pop(last, None)


def _holds(inner: object, part: str | int) -> bool:
    if isinstance(inner, list):
        return isinstance(part, int) and part < len(inner)
    return isinstance(inner, dict) and part in inner


def _url_of(place: tuple[str | int, ...]) -> str:
    match place[0]:
        case "lake":
            return "s3://-"
        case "warehouse" | "warehouses":
            return "redshift://-:-@-/-"
        case "daemon":
            return "https://-"
        case _:
            return _NOWHERE
