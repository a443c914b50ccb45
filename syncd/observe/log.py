"""Log of events: one line each, JSON in files and pipes, short and coloured on a terminal."""

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO, cast
from urllib.parse import quote

import structlog

from syncd.events import (
    BatchPlanned,
    ColumnIncomplete,
    LedgerBehind,
    LoadRetried,
    PassDue,
    PassEnded,
    PassStarted,
    RowsArrived,
    RowsQuarantined,
    StreamEvent,
    StreamFailed,
    TableReplaced,
)
from syncd.observe.event_text import describe_event
from syncd.observe.log_sink import LineWriter
from syncd.settings import Secret
from watermarks.batch import BatchId
from watermarks.clock import Clock
from watermarks.cursor import Cursor, format_instant
from watermarks.errors import HintedError
from watermarks.names import StreamName

if TYPE_CHECKING:
    from watermarks.document import Stage

MIN_SECRET_LENGTH: Final = 6
"""Shorter secrets are not masked: they would hide common words."""
_PROGRESS_EVENTS: Final = (RowsArrived, PassDue, PassStarted, BatchPlanned)
_WARNING_EVENTS: Final = (StreamFailed, LoadRetried, LedgerBehind, RowsQuarantined, ColumnIncomplete, TableReplaced)
_COLOURS: Final = {"debug": "2", "warning": "33", "error": "31"}
_LEADING_FIELDS: Final = ("timestamp", "level", "event", "message", "stream", "table")


class ReportFunction(Protocol):
    """Function that logs something of no stream in particular."""

    def __call__(self, name: str, message: str, *, level: int = logging.INFO, **facts: object) -> None: ...


def level_for(event: StreamEvent) -> int:
    """Return the log level of an event; progress, and passes that found nothing, are for debugging."""
    if isinstance(event, PassEnded):
        if event.error is not None:
            return logging.ERROR
        return logging.DEBUG if not event.batches and not event.reason else logging.INFO
    if isinstance(event, _PROGRESS_EVENTS):
        return logging.DEBUG
    return logging.WARNING if isinstance(event, _WARNING_EVENTS) else logging.INFO


def event_fields(event: StreamEvent) -> dict[str, object]:
    """Return the JSON fields of an event; their names are a contract, listed in docs/reference/log.md."""
    values: dict[str, object] = {"stream": str(event.stream), "table": event.stream.table_name}
    for field in fields(event):
        if field.name != "stream":
            values |= _field_to_json(field.name, getattr(event, field.name))
    return values


def _field_to_json(name: str, value: object) -> dict[str, object]:
    if name == "error" and not isinstance(value, str):
        error = value if isinstance(value, HintedError) else None
        return {
            "error": error.message if error else None,
            "error_class": type(error).__name__ if error else None,
            "hint": (error.hint or None) if error else None,
        }
    return {name: to_json_value(value)}


def to_json_value(value: object) -> object:
    match value:
        case datetime():
            return format_instant(value)
        case float():
            return round(value, 3)
        case Cursor():
            return value.to_texts()
        case BatchId() | StreamName() | Secret() | StrEnum():
            return str(value)
        case _:
            return value


def collect_secrets(settings: object) -> tuple[str, ...]:
    """Return every configured secret, the longest first, in plain and in URL-quoted form."""
    found = {form for secret in _iterate_secrets(settings) for form in (secret, quote(secret, safe=""))}
    return tuple(sorted((one for one in found if len(one) >= MIN_SECRET_LENGTH), key=len, reverse=True))


def _iterate_secrets(value: object) -> Iterator[str]:
    if isinstance(value, Secret):
        yield value.value
    elif is_dataclass(value):
        for each in fields(value):
            yield from _iterate_secrets(getattr(value, each.name))
    elif isinstance(value, (tuple, list)):
        for one in cast("tuple[object, ...]", value):
            yield from _iterate_secrets(one)


class EventLog:
    """Reader of events that logs one line each; it neither raises nor waits."""

    def __init__(
        self, write: Callable[[str], None], *, clock: Clock, render: "RenderLine", secrets: tuple[str, ...]
    ) -> None:
        self._clock = clock
        self._render = render
        self._secrets = secrets
        self._write = write
        self._min_level = logging.INFO
        self._logger = self._make_logger(self._min_level)
        self._last_reasons: dict[tuple[StreamName, Stage], str] = {}
        """Reason of the last pass of each stage."""

    def _make_logger(self, min_level: int) -> Any:  # noqa: ANN401  # structlog makes it
        return structlog.wrap_logger(
            _LineLogger(self._write),
            processors=[
                structlog.processors.add_log_level,
                self._add_timestamp,
                self._mask_secrets,
                _order_fields,
                self._render_line,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(min_level),
        )

    def enable_debug(self) -> None:
        """Log also the events that only mark progress."""
        self._min_level = logging.DEBUG
        self._logger = self._make_logger(self._min_level)

    def __call__(self, event: StreamEvent) -> None:
        level = logging.DEBUG if isinstance(event, PassEnded) and self._repeats_reason(event) else level_for(event)
        if level >= self._min_level:  # saves the text of most events of idle streams
            self._logger.log(level, event.name, message=describe_event(event), **event_fields(event))

    def _repeats_reason(self, event: PassEnded) -> bool:
        """Return whether a pass did nothing for the same reason as the one before."""
        key = event.stream, event.stage
        before, self._last_reasons[key] = self._last_reasons.get(key, ""), event.reason
        return bool(event.reason) and event.reason == before and not event.batches and event.error is None

    def report(self, name: str, message: str, *, level: int = logging.INFO, **facts: object) -> None:
        """Log something of no stream in particular under a name such as `marker.failed`."""
        values = {fact: to_json_value(value) for fact, value in facts.items()}
        self._logger.log(level, name, message=message, **values)

    def format_lost_lines(self, number: int) -> str:
        """Return the line that reports lost lines."""
        event = {"event": "log.lines_lost", "level": "warning", "lines": number}
        event["message"] = f"{number} lines of the log could not be written"
        return self._render_line(None, "", _order_fields(None, "", self._add_timestamp(None, "", event)))

    def _add_timestamp(
        self, _logger: object, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        event["timestamp"] = format_instant(self._clock.now())
        return event

    def _mask_secrets(self, _logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return {name: self._without_secrets(value) for name, value in event.items()}

    def _without_secrets(self, value: object) -> object:
        if isinstance(value, list):
            return [self._without_secrets(one) for one in cast("list[object]", value)]
        if not isinstance(value, str):
            return value
        for secret in self._secrets:
            value = value.replace(secret, "***")
        return value

    def _render_line(self, _logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
        return self._render(event)


RenderLine = Callable[[Mapping[str, Any]], str]


class _LineLogger:
    """Logger for structlog that writes every level to the same place."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.debug = self.info = self.warning = self.error = self.critical = write


def _order_fields(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    first = {name: event[name] for name in _LEADING_FIELDS if name in event}
    return {**first, **{name: value for name, value in event.items() if name not in first}}


def render_json(event: Mapping[str, Any]) -> str:
    return json.dumps(event, default=str)


def render_for_terminal(event: Mapping[str, Any], *, use_colour: bool) -> str:
    """Return time, table and message; the colour shows the level."""
    where = f"{event['table']}: " if "table" in event else ""
    line = _replace_unprintable(f"{event['timestamp'][11:19]} {where}{event['message']}")
    colour = _COLOURS.get(str(event.get("level")), "")
    return f"\x1b[{colour}m{line}\x1b[0m" if use_colour and colour else line


def _replace_unprintable(text: str) -> str:
    """Replace control characters: names and messages of others could move the terminal's cursor."""
    return "".join(char if char.isprintable() else " " for char in text)


@contextmanager
def open_log(
    stream: TextIO, *, clock: Clock, environ: Mapping[str, str] = os.environ, secrets: tuple[str, ...] = ()
) -> Iterator[EventLog]:
    """Open the log of a process on one of its output streams; SYNCD_DEBUG adds the events that mark progress."""
    on_terminal = stream.isatty()
    coloured = on_terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"

    def render(event: Mapping[str, Any]) -> str:
        return render_for_terminal(event, use_colour=coloured) if on_terminal else render_json(event)

    def format_lost_lines(number: int) -> str:
        return log.format_lost_lines(number)

    with LineWriter(stream.fileno(), format_lost_lines=format_lost_lines) as sink:
        log = EventLog(sink.write, clock=clock, render=render, secrets=secrets)
        if environ.get("SYNCD_DEBUG"):
            log.enable_debug()
        yield log
