"""`syncd doctor`: is everything there that a run needs, and if not, what would bring it?"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from syncd.cli.output import print_message, show_json
from syncd.cli.stream_options import DEFAULT_CONFIG_PATH
from syncd.error_classes import ExitCode, exit_code_for, worst_exit_code

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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "-c",
    "--config",
    "path",
    type=click.Path(path_type=Path),
    default=DEFAULT_CONFIG_PATH,
    show_default=True,
    help="The file.",
)
def doctor(path: Path, as_json: bool) -> None:
    """Look at all sides before the first run: this host, MySQL, S3, Redshift.

    \b
    Examples:
      syncd doctor
      syncd doctor --json

    Each check passes, warns or fails; with what fails comes the grant, SQL or policy to paste.
    What it tries it removes again: transactions are rolled back, objects lie below doctor/ in the lake.
    """
    from syncd.app.doctor_checks import Doctor
    from syncd.config.check import read_settings
    from syncd.ports.preflight import count_by_status

    findings = Doctor(read_settings(path, os.environ), environ=os.environ).run_checks()
    if as_json:
        counts = {state.value: number for state, number in count_by_status(findings).items()}
        show_json({**counts, "checks": [_to_json(found) for found in findings]})
    else:
        _show(findings)
    if (
        code := worst_exit_code(
            [ExitCode.DONE, *(_exit_code_for_finding(found) for found in findings if found.status == "fail")]
        )
    ) is not ExitCode.DONE:
        failed = sum(found.status == "fail" for found in findings)
        print_message(f"error: {failed} {'check' if failed == 1 else 'checks'} failed")
        sys.exit(code)


def _exit_code_for_finding(finding: "CheckResult") -> ExitCode:
    return _EXIT_CODE_BY_SIDE[finding.side] if finding.error is None else exit_code_for(finding.error)


def _to_json(finding: "CheckResult") -> dict[str, str]:
    return {
        "side": finding.side.value,
        "name": finding.name,
        "check": finding.check,
        "state": finding.status.value,
        "told": finding.message,
        "remedy": finding.remedy,
    }


def _show(findings: "Sequence[CheckResult]") -> None:
    """A block for each side; below what does not pass stands what to paste."""
    from syncd.ports.preflight import count_by_status

    wide = max((len(found.check) for found in findings), default=0)
    title = ""
    for found in findings:
        place = f"{found.side} {found.name}".strip()
        if place != title:
            click.echo(f"{place}:")
            title = place
        click.echo(f"  {found.status:<4}  {found.check:<{wide}}  {found.message}")
        for line in found.remedy.splitlines():
            click.echo(f"        {'':<{wide}}  -> {line}")
    click.echo(", ".join(f"{number} {state}" for state, number in count_by_status(findings).items()))
