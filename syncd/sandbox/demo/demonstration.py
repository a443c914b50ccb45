"""The demonstration itself: servers up, a writer and the daemon at work, then a drain and a comparison."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from syncd.events import BatchesLanded, BatchExtracted, Event, PassEnded
from syncd.host.cache_dirs import make_writable
from syncd.host.directory_lock import held
from syncd.sandbox.demo.demo_tables import SHOWN, configuration
from syncd.sandbox.demo.drain import Drain
from syncd.sandbox.demo.equality_check import Compared, compare
from syncd.sandbox.mysqld import GIVEN as GIVEN_MYSQL
from syncd.sandbox.running_sandbox import Sandbox
from syncd.sandbox.sandbox_dirs import write_private
from syncd.sandbox.shop.shop_setup import stand_up
from syncd.sandbox.shop.writer import Writer
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.sandbox.s3 import S3Address
    from watermarks.cursor import Cursor
    from watermarks.document import Stage

FILE: Final = "syncd.yaml"
DRAWN_EVERY: Final = 0.3
"""Seconds between two looks at how far everything has come."""
STUCK_AFTER: Final = 120.0
"""Seconds in which nothing comes nearer to its end: then it is compared as it is."""


@dataclass(kw_only=True)
class Score:
    """How far one table has come since the beginning."""

    table: str
    mode: str
    extracted: int = 0
    landed: int = 0
    batches: int = 0
    lag: float | None = None
    """Seconds between the newest stamp that landed and the moment when it could be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a demonstration ended."""

    config: Path
    seconds: float
    first_row: float | None
    """Seconds until a row could be read in the warehouse."""
    written: int
    """Rows that the writer inserted or changed."""
    compared: tuple[Compared, ...]
    errors: tuple[tuple[str, HintedError], ...] = ()
    """What stood in the way of a table at its last pass."""

    @property
    def equal(self) -> bool:
        return all(one.equal for one in self.compared)


class Audience(Protocol):
    """Whoever watches."""

    def say(self, line: str) -> None:
        """A word on what happens now."""
        ...

    def see(self, event: Event) -> None:
        """Something happened to a stream."""
        ...

    def show(self, scores: Sequence[Score], *, written: Callable[[], int], left: float | None) -> None:
        """How far everything has come; `left` is how many seconds there are still to go, if that is known."""
        ...


class Ending:
    """When the loop ends: after some seconds, or when somebody asks for it."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._began = 0.0
        self._asked = threading.Event()
        self.playing = False
        """Whether there is a loop to end; before it and after it an interruption ends everything."""

    def begin(self) -> None:
        self._began = time.monotonic()
        self.playing = True

    def ask(self) -> None:
        self._asked.set()

    @property
    def left(self) -> float | None:
        return None if self._seconds is None else max(0.0, self._began + self._seconds - time.monotonic())

    def is_over(self) -> bool:
        return self._asked.is_set() or self.left == 0.0

    def rest(self, seconds: float) -> None:
        self._asked.wait(seconds if self.left is None else min(seconds, self.left))


@dataclass(kw_only=True)
class Demo:
    """One demonstration in one directory; whatever it started is ended with it, whichever way that goes."""

    directory: Path
    audience: Audience
    ending: Ending
    orders: int = 1000
    rate: float = 20.0
    """Transactions of the writer, in a second."""
    began: float = field(default_factory=time.monotonic)
    before_compare: Callable[[Sandbox], None] = lambda _box: None
    """For tests: what somebody does behind our back."""

    def __post_init__(self) -> None:
        self._scores = {shown.table: Score(table=shown.table, mode=shown.mode) for shown in SHOWN}
        self._errors: dict[str, HintedError] = {}
        self._failed: dict[str, Stage] = {}
        self._first_row: float | None = None

    def play(self) -> Verdict:
        """From nothing to the comparison.

        Raises:
            HintedError: the servers cannot be had here.
        """
        make_writable(self.directory / "demo", hint="Make the directory writable, or name another one with --dir.")
        with ExitStack() as stack:
            stack.enter_context(held(self.directory / "demo", within=0.0))
            self.audience.say("starting MySQL, S3 and the Redshift stand-in")
            box = stack.enter_context(Sandbox(self.directory, tell=self.audience.say))
            stack.enter_context(_credentials(box.s3))
            return self._played(box)

    def _played(self, box: Sandbox) -> Verdict:
        from syncd.config.check import read_settings
        from syncd.sandbox.demo.demo_daemon import DemoWorks, at_work

        config = self.directory / FILE
        write_private(config, configuration(box.mysql, box.s3, box.redshift))
        settings = read_settings(config, {})
        with DemoWorks(settings) as works:
            # The JVM starts while the shop is filled.
            works.warm()
            self._stand_up(box)
            drain = Drain(settings.streams)
            with (
                at_work(settings, works, readers=[drain, self._heard(box)]),
                Writer(box.mysql, rate=self.rate, seed=time.time_ns(), deletes=0) as writer,
            ):
                self._loop(writer)
                written = writer.stop().rows
                self._drain(drain)
        self.audience.show(tuple(self._scores.values()), written=lambda: written, left=0.0)
        self.before_compare(box)
        return Verdict(
            config=config,
            seconds=self._now(),
            first_row=self._first_row,
            written=written,
            compared=tuple(self._compared(box)),
            errors=tuple(self._errors.items()),
        )

    def _stand_up(self, box: Sandbox) -> None:
        given = GIVEN_MYSQL in os.environ
        shop = stand_up(self.directory, box.mysql, orders=self.orders, seed=1, given=given, tell=self.audience.say)
        rows = f"{sum(shop.rows.values()):,} rows in {len(shop.rows)} tables"
        self.audience.say(f"the shop stands: {rows}" if shop.seeded_now else f"the shop of last time: {rows}")

    def _loop(self, writer: Writer) -> None:
        self.ending.begin()
        self.audience.say(f"a writer changes the shop, {self.rate:g} transactions a second")
        self.audience.say("Spark starts: the first rows take longer than all that follow")
        while not self.ending.is_over():
            self._shown(writer)
            self.ending.rest(DRAWN_EVERY)

    def _shown(self, writer: Writer) -> None:
        self.audience.show(tuple(self._scores.values()), written=lambda: writer.done().rows, left=self.ending.left)

    def _drain(self, drain: Drain) -> None:
        self.ending.playing = False
        self.audience.say("the writer has stopped; what is under way is brought to its end")
        drain.begin()
        steps, since = drain.steps, time.monotonic()
        while not drain.done and time.monotonic() - since < STUCK_AFTER:
            time.sleep(DRAWN_EVERY)
            if drain.steps != steps:
                steps, since = drain.steps, time.monotonic()

    def _heard(self, box: Sandbox) -> Callable[[Event], None]:
        def heard(event: Event) -> None:
            score = self._scores[event.stream.table]
            match event:
                case BatchExtracted():
                    score.extracted += event.rows
                case BatchesLanded():
                    score.landed += event.rows
                    score.batches += 1
                    score.lag = _age(event.mark)
                    if self._first_row is None and event.rows:
                        self._look_for_first_row(box, event.stream.table)
                case PassEnded():
                    self._note(event)
                case _:
                    pass
            self.audience.see(event)

        return heard

    def _note(self, event: PassEnded) -> None:
        """Keep what stands in the way of a table, until a pass of the same stage goes well."""
        if event.error is not None:
            self._errors[event.stream.table] = event.error
            self._failed[event.stream.table] = event.stage
        elif self._failed.get(event.stream.table) is event.stage:
            self._errors.pop(event.stream.table, None)

    def _look_for_first_row(self, box: Sandbox, table: str) -> None:
        """Read it as anybody would, over a connection of one's own."""
        with box.redshift.connect() as connection:
            cursor = connection.cursor()
            cursor.execute(f'SELECT COUNT(*) FROM public."{table}"')
            (rows,) = cursor.fetchone()
        if rows:
            self._first_row = self._now()
            self.audience.say(f"first rows visible in the warehouse, {self._first_row:.1f} s after the start")

    def _compared(self, box: Sandbox) -> Iterator[Compared]:
        self.audience.say("comparing MySQL and the warehouse, value by value")
        with box.mysql.connect() as source, box.redshift.connect() as target:
            for shown in SHOWN:
                yield compare(shown, source, target)

    def _now(self) -> float:
        return time.monotonic() - self.began


def _age(mark: "Cursor") -> float | None:
    """How long ago a position was stamped, where it says so."""
    stamp = mark.values[0].plain if mark.values else None
    if not isinstance(stamp, datetime):
        return None
    return (datetime.now(UTC) - (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC))).total_seconds()


@contextmanager
def _credentials(address: "S3Address") -> Iterator[None]:
    """The keys of the sandbox's S3 where AWS's default chain looks first; a given one has its own."""
    if not (address.access_key and address.secret_key):
        yield
        return
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE")
    before = {name: os.environ.pop(name, None) for name in names}
    os.environ |= {"AWS_ACCESS_KEY_ID": address.access_key, "AWS_SECRET_ACCESS_KEY": address.secret_key}
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
