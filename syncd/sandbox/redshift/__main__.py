"""The stand-in as a process of its own: prints one line of JSON when it is ready, and ends on SIGTERM.

python -m syncd.sandbox.redshift --directory DIRECTORY --s3-endpoint http://127.0.0.1:9000
"""

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path

from syncd.sandbox.redshift.cluster import CannotStart
from syncd.sandbox.redshift.copy.s3_files import CopyStorage
from syncd.sandbox.redshift.fault_port import ControlPort
from syncd.sandbox.redshift.objects import Isolation
from syncd.sandbox.redshift.server import RedshiftStandIn


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m syncd.sandbox.redshift", description=__doc__)
    parser.add_argument(
        "--directory", type=Path, help="directory of the data; without it, the data ends with the process"
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--control-port", type=int, default=0, help="port for injecting faults")
    parser.add_argument("--database", default="dev")
    parser.add_argument("--user", default="loader")
    parser.add_argument(
        "--s3-endpoint", default="", help="S3 endpoint for COPY; keys from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"
    )
    parser.add_argument("--s3-region", default="us-east-1")
    parser.add_argument("--isolation", choices=[i.name.lower() for i in Isolation], default="snapshot")
    parser.add_argument(
        "--superuser", action="store_true", help="let the user read the STL views of a provisioned cluster"
    )
    return parser.parse_args()


def serve(arguments: argparse.Namespace) -> None:
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    lake = CopyStorage(
        endpoint=arguments.s3_endpoint,
        region=arguments.s3_region,
        access_key=os.environ.get("AWS_ACCESS_KEY_ID", "sandbox"),
        secret_key=os.environ.get("AWS_SECRET_ACCESS_KEY", "sandbox"),
    )
    server = RedshiftStandIn(
        arguments.directory,
        port=arguments.port,
        database=arguments.database,
        user=arguments.user,
        password=os.environ.get("SYNCD_SANDBOX_REDSHIFT_PASSWORD", "Sandbox1"),
        superuser=arguments.superuser,
        lake=lake,
        isolation=Isolation[arguments.isolation.upper()],
    )
    with server:
        control = ControlPort(server.faults, arguments.control_port)
        ready = {"host": server.host, "port": server.port, "control_port": control.port, "pid": os.getpid()}
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        ended.wait()
        control.close()


def main() -> int:
    try:
        serve(parse_arguments())
    except CannotStart as error:
        sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
        return 6
    return 0


if __name__ == "__main__":
    sys.exit(main())
