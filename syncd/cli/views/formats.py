"""Formats of instants, durations and marks, for people and for JSON."""

from datetime import datetime, timedelta
from typing import Any

from watermarks.cursor import Cursor
from watermarks.cursor import format_instant as format_iso_instant
from watermarks.document import Watermark
from watermarks.progress import RunStrategy

_SHOW_TENTHS_BELOW_SECONDS = 10


def format_instant(instant: datetime | None) -> str:
    return instant.strftime("%Y-%m-%d %H:%M:%S") if instant else ""


def instant_to_json(instant: datetime | None) -> str | None:
    return None if instant is None else format_iso_instant(instant)


def format_duration(duration: timedelta | None) -> str:
    """Format a duration in its two largest units: `3d 4h`, `12m 5s`, `0.4s`."""
    if duration is None:
        return ""
    seconds = duration.total_seconds()
    if seconds < _SHOW_TENTHS_BELOW_SECONDS and seconds != int(seconds):
        return f"{seconds:.1f}s"
    rest = round(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def format_position(cursor: Cursor) -> str:
    """Format a position in one line; empty where there is none yet."""
    return ", ".join(_format_value(value.raw) for value in cursor.values)


def _format_value(value: object) -> str:
    if isinstance(value, datetime):
        shown = value.isoformat(" ").removesuffix("+00:00")
        return f"{shown} UTC" if value.tzinfo else shown
    return value.hex() if isinstance(value, bytes) else str(value)


def marks_to_json(watermark: Watermark) -> dict[str, Any]:
    """Return both marks in a few fields; the document itself has more."""
    extracted, loaded = watermark.extract_progress, watermark.load_progress
    return {
        "revision": watermark.revision,
        "generation": extracted.generation if extracted else None,
        "extracted": str(extracted.last_batch) if extracted else None,
        "mark": extracted.cursor.to_texts() if extracted else None,
        "manual": extracted is not None and extracted.strategy is RunStrategy.MANUAL,
        "load_generation": loaded.load_generation,
        "loaded": str(loaded.last_batch),
        "loaded_mark": loaded.cursor.to_texts(),
        "skipped": [[str(span.after), str(span.up_to)] for span in loaded.skipped_batches],
    }
