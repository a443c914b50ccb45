"""A replay as it is wired, in this process, for streams that were prepared."""

from collections.abc import Callable

from syncd.concurrency.stage_claim import Claiming
from syncd.datatypes.columns import Policies
from syncd.extract.extract_pass import ExtractRun, Outcome
from syncd.lake.manifest import Manifest
from syncd.lake.quarantine import RefusedRow
from syncd.load.quarantine_listing import Lying, Quarantine
from syncd.load.replay import ReplayProducer
from syncd.s3.quarantine_files import LakeRestorer
from tests.builders import RUN, make_process
from tests.integration.load.conftest import Loader
from tests.services.prepared import Prepared, numbers
from watermarks.batch import BatchId
from watermarks.clock import SystemClock
from watermarks.document import Stage
from watermarks.lease import Process


class Replayer:
    """Whoever looks at the quarantine of prepared streams, and brings rows back."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.process = make_process(loader.journal.store, f"replay{next(numbers)}")

    def quarantine(self, prepared: Prepared) -> Quarantine:
        return Quarantine(stream=prepared.stream, journal=self.loader.journal, parts=self.loader.lake)

    def look(self, prepared: Prepared, batch: BatchId | None = None) -> Lying:
        return self.quarantine(prepared).look(batch)

    def waiting(self, prepared: Prepared) -> int:
        """How many rows wait in quarantine."""
        return sum(one.part.rows for one in self.look(prepared).asides if one.replayed_by is None)

    def rows(self, prepared: Prepared) -> list[RefusedRow]:
        """The rows that wait in quarantine."""
        restorer, lies = LakeRestorer(self.loader.lake), self.quarantine(prepared)
        return [
            row
            for aside in lies.look().asides
            if aside.replayed_by is None
            for row in restorer.shown(aside, Manifest.of_link(lies.chain.required(aside.batch)))
        ]

    def producer(
        self, prepared: Prepared, *, policies: Policies | None = None, batch: BatchId | None = None
    ) -> ReplayProducer:
        if policies is not None:
            prepared.policies = policies
        return ReplayProducer(
            settings=prepared.settings,
            quarantine=self.quarantine(prepared),
            restorer=LakeRestorer(self.loader.lake),
            parts=self.loader.lake,
            nonce=lambda: f"r{next(numbers)}",
            tell=self.loader.events.append,
            batch=batch,
        )

    def run(self, prepared: Prepared, producer: ReplayProducer, owner: Callable[[], Process]) -> ExtractRun:
        clock = SystemClock()
        claiming = Claiming(prepared.stream, Stage.EXTRACT, self.loader.journal, clock=clock)
        self.loader.claims.append(claiming)
        return ExtractRun(
            stream=prepared.stream,
            journal=self.loader.journal,
            owner=owner,
            producer=producer,
            parts=self.loader.lake,
            clock=clock,
            tell=self.loader.events.append,
            claiming=claiming,
        )

    def replay(self, prepared: Prepared, *, policies: Policies | None = None, batch: BatchId | None = None) -> Outcome:
        """Bring back what passes; whatever goes wrong is raised. The stream can be extracted further afterwards."""
        prepared.let_go()
        producer = self.producer(prepared, policies=policies, batch=batch)
        outcome = self.run(prepared, producer, lambda: self.process).once(RUN)
        self.loader.end()
        if outcome.error is not None:
            raise outcome.error
        prepared.take_up()
        return outcome
