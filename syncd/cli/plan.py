"""`syncd plan`: forecast of a run, without writing anything."""

import os
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.option_types import common_options, tables_option, wait_option
from syncd.cli.output import error_to_json, print_message, show_json, show_table
from syncd.cli.stream_selection import (
    collect_result,
    exit_with_errors,
    open_operator_context,
    select_streams,
)
from syncd.observe.formatting import format_bytes
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.cli.stream_selection import StreamResult
    from syncd.operations.run_forecast import Forecast

    ForecastResult = StreamResult[tuple[Forecast, tuple[HintedError, ...]]]


@click.command()
@tables_option
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Forecast a run with this limit.")
@click.option("--statements", is_flag=True, help="Show the SELECT statements and the DDL.")
@wait_option("0s", "Before a first run: how long to wait for old transactions.")
@common_options
def plan(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Show what a run would do: windows, rows, bytes, files, COPYs, DDL and durations. Writes nothing.

    Rows beyond the next batch are MySQL's estimate. Sizes and durations are estimated from past runs of the table.
    """
    from syncd.app.dry_run import open_run_forecaster

    with (
        open_operator_context(options["config"], read_only=True) as context,
        open_run_forecaster(context, os.environ, horizon_wait=options["wait"]) as forecaster,
    ):
        selected = select_streams(context.settings, options["tables"], all_=not options["tables"])
        results = [
            collect_result(one, lambda it: forecaster.forecast(it.require_settings(), limit=options["limit"]))
            for one in selected
        ]
    if options["as_json"]:
        show_json({"streams": [_to_json(result) for result in results]})
    else:
        _show(results, statements=options["statements"])
    exit_with_errors((result.name, error) for result in results for error in _errors_of(result))


def _errors_of(result: "ForecastResult") -> tuple[HintedError, ...]:
    if result.error is not None:
        return (result.error,)
    return result.value[1] if result.value else ()


COLUMNS = ("table", "next", "windows", "rows", "size", "files", "read s", "to load", "COPYs", "DDL", "load s")


def _show(results: "list[ForecastResult]", *, statements: bool) -> None:
    show_table(COLUMNS, [_table_row(result) for result in results], optional=("windows", "COPYs", "files", "size"))
    for result in results:
        forecast = result.value[0] if result.value else None
        if forecast is None:
            continue
        for note in forecast.notes:
            print_message(f"{result.name}: {note}")
        if statements:
            ddl = forecast.load.ddl if forecast.load else ()
            for statement in (*forecast.statements, *ddl):
                click.echo(f"{result.name}: {statement}")


def _table_row(result: "ForecastResult") -> tuple[object, ...]:
    forecast = result.value[0] if result.value else None
    if forecast is None:
        return (result.name, "unknown", *[""] * (len(COLUMNS) - 2))
    extract, load = forecast.extract, forecast.load
    size = "" if extract.bytes is None else format_bytes(extract.bytes)
    files = _format_count(extract.files) if extract.kind else ""
    read = (_format_count(extract.rows), size, files, _format_seconds(extract.seconds))
    cells = (result.name, extract.kind or "nothing to read", extract.windows or "", *read)
    if load is None:
        return (*cells, "no warehouse", "", "", "")
    return (*cells, _format_count(load.rows), load.copies, len(load.ddl), _format_seconds(load.seconds))


def _format_count(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def _format_seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f}"


def _to_json(result: "ForecastResult") -> dict[str, Any]:
    forecast = result.value[0] if result.value else None
    extract = forecast.extract if forecast else None
    load = forecast.load if forecast else None
    return result.selected.to_json() | {
        "extract": extract
        and {
            "kind": extract.kind,
            "already_planned": extract.is_planned,
            "windows": extract.windows,
            "next_rows": extract.next_rows,
            "rows": extract.rows,
            "batches": extract.batches,
            "bytes": extract.bytes,
            "files": extract.files,
            "seconds": _round_seconds(extract.seconds),
            "statements": list(forecast.statements) if forecast else [],
        },
        "load": load
        and {
            "batches": load.batches,
            "rows": load.rows,
            "files": load.files,
            "copies": load.copies,
            "ddl": list(load.ddl),
            "seconds": _round_seconds(load.seconds),
        },
        "notes": list(forecast.notes) if forecast else [],
        "errors": [error_to_json(error) for error in _errors_of(result)],
    }


def _round_seconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
