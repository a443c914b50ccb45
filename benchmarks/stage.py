"""The extract stage as the application wires it, with a warm session, on the sandbox; one pass is measured."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from uuid import uuid4

from syncd.app.pass_factory import PassOptions
from syncd.app.stage_services import StageService
from syncd.config.check import read_settings
from syncd.events import BatchExtracted, StreamEvent
from syncd.extract.plan_rules import ExtractRequest
from syncd.sandbox.mysql import MySqlAddress
from syncd.sandbox.s3 import S3Address
from syncd.settings import Settings, SparkSettings
from syncd.spark.spark_session import WarmSparkSession

INCREMENTS = {"from": "2000-01-01"}
"""A start before any order: increments in their order, as the dump has them."""
FIRST_RUN = "snapshot"
"""The whole table by its key, as a new stream and most other tools copy a table."""
FEW = 1_000
"""Rows of the first batch, which is not measured."""
EVERYTHING = ExtractRequest()


class WarmService(StageService):
    """The service as the application wires it, on a Spark session that stays."""

    shared: WarmSparkSession

    @cached_property
    def session(self) -> WarmSparkSession:
        return self.shared


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One batch of a pass, from its event."""

    rows: int
    seconds: float


@dataclass(kw_only=True)
class Stage:
    """A stream of orders into the sandbox's lake, new at each pass."""

    mysql: MySqlAddress
    s3: S3Address
    scratch: Path
    session: WarmSparkSession
    batches: list[Batch] = field(default_factory=list)

    @contextmanager
    def begun(self, prefix: str, *, batch_rows: int, first_run: object = INCREMENTS) -> Iterator[Callable[..., float]]:
        """Begin a stream as a daemon would and extract its first rows; yield a function for the rest, in one pass.

        A first run watches the server for a while before it trusts a horizon; that time is not measured.
        """
        settings = self._settings(prefix, batch_rows, first_run)
        (stream,) = settings.streams
        with WarmService(settings, environ=os.environ, emit=self._on_event) as service:
            service.shared = self.session

            def run(request: ExtractRequest = EVERYTHING) -> float:
                self.batches.clear()
                began = time.perf_counter()
                outcome = service.extract(stream, PassOptions(request=request, horizon_wait=timedelta(seconds=20)))
                took = time.perf_counter() - began
                if outcome.error is not None:
                    raise outcome.error
                assert outcome.rows == self.rows, outcome.wait_reason
                return took

            run(ExtractRequest(limit=FEW))
            assert self.rows == FEW
            yield run

    @property
    def rows(self) -> int:
        return sum(batch.rows for batch in self.batches)

    def _on_event(self, event: StreamEvent) -> None:
        if isinstance(event, BatchExtracted):
            self.batches.append(Batch(rows=event.rows, seconds=event.seconds))

    def _settings(self, prefix: str, batch_rows: int, first_run: object) -> Settings:
        s3 = self.s3
        document = {
            "source": {"url": self.mysql.url, "zone": "UTC"},
            "lake": {"url": f"s3://{s3.bucket}/{prefix}", "endpoint": s3.endpoint, "region": s3.region},
            "tables": {"orders": {"first_run": first_run, "batch_rows": batch_rows}},
        }
        path = self.scratch / f"{uuid4().hex}.yaml"
        path.write_text(json.dumps(document))
        return read_settings(path, {})


@contextmanager
def warm_session(driver: str) -> Iterator[WarmSparkSession]:
    session = WarmSparkSession(SparkSettings(driver=driver))
    try:
        yield session
    finally:
        session.stop()
