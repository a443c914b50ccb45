"""What `deploy/` grants is what is needed: a whole run under exactly those rights, each S3 call held against them."""

import fnmatch
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redshift_connector
from click.testing import CliRunner

from syncd.cli.main import syncd as entry
from syncd.error_classes import exit_code_for
from syncd.sandbox.faults.s3 import S3Proxy, S3Request
from syncd.sandbox.redshift import CopyStorage, RedshiftStandIn
from syncd.sandbox.running_sandbox import Sandbox
from tests.services.servers import ONE, environ_of
from watermarks.errors import HintedError

pytestmark = pytest.mark.services
DEPLOY = Path(__file__).parents[3] / "deploy"
BUCKET = "acme-lake"
PASSWORD = "Secret-of-a-test-1"
LOADER = "syncd_loader"
READER = "'reader'@'127.0.0.1'"
"""The sandbox has a user `syncd` of its own, who may do everything."""
ORDERS = (
    "CREATE TABLE orders (id INT PRIMARY KEY, note LONGTEXT, update_at DATETIME(6) NOT NULL"
    " DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (update_at))"
)


def statements(file: str, **names: str) -> list[str]:
    """The statements of a file of grants, with names of the test's own."""
    text = re.sub(r"^\s*--.*$", "", (DEPLOY / "sql" / file).read_text(), flags=re.MULTILINE)
    for before, after in names.items():
        text = re.sub(re.escape(before), after, text)
    return [one.strip() for one in text.split(";") if one.strip()]


@dataclass
class World:
    """The servers, and the configuration of the user who has been granted something."""

    box: Sandbox
    directory: Path
    endpoint: str
    warehouse: str = ""

    def sql(self, *told: str) -> list[tuple[Any, ...]]:
        with self.box.mysql.connect() as connection, connection.cursor() as cursor:
            for statement in told:
                cursor.execute(statement)
            return list(cursor.fetchall())

    @property
    def config(self) -> Path:
        path, mysql = self.directory / "syncd.yaml", self.box.mysql
        path.write_text(
            f"source: {{url: 'mysql://reader:{PASSWORD}@127.0.0.1:{mysql.port}/shop', zone: UTC}}\n"
            f"lake: {{url: 's3://{BUCKET}/syncd', endpoint: '{self.endpoint}', region: us-east-1}}\n"
            f"{self.warehouse}"
            "spark: {conf: {spark.ui.enabled: 'false'}}\n"
            "tables: {shop.orders: {oversize: quarantine}}\n"
        )
        return path

    def syncd(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "syncd", *words, "--config", str(self.config)],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout

    def said(self, *words: str, code: int = 0) -> str:
        """The same in this process, for commands that need no JVM."""
        done = CliRunner().invoke(entry, [*words, "--config", str(self.config)])
        error = done.exception
        found = exit_code_for(error) if isinstance(error, HintedError) else done.exit_code
        assert found == code, (words, done.output, error)
        return done.output

    def planned(self) -> dict[str, Any]:
        """What a first run would do."""
        told = json.loads(self.syncd("run", "--all", "--extract-only", "--dry-run", "--json"))
        found: dict[str, Any] = told["streams"][0]["planned"]
        return found


@pytest.fixture(scope="module", params=ONE)
def box(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """MariaDB, then MySQL itself where it can be had, and S3."""
    environ = environ_of(request.param)
    with Sandbox(tmp_path_factory.mktemp("rights"), services=["mysql", "s3"], environ=environ) as box:
        with box.mysql.connect(database="") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS shop CHARACTER SET utf8mb4")
        os.environ |= {"AWS_ACCESS_KEY_ID": str(box.s3.access_key), "AWS_SECRET_ACCESS_KEY": str(box.s3.secret_key)}
        box.s3.make_client().create_bucket(Bucket=BUCKET)
        yield box


@pytest.fixture
def world(box: Sandbox, tmp_path: Path) -> World:
    made = World(box=box, directory=tmp_path, endpoint=box.s3.endpoint)
    made.sql(f"DROP USER IF EXISTS {READER}", "DROP TABLE IF EXISTS orders", ORDERS)
    made.sql("INSERT INTO orders (id, note) VALUES (1, 'one'), (2, REPEAT('x', 70000)), (3, NULL)")
    made.sql(*statements("mysql-grants.sql", **{"replace-me": PASSWORD, "'syncd'@'%'": READER}))
    return made


@pytest.mark.slow
def test_the_grants_at_the_source_prove_what_is_complete_and_without_them_nothing_is_proven(world: World) -> None:
    assert world.planned()["proven"] is True

    # MySQL shows writers by either of the two; MariaDB by the first alone.
    world.sql(f"REVOKE PROCESS ON *.* FROM {READER}", f"REVOKE SELECT ON performance_schema.* FROM {READER}")
    assert world.planned()["proven"] is False

    world.sql(f"REVOKE SELECT ON `shop`.* FROM {READER}")
    world.syncd("run", "--all", "--extract-only", "--dry-run", code=4)


def needed(seen: Iterable[S3Request]) -> set[tuple[str, str]]:
    """Action and resource of each request, as IAM names them; of a listing the prefix is the resource."""
    return {pair for request in seen for pair in asked(request)}


def asked(request: S3Request) -> Iterator[tuple[str, str]]:
    query = request.query
    if not request.key:
        prefix = query.get("prefix", [""])[0]
        if request.method == "POST":
            keys = re.findall(r"<Key>([^<]+)</Key>", request.body.decode())
            yield from (("s3:DeleteObject", key) for key in keys)
        else:
            yield "s3:ListBucketMultipartUploads" if "uploads" in query else "s3:ListBucket", prefix
        return
    if request.method == "DELETE":
        yield "s3:AbortMultipartUpload" if "uploadId" in query else "s3:DeleteObject", request.key
        return
    yield "s3:GetObject" if request.method in {"GET", "HEAD"} else "s3:PutObject", request.key


def granted(policy: str) -> list[tuple[str, str]]:
    """Action and pattern of every permission; a condition on the prefix is the pattern of a listing."""
    found: list[tuple[str, str]] = []
    for statement in json.loads((DEPLOY / "iam" / policy).read_text())["Statement"]:
        condition = statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
        resources = [one.removeprefix("arn:aws:s3:::") for one in listed(statement["Resource"])]
        patterns = listed(condition) if condition else [one.removeprefix(f"{BUCKET}/") for one in resources]
        assert all(one.partition("/")[0] == BUCKET for one in resources)
        found += [(action, pattern) for action in listed(statement["Action"]) for pattern in patterns]
    return found


def listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def missing(policy: str, asked_for: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """What was asked and no permission allows."""
    given = granted(policy)
    return sorted(
        (action, key)
        for action, key in asked_for
        if not any(action == one and fnmatch.fnmatchcase(key, pattern) for one, pattern in given)
    )


def unneeded(policy: str, asked_for: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """Permissions that nothing asked for."""
    return [
        (action, pattern)
        for action, pattern in granted(policy)
        if not any(action == one and fnmatch.fnmatchcase(key, pattern) for one, key in asked_for)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("box", ["mariadb"], indirect=True)
def test_a_whole_run_needs_every_right_that_is_granted_and_no_other(world: World) -> None:
    s3 = world.box.s3.endpoint
    with (
        S3Proxy(s3) as ours,
        S3Proxy(s3) as copied,
        RedshiftStandIn(
            lake=CopyStorage(endpoint=copied.endpoint), user="admin", superuser=True, other_users={LOADER: PASSWORD}
        ) as warehouse,
    ):
        world.endpoint = ours.endpoint
        url = f"redshift://{LOADER}:{PASSWORD}@{warehouse.host}:{warehouse.port}/{warehouse.database}"
        world.warehouse = f"warehouse: {{url: '{url}', iam_role: 'arn:aws:iam::123456789012:role/syncd-copy'}}\n"
        take_away(warehouse)
        leave_an_attempt_behind(world)
        told = json.loads(world.syncd("run", "--all", "--extract-only", "--json"))
        assert (told["streams"][0]["state"], told["streams"][0]["proven"]) == ("extracted", True)
        assert "permission denied" in world.said("run", "--all", "--load-only", code=6)
        grant(warehouse)
        everything(world)

    assert missing("daemon.json", needed(ours.requests)) == []
    assert unneeded("daemon.json", needed(ours.requests)) == []
    assert missing("copy.json", needed(copied.requests)) == []


def everything(world: World) -> None:
    """The second stage, and every command that looks at the lake or changes something in it."""
    table, why = ("--table", "shop.orders"), ("--reason", "a test", "--yes")
    for words in (
        ("run", "--all", "--load-only"),
        ("status", "--json"),
        ("watermark", "get", *table, "--show-files"),
        ("watermark", "list"),
        ("watermark", "history", *table),
        ("watermark", "check", "--all"),
        ("watermark", "set", *table, "--timestamp", "2026-01-01 00:00:00", *why),
        ("watermark", "undo", *table, *why),
        ("quarantine", "list"),
    ):
        world.said(*words)


def leave_an_attempt_behind(world: World) -> None:
    """A run that is killed with the files of its first batch written, and uploads never finished beside them."""
    words = [str(world.config), "orders", "after reading", str(int(signal.SIGKILL)), "30"]
    said = world.directory / "victim"
    with said.open("w") as file:  # no pipe: its JVM would keep that open
        killed = subprocess.Popen([sys.executable, "-m", "tests.services.victim", *words], stdout=file, stderr=file)
        assert killed.wait(600) == -signal.SIGKILL, said.read_text()
    client = world.box.s3.make_client()
    for folder in ("data", "quarantine"):
        found = client.list_objects_v2(Bucket=BUCKET, Prefix=f"syncd/{folder}/")["Contents"]
        unfinished = re.sub(r"-[^-/]+\.parquet$", "-deadbeef.parquet", found[0]["Key"])
        assert unfinished != found[0]["Key"]
        client.create_multipart_upload(Bucket=BUCKET, Key=unfinished)


def take_away(warehouse: RedshiftStandIn) -> None:
    """Everything that the stand-in gives a user by itself."""
    assert warehouse._context is not None
    backend = warehouse._context.cluster.connect(database=warehouse.database)
    try:
        for statement in (
            f"REVOKE ALL ON DATABASE {warehouse.database} FROM {LOADER}",
            f"REVOKE TEMPORARY ON DATABASE {warehouse.database} FROM PUBLIC",
            f"REVOKE ALL ON SCHEMA public FROM {LOADER}",
            "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        ):
            backend.run(statement)
    finally:
        backend.close()


def grant(warehouse: RedshiftStandIn) -> None:
    """The grants of `deploy/`: the stand-in reads them as Redshift would, the cluster behind it carries them out.

    Users of the stand-in are made when it starts, and none of them may grant anything. The target that the loader then
    makes refuses a row, so that what lands is found by trials.
    """
    first, *told = statements("redshift-grants.sql")
    assert first.startswith(f"CREATE USER {LOADER} ")
    words: dict[str, Any] = {
        "host": warehouse.host,
        "port": warehouse.port,
        "database": warehouse.database,
        "ssl": False,
    }
    assert warehouse._context is not None
    backend = warehouse._context.cluster.connect(database=warehouse.database)
    with redshift_connector.connect(user=warehouse.user, password=warehouse.password, **words) as admin:
        admin.autocommit = True
        for statement in told:
            admin.cursor().execute(statement)
            backend.run(statement)
    backend.close()
    with redshift_connector.connect(user=LOADER, password=PASSWORD, **words) as loader:
        loader.autocommit = True
        loader.cursor().execute(
            "CREATE TABLE orders (id INTEGER, note VARCHAR(65535) NOT NULL, update_at TIMESTAMP,"
            " _syncd_batch BIGINT, _syncd_loaded_at TIMESTAMP)"
        )
