"""A moto server of S3 in a process of its own, that ends with whoever started it."""

import os
import selectors
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

STARTED_WITHIN = 120.0
SERVE = """
import sys
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(*server.get_host_and_port(), flush=True)
sys.stdin.read()
server.stop()
"""


@contextmanager
def moto_server() -> Generator[str]:
    """The endpoint of a fresh server on loopback.

    The server takes its own free port and names it. It ends when its input
    does, so not even a killed test leaves it behind.
    """
    with subprocess.Popen(
        [sys.executable, "-c", SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "MOTO_CALL_RESET_API": "false"},
    ) as server:
        try:
            host, port = _first_line(server).split()
            yield f"http://{host}:{port}"
        finally:
            server.kill()


def _first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(STARTED_WITHIN):
            raise TimeoutError(f"moto did not start within {STARTED_WITHIN} s")
    return process.stdout.readline()
