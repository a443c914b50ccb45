"""`syncd verify`: is the warehouse what the source is, and where it is not, which rows."""

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.exit_codes import Exit, exit_for, worst
from syncd.cli.output import say
from syncd.cli.run import chosen, progress_of, require_warehouses, tell_error
from syncd.cli.signals import ended_by_sigterm
from syncd.cli.stream_options import CONFIG
from syncd.cli.verify_repair import MOST, mended, would_mend
from syncd.cli.views.verify_view import Checked, show
from syncd.observe.event_text import counted

if TYPE_CHECKING:
    from syncd.verify.verification import Sample


class ShareType(click.ParamType[float]):
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
@click.option("--sample", type=ShareType(), metavar="P%", help="Compare so many of the ranges, picked at random.")
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
@click.option("-c", "--config", type=click.Path(path_type=Path), default=CONFIG, show_default=True, help="The file.")
def verify(**words: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Compare MySQL and Redshift by ranges of the key; exit 7 where they differ.

    \b
    Examples:
      syncd verify --all
      syncd verify -t orders --sample 5%
      syncd verify -t orders --repair
    """
    from syncd.app import Pass, Service
    from syncd.app.verification_setup import Verifying, Wanted
    from syncd.concurrency.response_monitor import Silences
    from syncd.config.check import read_settings

    settings = read_settings(words["config"], os.environ)
    streams = chosen(settings, words["tables"], all_=words["all_"])
    require_warehouses(streams)
    if words["seed"] is not None and words["sample"] is None:
        raise click.UsageError("--seed picks a sample again: give --sample too")
    if words["yes"] and not words["repair"]:
        raise click.UsageError("--yes is about --repair: without it nothing is written")
    most = max(words["limit"], MOST) if words["repair"] else words["limit"]
    wanted = Wanted(sample=_sample(words), most=most)
    with ended_by_sigterm(), ExitStack() as stack:
        silences = stack.enter_context(Silences(say))
        verifying = stack.enter_context(Verifying(settings, silences=silences))
        checked = [Checked(stream=stream, verdict=verifying.verify(stream, wanted)) for stream in streams]
        if words["repair"] and words["yes"] and any(one.verdict.differences for one in checked):
            progress = stack.enter_context(progress_of(quiet=words["as_json"]))
            service = stack.enter_context(
                Service(settings, environ=os.environ, tell=progress, one_shot=True, silences=silences)
            )
            mend = partial(mended, service=service, verifying=verifying, wanted=wanted, how=Pass())
            checked = [mend(one) for one in checked]
    show(checked, as_json=words["as_json"], values=words["show_values"], limit=words["limit"])
    if words["repair"] and not words["yes"]:
        for one in checked:
            would_mend(one)
    _leave(checked, debug=words["debug"])


def _sample(words: dict[str, Any]) -> "Sample":
    import random

    from syncd.verify.verification import Sample

    if words["sample"] is None:
        return Sample()
    seed = words["seed"] if words["seed"] is not None else random.SystemRandom().randrange(10**9)
    return Sample(share=words["sample"], seed=seed)


def _leave(checked: Sequence[Checked], *, debug: bool) -> None:
    codes = [Exit.DONE]
    different = [one for one in checked if one.verdict.counts.total()]
    if different:
        codes.append(Exit.DOUBT)
        _tell_different(different)
    for one in checked:
        if one.verdict.error is not None:
            codes.append(exit_for(one.verdict.error))
            tell_error(one.stream.name, one.verdict.error, debug=debug)
    if (code := worst(codes)) is not Exit.DONE:
        sys.exit(code)


def _tell_different(different: Sequence[Checked]) -> None:
    rows = sum(one.verdict.counts.total() for one in different)
    say(f"error: {counted(rows, 'row')} of {counted(len(different), 'table')} {'differs' if rows == 1 else 'differ'}")
    say(f"hint: To mend that: syncd verify {' '.join(f'-t {one.stream.name}' for one in different)} --repair --yes")
