"""`syncd demo`: the whole system on this machine for a while, and at the end the proof that both sides are equal."""

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

from syncd.cli.exit_codes import Exit
from syncd.cli.output import say, show_json, show_table

if TYPE_CHECKING:
    from syncd.sandbox.demo.demonstration import Ending, Verdict
    from syncd.sandbox.demo.equality_check import Compared

ENDS: Final = (signal.SIGTERM, signal.SIGHUP)


class DurationType(click.ParamType[timedelta]):
    """A duration, such as 60s or 5m."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        from syncd.config.value_parsers import duration

        try:
            return duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.option("--for", "seconds", type=DurationType(), metavar="DURATION", help="End after so long; else on Ctrl-C.")
@click.option("--orders", type=click.IntRange(1), default=1000, show_default=True, help="Size of a new shop.")
@click.option("--rate", type=click.FloatRange(0.1), default=20.0, show_default=True, help="Transactions a second.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where it keeps its data; default: a directory under XDG_STATE_HOME.",
    envvar="SYNCD_DEMO_DIR",
)
def demo(seconds: timedelta | None, orders: int, rate: float, as_json: bool, directory: Path | None) -> None:
    """Show the whole system on this machine: a shop in MySQL, a writer, and a warehouse that is kept equal."""
    from syncd.cli.views.demo_view import audience
    from syncd.host.cache_dirs import find_base
    from syncd.sandbox.demo.demonstration import Demo, Ending

    place = (directory or find_base(os.environ, "XDG_STATE_HOME", ".local/state") / "syncd" / "demo").absolute()
    ending = Ending(None if seconds is None else seconds.total_seconds())
    with audience(quiet=as_json) as watching, _interrupted(ending):
        verdict = Demo(directory=place, audience=watching, ending=ending, orders=orders, rate=rate).play()
    _show(verdict, as_json=as_json)
    if not verdict.equal:
        sys.exit(Exit.DOUBT)


@contextmanager
def _interrupted(ending: "Ending") -> Iterator[None]:
    """Let the first Ctrl-C end the loop, and any other one everything."""

    def interrupt(_number: int, _frame: object) -> None:
        if not ending.playing or ending.is_over():
            raise KeyboardInterrupt
        say("")
        ending.ask()

    def end(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in ENDS}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(verdict: "Verdict", *, as_json: bool) -> None:
    if as_json:
        show_json(_fields(verdict))
        return
    show_table(
        ("table", "mode", "MySQL", "warehouse", "missing", "extra", "different"),
        [
            (one.table, one.mode, f"{one.source_rows:,}", f"{one.warehouse_rows:,}", *_counts(one))
            for one in verdict.compared
        ],
    )
    click.echo("")
    click.echo(_sentence(verdict))
    for line in _reasons(verdict):
        say(line)
    click.echo("")
    for line in _next_steps(verdict.config):
        click.echo(line)


def _counts(one: "Compared") -> tuple[str, ...]:
    return tuple(f"{count:,}" for count in (one.missing, one.extra, one.different))


def _sentence(verdict: "Verdict") -> str:
    values = sum(one.values for one in verdict.compared)
    rows = sum(one.source_rows for one in verdict.compared)
    if verdict.equal:
        first = "" if verdict.first_row is None else f" The first ones were visible after {verdict.first_row:.1f} s."
        meanwhile = f"{verdict.written:,} rows were written meanwhile.{first}"
        return f"EQUAL: {rows:,} rows, {values:,} values compared.\n{meanwhile}"
    unequal = ", ".join(one.table for one in verdict.compared if not one.equal)
    return f"NOT EQUAL: {unequal}."


def _reasons(verdict: "Verdict") -> Iterator[str]:
    for one in verdict.compared:
        for example in one.examples:
            yield f"{one.table}: {example}"
    for table, error in verdict.errors:
        yield f"error: {table}: {error.message}"
        if error.hint:
            yield f"hint: {error.hint}"
    if not verdict.equal:
        yield f"hint: To begin anew: rm -r {verdict.config.parent}"


def _next_steps(config: Path) -> Iterator[str]:
    place = _short(config.parent)
    yield "What to try next"
    keys = "AWS_ACCESS_KEY_ID=sandbox AWS_SECRET_ACCESS_KEY=sandbox"
    for command, what in (
        (f"{_program()} sandbox up --dir {place}", "the same servers again; `status`, `down`"),
        (f"export {keys}", "the sandbox's S3 takes any"),
        (f"{_program()} run --all -c {place}/{config.name}", "one pass over every table; try --dry-run"),
        (f"less {place}/{config.name}", "put your own servers there: docs/configuration.md"),
    ):
        yield f"  {command}"
        yield f"      {what}"


def _program() -> str:
    """How this command is called from here."""
    return "syncd" if shutil.which("syncd") else _short(Path(sys.executable).with_name("syncd"))


def _short(path: Path) -> str:
    for base, name in ((Path.cwd(), ""), (Path.home(), "~/")):
        if path.is_relative_to(base):
            return f"{name}{path.relative_to(base)}"
    return str(path)


def _fields(verdict: "Verdict") -> dict[str, Any]:
    return {
        "config": str(verdict.config),
        "equal": verdict.equal,
        "seconds": round(verdict.seconds, 3),
        "first_row_seconds": verdict.first_row and round(verdict.first_row, 3),
        "written": verdict.written,
        "tables": [
            {
                "table": one.table,
                "mode": one.mode,
                "source_rows": one.source_rows,
                "warehouse_rows": one.warehouse_rows,
                "missing": one.missing,
                "extra": one.extra,
                "different": one.different,
                "values": one.values,
                "examples": list(one.examples),
            }
            for one in verdict.compared
        ],
        "errors": [{"table": table, "message": e.message, "hint": e.hint or None} for table, e in verdict.errors],
    }
