"""Stage service of a command, and the progress that it shows while a run goes on."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import click

from syncd.events import BatchPlanned, RowsArrived, StreamEvent
from syncd.observe.event_text import summarize_event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.progress import Progress, TaskID

    from syncd.app.stage_services import StageService
    from syncd.settings import Settings, StreamSettings


def open_progress(*, quiet: bool) -> "LineProgress | LiveProgress":
    return LiveProgress() if sys.stderr.isatty() and not quiet else LineProgress()


class LineProgress:
    """Display that prints one line for each event that changes something."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def __call__(self, event: StreamEvent) -> None:
        line = summarize_event(event)
        if line:
            click.echo(f"{event.stream.table_name}: {line}", err=True)

    def say(self, line: str) -> None:
        """Print a message that belongs to no event."""
        click.echo(line, err=True)


class LiveProgress:
    """Display that redraws one line with rows and rate of the current batch; finished work scrolls above it."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._batch_started_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def __call__(self, event: StreamEvent) -> None:
        match event:
            case BatchPlanned():
                self._start_batch(event)
            case RowsArrived():
                self._update_rate(event)
            case _:
                self._stop()
                line = summarize_event(event)
                if line:
                    click.echo(f"{event.stream.table_name}: {line}", err=True)

    def say(self, line: str) -> None:
        """Print a message above the live line, from any thread."""
        progress = self._progress
        if progress is not None:
            progress.console.print(line, markup=False, highlight=False)
        else:
            click.echo(line, err=True)

    def _start_batch(self, event: BatchPlanned) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._stop()
        columns: tuple[Any, ...] = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TextColumn("{task.completed:,.0f} rows"),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=Console(file=sys.stderr), transient=True)
        self._batch_started_at = time.monotonic()
        name = f"{event.stream.table_name} {event.kind} {event.batch}"
        self._task = self._progress.add_task(name, total=None, rate="")
        self._progress.start()

    def _update_rate(self, event: RowsArrived) -> None:
        if self._progress is not None and self._task is not None:
            rate = event.rows / max(time.monotonic() - self._batch_started_at, 0.001)
            self._progress.update(self._task, completed=event.rows, rate=f"{rate:,.0f}/s")

    def _stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


@contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that started work is stopped and leases are released."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def open_stage_service(settings: "Settings", *, quiet: bool, dry_run: bool = False) -> "Iterator[StageService]":
    """Open the service with a display of its progress. In a dry run it writes to an overlay only."""
    from syncd.app.lake_access import open_overlay_store, open_store
    from syncd.app.stage_services import StageService
    from syncd.concurrency.response_monitor import ResponseMonitor

    with (
        interrupt_on_sigterm(),
        open_progress(quiet=quiet) as progress,
        ResponseMonitor(progress.say) as response_monitor,
        StageService(
            settings,
            environ=os.environ,
            emit=progress,
            make_store=open_overlay_store if dry_run else open_store,
            one_shot=True,
            read_only=dry_run,
            response_monitor=response_monitor,
        ) as service,
    ):
        yield service


def require_warehouses(streams: "Sequence[StreamSettings]") -> None:
    without = [stream.name for stream in streams if stream.target is None]
    if without:
        raise click.UsageError(
            f"no warehouse to load {', '.join(without)} into:"
            " add `warehouse:` to the configuration, or use --extract-only"
        )
