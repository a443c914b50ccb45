import subprocess
import sys
from pathlib import Path

import pytest

from syncd.errors import DirectoryBusy
from syncd.host.directories import hold_lock

HOLDER = """
import sys
from pathlib import Path
from syncd.host.directories import hold_lock
with hold_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_command_waits_and_then_says_who_is_in_the_way(tmp_path: Path) -> None:
    with hold_lock(tmp_path), pytest.raises(DirectoryBusy, match="another command"), hold_lock(tmp_path, within=0.1):
        pass


def test_the_lock_of_a_killed_command_is_free(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"

        holder.kill()

        with hold_lock(tmp_path, within=10):
            pass
