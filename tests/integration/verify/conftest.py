"""MySQL, S3 and the stand-in, both stages between them without a JVM, and the comparison as it is wired."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from click.testing import CliRunner, Result

from syncd.app.pass_factory import PassOptions
from syncd.app.stage_services import StageService
from syncd.app.verification_setup import ComparisonOptions, StreamVerifier
from syncd.cli.main import syncd
from syncd.config.check import read_settings
from syncd.extract.extract_pass import ExtractOutcome
from syncd.operations.repair_batches import plan_repair
from syncd.sandbox.redshift import CopyStorage, RedshiftStandIn
from syncd.sandbox.running_sandbox import Sandbox
from syncd.settings import Settings, StreamSettings
from syncd.verify.result import ComparisonResult
from tests.services.plain_reader import PlainReader
from tests.services.servers import ONE, environ_of
from tests.standin.clients import Client, connect
from watermarks.document import Watermark
from watermarks.history import Journal
from watermarks.stores.s3 import S3Store

if TYPE_CHECKING:
    from syncd.concurrency.running_pass import RunningPass
    from syncd.events import StreamEvent
    from syncd.ports.source import BatchReader


class PlainService(StageService):
    """The service as it is wired, but for Spark."""

    wrap: "Callable[[BatchReader], BatchReader]" = staticmethod(lambda reader: reader)

    def make_reader(self, source: str, running_pass: "RunningPass") -> "BatchReader":
        return self.wrap(PlainReader(self.settings.source(source), self.settings.lake))


@dataclass
class Both:
    """A database, a lake of its own, a warehouse, and what stands between them."""

    box: Sandbox
    standin: RedshiftStandIn
    client: Client
    directory: Path
    tables: str = ""
    source: str = ""
    defaults: str = ""
    prefix: str = field(default_factory=lambda: uuid4().hex[:8])
    events: "list[StreamEvent]" = field(default_factory=list)

    @property
    def config(self) -> Path:
        path, s3, there = self.directory / f"{self.prefix}.yaml", self.box.s3, self.standin
        place = f"{there.user}:{there.password}@{there.host}:{there.port}/{there.database}"
        path.write_text(
            f"source: {{url: '{self.box.mysql.url}', zone: UTC, {self.source}}}\n"
            f"lake: {{url: 's3://{s3.bucket}/{self.prefix}', endpoint: '{s3.endpoint}', region: '{s3.region}'}}\n"
            f"warehouse: {{url: 'redshift://{place}'}}\n"
            f"defaults: {{{self.defaults}}}\n"
            f"tables: {{{self.tables}}}\n"
        )
        return path

    @property
    def settings(self) -> Settings:
        return read_settings(self.config, {})

    def stream(self, table: str) -> StreamSettings:
        return next(one for one in self.settings.streams if one.table == table)

    def run(self, *tables: str, extract: bool = True, load: bool = True) -> None:
        """One pass over these streams, or over all; whatever goes wrong is raised."""
        with PlainService(self.settings, environ=os.environ, emit=self.events.append) as service:
            for stream in self.settings.streams:
                if tables and stream.table not in tables:
                    continue
                wanted = PassOptions(horizon_wait=timedelta(seconds=20))
                for outcome in (
                    service.extract(stream, wanted) if extract else None,
                    service.load(stream, wanted) if load else None,
                ):
                    if outcome is not None and outcome.error is not None:
                        raise outcome.error

    def verify(self, table: str, **wanted: Any) -> ComparisonResult:
        with StreamVerifier(self.settings) as verifying:
            verdict = verifying.verify(self.stream(table), ComparisonOptions(**wanted))
        if verdict.error is not None:
            raise verdict.error
        return verdict

    def mend(
        self,
        table: str,
        verdict: ComparisonResult,
        *,
        wrap: "Callable[[BatchReader], BatchReader]" = lambda reader: reader,
    ) -> ExtractOutcome:
        """The batches of a repair; not loaded yet."""
        with PlainService(self.settings, environ=os.environ, emit=self.events.append) as service:
            service.wrap = wrap
            stream = self.stream(table)
            return service.repair_rows(
                stream, PassOptions(), plan_repair(verdict, stream, compared_at=datetime.now(UTC))
            )

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        with self.box.mysql.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION time_zone = '+00:00'")
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def keys(self) -> list[str]:
        """Every object of the lake."""
        found = self.box.s3.make_client().list_objects_v2(Bucket=self.box.s3.bucket, Prefix=f"{self.prefix}/")
        return [one["Key"] for one in found.get("Contents", [])]

    @property
    def journal(self) -> Journal[Watermark]:
        return Journal(S3Store(self.box.s3.make_client(), bucket=self.box.s3.bucket, prefix=self.prefix), Watermark)

    def state(self, table: str) -> Watermark:
        found = self.journal.read_newest(self.stream(table).stream_name.stem)
        assert found is not None
        return found

    def syncd(self, *words: str) -> Result:
        """Any command, with this configuration."""
        return CliRunner().invoke(syncd, [*words, "--config", str(self.config)])

    def there(self, *statements: str) -> None:
        for statement in statements:
            self.client.run(statement)


@pytest.fixture(scope="session", params=ONE)
def box(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """MariaDB and S3, then MySQL itself where it can be had."""
    environ = environ_of(request.param)
    with Sandbox(tmp_path_factory.mktemp("verify"), services=["mysql", "s3"], environ=environ) as box:
        with box.mysql.connect(database="") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS shop CHARACTER SET utf8mb4")
        os.environ |= {"AWS_ACCESS_KEY_ID": str(box.s3.access_key), "AWS_SECRET_ACCESS_KEY": str(box.s3.secret_key)}
        yield box


@pytest.fixture(scope="session")
def standin(box: Sandbox) -> Iterator[RedshiftStandIn]:
    s3 = box.s3
    lake = CopyStorage(
        endpoint=s3.endpoint, access_key=str(s3.access_key), secret_key=str(s3.secret_key), region=str(s3.region)
    )
    with RedshiftStandIn(lake=lake) as running:
        yield running


@pytest.fixture
def both(box: Sandbox, standin: RedshiftStandIn, tmp_path: Path) -> Iterator[Callable[..., Both]]:
    client = connect(standin)
    client.connection.autocommit = True
    yield lambda **words: Both(box, standin, client, tmp_path, **words)
    client.close()
