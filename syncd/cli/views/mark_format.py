"""Marks as people and programs read them."""

from datetime import datetime
from typing import Any

from watermarks.cursor import Cursor
from watermarks.document import Watermark
from watermarks.progress import Strategy


def position(cursor: Cursor) -> str:
    """A position in one line; nothing where there is none yet."""
    return ", ".join(_plain(value.plain) for value in cursor.values)


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        shown = value.isoformat(" ").removesuffix("+00:00")
        return f"{shown} UTC" if value.tzinfo else shown
    return value.hex() if isinstance(value, bytes) else str(value)


def marks(state: Watermark) -> dict[str, Any]:
    """Both marks in a few fields; the document itself has them all."""
    half, loaded = state.extracted, state.loaded
    return {
        "revision": state.revision,
        "generation": half.generation if half else None,
        "extracted": str(half.last) if half else None,
        "mark": half.cursor.texts() if half else None,
        "manual": half is not None and half.strategy is Strategy.MANUAL,
        "load_generation": loaded.load_generation,
        "loaded": str(loaded.last),
        "loaded_mark": loaded.cursor.texts(),
        "skipped": [[str(span.after), str(span.upto)] for span in loaded.skipped],
    }


def moment(at: datetime | None) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S") if at else ""
