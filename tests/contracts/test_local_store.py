import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from watermarks.store import Store
from watermarks.stores.local import LocalStore
from watermarks.testing import StoreContract, read_lines

ENTER = """
import sys
from pathlib import Path
from watermarks.stores.local import LocalStore
from watermarks.testing import append_lines

store, writer, times = LocalStore(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
append_lines(store, "a/book", writer=writer, times=times)
"""


class TestLocalStore(StoreContract):
    processes = 4
    lines = 25

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return LocalStore(tmp_path / "documents")

    def test_no_entry_of_many_processes_is_lost(self, tmp_path: Path) -> None:
        root = tmp_path / "documents"
        writers = [f"writer-{number}" for number in range(self.processes)]

        processes = [
            subprocess.Popen(
                [sys.executable, "-c", ENTER, str(root), writer, str(self.lines)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for writer in writers
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in processes:
            process.communicate(timeout=300)

        assert [process.returncode for process in processes] == [0] * self.processes
        assert Counter(read_lines(LocalStore(root), "a/book")) == Counter(
            f"{writer} {number}" for writer in writers for number in range(self.lines)
        )
