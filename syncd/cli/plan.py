"""`syncd plan`: what a run would do, and about how long it would take; nothing is written anywhere."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output import print_message, show_json, show_table
from syncd.cli.stream_options import (
    SelectedStream,
    common_options,
    error_to_json,
    exit_with_worst,
    open_operator_context,
    report_error,
    select_streams,
)
from syncd.observe.formatting import format_bytes
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.operations.run_forecast import Forecast, RunForecaster


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastOutcome:
    """One stream and what a run would do to it, or why that cannot be told."""

    selected: SelectedStream
    forecast: "Forecast | None" = None
    errors: tuple[HintedError, ...] = ()


@click.command()
@click.option("-t", "--table", "tables", multiple=True, metavar="TABLE", help="A table; default: every one.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="As of a run with this limit.")
@click.option("--statements", is_flag=True, help="Show the statements that would read, and those that would alter.")
@click.option(
    "--wait", default="0s", show_default=True, help="Before a first run: how long to wait for old transactions."
)
@common_options
def plan(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Show what a run would do: windows, rows, bytes, files, COPYs and DDL, and about how long. Writes nothing.

    Rows beyond the next batch are the server's guess; sizes and times are what past runs of the table took.
    """
    from syncd.app.preview import open_run_forecaster
    from syncd.config.value_parsers import parse_duration

    try:
        wait = parse_duration(options["wait"])
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--wait") from error
    with (
        open_operator_context(options["config"], read_only=True) as desk,
        open_run_forecaster(desk, os.environ, horizon_wait=wait) as foreteller,
    ):
        named = select_streams(desk, options["tables"], all_=not options["tables"])
        looked = [_forecast_stream(foreteller, one, limit=options["limit"]) for one in named]
    if options["as_json"]:
        show_json({"streams": [_to_json(one) for one in looked]})
    else:
        _show(looked, statements=options["statements"])
    exit_with_worst([report_error(one.selected.name, error) for one in looked for error in one.errors])


def _forecast_stream(foreteller: "RunForecaster", selected: SelectedStream, *, limit: int | None) -> ForecastOutcome:
    try:
        forecast, errors = foreteller.forecast(selected.require_settings(), limit=limit)
    except HintedError as error:
        return ForecastOutcome(selected=selected, errors=(error,))
    return ForecastOutcome(selected=selected, forecast=forecast, errors=errors)


COLUMNS = ("table", "next", "windows", "rows", "size", "files", "read s", "to load", "COPYs", "DDL", "load s")


def _show(outcomes: list[ForecastOutcome], *, statements: bool) -> None:
    show_table(COLUMNS, [_table_row(one) for one in outcomes], optional=("windows", "COPYs", "files", "size"))
    for one in outcomes:
        forecast = one.forecast
        if forecast is None:
            continue
        for note in forecast.notes:
            print_message(f"{one.selected.name}: {note}")
        if statements:
            ddl = forecast.load.ddl if forecast.load else ()
            for statement in (*forecast.statements, *ddl):
                click.echo(f"{one.selected.name}: {statement}")


def _table_row(outcome: ForecastOutcome) -> tuple[object, ...]:
    if outcome.forecast is None:
        return (outcome.selected.name, "cannot be told", *[""] * (len(COLUMNS) - 2))
    reading, landing = outcome.forecast.extract, outcome.forecast.load
    bytes_ = "" if reading.bytes is None else format_bytes(reading.bytes)
    files = _format_count(reading.files) if reading.kind else ""
    read = (_format_count(reading.rows), bytes_, files, _format_seconds(reading.seconds))
    begin = (outcome.selected.name, reading.kind or "nothing to read", reading.windows or "", *read)
    if landing is None:
        return (*begin, "no warehouse", "", "", "")
    return (*begin, _format_count(landing.rows), landing.copies, len(landing.ddl), _format_seconds(landing.seconds))


def _format_count(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def _format_seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f}"


def _to_json(outcome: ForecastOutcome) -> dict[str, Any]:
    forecast = outcome.forecast
    reading = forecast.extract if forecast else None
    landing = forecast.load if forecast else None
    return {
        "table": outcome.selected.name,
        "source": outcome.selected.stream.source,
        "read": reading
        and {
            "kind": reading.kind,
            "sealed": reading.is_planned,
            "windows": reading.windows,
            "next_rows": reading.next_rows,
            "rows": reading.rows,
            "batches": reading.batches,
            "bytes": reading.bytes,
            "files": reading.files,
            "seconds": _round_seconds(reading.seconds),
            "statements": list(forecast.statements) if forecast else [],
        },
        "load": landing
        and {
            "batches": landing.batches,
            "rows": landing.rows,
            "files": landing.files,
            "copies": landing.copies,
            "ddl": list(landing.ddl),
            "seconds": _round_seconds(landing.seconds),
        },
        "notes": list(forecast.notes) if forecast else [],
        "errors": [error_to_json(error) for error in outcome.errors],
    }


def _round_seconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
