"""Service of the commands that run passes: `run`, `verify --repair`, `quarantine replay`."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from syncd.cli.progress import open_progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncd.app import StageService
    from syncd.settings import Settings, StreamSettings


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
    from syncd.app import StageService, open_overlay_store, open_store
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
