"""S3 emulator and Redshift stand-in in processes of their own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redshift_connector

BUCKET = "lake"
MOTO = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server._server.server_port, flush=True)
sys.stdin.read()
server.stop()
"""


@contextmanager
def run_s3() -> Iterator[str]:
    """Run an S3 emulator and yield its endpoint."""
    command = [sys.executable, "-c", MOTO]
    with subprocess.Popen(  # noqa: S603  # our own program
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as moto:
        assert moto.stdin is not None
        assert moto.stdout is not None
        yield f"http://127.0.0.1:{int(moto.stdout.readline())}"
        moto.stdin.close()


@contextmanager
def run_stand_in(endpoint: str) -> Iterator[dict[str, Any]]:
    """Run the Redshift stand-in over this S3 and yield its ready message."""
    command = [sys.executable, "-m", "syncd.sandbox.redshift", "--s3-endpoint", endpoint]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:  # noqa: S603  # as above
        assert server.stdout is not None
        try:
            yield json.loads(server.stdout.readline())
        finally:
            server.terminate()


def connect_stand_in(port: int) -> Any:  # noqa: ANN401  # the driver has no types
    connection = redshift_connector.connect(
        host="127.0.0.1",
        port=port,
        database="dev",
        user="loader",
        password="Sandbox1",  # noqa: S106  # the stand-in's own
        ssl=False,
    )
    connection.autocommit = True
    return connection
