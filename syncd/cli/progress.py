"""Progress of a run on stderr: a live line on a terminal, one line per event elsewhere."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from syncd.events import BatchPlanned, RowsArrived, StreamEvent
from syncd.observe.event_text import summarize_event

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def open_progress(*, quiet: bool) -> "LineProgress | LiveProgress":
    return LiveProgress() if sys.stderr.isatty() and not quiet else LineProgress()


class LineProgress:
    """Display that prints one line for each event that changes something."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
