import io
import json
import logging
import os
import pty
import re
import threading
import time
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from syncd import events as told
from syncd.errors import SourceDown, TransactionConflict
from syncd.events import (
    BatchAbandoned,
    BatchesLoaded,
    BatchExtracted,
    BatchPlanned,
    ColumnIncomplete,
    LedgerBehind,
    LoadRetried,
    OrphansRemoved,
    PassDue,
    PassEnded,
    PassHeldBack,
    PassStarted,
    RowsArrived,
    RowsQuarantined,
    StreamEvent,
    StreamFailed,
    StreamWaited,
    TableReplaced,
)
from syncd.observe.event_text import describe_event
from syncd.observe.log import collect_secrets, event_fields, level_for, open_log
from syncd.observe.log_sink import LineWriter
from syncd.settings import (
    DaemonSettings,
    LakeSettings,
    NotifySettings,
    Secret,
    Settings,
    SourceSettings,
)
from tests.builders import NOON, ORDERS, at
from watermarks.batch import BatchId
from watermarks.document import Stage
from watermarks.progress import RunStrategy
from watermarks.testing import ManualClock

DOCS = Path(__file__).parents[4] / "docs" / "reference" / "log.md"
FIRST, SECOND = BatchId(1, 4), BatchId(1, 5)
DOWN = SourceDown("db does not answer", hint="Is it up?")


def ended(**more: Any) -> PassEnded:
    fields: dict[str, Any] = {
        "stage": Stage.LOAD,
        "state": "loaded",
        "batches": 2,
        "rows": 3000,
        "seconds": 1.23456,
        "mark": at(0, 42),
        "complete_up_to": NOON,
        "proven": True,
        "pending_batches": 0,
    }
    return PassEnded(stream=ORDERS, **(fields | more))


SAMPLES: tuple[StreamEvent, ...] = (
    BatchPlanned(stream=ORDERS, batch=FIRST, kind="increment", windows=2, high=at(1, 7)),
    RowsArrived(stream=ORDERS, batch=FIRST, rows=1),
    BatchExtracted(
        stream=ORDERS, batch=FIRST, kind="increment", rows=3, files=1, bytes=10, quarantined=1, mark=at(1, 7), seconds=1
    ),
    BatchesLoaded(stream=ORDERS, first=FIRST, last=SECOND, rows=3, files=2, mark=at(1, 7), seconds=0.5),
    LedgerBehind(stream=ORDERS, batches=3),
    RowsQuarantined(stream=ORDERS, batch=FIRST, rows=2, reason="too long"),
    ColumnIncomplete(stream=ORDERS, column="note", since=FIRST, reason="its default is computed", hint="Read again."),
    TableReplaced(stream=ORDERS, since=FIRST, hint="Compare."),
    LoadRetried(stream=ORDERS, error=TransactionConflict("deadlock"), seconds=0.5),
    BatchAbandoned(stream=ORDERS, batch=FIRST),
    OrphansRemoved(stream=ORDERS, files=4),
    StreamWaited(stream=ORDERS, reason="too busy"),
    StreamFailed(stream=ORDERS, error="no answer", hint="Look."),
    PassDue(stream=ORDERS, stage=Stage.EXTRACT, at=NOON),
    PassHeldBack(stream=ORDERS, stage=Stage.LOAD, reason="no session is free", until=NOON),
    PassStarted(stream=ORDERS, stage=Stage.EXTRACT, strategy=RunStrategy.INTER_TABLE),
    ended(),
)


def documented(heading: str) -> dict[str, tuple[set[str], set[str]]]:
    """Level and fields of each event, as the page lists them below a heading."""
    section = DOCS.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+) \| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)
    return {
        name: (set(levels.strip().split(", ")), set(re.findall(r"`(\w+)`", own)))
        for names, levels, own in rows
        for name in re.findall(r"`([\w.]+)`", names)
    }


def test_every_event_there_is_has_a_sample() -> None:
    kinds = {type(one).__name__ for one in SAMPLES}

    assert kinds == {kind.__name__ for kind in told._NAMES} == {kind.__name__ for kind in StreamEvent.__subclasses__()}


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: event.name)
def test_the_page_lists_every_field_and_level_of_an_event(event: StreamEvent) -> None:
    levels, own = documented("Events of streams")[event.name]

    assert own == set(event_fields(event)) - {"stream", "table"}
    assert logging.getLevelName(level_for(event)).lower() in levels


def test_the_page_lists_no_event_that_does_not_happen() -> None:
    assert set(documented("Events of streams")) == {event.name for event in SAMPLES}


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: event.name)
def test_every_event_says_something_on_one_line(event: StreamEvent) -> None:
    said = describe_event(event)

    assert said != event.name
    assert "\n" not in said
    assert "object at" not in json.dumps(event_fields(event), default=lambda value: pytest.fail(repr(value)))


def test_a_failed_pass_is_an_error_with_its_hint_and_one_that_found_nothing_is_quiet() -> None:
    failed = ended(state="failed", batches=0, rows=0, error=DOWN)
    nothing = ended(state="nothing new", batches=0, rows=0)

    assert level_for(failed) == logging.ERROR
    assert {"error": "db does not answer", "error_class": "SourceDown", "hint": "Is it up?"}.items() <= event_fields(
        failed
    ).items()
    assert level_for(nothing) == logging.DEBUG


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (ended(), "load: 2 batches, 3,000 rows in 1.2 s; complete up to 2026-01-31 12:00:00Z"),
        (ended(batches=0, rows=0, proven=False), "load: nothing new; complete up to 2026-01-31 12:00:00Z, not proven"),
        (
            ended(batches=1, rows=1, complete_up_to=None, pending_batches=7),
            "load: 1 batch, 1 row in 1.2 s; 7 batches to be loaded",
        ),
        (
            ended(error=DOWN, complete_up_to=None),
            "load failed after 2 batches, 3,000 rows in 1.2 s: db does not answer",
        ),
        (
            ended(stage=Stage.EXTRACT, batches=0, complete_up_to=None, reason="held by transaction 7"),
            "extract: nothing new; held by transaction 7",
        ),
    ],
)
def test_a_pass_ends_with_a_line_that_tells_its_story(event: PassEnded, said: str) -> None:
    assert describe_event(event) == said


class Piped:
    """The log at a pipe, whose lines can be read as they come."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self.stream = os.fdopen(self.writer, "w")

    def lines(self) -> list[dict[str, Any]]:
        self.stream.close()
        with os.fdopen(self.reader) as file:
            return [json.loads(line) for line in file]


def test_off_a_terminal_each_line_is_one_json_document() -> None:
    piped = Piped()

    with open_log(piped.stream, clock=ManualClock(NOON), environ={}) as log:
        for event in SAMPLES:
            log(event)
        log.report("daemon.stopped", "the end", seconds=1.23456)

    lines = piped.lines()
    assert [line["event"] for line in lines] == [
        *(event.name for event in SAMPLES if level_for(event) > logging.DEBUG),
        "daemon.stopped",
    ]
    assert all(line["timestamp"] == "2026-01-31T12:00:00.000000Z" for line in lines)
    assert lines[-1] == {
        "timestamp": "2026-01-31T12:00:00.000000Z",
        "level": "info",
        "event": "daemon.stopped",
        "message": "the end",
        "seconds": 1.235,
    }


def test_a_reason_that_stays_is_told_once() -> None:
    piped = Piped()
    waits = ended(state="waiting", batches=0, rows=0, reason="held by transaction 7, since 12:00:00 UTC")
    elsewhere = replace(waits, stream=replace(waits.stream, table="items"))
    found = ended(state="extracted", reason=waits.reason)
    over = ended(state="nothing new", batches=0, rows=0)

    with open_log(piped.stream, clock=ManualClock(NOON), environ={}) as log:
        for event in (waits, waits, elsewhere, waits, found, waits, replace(waits, reason="held by 8"), over, waits):
            log(event)

    told = [(line["table"].split(".")[1], line["state"], line["reason"][:9]) for line in piped.lines()]
    assert told == [
        ("orders", "waiting", "held by t"),
        ("items", "waiting", "held by t"),
        ("orders", "extracted", "held by t"),
        ("orders", "waiting", "held by 8"),
        ("orders", "waiting", "held by t"),
    ]


def test_with_debug_progress_is_told_too() -> None:
    piped = Piped()

    with open_log(piped.stream, clock=ManualClock(NOON), environ={"SYNCD_DEBUG": "1"}) as log:
        for event in SAMPLES:
            log(event)

    assert [line["event"] for line in piped.lines()] == [event.name for event in SAMPLES]


@pytest.mark.parametrize(("environ", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_on_a_terminal_lines_are_short_and_cannot_move_its_cursor(environ: dict[str, str], *, coloured: bool) -> None:
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as terminal:
        with open_log(terminal, clock=ManualClock(NOON), environ=environ) as log:
            log(StreamFailed(stream=ORDERS, error="no \x1b[2J answer", hint=""))
        said = os.read(leader, 1000).decode().strip()
    os.close(leader)

    plain = "12:00:00 shop.orders: failed: no  [2J answer"
    assert said == (f"\x1b[33m{plain}\x1b[0m" if coloured else plain)


def test_no_secret_that_was_configured_is_written_wherever_it_would_stand() -> None:
    settings = Settings(
        sources=(SourceSettings(name="shop", host="db", user="sync", password=Secret("p@ss word/1")),),
        lake=LakeSettings(bucket="lake"),
        daemon=DaemonSettings(
            token=Secret("t-0123456789"), notify=(NotifySettings(url=Secret("https://hooks.example/T0/abc")),)
        ),
    )
    piped = Piped()

    with open_log(piped.stream, clock=ManualClock(), environ={}, secrets=collect_secrets(settings)) as log:
        log(StreamFailed(stream=ORDERS, error="mysql://sync:p%40ss%20word%2F1@db", hint="t-0123456789"))
        log.report("notice.lost", "https://hooks.example/T0/abc is gone", what="p@ss word/1")

    lines = piped.lines()
    assert [line["message"] for line in lines] == ["failed: mysql://sync:***@db", "*** is gone"]
    assert (lines[0]["hint"], lines[1]["what"]) == ("***", "***")


def test_a_pipe_that_closes_takes_nobody_down_and_is_not_tried_again() -> None:
    piped = Piped()
    os.close(piped.reader)

    began = time.process_time()
    with open_log(piped.stream, clock=ManualClock(), environ={}) as log:
        for _ in range(300):
            log(SAMPLES[3])
    assert time.process_time() - began < 2
    piped.stream.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no disk that is always full")
def test_a_full_disk_costs_lines_and_the_next_one_that_passes_says_how_many(tmp_path: Path) -> None:
    target = os.open("/dev/full", os.O_WRONLY)
    with LineWriter(target, format_lost_lines=lambda number: f"{number} lost") as sink:
        for number in range(3):
            sink.write(f"line {number}")
        until(lambda: sink.lost_lines == 3)
        with (tmp_path / "log").open("w") as file:
            os.dup2(file.fileno(), target)
        sink.write("line 3")
    os.close(target)

    assert (tmp_path / "log").read_text() == "3 lost\nline 3\n"


def test_a_reader_that_stands_still_makes_nobody_wait() -> None:
    reader, writer = os.pipe()
    sink = LineWriter(writer, format_lost_lines=lambda number: f"{number} lost", max_queued=10)

    with sink:
        began = time.monotonic()
        for _ in range(100):
            sink.write("x" * 10_000)
        took = time.monotonic() - began
        assert sink.lost_lines >= 80
        drained = threading.Thread(target=drain, args=(reader,))
        drained.start()

    assert took < 30
    os.close(writer)
    drained.join()


def test_a_pipe_that_does_not_block_is_waited_for_until_the_line_is_whole() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    got = io.BytesIO()
    drained = threading.Thread(target=drain, args=(reader, got))

    with LineWriter(writer, format_lost_lines=str) as sink:
        sink.write("x" * 1_000_000)
        drained.start()
    os.close(writer)
    drained.join()

    assert got.getvalue() == b"x" * 1_000_000 + b"\n"


def drain(reader: int, into: io.BytesIO | None = None) -> None:
    with os.fdopen(reader, "rb") as file:
        while chunk := file.read(65536):
            if into is not None:
                into.write(chunk)


def until(holds: Any, *, within: timedelta = timedelta(seconds=60)) -> None:
    """Look again until it holds: a thread is at work whose end nobody announces."""
    deadline = time.monotonic() + within.total_seconds()
    while not holds():
        assert time.monotonic() < deadline
        threading.Event().wait(0.002)


def test_every_field_of_an_event_is_written() -> None:
    for event in SAMPLES:
        assert {each.name for each in fields(event)} <= set(event_fields(event))
