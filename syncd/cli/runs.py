"""`syncd runs`: the last runs, told from history: who, when, what, how much, how long, and what failed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output import say, show_json, show_table
from syncd.cli.stream_options import Named, chosen, common, error_fields, leave, open_desk, told
from syncd.cli.views.mark_format import moment
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.app.operator_context import Desk
    from syncd.operations.past_runs import PastRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """One stream and its last runs, or why they cannot be told."""

    named: Named
    runs: "tuple[PastRun, ...]" = ()
    error: HintedError | None = None


@click.command()
@click.option("-t", "--table", "tables", multiple=True, metavar="TABLE", help="A table; default: every one.")
@click.option("--last", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="So many runs.")
@common
def runs(**words: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Show the last runs that did something or failed, the newest first.

    A run that finds nothing to do leaves no trace, and is not shown.
    """
    with open_desk(words["config"], looks=True) as desk:
        named = chosen(desk, words["tables"], all_=not words["tables"])
        looked = [_look(desk, one, last=words["last"]) for one in named]
    found = sorted(((one, run) for one in looked for run in one.runs), key=lambda pair: pair[1].ended, reverse=True)[
        : words["last"]
    ]
    if words["as_json"]:
        errors = [{"table": one.named.name, "error": error_fields(one.error)} for one in looked if one.error]
        show_json({"runs": [_fields(one, run) for one, run in found], "errors": errors})
    else:
        columns = ("table", "stage", "began (UTC)", "ended (UTC)", "seconds", "batches", "rows", "files", "end", "who")
        show_table(columns, [_row(one, run) for one, run in found], spare=("began (UTC)", "who", "batches"))
        for one, run in found:
            for failure in run.failures:
                say(f"{one.named.name}: {run.stage} failed at {moment(run.ended)} UTC: {failure}")
    leave([told(one.named.name, one.error) for one in looked if one.error is not None])


def _look(desk: "Desk", named: Named, *, last: int) -> Looked:
    from syncd.operations.run_history import last_runs

    try:
        return Looked(named=named, runs=tuple(last_runs(desk.journal, named.stream, last=last)))
    except HintedError as error:
        return Looked(named=named, error=error)


def _row(one: Looked, run: "PastRun") -> tuple[object, ...]:
    end = "failed" if run.failures else "done"
    return (
        one.named.name,
        run.stage,
        moment(run.began),
        moment(run.ended),
        f"{run.milliseconds / 1000:.1f}",
        f"{run.batches:,}",
        f"{run.rows:,}",
        f"{run.files:,}",
        f"{end}, {run.abandoned} abandoned" if run.abandoned else end,
        run.who,
    )


def _fields(one: Looked, run: "PastRun") -> dict[str, Any]:
    return {
        "table": one.named.name,
        "source": one.named.stream.source,
        "stage": run.stage,
        "run": run.run,
        "who": run.who,
        "began": run.began.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "ended": run.ended.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "seconds": run.milliseconds / 1000,
        "batches": run.batches,
        "rows": run.rows,
        "files": run.files,
        "abandoned": run.abandoned,
        "failures": list(run.failures),
    }
