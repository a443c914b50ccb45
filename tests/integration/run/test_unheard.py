"""`syncd run` whose words nobody takes: the log's disk is full, its reader is gone, or it was given closed."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.integration.load.conftest import Reader
from tests.integration.run.conftest import Command, Ran
from tests.services.prepared import Prepared, row

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]
Make = Callable[..., Command]


def sent_to(command: Command, redirections: str, *words: str) -> Ran:
    """What a command says when a shell sends its words elsewhere."""
    told = [sys.executable, "-c", "from syncd.cli.main import entry; entry()", *words, "--config", str(command.config)]
    done = subprocess.run(
        # A reader that is gone before the first word comes.
        ["bash", "-c", f'exec 9> >(exec <&-); wait $!; "$@" {redirections}', "bash", *told],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ},
    )
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr)


@pytest.mark.parametrize("log", ["2>/dev/full", "2>&9", "2>&-"], ids=["full", "gone", "closed"])
def test_a_log_that_takes_nothing_fails_no_stream(
    prepared: Prepare, command: Make, warehouse: Reader, log: str
) -> None:
    orders = prepared()
    orders.increment(row(1, 1))
    made = command(orders)

    done = sent_to(made, log, "run", "--all", "--load-only")

    assert (done.code, "loaded" in done.out) == (0, True), done.out
    assert warehouse.rows(orders) == [(1, "row 1")]
    assert "failed" not in made.say("runs").out


@pytest.mark.parametrize("result", [">&9", ">&-"], ids=["gone", "closed"])
@pytest.mark.parametrize("form", ["", "--json"])
def test_a_result_that_nobody_reads_leaves_the_code_of_the_streams(
    prepared: Prepare, command: Make, result: str, form: str
) -> None:
    orders = prepared()
    orders.increment(row(1, 1))
    made = command(orders)

    loaded = sent_to(made, result, "run", "--all", "--load-only", *form.split())
    failed = sent_to(made, result, "run", "--all", *form.split())

    assert loaded.code == 0, loaded.err
    assert failed.code == 4, failed.err
    assert f"error: shop.{orders.table}: MySQL" in failed.err
    assert "Traceback" not in loaded.err + failed.err


def test_a_result_that_was_not_written_is_no_success(prepared: Prepare, command: Make) -> None:
    orders = prepared()
    orders.increment(row(1, 1))
    made = command(orders)

    loaded = sent_to(made, ">/dev/full", "run", "--all", "--load-only", "--json")
    failed = sent_to(made, ">/dev/full", "run", "--all", "--json")

    assert loaded.code == 2, loaded.err
    assert "error: the output could not be written: No space left on device\nhint: " in loaded.err
    assert (failed.code, f"error: shop.{orders.table}: MySQL" in failed.err) == (4, True), failed.err
    assert "Traceback" not in loaded.err + failed.err


def test_a_watch_ends_with_its_reader(prepared: Prepare, command: Make) -> None:
    orders = prepared()
    orders.increment(row(1, 1))

    watched = sent_to(command(orders), ">&9", "status", "--watch", "--every", "1s")

    assert (watched.code, watched.err) == (0, "")
