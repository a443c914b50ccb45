"""All servers of a sandbox: MySQL of either kind, an S3 whose conditional writes are one step, and the stand-in."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from syncd.s3.lake_client import S3Lake
from syncd.sandbox.running_sandbox import Sandbox
from syncd.sandbox.s3 import S3Address
from syncd.settings import LakeSettings
from tests.services.servers import environ_of

PASSWORD = "hunter2-of-the-tests"


@dataclass(frozen=True, kw_only=True)
class Examined:
    code: int
    out: str
    err: str

    @property
    def checks(self) -> dict[tuple[str, str], dict[str, str]]:
        return {(one["side"], one["check"]): one for one in json.loads(self.out)["checks"]}

    def states(self, side: str) -> dict[str, str]:
        return {check: one["state"] for (place, check), one in self.checks.items() if place == side}


@dataclass(kw_only=True)
class Ward:
    """A sandbox, and the command that looks at it."""

    box: Sandbox
    directory: Path

    def sql(self, *statements: str) -> None:
        with self.box.mysql.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    @property
    def lake(self) -> S3Lake:
        s3 = self.box.s3
        return S3Lake.from_settings(LakeSettings(bucket=s3.bucket, prefix="x", region=s3.region, endpoint=s3.endpoint))

    def config(self, *, tables: str, source: str = "", lake: str = "", warehouse: str = "") -> Path:
        mysql, s3, redshift = self.box.mysql, self.box.s3, self.box.redshift
        place = f"redshift://{redshift.user}:{redshift.password}@{redshift.host}:{redshift.port}/{redshift.database}"
        path = self.directory / "syncd.yaml"
        path.write_text(
            f"source: {{url: '{source or mysql.url}', zone: UTC}}\n"
            f"lake: {{url: 's3://{s3.bucket}/x', endpoint: '{lake or s3.endpoint}', region: {s3.region}}}\n"
            f"warehouse: {{url: '{warehouse or place}', iam_role: 'arn:aws:iam::123456789012:role/load'}}\n"
            f"tables: {{{tables}}}\n"
        )
        return path

    def examine(self, path: Path, *words: str) -> Examined:
        s3 = self.box.s3
        environ = keys_of(s3)
        done = subprocess.run(
            [sys.executable, "-m", "syncd", "doctor", "--config", str(path), *words],
            capture_output=True, text=True, timeout=600, check=False, env={**os.environ, **environ},
        )  # fmt: skip
        for secret in (self.box.mysql.password, self.box.redshift.password, PASSWORD):
            assert secret not in done.stdout + done.stderr
        return Examined(code=done.returncode, out=done.stdout, err=done.stderr)


def keys_of(s3: S3Address) -> dict[str, str]:
    return {"AWS_ACCESS_KEY_ID": s3.access_key or "", "AWS_SECRET_ACCESS_KEY": s3.secret_key or ""}


@pytest.fixture(scope="module")
def ward(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ward]:
    folder = tmp_path_factory.mktemp("ward")
    environ = environ_of(getattr(request, "param", "mariadb"))
    with Sandbox(folder / "box", environ=environ) as box, pytest.MonkeyPatch.context() as patch:
        for name, value in keys_of(box.s3).items():
            patch.setenv(name, value)
        found = Ward(box=box, directory=folder)
        stamped = "DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)"
        found.sql(
            f"CREATE TABLE fit (id INT PRIMARY KEY, update_at {stamped}, KEY (update_at))",
            f"CREATE TABLE unindexed (id INT PRIMARY KEY, update_at {stamped})",
            f"CREATE TABLE bare (id INT PRIMARY KEY, update_at {stamped})",
            "CREATE TABLE unstamped (id INT PRIMARY KEY, update_at DATETIME NOT NULL, KEY (update_at))",
        )
        yield found
