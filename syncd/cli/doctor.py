"""`syncd doctor`: is everything there that a run needs, and if not, what would bring it?"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from syncd.cli.exit_codes import Exit, exit_for, worst
from syncd.cli.output import say, show_json
from syncd.cli.stream_options import CONFIG

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncd.ports.preflight import Finding

_OF_SIDE: Final = {"host": Exit.SOURCE, "source": Exit.SOURCE, "lake": Exit.LAKE, "warehouse": Exit.WAREHOUSE}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "-c", "--config", "path", type=click.Path(path_type=Path), default=CONFIG, show_default=True, help="The file."
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
    from syncd.ports.preflight import counted

    findings = Doctor(read_settings(path, os.environ), environ=os.environ).findings()
    if as_json:
        counts = {state.value: number for state, number in counted(findings).items()}
        show_json({**counts, "checks": [_told(found) for found in findings]})
    else:
        _show(findings)
    if (code := worst([Exit.DONE, *(_exit_of(found) for found in findings if found.state == "fail")])) is not Exit.DONE:
        failed = sum(found.state == "fail" for found in findings)
        say(f"error: {failed} {'check' if failed == 1 else 'checks'} failed")
        sys.exit(code)


def _exit_of(found: "Finding") -> Exit:
    return _OF_SIDE[found.side] if found.error is None else exit_for(found.error)


def _told(found: "Finding") -> dict[str, str]:
    return {
        "side": found.side.value,
        "name": found.name,
        "check": found.check,
        "state": found.state.value,
        "told": found.told,
        "remedy": found.remedy,
    }


def _show(findings: "Sequence[Finding]") -> None:
    """A block for each side; below what does not pass stands what to paste."""
    from syncd.ports.preflight import counted

    wide = max((len(found.check) for found in findings), default=0)
    title = ""
    for found in findings:
        place = f"{found.side} {found.name}".strip()
        if place != title:
            click.echo(f"{place}:")
            title = place
        click.echo(f"  {found.state:<4}  {found.check:<{wide}}  {found.told}")
        for line in found.remedy.splitlines():
            click.echo(f"        {'':<{wide}}  -> {line}")
    click.echo(", ".join(f"{number} {state}" for state, number in counted(findings).items()))
