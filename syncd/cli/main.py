"""The command `syncd`: reads the words, runs one command, tells how it ended."""

import sys
from typing import Final

import click

from syncd.cli.command_tree import LazyCommandGroup
from syncd.cli.output_pipe import tolerate_output_errors
from syncd.error_classes import ExitCode, exit_code_for
from watermarks.errors import HintedError

COMMANDS: Final = {
    "audit": (
        "syncd.cli.audit",
        "Check every link, plan, file, window and entry of history of a table, from the lake alone.",
    ),
    "completion": ("syncd.cli.completion", "Print the completion of a shell, for its start-up file."),
    "config": ("syncd.cli.config", "Check the configuration, or print its JSON Schema."),
    "daemon": ("syncd.cli.daemon", "Keep every table up to date, each by its schedule, until SIGTERM or Ctrl-C."),
    "demo": (
        "syncd.cli.demo",
        "Show the whole system on this machine: a shop in MySQL, a writer, and a warehouse that is kept equal.",
    ),
    "doctor": ("syncd.cli.doctor", "Look at all sides before the first run: this host, MySQL, S3, Redshift."),
    "explain": ("syncd.cli.explain", "Say where the row with this key is, and why."),
    "init": ("syncd.cli.init", "Read the live schema, and write a commented syncd.yaml."),
    "jars": ("syncd.cli.jars", "Fetch the Java archives that are needed, or list them."),
    "plan": (
        "syncd.cli.plan",
        "Show what a run would do: windows, rows, bytes, files, COPYs and DDL, and about how long. Writes nothing.",
    ),
    "quarantine": ("syncd.cli.quarantine", "Look at the rows that were put aside, and bring them back."),
    "reload": ("syncd.cli.daemon", "Let the daemons of this file on this machine read it again."),
    "run": ("syncd.cli.run", "Bring the lake up to date with MySQL, and Redshift with the lake, once."),
    "runs": ("syncd.cli.runs", "Show the last runs that did something or failed, the newest first."),
    "s3clean": ("syncd.cli.s3clean", "Show and remove what the lake holds and nobody needs any more."),
    "sandbox": (
        "syncd.cli.sandbox",
        "Run the whole system on this machine: MySQL with a small shop, S3, Redshift's stand-in.",
    ),
    "status": ("syncd.cli.status", "Show how every table stands, the worst first; asks the lake and nobody else."),
    "verify": ("syncd.cli.verify", "Compare MySQL and Redshift by ranges of the key; exit 7 where they differ."),
    "watermark": ("syncd.cli.watermark", "See how far every stream is; set, reset, undo, check and rebuild its marks."),
}
"""Where each command is, and the first sentence of its help: a list of them loads none."""


@click.group(
    cls=LazyCommandGroup,
    known=COMMANDS,
    context_settings={"auto_envvar_prefix": "SYNCD", "help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="syncd", prog_name="syncd")
def syncd() -> None:
    """Keep Amazon Redshift equal to MySQL, through Parquet files on S3.

    \b
    Examples:
      syncd init 'mysql://sync:${MYSQL_PASSWORD}@db/shop' --lake s3://acme-lake/syncd
      syncd config check
      syncd doctor
      syncd run --all
    """


def entry() -> None:
    """Run, and leave with the code that tells a scheduler what to do."""
    with tolerate_output_errors() as result:
        code = _run_command()
        if result.write_error is not None and not result.is_disconnected:
            click.echo(f"error: the result could not be written: {result.write_error.strerror}", err=True)
            click.echo(
                "hint: Is the disk full? What the command did is done; the log and `syncd runs` tell of it.", err=True
            )
            code = code or ExitCode.USAGE
    if code:
        sys.exit(code)


def _run_command() -> int:
    """Run; the code that tells how it went."""
    try:
        syncd(standalone_mode=False)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else ExitCode.DONE if ended.code is None else ExitCode.BUG
    except click.ClickException as error:
        error.show()
        return ExitCode.USAGE
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except HintedError as error:
        click.echo(f"error: {error.message}", err=True)
        if error.hint:
            click.echo(f"hint: {error.hint}", err=True)
        return exit_code_for(error)
    return ExitCode.DONE
