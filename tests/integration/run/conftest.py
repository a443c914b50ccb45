"""`syncd run` on batches prepared without a JVM: its own process, a lake and a stand-in, and a MySQL that is away."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from syncd.s3.lake_client import S3Lake
from syncd.sandbox.redshift import RedshiftStandIn
from tests.integration.load.conftest import ROLE, journal, lake, prepared, warehouse
from tests.services.prepared import Prepared
from tests.standin.conftest import bucket, client, clients, no_fault_left, s3_url, server

__all__ = [
    "bucket", "client", "clients", "journal", "lake", "no_fault_left", "prepared", "s3_url", "server", "warehouse",
]  # fmt: skip

PROGRAM = """
import sys
from syncd.cli.main import entry
try:
    entry()
finally:
    print("loaded", *sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


@dataclass(frozen=True, kw_only=True)
class Ran:
    code: int
    out: str
    err: str

    def told(self, table: str) -> dict[str, Any]:
        found: dict[str, Any] = next(one for one in json.loads(self.out)["streams"] if one["table"] == f"shop.{table}")
        return found

    @property
    def loaded(self) -> set[str]:
        """Every package that the command had loaded when it ended."""
        return set(next(line for line in self.err.splitlines() if line.startswith("loaded ")).split()[1:])


@dataclass
class Command:
    """The command with its configuration."""

    lake: S3Lake
    server: RedshiftStandIn
    directory: Path
    role: bool = True
    with_warehouse: bool = True
    port: int | None = None
    more: str = ""
    """What each table says beside its columns of ours."""
    tables: list[Prepared] = field(default_factory=list)

    @property
    def config(self) -> Path:
        path, settings, server = self.directory / "syncd.yaml", self.lake.settings, self.server
        place = f"{server.host}:{self.port or server.port}/{server.database}"
        url = f"redshift://{server.user}:{server.password}@{place}"
        role = f", iam_role: '{ROLE}'" if self.role else ""
        tables = ", ".join(
            f"shop.{one.table}: {{metadata: [batch], cursor: {one.cursor}{self.more}}}" for one in self.tables
        )
        path.write_text(
            "sources: {shop: {url: 'mysql://nobody:x@127.0.0.1:9/shop', zone: UTC}}\n"
            f"lake: {{url: 's3://{settings.bucket}/{settings.prefix}', endpoint: '{settings.endpoint}',"
            " region: us-east-1}\n"
            + (f"warehouse: {{url: '{url}'{role}}}\n" if self.with_warehouse else "")
            + f"tables: {{{tables}}}\n"
        )
        return path

    def run(self, *words: str, environ: dict[str, str] | None = None) -> Ran:
        return self.say("run", *words, environ=environ)

    def say(self, *words: str, environ: dict[str, str] | None = None) -> Ran:
        """Any command of those that read the configuration."""
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *words, "--config", str(self.config)],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env={**os.environ, **(environ or {})},
        )
        return Ran(code=done.returncode, out=done.stdout, err=done.stderr)


@pytest.fixture
def command(lake: S3Lake, server: RedshiftStandIn, tmp_path: Path) -> Callable[..., Command]:
    def make(*tables: Prepared, **words: Any) -> Command:
        return Command(lake=lake, server=server, directory=tmp_path, tables=list(tables), **words)

    return make
