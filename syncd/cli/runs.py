"""`syncd runs`: the last runs, told from history: who, when, what, how much, how long, and what failed."""

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
from syncd.cli.views.mark_format import format_instant
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext
    from syncd.operations.run_history import PastRun


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRunsOutcome:
    """One stream and its last runs, or why they cannot be told."""

    selected: SelectedStream
    runs: "tuple[PastRun, ...]" = ()
    error: HintedError | None = None


@click.command()
@click.option("-t", "--table", "tables", multiple=True, metavar="TABLE", help="A table; default: every one.")
@click.option("--last", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="So many runs.")
@common_options
def runs(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Show the last runs that did something or failed, the newest first.

    A run that finds nothing to do leaves no trace, and is not shown.
    """
    with open_operator_context(options["config"], read_only=True) as desk:
        named = select_streams(desk, options["tables"], all_=not options["tables"])
        looked = [_read_runs(desk, one, last=options["last"]) for one in named]
    found = sorted(((one, run) for one in looked for run in one.runs), key=lambda pair: pair[1].ended_at, reverse=True)[
        : options["last"]
    ]
    if options["as_json"]:
        errors = [{"table": one.selected.name, "error": error_to_json(one.error)} for one in looked if one.error]
        show_json({"runs": [_to_json(one, run) for one, run in found], "errors": errors})
    else:
        columns = ("table", "stage", "began (UTC)", "ended (UTC)", "seconds", "batches", "rows", "files", "end", "who")
        show_table(columns, [_table_row(one, run) for one, run in found], optional=("began (UTC)", "who", "batches"))
        for one, run in found:
            for failure in run.failures:
                print_message(
                    f"{one.selected.name}: {run.stage} failed at {format_instant(run.ended_at)} UTC: {failure}"
                )
    exit_with_worst([report_error(one.selected.name, one.error) for one in looked if one.error is not None])


def _read_runs(context: "OperatorContext", selected: SelectedStream, *, last: int) -> PastRunsOutcome:
    from syncd.operations.run_history import last_runs

    try:
        return PastRunsOutcome(selected=selected, runs=tuple(last_runs(context.journal, selected.stream, limit=last)))
    except HintedError as error:
        return PastRunsOutcome(selected=selected, error=error)


def _table_row(outcome: PastRunsOutcome, run: "PastRun") -> tuple[object, ...]:
    end = "failed" if run.failures else "done"
    return (
        outcome.selected.name,
        run.stage,
        format_instant(run.began_at),
        format_instant(run.ended_at),
        f"{run.milliseconds / 1000:.1f}",
        f"{run.batches:,}",
        f"{run.rows:,}",
        f"{run.files:,}",
        f"{end}, {run.abandoned} abandoned" if run.abandoned else end,
        run.who,
    )


def _to_json(outcome: PastRunsOutcome, run: "PastRun") -> dict[str, Any]:
    return {
        "table": outcome.selected.name,
        "source": outcome.selected.stream.source,
        "stage": run.stage,
        "run": run.run,
        "who": run.who,
        "began": run.began_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "ended": run.ended_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "seconds": run.milliseconds / 1000,
        "batches": run.batches,
        "rows": run.rows,
        "files": run.files,
        "abandoned": run.abandoned,
        "failures": list(run.failures),
    }
