"""The command `syncd`: parsing, errors and exit codes."""

import sys
from typing import Final

import click

from syncd.cli.command_tree import LazyCommandGroup
from syncd.cli.output import print_error, print_message
from syncd.cli.output_pipe import tolerate_output_errors
from syncd.error_classes import ExitCode, exit_code_for
from watermarks.errors import HintedError

COMMANDS: Final = {
    "audit": (
        "syncd.cli.audit",
        "Check every link, plan, file, window and history entry of a table, from the lake alone.",
    ),
    "completion": ("syncd.cli.completion", "Print the completion script for a shell's start-up file."),
    "config": ("syncd.cli.config", "Check the configuration, or print its JSON Schema."),
    "daemon": ("syncd.cli.daemon", "Keep every table up to date on its schedule, until SIGTERM or Ctrl-C."),
    "demo": (
        "syncd.cli.demo",
        "Run a demo on this machine: a shop in MySQL, a writer, and a warehouse that is kept equal.",
    ),
    "doctor": ("syncd.cli.doctor", "Check this host, MySQL, S3 and Redshift before the first run."),
    "explain": ("syncd.cli.explain", "Show where the row with this key is, and the reason."),
    "init": ("syncd.cli.init", "Read the live schema, and write a commented syncd.yaml."),
    "jars": ("syncd.cli.jars", "Download the required Java archives, or list them."),
    "plan": (
        "syncd.cli.plan",
        "Show what a run would do: windows, rows, bytes, files, COPYs, DDL and durations. Writes nothing.",
    ),
    "quarantine": ("syncd.cli.quarantine", "List, show and replay the rows in quarantine."),
    "reload": ("syncd.cli.daemon", "Let the daemons that run with this file on this machine read it again."),
    "run": ("syncd.cli.run", "Bring the lake up to date with MySQL, and Redshift with the lake, once."),
    "runs": ("syncd.cli.runs", "Show the last runs that did something or failed, the newest first."),
    "s3clean": ("syncd.cli.s3clean", "List and remove files of the lake that are no longer needed."),
    "sandbox": (
        "syncd.cli.sandbox",
        "Run MySQL with a small shop, S3 and a Redshift stand-in on this machine.",
    ),
    "status": ("syncd.cli.status", "Show the status of every table, the worst first. Reads the lake only."),
    "verify": ("syncd.cli.verify", "Compare MySQL and Redshift by ranges of the key; exit 7 where they differ."),
    "watermark": (
        "syncd.cli.watermark",
        "Show the position of every stream; set, reset, undo, check and rebuild its marks.",
    ),
}
"""Module and first sentence of the help of each command, so that listing them loads none."""


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
    """Run a command, and exit with a code that tells a scheduler what to do."""
    with tolerate_output_errors() as result:
        code = _run_command()
        if result.write_error is not None and not result.is_disconnected:
            print_message(f"error: the output could not be written: {result.write_error.strerror}")
            print_message(
                "hint: Check that the disk is not full. The command did its work; see the log and `syncd runs`."
            )
            code = code or ExitCode.USAGE
    if code:
        sys.exit(code)


def _run_command() -> int:
    """Run a command, print its error, and return the exit code."""
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
        print_error(error)
        return exit_code_for(error)
    return ExitCode.DONE
