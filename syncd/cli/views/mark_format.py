"""Marks as people and programs read them."""

from datetime import datetime
from typing import Any

from watermarks.cursor import Cursor
from watermarks.document import Watermark
from watermarks.progress import RunStrategy


def format_position(cursor: Cursor) -> str:
    """A position in one line; nothing where there is none yet."""
    return ", ".join(_format_value(value.raw) for value in cursor.values)


def _format_value(value: object) -> str:
    if isinstance(value, datetime):
        shown = value.isoformat(" ").removesuffix("+00:00")
        return f"{shown} UTC" if value.tzinfo else shown
    return value.hex() if isinstance(value, bytes) else str(value)


def marks_to_json(watermark: Watermark) -> dict[str, Any]:
    """Both marks in a few fields; the document itself has them all."""
    half, loaded = watermark.extract_progress, watermark.load_progress
    return {
        "revision": watermark.revision,
        "generation": half.generation if half else None,
        "extracted": str(half.last_batch) if half else None,
        "mark": half.cursor.to_texts() if half else None,
        "manual": half is not None and half.strategy is RunStrategy.MANUAL,
        "load_generation": loaded.load_generation,
        "loaded": str(loaded.last_batch),
        "loaded_mark": loaded.cursor.to_texts(),
        "skipped": [[str(span.after), str(span.up_to)] for span in loaded.skipped_batches],
    }


def format_instant(instant: datetime | None) -> str:
    return instant.strftime("%Y-%m-%d %H:%M:%S") if instant else ""
