"""`syncd run`: one pass over the streams that are named, then an end that a scheduler understands."""

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from syncd.cli.exits import Exit, exit_for, worst
from syncd.cli.output import say, show_json, show_table
from syncd.cli.signals import ended_by_sigterm
from syncd.core.errors import ConfigError

if TYPE_CHECKING:
    from syncd.core.settings import Settings, StreamSettings
    from syncd.stages.run import Outcome

CONFIG: Final = "syncd.yaml"


class InstantType(click.ParamType[datetime]):
    """An instant, in UTC unless it says otherwise."""

    name = "instant"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        from syncd.config.words import instant

        try:
            return instant(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.option("-t", "--table", "tables", multiple=True, metavar="TABLE", help="A table; give it again for more.")
@click.option("--all", "all_", is_flag=True, help="Every table of the configuration.")
@click.option("--extract-only", "--backup-only", is_flag=True, help="From MySQL to S3, and no further.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Extract at most N rows of each table.")
@click.option("--from", "start", type=InstantType(), help="With --until: read this range again; moves no mark.")
@click.option("--until", type=InstantType(), help="Go no further than this instant.")
@click.option(
    "--wait",
    default="60s",
    show_default=True,
    help="How long to wait for an owner that may be gone, and for old transactions.",
)
@click.option("--strict", is_flag=True, help="Exit 7 when rows went into quarantine.")
@click.option("--dry-run", is_flag=True, help="Say what would be read; write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--debug", is_flag=True, help="Show where in the code an error came up.")
@click.option("-c", "--config", type=click.Path(path_type=Path), default=CONFIG, show_default=True, help="The file.")
def run(**words: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Bring the lake up to date with MySQL, once."""
    from syncd.config.check import read_settings
    from syncd.config.words import duration
    from syncd.core.planner import Request
    from syncd.wiring import Pass, Service

    settings = read_settings(words["config"], os.environ)
    streams = _chosen(settings, words["tables"], all_=words["all_"])
    if not words["extract_only"]:
        raise click.UsageError("loading into the warehouse is not part of this version yet: add --extract-only")
    if words["start"] and not words["until"]:
        raise click.UsageError("--from wants --until: a range that is read again has two ends")
    try:
        wait = duration(words["wait"])
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--wait") from error
    request = Request(limit=words["limit"], since=words["start"], until=words["until"])
    wanted = Pass(request=request, wait=wait, dry=words["dry_run"])
    with ended_by_sigterm(), ExitStack() as stack:
        progress = stack.enter_context(_progress(quiet=words["as_json"]))
        service = stack.enter_context(Service(settings, environ=os.environ, tell=progress, one_shot=True))
        outcomes = [service.extract(stream, wanted) for stream in streams]
    _show(outcomes, as_json=words["as_json"], dry_run=wanted.dry)
    _leave(outcomes, strict=words["strict"], debug=words["debug"])


def _chosen(settings: "Settings", names: Sequence[str], *, all_: bool) -> "list[StreamSettings]":
    """The streams that were named; every name must be one, and some must be."""
    if all_ == bool(names):
        raise click.UsageError("name tables with -t, or say --all" if not names else "--all and -t exclude each other")
    if all_:
        return list(settings.streams)
    chosen = []
    for name in names:
        found = [stream for stream in settings.streams if name in {stream.table, f"{stream.database}.{stream.table}"}]
        if not found:
            known = ", ".join(f"{stream.database}.{stream.table}" for stream in settings.streams)
            raise ConfigError(f"no table {name} is configured", hint=f"There are: {known}.")
        if len(found) > 1:
            several = ", ".join(f"{stream.database}.{stream.table}" for stream in found)
            raise ConfigError(f"{name} is not one table but {len(found)}: {several}", hint="Write database.table.")
        chosen += found
    return list(dict.fromkeys(chosen))


def _progress(*, quiet: bool) -> "Any":  # noqa: ANN401  # a context that gives whoever is told
    from syncd.cli.progress import Lines, Live

    return Live() if sys.stderr.isatty() and not quiet else Lines()


def _show(outcomes: "Sequence[Outcome]", *, as_json: bool, dry_run: bool) -> None:
    if as_json:
        show_json({"dry_run": dry_run, "streams": [_fields(outcome) for outcome in outcomes]})
        return
    show_table(
        ("table", "state", "rows", "files", "MB", "quarantined", "mark", "proven", "seconds"),
        [
            (
                f"{outcome.stream.database}.{outcome.stream.table}",
                outcome.state,
                outcome.rows,
                outcome.files,
                f"{outcome.bytes / 1e6:.1f}",
                outcome.quarantined,
                ", ".join(str(value.plain) for value in outcome.mark.values),
                "yes" if outcome.proven else "no",
                f"{outcome.seconds:.1f}",
            )
            for outcome in outcomes
        ],
    )
    for outcome in outcomes:
        if outcome.reason:
            say(f"{outcome.stream.database}.{outcome.stream.table}: {outcome.reason}")


def _fields(outcome: "Outcome") -> dict[str, object]:
    error = outcome.error
    return {
        "table": f"{outcome.stream.database}.{outcome.stream.table}",
        "source": outcome.stream.source,
        "state": outcome.state,
        "batches": outcome.batches,
        "rows": outcome.rows,
        "files": outcome.files,
        "bytes": outcome.bytes,
        "quarantined": outcome.quarantined,
        "mark_before": outcome.began.texts(),
        "mark": outcome.mark.texts(),
        "proven": outcome.proven,
        "reason": outcome.reason or None,
        "seconds": round(outcome.seconds, 3),
        "planned": outcome.planned,
        "error": {"message": error.message, "hint": error.hint or None, "exit": exit_for(error)} if error else None,
    }


def _leave(outcomes: "Sequence[Outcome]", *, strict: bool, debug: bool) -> None:
    """Tell each error in two lines, and end with the worst one's code."""
    codes = [Exit.DONE]
    for outcome in outcomes:
        if outcome.error is not None:
            if debug:
                import traceback

                say("".join(traceback.format_exception(outcome.error)))
            say(f"error: {outcome.stream.database}.{outcome.stream.table}: {outcome.error.message}")
            if outcome.error.hint:
                say(f"hint: {outcome.error.hint}")
            codes.append(exit_for(outcome.error))
        elif strict and outcome.quarantined:
            codes.append(Exit.DOUBT)
    if (code := worst(codes)) is not Exit.DONE:
        sys.exit(code)
