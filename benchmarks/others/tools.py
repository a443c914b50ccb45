"""Tools of the comparison: each copies the orders once on request and returns its seconds."""

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from syncd.host.directories import find_jars
from syncd.host.jar_download import MARIADB_SERVER, MYSQL_DRIVER, fetch_archive
from syncd.sandbox.mysql import MySqlAddress
from syncd.sandbox.s3 import S3Address

HERE = Path(__file__).parent


class NotRun(Exception):
    """A tool cannot run here; the message is the reason."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Source, target and scratch directory of a copy."""

    mysql: MySqlAddress
    s3: S3Address
    scratch: Path

    @cached_property
    def tools(self) -> Path:
        """Directory of the other tools' environment, which is made on first use."""
        return installed()

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, **self.s3.environ, "DISABLE_TELEMETRY": "true", "SLING_DISABLE_TELEMETRY": "true"}

    def settings(self) -> dict[str, str]:
        """Settings for a resident program."""
        mysql = self.mysql
        jdbc = f"jdbc:mysql://{mysql.host}:{mysql.port}/{mysql.database}?sslMode=DISABLED&allowPublicKeyRetrieval=true"
        return {
            "mysql": mysql.url,
            "endpoint": self.s3.endpoint,
            "region": self.s3.region,
            "bucket": self.s3.bucket,
            "jdbc": jdbc,
            "user": mysql.user,
            "password": mysql.password,
            "out": str(self.scratch / "plain"),
        }


def installed() -> Path:
    """Return the directory of the other tools' programs; reinstall them when the requirements have changed."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "syncd-bench"
    wanted, ready = HERE / "requirements.txt", cache / "requirements.txt"
    if not ready.exists() or ready.read_text() != wanted.read_text():
        print("installing the other tools ...", flush=True)
        cache.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(cache / "venv")], check=True)
            pip = [str(cache / "venv/bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "-r", str(wanted)], check=True)
        except subprocess.CalledProcessError as error:
            raise NotRun(f"the tools could not be installed: {error}") from error
        shutil.copy(wanted, ready)
    return cache / "venv"


@dataclass(frozen=True)
class Resident:
    """A program that stays: its session is warm from its second run on, and its imports do not count."""

    process: "subprocess.Popen[str]"
    errors: IO[bytes]

    def __call__(self, prefix: str) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{prefix}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            self.errors.seek(0)
            raise NotRun(f"it ended: {self.errors.read().decode(errors='replace').strip()[-300:]}")
        seconds: float = json.loads(answer)["seconds"]
        return seconds


def resident(python: Path, program: str, place: Place, stack: ExitStack, **further: str) -> Resident:
    errors = stack.enter_context((place.scratch / f"{program}.log").open("w+b"))
    process = subprocess.Popen(
        [str(python), str(HERE / program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env=place.environ,
    )
    stack.callback(ended, process)
    assert process.stdin is not None
    process.stdin.write(json.dumps({**place.settings(), **further}) + "\n")
    process.stdin.flush()
    return Resident(process, errors)


def ended(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def whole(command: list[str], environ: Mapping[str, str]) -> float:
    """Run a program from start to end and return the seconds."""
    began = time.perf_counter()
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=600)
    took = time.perf_counter() - began
    if done.returncode:
        raise NotRun(f"it ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}")
    return took


Tool = Callable[[str], float]
"""Copies the orders to a prefix of the bucket and returns the seconds."""


def dump(place: Place, _stack: ExitStack) -> Tool:
    """Copy the orders in their order, as text, to nothing."""
    client, mysql = client_in(place.scratch), place.mysql
    select = "SELECT * FROM orders FORCE INDEX (by_update) ORDER BY update_at, id"
    server = ["--host", mysql.host, "--port", str(mysql.port), "--user", mysql.user, "--skip-ssl"]
    command = [str(client), "--no-defaults", *server, "--quick", "--batch", "--execute", select, mysql.database]

    def run(_prefix: str) -> float:
        began = time.perf_counter()
        subprocess.run(command, env={**os.environ, "MYSQL_PWD": mysql.password}, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - began

    return run


def client_in(scratch: Path) -> Path:
    """Return the client `mariadb`, unpacked from the server's archive."""
    client = scratch / "mariadb"
    if not client.exists():
        archive = fetch_archive(MARIADB_SERVER, find_jars(os.environ), environ=os.environ)
        with zipfile.ZipFile(archive) as opened:
            inside = next(name for name in opened.namelist() if name.endswith("/linux/bin/mariadb"))
            with opened.open(inside) as source, client.open("wb") as target:
                shutil.copyfileobj(source, target)
        client.chmod(0o755)
    return client


def plain_spark(place: Place, _stack: ExitStack) -> Tool:
    """Run a program that ends with its job, as in tutorials; the start of its session does not count."""

    def run(prefix: str) -> float:
        with ExitStack() as stack:
            return warm_spark(place, stack)(prefix)

    return run


def warm_spark(place: Place, stack: ExitStack) -> Tool:
    """Run the same job in a resident session."""
    jar = fetch_archive(MYSQL_DRIVER, find_jars(os.environ), environ=os.environ)
    return resident(Path(sys.executable), "with_spark.py", place, stack, jar=str(jar))


def connectorx(place: Place, stack: ExitStack) -> Tool:
    return resident(place.tools / "bin/python", "with_connectorx.py", place, stack)


def dlt(place: Place, stack: ExitStack) -> Tool:
    """Run dlt as documented: with one connection."""
    return resident(place.tools / "bin/python", "with_dlt.py", place, stack)


def dlt_in_two(place: Place, stack: ExitStack) -> Tool:
    """Split the table by its key, over as many connections as the machine of the comparison has cores."""
    return resident(place.tools / "bin/python", "with_dlt.py", place, stack, split="id")


def ingestr(place: Place, _stack: ExitStack) -> Tool:
    s3 = place.s3
    keys = f"access_key_id={quote(str(s3.access_key))}&secret_access_key={quote(str(s3.secret_key))}"
    command = [str(place.tools / "bin/ingestr"), "ingest", "--yes", "--progress", "log"]
    command += ["--source-uri", place.mysql.url, "--source-table", f"{place.mysql.database}.orders"]
    command += ["--dest-uri", f"s3://?{keys}&endpoint_url={quote(s3.endpoint, safe='')}&region={s3.region}"]

    def run(prefix: str) -> float:
        return whole([*command, "--dest-table", f"{s3.bucket}/{prefix}/orders"], place.environ)

    return run


def sling(place: Place, _stack: ExitStack) -> Tool:
    program = next(place.tools.glob("lib/python*/site-packages/sling_linux_amd64/bin/sling-linux-amd64"), None)
    if program is None:
        raise NotRun("its package holds no program for this machine")
    s3: dict[str, Any] = {"type": "s3", "bucket": place.s3.bucket, "endpoint": place.s3.endpoint}
    s3 |= {"region": place.s3.region, "access_key_id": place.s3.access_key, "secret_access_key": place.s3.secret_key}
    environ = {**place.environ, "SHOP": place.mysql.url, "LAKE": json.dumps(s3)}
    environ |= {"SLING_HOME_DIR": str(place.scratch / "sling")}
    command = [str(program), "run", "--src-conn", "SHOP", "--src-stream", f"{place.mysql.database}.orders"]
    command += ["--tgt-conn", "LAKE", "--tgt-options", '{"format": "parquet", "file_max_rows": 0}']

    def run(prefix: str) -> float:
        return whole([*command, "--tgt-object", f"{prefix}/orders.parquet"], environ)

    return run


TOOLS: dict[str, Callable[[Place, ExitStack], Tool]] = {
    "dump": dump,
    "connectorx": connectorx,
    "ingestr": ingestr,
    "dlt": dlt,
    "dlt-in-two": dlt_in_two,
    "sling": sling,
    "spark": plain_spark,
    "warm-spark": warm_spark,
}
