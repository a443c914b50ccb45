"""`syncd demo`: the whole system on this machine for a while, then a proof that both sides are equal."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from syncd.cli.option_types import DurationType, json_option
from syncd.cli.output import print_message, show_json, show_table
from syncd.error_classes import ExitCode

if TYPE_CHECKING:
    from syncd.sandbox.demo.demonstration import DemoResult, StopCondition
    from syncd.sandbox.demo.equality_check import TableComparison

TERMINATION_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


@click.command()
@click.option("--for", "seconds", type=DurationType(), metavar="DURATION", help="Duration; default: until Ctrl-C.")
@click.option(
    "--orders", type=click.IntRange(1), default=1000, show_default=True, help="Number of orders in a new shop."
)
@click.option("--rate", type=click.FloatRange(0.1), default=20.0, show_default=True, help="Transactions per second.")
@json_option
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="The data directory; default: a directory under XDG_STATE_HOME.",
    envvar="SYNCD_DEMO_DIR",
)
def demo(seconds: timedelta | None, orders: int, rate: float, as_json: bool, directory: Path | None) -> None:
    """Run a demo on this machine: a shop in MySQL, a writer, and a warehouse that is kept equal."""
    from syncd.cli.views.demo_view import open_display
    from syncd.host.directories import find_xdg_base
    from syncd.sandbox.demo.demonstration import Demo, StopCondition

    place = (directory or find_xdg_base(os.environ, "XDG_STATE_HOME", ".local/state") / "syncd" / "demo").absolute()
    stop_condition = StopCondition(None if seconds is None else seconds.total_seconds())
    with open_display(quiet=as_json) as display, _handle_interrupts(stop_condition):
        result = Demo(
            directory=place, display=display, stop_condition=stop_condition, orders=orders, transactions_per_second=rate
        ).run()
    _show(result, as_json=as_json)
    if not result.equal:
        sys.exit(ExitCode.DOUBT)


@contextmanager
def _handle_interrupts(stop_condition: "StopCondition") -> Iterator[None]:
    """Let the first Ctrl-C end the loop, and the next one the program."""

    def interrupt(_number: int, _frame: object) -> None:
        if not stop_condition.is_running or stop_condition.is_over():
            raise KeyboardInterrupt
        print_message("")
        stop_condition.request_stop()

    def end(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in TERMINATION_SIGNALS}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(result: "DemoResult", *, as_json: bool) -> None:
    if as_json:
        show_json(_to_json(result))
        return
    show_table(
        ("table", "mode", "MySQL", "warehouse", "missing", "extra", "different"),
        [
            (one.table, one.mode, f"{one.source_rows:,}", f"{one.warehouse_rows:,}", *_difference_counts(one))
            for one in result.comparisons
        ],
    )
    click.echo("")
    click.echo(_format_result(result))
    for line in _explain_differences(result):
        print_message(line)
    click.echo("")
    for line in _next_steps(result.config):
        click.echo(line)


def _difference_counts(comparison: "TableComparison") -> tuple[str, ...]:
    return tuple(f"{count:,}" for count in (comparison.missing, comparison.extra, comparison.different))


def _format_result(result: "DemoResult") -> str:
    values = sum(one.values for one in result.comparisons)
    rows = sum(one.source_rows for one in result.comparisons)
    if result.equal:
        first = (
            ""
            if result.first_row_seconds is None
            else f" The first ones were in the warehouse after {result.first_row_seconds:.1f} s."
        )
        meanwhile = f"{result.written_rows:,} rows were written during the demo.{first}"
        return f"EQUAL: {rows:,} rows, {values:,} values compared.\n{meanwhile}"
    unequal = ", ".join(one.table for one in result.comparisons if not one.equal)
    return f"NOT EQUAL: {unequal}."


def _explain_differences(result: "DemoResult") -> Iterator[str]:
    for one in result.comparisons:
        for example in one.examples:
            yield f"{one.table}: {example}"
    for table, error in result.errors:
        yield f"error: {table}: {error.message}"
        if error.hint:
            yield f"hint: {error.hint}"
    if not result.equal:
        yield f"hint: To start over: rm -r {result.config.parent}"


def _next_steps(config: Path) -> Iterator[str]:
    place = _shorten_path(config.parent)
    yield "What to try next"
    keys = "AWS_ACCESS_KEY_ID=sandbox AWS_SECRET_ACCESS_KEY=sandbox"
    for command, what in (
        (f"{_program_name()} sandbox up --dir {place}", "start the same servers again; also `status`, `down`"),
        (f"export {keys}", "the sandbox's S3 accepts any keys"),
        (f"{_program_name()} run --all -c {place}/{config.name}", "one pass over all tables; try --dry-run"),
        (f"less {place}/{config.name}", "to use your own servers: docs/reference/configuration.md"),
    ):
        yield f"  {command}"
        yield f"      {what}"


def _program_name() -> str:
    """Return the command by which the user can call this program."""
    return "syncd" if shutil.which("syncd") else _shorten_path(Path(sys.executable).with_name("syncd"))


def _shorten_path(path: Path) -> str:
    for base, name in ((Path.cwd(), ""), (Path.home(), "~/")):
        if path.is_relative_to(base):
            return f"{name}{path.relative_to(base)}"
    return str(path)


def _to_json(result: "DemoResult") -> dict[str, Any]:
    return {
        "config": str(result.config),
        "equal": result.equal,
        "seconds": round(result.seconds, 3),
        "first_row_seconds": result.first_row_seconds and round(result.first_row_seconds, 3),
        "rows_written": result.written_rows,
        "tables": [
            {
                "table": one.table,
                "mode": one.mode,
                "source_rows": one.source_rows,
                "warehouse_rows": one.warehouse_rows,
                "missing": one.missing,
                "extra": one.extra,
                "different": one.different,
                "values_compared": one.values,
                "examples": list(one.examples),
            }
            for one in result.comparisons
        ],
        "errors": [{"table": table, "message": e.message, "hint": e.hint or None} for table, e in result.errors],
    }
