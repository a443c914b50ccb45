"""A MinIO server in a process of its own, that ends with whoever started it.

Run as a program it is the keeper: it holds the server and its data, and ends
both when its input ends, so that not even a killed test leaves them behind.
"""

import http.client
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

STARTED_WITHIN = 30.0
USER, PASSWORD = "syncd-tests", "syncd-tests-only"


def find_minio() -> str | None:
    """The program: from SYNCD_TEST_MINIO, from PATH, or from where Go installs programs."""
    if named := os.environ.get("SYNCD_TEST_MINIO"):
        return named
    return shutil.which("minio") or _installed_by_go()


@contextmanager
def minio(program: str) -> Generator[str]:
    """The endpoint of a fresh server on loopback; its keys are USER and PASSWORD."""
    port, console = _free_ports()
    with subprocess.Popen(
        [sys.executable, "-P", __file__, program, str(port), str(console)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as keeper:
        assert keeper.stdin is not None
        try:
            _wait_until_ready(port, keeper)
            yield f"http://127.0.0.1:{port}"
        finally:
            keeper.stdin.close()
            keeper.wait(STARTED_WITHIN)


def _installed_by_go() -> str | None:
    if (go := shutil.which("go")) is None:
        return None
    home = subprocess.run([go, "env", "GOPATH"], capture_output=True, text=True, check=True).stdout.strip()
    return shutil.which("minio", path=Path(home) / "bin")


def _free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]


def _wait_until_ready(port: int, keeper: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + STARTED_WITHIN
    while not _is_ready(port):
        if keeper.poll() is not None:
            raise RuntimeError(f"minio ended at once with code {keeper.returncode}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"minio was not ready within {STARTED_WITHIN} s")
        time.sleep(0.05)  # between two questions; what ends the wait is the answer


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/minio/health/ready")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _memory() -> str | None:
    """A directory in memory where there is one: what is asked of the server is order, not durability."""
    return next((folder for folder in ("/dev/shm",) if os.access(folder, os.W_OK)), None)


def _keep(program: str, port: str, console: str) -> int:
    environment = {
        **os.environ,
        "MINIO_ROOT_USER": USER,
        "MINIO_ROOT_PASSWORD": PASSWORD,
        "MINIO_BROWSER": "off",
        "MINIO_UPDATE": "off",
    }
    with tempfile.TemporaryDirectory(prefix="syncd-minio-", dir=_memory()) as data:
        command = [program, "server", "--quiet", "--address", f"127.0.0.1:{port}"]
        command += ["--console-address", f"127.0.0.1:{console}", data]
        server = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        sys.stdin.read()
        server.terminate()
        server.wait()
    return 0


if __name__ == "__main__":
    sys.exit(_keep(*sys.argv[1:]))
