"""The log: each event as one line, JSON for machines, short and coloured on a terminal; a reader that stops nothing."""

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TextIO, cast
from urllib.parse import quote

import structlog

from syncd.events import (
    BatchPlanned,
    ColumnIncomplete,
    Event,
    LandingRetried,
    LedgerBehind,
    PassBegan,
    PassDue,
    PassEnded,
    RowsArrived,
    RowsPutAside,
    StreamFailed,
    TableRemade,
)
from syncd.observe.event_text import sentence
from syncd.observe.log_sink import Sink
from syncd.settings import Secret
from watermarks.batch import BatchId
from watermarks.clock import Clock
from watermarks.cursor import Cursor, instant_text
from watermarks.errors import HintedError
from watermarks.names import StreamName

if TYPE_CHECKING:
    from watermarks.document import Stage

SHORTEST_SECRET: Final = 6
"""What is shorter is a word that may stand anywhere."""
_PROGRESS: Final = (RowsArrived, PassDue, PassBegan, BatchPlanned)
_TROUBLE: Final = (StreamFailed, LandingRetried, LedgerBehind, RowsPutAside, ColumnIncomplete, TableRemade)
_COLOURS: Final = {"debug": "2", "warning": "33", "error": "31"}
_FIRST: Final = ("timestamp", "level", "event", "message", "stream", "table")


def level_of(event: Event) -> int:
    """How loud an event is: what only marks progress is told on demand, and so is a pass that found nothing."""
    if isinstance(event, PassEnded):
        if event.error is not None:
            return logging.ERROR
        return logging.DEBUG if not event.batches and not event.reason else logging.INFO
    if isinstance(event, _PROGRESS):
        return logging.DEBUG
    return logging.WARNING if isinstance(event, _TROUBLE) else logging.INFO


def fields_of(event: Event) -> dict[str, object]:
    """The fields of an event as JSON has them; their names are a contract, listed in docs/log.md."""
    told: dict[str, object] = {
        "stream": str(event.stream),
        "table": f"{event.stream.database}.{event.stream.table}",
    }
    for each in fields(event):
        if each.name != "stream":
            told |= _told(each.name, getattr(event, each.name))
    return told


def _told(name: str, value: object) -> dict[str, object]:
    if name == "error" and not isinstance(value, str):
        error = value if isinstance(value, HintedError) else None
        return {
            "error": error.message if error else None,
            "error_class": type(error).__name__ if error else None,
            "hint": (error.hint or None) if error else None,
        }
    return {name: plain(value)}


def plain(value: object) -> object:
    """A value as JSON has it."""
    match value:
        case datetime():
            return instant_text(value)
        case float():
            return round(value, 3)
        case Cursor():
            return value.texts()
        case BatchId() | StreamName() | Secret() | StrEnum():
            return str(value)
        case _:
            return value


def secrets_in(settings: object) -> tuple[str, ...]:
    """Every secret that was configured, the longest first, also as it stands in an address."""
    found = {form for secret in _secrets(settings) for form in (secret, quote(secret, safe=""))}
    return tuple(sorted((one for one in found if len(one) >= SHORTEST_SECRET), key=len, reverse=True))


def _secrets(value: object) -> Iterator[str]:
    if isinstance(value, Secret):
        yield value.value
    elif is_dataclass(value):
        for each in fields(value):
            yield from _secrets(getattr(value, each.name))
    elif isinstance(value, (tuple, list)):
        for one in cast("tuple[object, ...]", value):
            yield from _secrets(one)


class Log:
    """A reader of events: one line each, never a raised error, never a wait."""

    def __init__(
        self, write: Callable[[str], None], *, clock: Clock, render: "Render", secrets: tuple[str, ...]
    ) -> None:
        self._clock = clock
        self._render = render
        self._secrets = secrets
        self._write = write
        self._least = logging.INFO
        self._logger = self._made(self._least)
        self._reasons: dict[tuple[StreamName, Stage], str] = {}
        """Why passes that ended last read no further."""

    def _made(self, least: int) -> Any:  # noqa: ANN401  # structlog makes it
        return structlog.wrap_logger(
            _Lines(self._write),
            processors=[structlog.processors.add_log_level, self._stamped, self._masked, _ordered, self._rendered],
            wrapper_class=structlog.make_filtering_bound_logger(least),
        )

    def louder(self) -> None:
        """Tell also what only marks progress."""
        self._least = logging.DEBUG
        self._logger = self._made(self._least)

    def __call__(self, event: Event) -> None:
        level = logging.DEBUG if isinstance(event, PassEnded) and self._says_the_same(event) else level_of(event)
        if level >= self._least:  # of most events of idle streams nobody wants a sentence
            self._logger.log(level, event.name, message=sentence(event), **fields_of(event))

    def _says_the_same(self, event: PassEnded) -> bool:
        """Whether a pass came to nothing for the reason that the one before gave: for hours that is no news."""
        key = event.stream, event.stage
        before, self._reasons[key] = self._reasons.get(key, ""), event.reason
        return bool(event.reason) and event.reason == before and not event.batches and event.error is None

    def say(self, name: str, message: str, *, level: int = logging.INFO, **facts: object) -> None:
        """Tell what happened to no stream in particular: noun and past verb, a sentence, and facts."""
        told = {each: plain(value) for each, value in facts.items()}
        self._logger.log(level, name, message=message, **told)

    def line_of_lost(self, number: int) -> str:
        """The line that tells of lines that could not be written."""
        event = {"event": "lines.lost", "level": "warning", "lines": number}
        event["message"] = f"{number} lines of the log could not be written"
        return self._rendered(None, "", _ordered(None, "", self._stamped(None, "", event)))

    def _stamped(self, _logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event["timestamp"] = instant_text(self._clock.now())
        return event

    def _masked(self, _logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return {name: self._without_secrets(value) for name, value in event.items()}

    def _without_secrets(self, value: object) -> object:
        if isinstance(value, list):
            return [self._without_secrets(one) for one in cast("list[object]", value)]
        if not isinstance(value, str):
            return value
        for secret in self._secrets:
            value = value.replace(secret, "***")
        return value

    def _rendered(self, _logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
        return self._render(event)


Render = Callable[[Mapping[str, Any]], str]


class _Lines:
    """What structlog takes for a logger: every level is the same place."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.debug = self.info = self.warning = self.error = self.critical = write


def _ordered(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    first = {name: event[name] for name in _FIRST if name in event}
    return {**first, **{name: value for name, value in event.items() if name not in first}}


def as_json(event: Mapping[str, Any]) -> str:
    """One JSON document on one line."""
    return json.dumps(event, default=str)


def for_people(event: Mapping[str, Any], *, coloured: bool) -> str:
    """Time, table, and what happened; the colour tells how bad it is."""
    where = f"{event['table']}: " if "table" in event else ""
    line = _printable(f"{event['timestamp'][11:19]} {where}{event['message']}")
    colour = _COLOURS.get(str(event.get("level")), "")
    return f"\x1b[{colour}m{line}\x1b[0m" if coloured and colour else line


def _printable(text: str) -> str:
    """Without what would move a terminal's cursor: names and messages are written by others."""
    return "".join(char if char.isprintable() else " " for char in text)


@contextmanager
def open_log(
    stream: TextIO, *, clock: Clock, environ: Mapping[str, str] = os.environ, secrets: tuple[str, ...] = ()
) -> Iterator[Log]:
    """The log of a process on one of its streams, until the end; with SYNCD_DEBUG, what marks progress too."""
    on_terminal = stream.isatty()
    coloured = on_terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"

    def render(event: Mapping[str, Any]) -> str:
        return for_people(event, coloured=coloured) if on_terminal else as_json(event)

    def line_of_lost(number: int) -> str:
        return log.line_of_lost(number)

    with Sink(stream.fileno(), lost=line_of_lost) as sink:
        log = Log(sink.write, clock=clock, render=render, secrets=secrets)
        if environ.get("SYNCD_DEBUG"):
            log.louder()
        yield log
