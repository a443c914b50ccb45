"""The demonstration: servers, a writer and the daemon, then a drain and a comparison."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from syncd.events import BatchesLoaded, BatchExtracted, PassEnded, StreamEvent
from syncd.host.directories import hold_lock, make_writable
from syncd.sandbox.demo.demo_daemon import DrainMonitor
from syncd.sandbox.demo.equality_check import DEMO_TABLES, TableComparison, compare_table, render_configuration
from syncd.sandbox.running_sandbox import Sandbox
from syncd.sandbox.sandbox_dirs import write_private
from syncd.sandbox.shop.shop_setup import ensure_shop
from syncd.sandbox.shop.writer import ShopWriter
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.sandbox.s3 import S3Address
    from watermarks.cursor import Cursor
    from watermarks.document import Stage

CONFIG_FILE: Final = "syncd.yaml"
REDRAW_INTERVAL_SECONDS: Final = 0.3
STALL_TIMEOUT_SECONDS: Final = 120.0
"""Seconds without progress after which the drain ends and the tables are compared as they are."""


@dataclass(kw_only=True)
class TableProgress:
    """Progress of one table since the start."""

    table: str
    mode: str
    extracted: int = 0
    loaded: int = 0
    batches: int = 0
    lag_seconds: float | None = None
    """Seconds between the newest loaded stamp and the moment when it was visible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """Result of a demonstration."""

    config: Path
    seconds: float
    first_row_seconds: float | None
    """Seconds until a row was visible in the warehouse."""
    written_rows: int
    """Rows that the writer inserted or changed."""
    comparisons: tuple[TableComparison, ...]
    errors: tuple[tuple[str, HintedError], ...] = ()
    """Errors of tables at their last pass."""

    @property
    def equal(self) -> bool:
        return all(one.equal for one in self.comparisons)


class DemoDisplay(Protocol):
    """Display of a demonstration's progress."""

    def print_message(self, line: str) -> None: ...

    def on_event(self, event: StreamEvent) -> None: ...

    def show_progress(self, scores: Sequence[TableProgress], *, written: Callable[[], int], left: float | None) -> None:
        """Show the progress of all tables; `left` is the number of remaining seconds, if known."""
        ...


class StopCondition:
    """End of the loop: after some seconds, or on request."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._started_at = 0.0
        self._stop_requested = threading.Event()
        self.is_running = False
        """True while there is a loop to end; outside it an interruption ends everything."""

    def start(self) -> None:
        self._started_at = time.monotonic()
        self.is_running = True

    def request_stop(self) -> None:
        self._stop_requested.set()

    @property
    def remaining_seconds(self) -> float | None:
        return None if self._seconds is None else max(0.0, self._started_at + self._seconds - time.monotonic())

    def is_over(self) -> bool:
        return self._stop_requested.is_set() or self.remaining_seconds == 0.0

    def sleep(self, seconds: float) -> None:
        self._stop_requested.wait(seconds if self.remaining_seconds is None else min(seconds, self.remaining_seconds))


@dataclass(kw_only=True)
class Demo:
    """One demonstration in one directory; everything that it started ends with it, also after an error."""

    directory: Path
    display: DemoDisplay
    stop_condition: StopCondition
    orders: int = 1000
    transactions_per_second: float = 20.0
    started_at: float = field(default_factory=time.monotonic)
    before_compare: Callable[[Sandbox], None] = lambda _box: None
    """Change of the data that a test makes before the comparison."""

    def __post_init__(self) -> None:
        self._progress = {
            demo_table.table: TableProgress(table=demo_table.table, mode=demo_table.mode) for demo_table in DEMO_TABLES
        }
        self._errors: dict[str, HintedError] = {}
        self._failed_stages: dict[str, Stage] = {}
        self._first_row_seconds: float | None = None

    def run(self) -> DemoResult:
        """Run everything up to the comparison.

        Raises:
            HintedError: this machine cannot run the servers.
        """
        make_writable(self.directory / "demo", hint="Make the directory writable, or choose another one with --dir.")
        with ExitStack() as stack:
            stack.enter_context(hold_lock(self.directory / "demo", within=0.0))
            self.display.print_message("starting MySQL, S3 and the Redshift stand-in")
            sandbox = stack.enter_context(Sandbox(self.directory, report=self.display.print_message))
            stack.enter_context(_s3_credentials(sandbox.s3))
            return self._run_in_sandbox(sandbox)

    def _run_in_sandbox(self, sandbox: Sandbox) -> DemoResult:
        from syncd.config.check import read_settings
        from syncd.sandbox.demo.demo_daemon import DemoService

        config = self.directory / CONFIG_FILE
        write_private(config, render_configuration(sandbox.mysql, sandbox.s3, sandbox.redshift))
        settings = read_settings(config, {})
        service = DemoService(settings)
        with service.stages:
            service.start_spark()  # the JVM starts while the shop is filled
            self._ensure_shop(sandbox)
            drain = DrainMonitor(settings.streams)
            with (
                service.run_daemon(settings, readers=[drain, self._make_event_handler(sandbox)]),
                ShopWriter(sandbox.mysql, rate=self.transactions_per_second, seed=time.time_ns(), deletes=0) as writer,
            ):
                self._write_until_stopped(writer)
                written = writer.stop().rows
                self._drain(drain)
        self.display.show_progress(tuple(self._progress.values()), written=lambda: written, left=0.0)
        self.before_compare(sandbox)
        return DemoResult(
            config=config,
            seconds=self._elapsed_seconds(),
            first_row_seconds=self._first_row_seconds,
            written_rows=written,
            comparisons=tuple(self._compare_tables(sandbox)),
            errors=tuple(self._errors.items()),
        )

    def _ensure_shop(self, sandbox: Sandbox) -> None:
        shop = ensure_shop(
            self.directory,
            sandbox.mysql,
            orders=self.orders,
            seed=1,
            is_external=sandbox.is_external("mysql"),
            report=self.display.print_message,
        )
        rows = f"{sum(shop.rows.values()):,} rows in {len(shop.rows)} tables"
        self.display.print_message(f"the shop is filled: {rows}" if shop.seeded_now else f"the shop exists: {rows}")

    def _write_until_stopped(self, writer: ShopWriter) -> None:
        self.stop_condition.start()
        self.display.print_message(f"a writer changes the shop, {self.transactions_per_second:g} transactions a second")
        self.display.print_message("Spark is starting: the first rows take longer than the following ones")
        while not self.stop_condition.is_over():
            self._show_progress(writer)
            self.stop_condition.sleep(REDRAW_INTERVAL_SECONDS)

    def _show_progress(self, writer: ShopWriter) -> None:
        self.display.show_progress(
            tuple(self._progress.values()),
            written=lambda: writer.summary().rows,
            left=self.stop_condition.remaining_seconds,
        )

    def _drain(self, drain: DrainMonitor) -> None:
        self.stop_condition.is_running = False
        self.display.print_message("the writer has stopped; the remaining rows are loaded")
        drain.start()
        steps, since = drain.progress_steps, time.monotonic()
        while not drain.is_drained and time.monotonic() - since < STALL_TIMEOUT_SECONDS:
            time.sleep(REDRAW_INTERVAL_SECONDS)
            if drain.progress_steps != steps:
                steps, since = drain.progress_steps, time.monotonic()

    def _make_event_handler(self, sandbox: Sandbox) -> Callable[[StreamEvent], None]:
        def handle(event: StreamEvent) -> None:
            progress = self._progress[event.stream.table]
            match event:
                case BatchExtracted():
                    progress.extracted += event.rows
                case BatchesLoaded():
                    progress.loaded += event.rows
                    progress.batches += 1
                    progress.lag_seconds = _mark_age_seconds(event.mark)
                    if self._first_row_seconds is None and event.rows:
                        self._look_for_first_row(sandbox, event.stream.table)
                case PassEnded():
                    self._record_error(event)
                case _:
                    pass
            self.display.on_event(event)

        return handle

    def _record_error(self, event: PassEnded) -> None:
        """Keep the error of a table until a pass of the same stage succeeds."""
        if event.error is not None:
            self._errors[event.stream.table] = event.error
            self._failed_stages[event.stream.table] = event.stage
        elif self._failed_stages.get(event.stream.table) is event.stage:
            self._errors.pop(event.stream.table, None)

    def _look_for_first_row(self, sandbox: Sandbox, table: str) -> None:
        """Query the table over a connection of its own, as any client would."""
        with sandbox.redshift.connect() as connection:
            cursor = connection.cursor()
            cursor.execute(f'SELECT COUNT(*) FROM public."{table}"')
            (rows,) = cursor.fetchone()
        if rows:
            self._first_row_seconds = self._elapsed_seconds()
            self.display.print_message(
                f"first rows visible in the warehouse, {self._first_row_seconds:.1f} s after the start"
            )

    def _compare_tables(self, sandbox: Sandbox) -> Iterator[TableComparison]:
        self.display.print_message("comparing MySQL and the warehouse, value by value")
        with sandbox.mysql.connect() as source, sandbox.redshift.connect() as target:
            for demo_table in DEMO_TABLES:
                yield compare_table(demo_table, source, target)

    def _elapsed_seconds(self) -> float:
        return time.monotonic() - self.started_at


def _mark_age_seconds(mark: "Cursor") -> float | None:
    """Return the age of a position's stamp, if it has one."""
    stamp = mark.values[0].raw if mark.values else None
    if not isinstance(stamp, datetime):
        return None
    return (datetime.now(UTC) - (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC))).total_seconds()


@contextmanager
def _s3_credentials(address: "S3Address") -> Iterator[None]:
    """Put the keys of the sandbox's S3 where AWS's default chain looks first; an external S3 has its own."""
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
