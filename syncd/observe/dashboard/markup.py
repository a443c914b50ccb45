"""HTML from values: everything but our own markup is escaped, so that no name or error can become markup."""

from html import escape
from typing import TypeAlias


class Markup(str):
    """Text that is HTML already; only this module makes it."""

    __slots__ = ()


MarkupChild: TypeAlias = "str | int | float | Markup | None"
_VOID_ELEMENTS = frozenset({"meta", "input", "link", "path", "line", "circle"})


def tag(name: str, /, *children: MarkupChild, **attributes: str | bool | float | None) -> Markup:
    """Return an element; `_` in an attribute's name becomes `-`, None and False leave the attribute out."""
    rendered = "".join(
        _render_attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    if name in _VOID_ELEMENTS:
        return Markup(f"<{name}{rendered}>" if name in {"meta", "input", "link"} else f"<{name}{rendered}/>")
    return Markup(f"<{name}{rendered}>{join_markup(*children)}</{name}>")


def join_markup(*children: MarkupChild) -> Markup:
    return Markup("".join(_escape_child(child) for child in children if child is not None))


def _escape_child(child: MarkupChild) -> str:
    return child if isinstance(child, Markup) else escape(str(child))


def _render_attribute(key: str, value: str | bool | float) -> str:  # noqa: FBT001  # True: an attribute without a value
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
