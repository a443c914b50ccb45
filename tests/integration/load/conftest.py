"""One stand-in and one S3; each test has streams of its own, their batches prepared without a JVM."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from syncd.concurrency.stage_claim import ClaimKeeper
from syncd.concurrency.stage_pass import StagePass
from syncd.events import RowsQuarantined
from syncd.load.load_pass import LoadOutcome, LoadPass
from syncd.redshift.amendments import Amendments
from syncd.redshift.batch_target import RedshiftTarget
from syncd.redshift.connection import connect
from syncd.redshift.control_tables import ControlTables
from syncd.redshift.quoting import TableRef
from syncd.redshift.refused_row_finder import RefusedRowFinder
from syncd.redshift.scratch_tables import role_clause
from syncd.redshift.session_pool import ReusableSession, SessionOpener
from syncd.redshift.target_resolver import LoadTarget
from syncd.s3.lake_client import S3Lake
from syncd.sandbox.redshift import RedshiftStandIn
from syncd.settings import LakeSettings, Mode, Secret, Tls, WarehouseSettings
from tests.builders import RUN, make_process
from tests.services.prepared import Prepared, numbers
from tests.standin.clients import BUCKET, Bucket, Client
from tests.standin.conftest import bucket, client, clients, no_fault_left, s3_url, server
from watermarks.clock import SystemClock
from watermarks.document import Stage, Watermark
from watermarks.history import Journal
from watermarks.lease import ProcessLease
from watermarks.stores.s3 import S3Store

if TYPE_CHECKING:
    from syncd.events import StreamEvent

__all__ = ["bucket", "client", "clients", "no_fault_left", "s3_url", "server"]

ROLE = "arn:aws:iam::123456789012:role/load"


@pytest.fixture
def lake(bucket: Bucket, s3_url: str, monkeypatch: pytest.MonkeyPatch) -> S3Lake:
    """A prefix of its own."""
    for name, value in (("AWS_ACCESS_KEY_ID", "sandbox"), ("AWS_SECRET_ACCESS_KEY", "sandbox")):
        monkeypatch.setenv(name, value)
    return S3Lake.from_settings(
        LakeSettings(bucket=BUCKET, prefix=f"lake{next(numbers)}", region="us-east-1", endpoint=s3_url)
    )


@pytest.fixture
def journal(lake: S3Lake) -> Journal[Watermark]:
    store = S3Store(lake.client, bucket=lake.settings.bucket, prefix=lake.settings.prefix)
    return Journal(store, Watermark, clock=SystemClock())


class Loader:
    """A process that loads streams into the stand-in."""

    def __init__(self, server: RedshiftStandIn, lake: S3Lake, journal: Journal[Watermark]) -> None:
        self.warehouse = WarehouseSettings(
            name="redshift",
            host=server.host,
            port=server.port,
            database=server.database,
            user=server.user,
            password=Secret(server.password),
            tls=Tls.DISABLE,
            iam_role=ROLE,
        )
        self.lake = lake
        self.journal = journal
        self.events: list[StreamEvent] = []
        self.sieves: list[RefusedRowFinder] = []
        self.sessions = ReusableSession(SessionOpener(lambda: connect(self.warehouse, session_name="test")))
        self.process = make_process(journal.store, f"load{next(numbers)}")
        self.claims: list[ClaimKeeper] = []

    def target(self, prepared: Prepared, **more: Any) -> RedshiftTarget:
        settings = prepared.settings
        assert settings.target is not None
        given: dict[str, Any] = {
            "control_tables": ControlTables(
                lake=self.lake.settings.address,
                stream=prepared.stream,
                schema=self.warehouse.schema,
                has_own_ledger=False,
            ),
            "table": TableRef(schema=settings.target.schema, name=settings.target.table),
            "mode": settings.mode,
            "settings": settings.target,
            "copy_credentials": lambda: role_clause(ROLE),
            "statement_timeout": timedelta(seconds=30),
            "max_rows": 10_000_000,
        }
        place = LoadTarget(**{**given, **more})
        amendments = Amendments(self.journal.store)

        def nonce() -> str:
            return f"n{next(numbers)}"

        def sieve() -> RefusedRowFinder:
            made = RefusedRowFinder(place, lake=self.lake, amendments=amendments, nonce=nonce)
            self.sieves.append(made)
            return made

        return RedshiftTarget(
            place, sessions=self.sessions, lake_files=self.lake, amendments=amendments, make_finder=sieve, nonce=nonce
        )

    @property
    def put_aside(self) -> list[tuple[str, int, str]]:
        """Rows that are not in the target, as they were told."""
        told = (event for event in self.events if isinstance(event, RowsQuarantined))
        return [(str(event.batch), event.rows, event.reason) for event in told]

    def run(
        self,
        prepared: Prepared,
        *,
        process: ProcessLease | None = None,
        patience: timedelta = timedelta(0),
        pause: Callable[[float], None] = lambda _seconds: None,
        **more: Any,
    ) -> LoadPass:
        clock, target = SystemClock(), self.target(prepared, **more)
        claiming = ClaimKeeper(prepared.stream, Stage.LOAD, self.journal, clock=clock, max_wait=patience, pause=pause)
        self.claims.append(claiming)
        stage = StagePass(
            stream=prepared.stream,
            get_process=lambda: process or self.process,
            claim_keeper=claiming,
            clock=clock,
            emit=self.events.append,
        )
        return LoadPass(
            stage,
            journal=self.journal,
            get_target=lambda: target,
            rows_per_transaction=10_000_000,
            appends=prepared.settings.mode is Mode.APPEND,
            pause=pause,
        )

    def once(self, prepared: Prepared, **words: Any) -> LoadOutcome:
        """One pass of a process that ends with it."""
        outcome = self.run(prepared).execute(RUN, **words)
        self.end()
        return outcome

    def end(self) -> None:
        """Give back what was claimed, as at the end of a process."""
        while self.claims:
            self.claims.pop().release()

    def load(self, prepared: Prepared, **words: Any) -> LoadOutcome:
        """Load what is due; whatever goes wrong is raised."""
        outcome = self.once(prepared, **words)
        if outcome.error is not None:
            raise outcome.error
        return outcome


@pytest.fixture
def loader(server: RedshiftStandIn, lake: S3Lake, journal: Journal[Watermark]) -> Iterator[Loader]:
    made = Loader(server, lake, journal)
    yield made
    made.sessions.close()


@pytest.fixture
def prepared(lake: S3Lake, journal: Journal[Watermark]) -> Callable[..., Prepared]:
    def make(**words: Any) -> Prepared:
        return Prepared(lake, journal, **words)

    return make


class Reader:
    """What a person sees in the warehouse."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def rows(self, prepared: Prepared, columns: str = "id, name", order: str = "1, 2") -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.client.rows(f'select {columns} from "{prepared.table}" order by {order}')]

    def ledger(self, prepared: Prepared) -> list[tuple[Any, ...]]:
        sql = f"select batch, rows, kind from syncd_ledger where table_name = 'public.{prepared.table}' order by 1"
        return [tuple(row) for row in self.client.rows(sql)]


@pytest.fixture
def warehouse(client: Client) -> Reader:
    return Reader(client)
