"""The command `syncd`: reads the words, runs one command, tells how it ended."""

import sys

import click

from syncd.cli.audit import audit
from syncd.cli.config import config
from syncd.cli.daemon import daemon, reload
from syncd.cli.demo import demo
from syncd.cli.doctor import doctor
from syncd.cli.exits import Exit, exit_for
from syncd.cli.explain import explain
from syncd.cli.init import init
from syncd.cli.jars import jars
from syncd.cli.plan import plan
from syncd.cli.quarantine import quarantine
from syncd.cli.run import run
from syncd.cli.runs import runs
from syncd.cli.s3clean import s3clean
from syncd.cli.sandbox import sandbox
from syncd.cli.status import status
from syncd.cli.watermark import watermark
from watermarks.errors import HintedError


@click.group(context_settings={"auto_envvar_prefix": "SYNCD", "help_option_names": ["-h", "--help"]})
@click.version_option(package_name="syncd", prog_name="syncd")
def syncd() -> None:
    """Keep Amazon Redshift equal to MySQL, through Parquet files on S3."""


syncd.add_command(audit)
syncd.add_command(config)
syncd.add_command(daemon)
syncd.add_command(demo)
syncd.add_command(doctor)
syncd.add_command(explain)
syncd.add_command(init)
syncd.add_command(jars)
syncd.add_command(plan)
syncd.add_command(quarantine)
syncd.add_command(reload)
syncd.add_command(run)
syncd.add_command(runs)
syncd.add_command(s3clean)
syncd.add_command(sandbox)
syncd.add_command(status)
syncd.add_command(watermark)


def entry() -> None:
    """Run, and leave with the code that tells a scheduler what to do."""
    try:
        syncd(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(Exit.USAGE)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(Exit.INTERRUPTED)
    except HintedError as error:
        click.echo(f"error: {error.message}", err=True)
        if error.hint:
            click.echo(f"hint: {error.hint}", err=True)
        sys.exit(exit_for(error))
