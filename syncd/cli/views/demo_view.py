"""Display of `syncd demo` on stderr: a live table on a terminal, a line every few seconds elsewhere."""

import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Final, Self

import click

from syncd.events import LoadRetried, PassEnded, StreamEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.live import Live
    from rich.table import Table

    from syncd.sandbox.demo.demonstration import TableProgress

LINE_INTERVAL_SECONDS: Final = 5.0


def open_display(*, quiet: bool) -> "DemoLineDisplay":
    return DemoLiveDisplay() if sys.stderr.isatty() and not quiet else DemoLineDisplay()


class DemoLineDisplay:
    """Display that prints a line for each step, and every few seconds one with the progress of all tables."""

    def __init__(self) -> None:
        self._started_at = time.monotonic()
        self._last_line_at = self._started_at

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def print_message(self, line: str) -> None:
        click.echo(f"{time.monotonic() - self._started_at:6.1f} s  {line}", err=True)

    def on_event(self, event: StreamEvent) -> None:
        """Print failures only: the counts show successes."""
        match event:
            case PassEnded(error=error) if error is not None:
                self.print_message(f"{event.stream.table}: {error.message}")
            case LoadRetried():
                self.print_message(f"{event.stream.table}: {event.error}")
            case _:
                pass

    def show_progress(
        self, scores: "Sequence[TableProgress]", *, written: "Callable[[], int]", left: float | None
    ) -> None:
        now = time.monotonic()
        if now - self._last_line_at < LINE_INTERVAL_SECONDS:
            return
        self._last_line_at = now
        loaded = ", ".join(f"{score.table} {score.loaded:,}" for score in scores)
        lags = [score.lag_seconds for score in scores if score.lag_seconds is not None]
        lag = f"; lag {max(lags):.1f} s" if lags else ""
        rest = "" if left is None else f"; {left:.0f} s to go"
        self.print_message(f"{written():,} rows written; loaded: {loaded}{lag}{rest}")


class DemoLiveDisplay(DemoLineDisplay):
    """Display with a live table below the lines."""

    def __init__(self) -> None:
        super().__init__()
        self._live: Live | None = None
        self._build_frame = partial(_build_table, (), written=lambda: 0, ends=None)

    def __exit__(self, *_: object) -> None:
        self._stop()

    def print_message(self, line: str) -> None:
        text = f"{time.monotonic() - self._started_at:6.1f} s  {line}"
        if self._live is None:
            click.echo(text, err=True)
        else:
            self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show_progress(
        self, scores: "Sequence[TableProgress]", *, written: "Callable[[], int]", left: float | None
    ) -> None:
        self._build_frame = partial(
            _build_table, scores, written=written, ends=None if left is None else time.monotonic() + left
        )
        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            # Live draws in its own thread, so that the clock runs on during a long first extraction.
            self._live = Live(get_renderable=self._build_frame, console=Console(file=sys.stderr))
            self._live.start()

    def _stop(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.stop()


def _build_table(scores: "Sequence[TableProgress]", *, written: "Callable[[], int]", ends: float | None) -> "Table":
    from rich import box
    from rich.table import Table

    rest = "Ctrl-C ends it" if ends is None else f"{max(0.0, ends - time.monotonic()):.0f} s to go"
    table = Table(box=box.SIMPLE, caption=f"{written():,} rows written in MySQL; {rest}", caption_justify="left")
    table.add_column("table", no_wrap=True)
    table.add_column("mode", no_wrap=True)
    for name in ("extracted", "loaded", "loads", "lag"):
        table.add_column(name, justify="right", no_wrap=True)
    for score in scores:
        lag = "" if score.lag_seconds is None else f"{score.lag_seconds:.1f} s"
        table.add_row(score.table, score.mode, f"{score.extracted:,}", f"{score.loaded:,}", f"{score.batches:,}", lag)
    return table
