"""HTML out of values: whatever is not markup of ours is escaped, so that no name and no error can become any."""

from html import escape
from typing import TypeAlias


class Markup(str):
    """Text that is HTML already; made here and nowhere else."""

    __slots__ = ()


Child: TypeAlias = "str | int | float | Markup | None"
_EMPTY = frozenset({"meta", "input", "link", "path", "line", "circle"})


def tag(name: str, /, *children: Child, **attributes: str | bool | float | None) -> Markup:
    """An element; `class_` is the class, `_` in the name of an attribute is `-`, None and False leave it out."""
    said = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    if name in _EMPTY:
        return Markup(f"<{name}{said}>" if name in {"meta", "input", "link"} else f"<{name}{said}/>")
    return Markup(f"<{name}{said}>{joined(*children)}</{name}>")


def joined(*children: Child) -> Markup:
    return Markup("".join(_text(child) for child in children if child is not None))


def _text(child: Child) -> str:
    return child if isinstance(child, Markup) else escape(str(child))


def _attribute(key: str, value: str | bool | float) -> str:  # noqa: FBT001  # an attribute may be there without a value
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
