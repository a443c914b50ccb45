"""`syncd verify`: is the warehouse what the source is, and where it is not, which rows."""

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output import print_message
from syncd.cli.run import open_progress, print_error, require_warehouses, select_configured_streams
from syncd.cli.signals import interrupt_on_sigterm
from syncd.cli.stream_options import DEFAULT_CONFIG_PATH
from syncd.cli.verify_repair import MAX_REPAIR_ROWS, preview_repair, repair_stream
from syncd.cli.views.verify_view import VerifyOutcome, show
from syncd.error_classes import ExitCode, exit_code_for, worst_exit_code
from syncd.observe.formatting import format_count

if TYPE_CHECKING:
    from syncd.verify.verification import Sample


class PercentType(click.ParamType[float]):
    """A part of a whole, such as 5%."""

    name = "percent"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            share = float(str(value).removesuffix("%")) / 100
        except ValueError:
            share = 0.0
        if not 0 < share <= 1:
            self.fail(f"{value} is no part of a whole: write it like 5%", param, ctx)
        return share


@click.command()
@click.option("-t", "--table", "tables", multiple=True, metavar="TABLE", help="A table; give it again for more.")
@click.option("--all", "all_", is_flag=True, help="Every table of the configuration.")
@click.option("--sample", type=PercentType(), metavar="P%", help="Compare so many of the ranges, picked at random.")
@click.option("--seed", type=int, metavar="N", help="With --sample: pick those that this number picked before.")
@click.option(
    "--limit", type=click.IntRange(min=0), default=100, show_default=True, metavar="N", help="Differences to show."
)
@click.option(
    "--repair", is_flag=True, help="Say what would mend the differences; with --yes do it, and compare again."
)
@click.option("--yes", is_flag=True, help="With --repair: do it.")
@click.option("--show-values", is_flag=True, help="Show the values that differ; else only digests of their rows.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--debug", is_flag=True, help="Show where in the code an error came up.")
@click.option(
    "-c", "--config", type=click.Path(path_type=Path), default=DEFAULT_CONFIG_PATH, show_default=True, help="The file."
)
def verify(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Compare MySQL and Redshift by ranges of the key; exit 7 where they differ.

    \b
    Examples:
      syncd verify --all
      syncd verify -t orders --sample 5%
      syncd verify -t orders --repair
    """
    from syncd.app import PassOptions, StageService
    from syncd.app.verification_setup import ComparisonOptions, StreamVerifier
    from syncd.concurrency.response_monitor import ResponseMonitor
    from syncd.config.check import read_settings

    settings = read_settings(options["config"], os.environ)
    streams = select_configured_streams(settings, options["tables"], all_=options["all_"])
    require_warehouses(streams)
    if options["seed"] is not None and options["sample"] is None:
        raise click.UsageError("--seed picks a sample again: give --sample too")
    if options["yes"] and not options["repair"]:
        raise click.UsageError("--yes is about --repair: without it nothing is written")
    most = max(options["limit"], MAX_REPAIR_ROWS) if options["repair"] else options["limit"]
    wanted = ComparisonOptions(sample=_sample_options(options), max_differences=most)
    with interrupt_on_sigterm(), ExitStack() as stack:
        silences = stack.enter_context(ResponseMonitor(print_message))
        verifying = stack.enter_context(StreamVerifier(settings, response_monitor=silences))
        checked = [VerifyOutcome(stream=stream, result=verifying.verify(stream, wanted)) for stream in streams]
        if options["repair"] and options["yes"] and any(one.result.differences for one in checked):
            progress = stack.enter_context(open_progress(quiet=options["as_json"]))
            service = stack.enter_context(
                StageService(settings, environ=os.environ, emit=progress, one_shot=True, response_monitor=silences)
            )
            mend = partial(
                repair_stream, service=service, verifying=verifying, wanted=wanted, load_options=PassOptions()
            )
            checked = [mend(one) for one in checked]
    show(checked, as_json=options["as_json"], show_values=options["show_values"], limit=options["limit"])
    if options["repair"] and not options["yes"]:
        for one in checked:
            preview_repair(one)
    _exit_with_errors(checked, debug=options["debug"])


def _sample_options(options: dict[str, Any]) -> "Sample":
    import random

    from syncd.verify.verification import Sample

    if options["sample"] is None:
        return Sample()
    seed = options["seed"] if options["seed"] is not None else random.SystemRandom().randrange(10**9)
    return Sample(share=options["sample"], seed=seed)


def _exit_with_errors(outcomes: Sequence[VerifyOutcome], *, debug: bool) -> None:
    codes = [ExitCode.DONE]
    different = [one for one in outcomes if one.result.counts.total()]
    if different:
        codes.append(ExitCode.DOUBT)
        _report_differences(different)
    for one in outcomes:
        if one.result.error is not None:
            codes.append(exit_code_for(one.result.error))
            print_error(one.stream.name, one.result.error, debug=debug)
    if (code := worst_exit_code(codes)) is not ExitCode.DONE:
        sys.exit(code)


def _report_differences(different: Sequence[VerifyOutcome]) -> None:
    rows = sum(one.result.counts.total() for one in different)
    print_message(
        f"error: {format_count(rows, 'row')} of {format_count(len(different), 'table')} {'differs' if rows == 1 else 'differ'}"
    )
    print_message(
        f"hint: To mend that: syncd verify {' '.join(f'-t {one.stream.name}' for one in different)} --repair --yes"
    )
