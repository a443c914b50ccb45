"""`syncd doctor`: checks of everything that a run needs, with remedies."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from syncd.cli.option_types import common_options
from syncd.cli.output import print_message, show_json
from syncd.cli.stream_selection import exit_with_errors
from syncd.error_classes import ExitCode, exit_code_for
from syncd.observe.formatting import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncd.ports.preflight import CheckResult

_EXIT_CODE_BY_SIDE: Final = {
    "host": ExitCode.SOURCE,
    "source": ExitCode.SOURCE,
    "lake": ExitCode.LAKE,
    "warehouse": ExitCode.WAREHOUSE,
}


@click.command()
@common_options
def doctor(config: Path, as_json: bool) -> None:
    """Check this host, MySQL, S3 and Redshift before the first run.

    \b
    Examples:
      syncd doctor
      syncd doctor --json

    Each check passes, warns or fails; a failed check prints the grant, SQL or policy to paste.
    The checks clean up after themselves: transactions are rolled back, objects under doctor/ in the lake are deleted.
    """
    from syncd.app.doctor_checks import Doctor
    from syncd.config.check import read_settings
    from syncd.ports.preflight import count_by_status

    results = Doctor(read_settings(config, os.environ), environ=os.environ).run_checks()
    if as_json:
        counts = {status.value: number for status, number in count_by_status(results).items()}
        show_json({**counts, "checks": [_to_json(result) for result in results]})
    else:
        _show(results)
    failed = [result for result in results if result.status == "fail"]
    if failed:
        print_message(f"error: {format_count(len(failed), 'check')} failed")
    exit_with_errors([], codes=map(_exit_code_for_result, failed))


def _exit_code_for_result(result: "CheckResult") -> ExitCode:
    return _EXIT_CODE_BY_SIDE[result.side] if result.error is None else exit_code_for(result.error)


def _to_json(result: "CheckResult") -> dict[str, str]:
    return {
        "side": result.side.value,
        "name": result.name,
        "check": result.check,
        "state": result.status.value,
        "finding": result.message,
        "remedy": result.remedy,
    }


def _show(results: "Sequence[CheckResult]") -> None:
    """Print a block for each side, with the remedy below each check that does not pass."""
    from syncd.ports.preflight import count_by_status

    width = max((len(result.check) for result in results), default=0)
    title = ""
    for result in results:
        place = f"{result.side} {result.name}".strip()
        if place != title:
            click.echo(f"{place}:")
            title = place
        click.echo(f"  {result.status:<4}  {result.check:<{width}}  {result.message}")
        for line in result.remedy.splitlines():
            click.echo(f"        {'':<{width}}  -> {line}")
    click.echo(", ".join(f"{number} {status}" for status, number in count_by_status(results).items()))
