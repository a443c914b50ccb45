"""Escaped markup, and the frame of every page: head, style, script and content security policy."""

import base64
import hashlib
from html import escape
from importlib.resources import files
from typing import Final, TypeAlias


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


_PAGE_FILES: Final = files("syncd.observe.dashboard")
STYLE: Final = _PAGE_FILES.joinpath("page.css").read_text(encoding="utf-8")
SCRIPT: Final = _PAGE_FILES.joinpath("live.js").read_text(encoding="utf-8")
RELOAD_INTERVAL_SECONDS: Final = 10
"""Reload interval for a browser that runs no script."""


def _csp_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


POLICY: Final = (
    f"default-src 'none'; script-src {_csp_hash(SCRIPT)}; style-src {_csp_hash(STYLE)}; connect-src 'self';"
    " img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Policy that allows our own script and style, by their hashes, and nothing else."""
ICON: Final = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Cpath d='M2 11 6 5l4 4 4-6' fill='none' stroke='%232f6f63' stroke-width='2.2' stroke-linecap='round'"
    " stroke-linejoin='round'/%3E%3C/svg%3E"
)


def html_document(title: str, *, head: Markup, main: Markup) -> str:
    """Return a whole page; the script keeps the content of `main` fresh."""
    whole = tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("title", title),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("link", rel="icon", href=ICON),
            tag("noscript", tag("meta", http_equiv="refresh", content=str(RELOAD_INTERVAL_SECONDS))),
            tag("style", Markup(STYLE)),
        ),
        tag(
            "body",
            tag("header", head),
            tag("p", "The daemon does not answer: this page is out of date.", id="gone", role="status", hidden=True),
            tag("main", main),
            tag("script", Markup(SCRIPT)),
        ),
        lang="en",
    )
    return f"<!doctype html>{whole}\n"


def html_table(columns: tuple[str, ...], rows: list[Markup], *, empty: str) -> Markup:
    """Return a table, or the text `empty` without rows."""
    if not rows:
        return tag("p", empty, class_="empty")
    head = tag("thead", tag("tr", *(tag("th", column, scope="col") for column in columns)))
    return tag("div", tag("table", head, tag("tbody", *rows)), class_="scroll", tabindex="0")


def table_row(*cells: object, class_: str | None = None) -> Markup:
    return tag("tr", *(tag("td", cell if isinstance(cell, Markup) else str(cell)) for cell in cells), class_=class_)


def small_text(*parts: str | Markup | None) -> Markup:
    """Return texts in small print, separated by dots."""
    pieces: list[str | Markup] = []
    for part in filter(None, parts):
        pieces += [" · ", tag("span", part)]
    return tag("small", join_markup(*pieces[1:]))
