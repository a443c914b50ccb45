"""Every `syncd` command of docs/how-to/operations.md runs, on a table whose batches were made without a JVM."""

import shlex
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from syncd.cli.main import syncd
from syncd.error_classes import exit_code_for
from tests.deploy.commands import commands
from tests.integration.run.conftest import Command
from tests.services.prepared import Prepared, row
from watermarks.errors import HintedError

pytestmark = pytest.mark.services
ELSEWHERE = {"reload", "--watch", "jars"}
"""Commands that talk to a daemon, go on for ever, or fetch from afar: they have tests of their own."""


def done(*words: str) -> tuple[int, str]:
    """A command in this process: its exit code, and what it said."""
    found = CliRunner().invoke(syncd, [*words])
    error = found.exception
    return (exit_code_for(error) if isinstance(error, HintedError) else found.exit_code), f"{found.output} {error!r}"


@pytest.mark.slow
def test_every_command_of_the_page_does_what_it_is_there_for(
    prepared: Callable[..., Prepared], command: Callable[..., Command]
) -> None:
    orders = prepared()
    orders.increment(row(1, 1), row(2, 2))
    made = command(orders)
    config = str(made.config)
    assert done("run", "--all", "--load-only", "--config", config)[0] == 0

    failed: list[str] = []
    for line in commands():
        program, *words = shlex.split(line)
        if program != "syncd" or ELSEWHERE & {*words}:
            continue
        words = [word.replace("shop.orders", f"shop.{orders.table}") for word in words]
        code, said = done(*words, "--config", config)
        # The source is away here: whatever would read from it says so, and nothing else.
        expected = 4 if words[0] in {"run", "verify"} and "--load-only" not in words else 0
        if code != expected:
            failed.append(f"{line}: {code}: {said}")

    assert failed == []
