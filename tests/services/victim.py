"""A run of the extract stage that comes to a stop at a named point: killed there, or paused.

python -m tests.services.victim CONFIG TABLE POINT SIGNAL TTL

A point of the store is `before VERB PLACE` or `after VERB PLACE`, PLACE being what a key begins with; its last word may
be a number, the revision of an entry. A point of the reader is one of READING.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncd.app.lake_access import open_store
from syncd.app.pass_factory import PassOptions
from syncd.app.stage_services import StageService
from syncd.concurrency.running_pass import RunningPass
from syncd.config.check import read_settings
from syncd.lake.read_requests import ReadRequest, ReadResult
from watermarks.store import Revision, Store, StoredObject

if TYPE_CHECKING:
    from syncd.ports.source import BatchReader
    from syncd.s3.lake_client import S3Lake

READING: Final = ("before reading", "a part stands", "between windows", "after reading")
REACHED: Final = "reached the point"


@dataclass(frozen=True)
class Point:
    """Where to stop, and by which signal."""

    text: str
    signal: int

    def reached(self, text: str) -> None:
        if text == self.text:
            sys.stderr.write(f"{REACHED}\n")
            sys.stderr.flush()
            os.kill(os.getpid(), self.signal)

    def about(self, verb: str, key: str, act: Callable[[], Revision]) -> Revision:
        name = f"{verb} {_place(key)}"
        self.reached(f"before {name}")
        done = act()
        self.reached(f"after {name}")
        return done


def _place(key: str) -> str:
    """`plans`, or `history 2` of the second entry; `replayed` or `amended` of a note beside a batch."""
    noted = (word for word in ("replayed", "amended") if f".{word}-" in key)
    place = next(noted, key.partition("/")[0])
    return f"{place} {Path(key).stem}" if place == "history" else place


@dataclass(frozen=True)
class StoppingStore:
    """A store that is real, and stops the process around one of its writes."""

    inner: Store
    point: Point

    def read(self, key: str) -> StoredObject | None:
        return self.inner.read(key)

    def put(self, key: str, body: bytes, *, expected: Revision | None) -> Revision:
        verb = "create" if expected is None else "replace"
        return self.point.about(verb, key, lambda: self.inner.put(key, body, expected=expected))

    def list(self, prefix: str) -> Iterator[str]:
        return self.inner.list(prefix)


@dataclass(frozen=True)
class StoppingReader:
    """A reader that is real, and stops the process around or within its work."""

    inner: "BatchReader"
    point: Point
    lake: "S3Lake"

    def prepare(self, *, little: bool) -> None:
        self.inner.prepare(little=little)

    def read(self, reading: ReadRequest, *, tell: Callable[[int], None] = lambda _rows: None) -> ReadResult:
        self.point.reached("before reading")
        if self.point.text == "a part stands":
            threading.Thread(target=self._watch, args=(reading,), daemon=True).start()

        last = len(reading.queries)
        waves = 0

        def told(rows: int) -> None:
            nonlocal waves
            waves += 1
            if waves < last:
                self.point.reached("between windows")
            tell(rows)

        done = self.inner.read(reading, tell=told)
        self.point.reached("after reading")
        return done

    def _watch(self, reading: ReadRequest) -> None:
        while not self.lake.list_objects(reading.part_prefix):
            pass  # each look is a request to S3
        self.point.reached("a part stands")


class StoppingService(StageService):
    """The service as it is wired, but for the point."""

    point: Point

    def make_reader(self, source: str, running_pass: RunningPass) -> "BatchReader":
        return StoppingReader(super().make_reader(source, running_pass), self.point, self.lake)


def main() -> None:
    config, table, text, number, ttl = sys.argv[1:]
    point = Point(text, int(number))
    settings = read_settings(Path(config), os.environ)
    stream = next(stream for stream in settings.streams if stream.table == table)

    def store(lake: "S3Lake") -> Store:
        return StoppingStore(open_store(lake), point)

    with StoppingService(
        settings, environ=os.environ, emit=lambda _event: None, make_store=store, lease_ttl_seconds=float(ttl)
    ) as service:
        service.point = point
        outcome = service.extract(stream, PassOptions())
    if outcome.error is not None:
        sys.exit(f"{type(outcome.error).__name__}: {outcome.error.message}")


if __name__ == "__main__":
    main()
