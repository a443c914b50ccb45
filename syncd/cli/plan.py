"""`syncd plan`: what a run would do, and about how long it would take; nothing is written anywhere."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output import say, show_json, show_table
from syncd.cli.stream_options import Named, chosen, common, error_fields, leave, open_desk, told
from syncd.observe.event_text import size
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.operations.forecast import Forecast
    from syncd.operations.run_forecast import Foreteller


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """One stream and what a run would do to it, or why that cannot be told."""

    named: Named
    forecast: "Forecast | None" = None
    errors: tuple[HintedError, ...] = ()


@click.command()
@click.option("-t", "--table", "tables", multiple=True, metavar="TABLE", help="A table; default: every one.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="As of a run with this limit.")
@click.option("--statements", is_flag=True, help="Show the statements that would read, and those that would alter.")
@click.option(
    "--wait", default="0s", show_default=True, help="Before a first run: how long to wait for old transactions."
)
@common
def plan(**words: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Show what a run would do: windows, rows, bytes, files, COPYs and DDL, and about how long. Writes nothing.

    Rows beyond the next batch are the server's guess; sizes and times are what past runs of the table took.
    """
    from syncd.config.value_parsers import duration
    from syncd.operations.run_forecast import Foreteller

    try:
        wait = duration(words["wait"])
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--wait") from error
    with open_desk(words["config"], looks=True) as desk, Foreteller(desk, environ=os.environ, wait=wait) as foreteller:
        named = chosen(desk, words["tables"], all_=not words["tables"])
        looked = [_look(foreteller, one, limit=words["limit"]) for one in named]
    if words["as_json"]:
        show_json({"streams": [_fields(one) for one in looked]})
    else:
        _show(looked, statements=words["statements"])
    leave([told(one.named.name, error) for one in looked for error in one.errors])


def _look(foreteller: "Foreteller", named: Named, *, limit: int | None) -> Looked:
    try:
        forecast, errors = foreteller.forecast(named.required(), limit=limit)
    except HintedError as error:
        return Looked(named=named, errors=(error,))
    return Looked(named=named, forecast=forecast, errors=errors)


COLUMNS = ("table", "next", "windows", "rows", "size", "files", "read s", "to load", "COPYs", "DDL", "load s")


def _show(looked: list[Looked], *, statements: bool) -> None:
    show_table(COLUMNS, [_row(one) for one in looked], spare=("windows", "COPYs", "files", "size"))
    for one in looked:
        forecast = one.forecast
        if forecast is None:
            continue
        for note in forecast.notes:
            say(f"{one.named.name}: {note}")
        if statements:
            ddl = forecast.landing.ddl if forecast.landing else ()
            for statement in (*forecast.statements, *ddl):
                click.echo(f"{one.named.name}: {statement}")


def _row(one: Looked) -> tuple[object, ...]:
    if one.forecast is None:
        return (one.named.name, "cannot be told", *[""] * (len(COLUMNS) - 2))
    reading, landing = one.forecast.reading, one.forecast.landing
    bytes_ = "" if reading.bytes is None else size(reading.bytes)
    files = _about(reading.files) if reading.kind else ""
    read = (_about(reading.rows), bytes_, files, _seconds(reading.seconds))
    begin = (one.named.name, reading.kind or "nothing to read", reading.windows or "", *read)
    if landing is None:
        return (*begin, "no warehouse", "", "", "")
    return (*begin, _about(landing.rows), landing.copies, len(landing.ddl), _seconds(landing.seconds))


def _about(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f}"


def _fields(one: Looked) -> dict[str, Any]:
    forecast = one.forecast
    reading = forecast.reading if forecast else None
    landing = forecast.landing if forecast else None
    return {
        "table": one.named.name,
        "source": one.named.stream.source,
        "read": reading
        and {
            "kind": reading.kind,
            "sealed": reading.sealed,
            "windows": reading.windows,
            "next_rows": reading.next_rows,
            "rows": reading.rows,
            "batches": reading.batches,
            "bytes": reading.bytes,
            "files": reading.files,
            "seconds": _rounded(reading.seconds),
            "statements": list(forecast.statements) if forecast else [],
        },
        "load": landing
        and {
            "batches": landing.batches,
            "rows": landing.rows,
            "files": landing.files,
            "copies": landing.copies,
            "ddl": list(landing.ddl),
            "seconds": _rounded(landing.seconds),
        },
        "notes": list(forecast.notes) if forecast else [],
        "errors": [error_fields(error) for error in one.errors],
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
