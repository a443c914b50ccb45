"""HTML out of values: whatever is not markup of ours is escaped, so that no name and no error can become any."""

from html import escape
from typing import TypeAlias


class Markup(str):
    """Text that is HTML already; made here and nowhere else."""

    __slots__ = ()


MarkupChild: TypeAlias = "str | int | float | Markup | None"
_VOID_ELEMENTS = frozenset({"meta", "input", "link", "path", "line", "circle"})


def tag(name: str, /, *children: MarkupChild, **attributes: str | bool | float | None) -> Markup:
    """An element; `class_` is the class, `_` in the name of an attribute is `-`, None and False leave it out."""
    said = "".join(
        _render_attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    if name in _VOID_ELEMENTS:
        return Markup(f"<{name}{said}>" if name in {"meta", "input", "link"} else f"<{name}{said}/>")
    return Markup(f"<{name}{said}>{join_markup(*children)}</{name}>")


def join_markup(*children: MarkupChild) -> Markup:
    return Markup("".join(_escape_child(child) for child in children if child is not None))


def _escape_child(child: MarkupChild) -> str:
    return child if isinstance(child, Markup) else escape(str(child))


def _render_attribute(key: str, value: str | bool | float) -> str:  # noqa: FBT001  # an attribute may be there without a value
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
