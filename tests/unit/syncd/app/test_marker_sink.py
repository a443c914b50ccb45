import re
import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from syncd.app.marker_sink import MarkerSink
from syncd.events import BatchesLoaded, PassEnded
from syncd.lake.completion_markers import CompletionMarker
from syncd.lake.object_keys import latest_marker_key
from syncd.settings import LakeSettings, Settings, StreamSettings, TargetSettings
from tests.builders import NOON, ORDERS, at
from watermarks.batch import BatchId
from watermarks.document import Stage
from watermarks.errors import StoreUnavailable
from watermarks.store import Store, StoredObject
from watermarks.stores.memory import MemoryStore
from watermarks.testing import ManualClock

TARGET = TargetSettings(warehouse="dwh", schema="public", table="orders")
SETTINGS = Settings(
    sources=(),
    lake=LakeSettings(bucket="lake"),
    streams=(StreamSettings(source="shop", database="shop", table="orders", target=TARGET),),
)


def landed(rows: int) -> BatchesLoaded:
    batch = BatchId(1, 4)
    return BatchesLoaded(stream=ORDERS, first=batch, last=batch, rows=rows, files=1, mark=at(0), seconds=1)


def ended(minutes: float, *, stage: Stage = Stage.LOAD, pending_batches: int = 0) -> PassEnded:
    return PassEnded(
        stream=ORDERS,
        stage=stage,
        state="loaded",
        batches=1,
        rows=1,
        seconds=1,
        mark=at(0),
        complete_up_to=NOON + timedelta(minutes=minutes),
        proven=True,
        pending_batches=pending_batches,
    )


def told(store: Store) -> CompletionMarker | None:
    stored = store.read(latest_marker_key(ORDERS))
    return None if stored is None else CompletionMarker.from_bytes(stored.body, stream=ORDERS)


def marking(store: Store, said: list[str], **more: Any) -> MarkerSink:
    def say(name: str, message: str, *, level: int = 0, **facts: object) -> None:
        said.append(name)

    return MarkerSink(SETTINGS, open_store=lambda _lake: store, clock=ManualClock(), report=say, **more)


def test_what_is_complete_in_the_target_is_marked_with_its_rows_and_batch() -> None:
    store = MemoryStore()
    with marking(store, []) as tell:
        for event in (landed(3), landed(4), ended(5)):
            tell(event)

    marker = told(store)
    assert marker is not None
    assert (marker.complete_until, marker.batch, marker.rows) == (NOON + timedelta(minutes=5), "1-4", 7)


def test_an_extraction_marks_only_what_leaves_nothing_to_load() -> None:
    store = MemoryStore()
    with marking(store, []) as tell:
        tell(ended(5, stage=Stage.EXTRACT, pending_batches=2))
    assert told(store) is None

    with marking(store, []) as tell:
        tell(ended(6, stage=Stage.EXTRACT))
    assert told(store) is not None


def test_a_lake_that_is_away_is_told_and_the_next_pass_makes_up_for_it() -> None:
    store, said = Away(), list[str]()
    with marking(store, said) as tell:
        tell(landed(3))
        tell(ended(5))
    assert said == ["marker.failed"]

    store.away = False
    with marking(store, said) as tell:
        tell(ended(6))
    assert told(store) is not None


def test_an_end_waits_for_a_lake_that_does_not_answer_no_longer_than_last_words_take() -> None:
    tables = [replace(ORDERS, table=f"t{number}") for number in range(12)]
    settings = replace(SETTINGS, streams=tuple(replace(SETTINGS.streams[0], table=one.table) for one in tables))
    store, said = Stuck(), list[str]()
    writer = marking(store, said, flush_seconds=0.2)
    writer.reconfigure(settings)

    began = time.monotonic()
    with writer as tell:
        for stream in tables:
            tell(replace(ended(5), stream=stream))
        assert store.is_asked.wait(60)
    took = time.monotonic() - began

    store.answers.set()
    writer._thread.join(10)
    assert took < 30
    assert store.asked == 1


def test_another_lake_gets_the_markers_of_what_is_in_it_and_the_one_before_no_more() -> None:
    before, after = MemoryStore(), MemoryStore()
    stores = {"lake": before, "other": after}

    def say(*_: object, **__: object) -> None:
        return

    writer = MarkerSink(SETTINGS, open_store=lambda lake: stores[lake.bucket], clock=ManualClock(), report=say)
    with writer as tell:
        for event in (landed(3), ended(5)):
            tell(event)
        writer.reconfigure(replace(SETTINGS, lake=LakeSettings(bucket="other")))
        tell(ended(65))

    old, new = told(before), told(after)
    assert old is None or old.complete_until == NOON + timedelta(minutes=5)
    assert new is not None
    assert (new.complete_until, new.batch, new.rows) == (NOON + timedelta(minutes=65), None, 0)


def test_the_page_lists_every_field_of_a_marker() -> None:
    page = (Path(__file__).parents[4] / "docs" / "how-to" / "markers.md").read_text()
    section = page.split("Each marker is one JSON document:")[1]
    firsts = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)

    marker = CompletionMarker(stream=ORDERS, complete_until=NOON, proven=True, batch=None, rows=0, at=NOON)
    assert set(re.findall(r"`(\w+)`", " ".join(firsts))) == set(re.findall(r'"(\w+)":', marker.to_bytes().decode()))


class Away(MemoryStore):
    """A store that cannot be read until it is back."""

    away = True

    def read(self, key: str) -> StoredObject | None:
        if self.away:
            raise StoreUnavailable("away")
        return super().read(key)


class Stuck(MemoryStore):
    """A store that says nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = threading.Event()
        self.asked = 0
        self.is_asked = threading.Event()

    def read(self, key: str) -> StoredObject | None:
        self.asked += 1
        self.is_asked.set()
        self.answers.wait(60)
        raise StoreUnavailable("no answer")
