"""A replay as it is wired, in this process, for streams that were prepared."""

from collections.abc import Callable

from syncd.concurrency.stage_claim import ClaimKeeper
from syncd.concurrency.stage_pass import StagePass
from syncd.datatypes.columns import Policies
from syncd.extract.extract_pass import ExtractOutcome, ExtractPass
from syncd.lake.manifest import Manifest
from syncd.lake.quarantine import QuarantinedRow
from syncd.load.quarantine_listing import Quarantine, QuarantineListing
from syncd.load.quarantine_replay import ReplayProducer
from syncd.s3.quarantine_files import LakeQuarantineRestorer
from tests.builders import RUN, make_process
from tests.integration.load.conftest import Loader
from tests.services.prepared import Prepared, numbers
from watermarks.batch import BatchId
from watermarks.clock import SystemClock
from watermarks.document import Stage
from watermarks.lease import ProcessLease


class Replayer:
    """Whoever looks at the quarantine of prepared streams, and brings rows back."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.process = make_process(loader.journal.store, f"replay{next(numbers)}")

    def quarantine(self, prepared: Prepared) -> Quarantine:
        return Quarantine(stream=prepared.stream, journal=self.loader.journal, parts=self.loader.lake)

    def look(self, prepared: Prepared, batch: BatchId | None = None) -> QuarantineListing:
        return self.quarantine(prepared).list_files(batch)

    def waiting(self, prepared: Prepared) -> int:
        """How many rows wait in quarantine."""
        return sum(one.part.rows for one in self.look(prepared).files if one.replayed_by is None)

    def rows(self, prepared: Prepared) -> list[QuarantinedRow]:
        """The rows that wait in quarantine."""
        restorer, lies = LakeQuarantineRestorer(self.loader.lake), self.quarantine(prepared)
        return [
            row
            for aside in lies.list_files().files
            if aside.replayed_by is None
            for row in restorer.read_refused_rows(aside, Manifest.from_link(lies.chain.require_link(aside.batch)))
        ]

    def producer(
        self, prepared: Prepared, *, policies: Policies | None = None, batch: BatchId | None = None
    ) -> ReplayProducer:
        if policies is not None:
            prepared.policies = policies
        return ReplayProducer(
            settings=prepared.settings,
            quarantine=self.quarantine(prepared),
            restorer=LakeQuarantineRestorer(self.loader.lake),
            parts=self.loader.lake,
            nonce=lambda: f"r{next(numbers)}",
            emit=self.loader.events.append,
            batch=batch,
        )

    def run(self, prepared: Prepared, producer: ReplayProducer, owner: Callable[[], ProcessLease]) -> ExtractPass:
        clock = SystemClock()
        claiming = ClaimKeeper(prepared.stream, Stage.EXTRACT, self.loader.journal, clock=clock)
        self.loader.claims.append(claiming)
        stage = StagePass(
            stream=prepared.stream,
            get_process=owner,
            claim_keeper=claiming,
            clock=clock,
            emit=self.loader.events.append,
        )
        return ExtractPass(stage, journal=self.loader.journal, producer=producer, parts=self.loader.lake)

    def replay(
        self, prepared: Prepared, *, policies: Policies | None = None, batch: BatchId | None = None
    ) -> ExtractOutcome:
        """Bring back what passes; whatever goes wrong is raised. The stream can be extracted further afterwards."""
        prepared.let_go()
        producer = self.producer(prepared, policies=policies, batch=batch)
        outcome = self.run(prepared, producer, lambda: self.process).execute(RUN)
        self.loader.end()
        if outcome.error is not None:
            raise outcome.error
        prepared.take_up()
        return outcome
