"""`syncd runs`: the last runs of each table, read from its history."""

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.option_types import common_options, tables_option
from syncd.cli.output import error_to_json, print_message, show_json, show_table
from syncd.cli.stream_selection import SelectedStream, collect_from_streams, exit_with_result_errors
from syncd.cli.views.formats import format_instant, instant_to_json

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext
    from syncd.operations.run_history import PastRun


@click.command()
@tables_option
@click.option("--last", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="Runs to show.")
@common_options
def runs(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Show the last runs that did something or failed, the newest first.

    A run that finds nothing to do leaves no trace, and is not shown.
    """
    results = collect_from_streams(options, partial(_read_runs, limit=options["last"]))
    pairs = [(result.selected, run) for result in results for run in result.value or ()]
    newest = sorted(pairs, key=lambda pair: pair[1].ended_at, reverse=True)[: options["last"]]
    if options["as_json"]:
        errors = [{"table": result.name, "error": error_to_json(result.error)} for result in results if result.error]
        show_json({"runs": [_to_json(one, run) for one, run in newest], "errors": errors})
    else:
        columns = (
            "table", "stage", "started (UTC)", "ended (UTC)", "seconds", "batches", "rows", "files", "end", "author",
        )  # fmt: skip
        rows = [_table_row(one, run) for one, run in newest]
        show_table(columns, rows, optional=("started (UTC)", "author", "batches"))
        for one, run in newest:
            for failure in run.failures:
                print_message(f"{one.name}: {run.stage} failed at {format_instant(run.ended_at)} UTC: {failure}")
    exit_with_result_errors(results)


def _read_runs(context: "OperatorContext", selected: SelectedStream, *, limit: int) -> "tuple[PastRun, ...]":
    from syncd.operations.run_history import last_runs

    return tuple(last_runs(context.journal, selected.stream, limit=limit))


def _table_row(selected: SelectedStream, run: "PastRun") -> tuple[object, ...]:
    end = "failed" if run.failures else "done"
    return (
        selected.name,
        run.stage,
        format_instant(run.started_at),
        format_instant(run.ended_at),
        f"{run.milliseconds / 1000:.1f}",
        f"{run.batches:,}",
        f"{run.rows:,}",
        f"{run.files:,}",
        f"{end}, {run.abandoned} abandoned" if run.abandoned else end,
        run.author,
    )


def _to_json(selected: SelectedStream, run: "PastRun") -> dict[str, Any]:
    return selected.to_json() | {
        "stage": run.stage,
        "run": run.run,
        "author": run.author,
        "started_at": instant_to_json(run.started_at),
        "ended_at": instant_to_json(run.ended_at),
        "seconds": run.milliseconds / 1000,
        "batches": run.batches,
        "rows": run.rows,
        "files": run.files,
        "abandoned": run.abandoned,
        "failures": list(run.failures),
    }
