"""Each benchmark comes to its end, in a small size: one that nobody runs is found broken when its figure is wanted."""

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.services, pytest.mark.long]

MISSED = 1
"""How a benchmark ends whose figure is not the wanted one, as in a small size, beside other tests, it may be."""


@pytest.mark.parametrize(
    "words",
    [
        ["convert"],
        ["extract", "--rows", "20000", "--times", "1", "--tools", "dump", "--memory", "20000"],
        ["idle_daemon", "10", "3"],
        ["latency", "5"],
        ["load", "small"],
        ["sandbox_up", "1"],
        ["seed_shop", "2000"],
        ["start_up", "1"],
        ["verify", "20000"],
        ["watermarks"],
    ],
    ids=lambda words: words[0],
)
def test_a_benchmark_tells_its_figures(words: list[str]) -> None:
    command = [sys.executable, "-m", f"benchmarks.{words[0]}", *words[1:]]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)

    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in {0, MISSED}, done.stderr
    assert done.stdout
