"""How a run goes, as it goes: a live block on a terminal, a line an event elsewhere; both on stderr."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from syncd.events import BatchPlanned, Event, RowsArrived
from syncd.observe.event_text import told

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Lines:
    """One line for each event that changes something."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def __call__(self, event: Event) -> None:
        line = told(event)
        if line:
            click.echo(f"{event.stream.database}.{event.stream.table}: {line}", err=True)

    def say(self, line: str) -> None:
        """A word that is about no event."""
        click.echo(line, err=True)


class Live:
    """The rows of the batch at work and their rate, on one line that is drawn anew; what is done scrolls above."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._began = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def __call__(self, event: Event) -> None:
        match event:
            case BatchPlanned():
                self._begin(event)
            case RowsArrived():
                self._arrived(event)
            case _:
                self._end()
                line = told(event)
                if line:
                    click.echo(f"{event.stream.database}.{event.stream.table}: {line}", err=True)

    def say(self, line: str) -> None:
        """A word that is about no event, above what is drawn; from any thread."""
        progress = self._progress
        if progress is not None:
            progress.console.print(line, markup=False, highlight=False)
        else:
            click.echo(line, err=True)

    def _begin(self, event: BatchPlanned) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._end()
        columns: tuple[Any, ...] = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TextColumn("{task.completed:,.0f} rows"),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=Console(file=sys.stderr), transient=True)
        self._began = time.monotonic()
        name = f"{event.stream.database}.{event.stream.table} {event.kind} {event.batch}"
        self._task = self._progress.add_task(name, total=None, rate="")
        self._progress.start()

    def _arrived(self, event: RowsArrived) -> None:
        if self._progress is not None and self._task is not None:
            rate = event.rows / max(time.monotonic() - self._began, 0.001)
            self._progress.update(self._task, completed=event.rows, rate=f"{rate:,.0f}/s")

    def _end(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
