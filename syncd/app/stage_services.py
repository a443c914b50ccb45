"""Service of one process: runs passes of both stages."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from types import TracebackType

from syncd.app.pass_factory import PassFactory, PassOptions
from syncd.app.process_resources import ProcessResources
from syncd.concurrency.running_pass import RunningPass
from syncd.concurrency.thread_helpers import locked_cached_property
from syncd.errors import to_hinted_error
from syncd.events import StreamFailed
from syncd.extract.batch_producer import ExtractProducer
from syncd.extract.extract_pass import ExtractOutcome, PassProducer
from syncd.load.load_pass import LoadOutcome
from syncd.load.quarantine_listing import Quarantine
from syncd.operations.repair_batches import RepairPlan
from syncd.operations.stream_status import latest_known, mark_to_instant
from syncd.ports.source import SourceBound
from syncd.settings import StreamSettings
from syncd.tables.order_clock import parse_zone
from syncd.tables.sort_order import CURSOR_NONE
from watermarks.batch import BatchId
from watermarks.cursor import Cursor
from watermarks.document import Stage
from watermarks.errors import HintedError
from watermarks.names import StreamName


class StageService(ProcessResources):
    """Runs passes, from any thread; at most one pass of one stage of one stream at a time."""

    @locked_cached_property
    def _factory(self) -> PassFactory:
        return PassFactory(self)

    @locked_cached_property
    def _last_outcomes(self) -> dict[StreamName, ExtractOutcome]:
        return {}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._factory.release_claims()  # while the lease is still renewed
        finally:
            super().__exit__(kind, error, trace)

    # Passes.

    def extract(self, settings: StreamSettings, options: PassOptions) -> ExtractOutcome:
        """Run one extract pass of a stream; errors are part of the outcome."""
        outcome = self._run_pass(settings, options, partial(self._factory.extract_producer, settings, options))
        complete = latest_known(outcome.complete_before, self._mark_instant(settings, outcome.mark))
        outcome = replace(outcome, complete_before=complete)
        with self._guard:
            self._last_outcomes[settings.stream_name] = outcome
        return outcome

    def load(self, settings: StreamSettings, options: PassOptions) -> LoadOutcome:
        """Run one load pass of a stream, which does not need the source; errors are part of the outcome."""
        stream = settings.stream_name
        try:
            with self.slot(stream, Stage.LOAD).begin_pass() as running:
                load_pass = self._factory.load_pass(settings, options)
                limit = options.request.limit
                if options.dry_run:
                    outcome = load_pass.preview(limit=limit)
                else:
                    run = self._factory.new_run(options)
                    outcome = load_pass.execute(run, limit=limit, compare=options.compare_ledger)
                outcome = replace(outcome, error=running.attribute_error(outcome.error) if outcome.error else None)
        except Exception as error:  # noqa: BLE001  # a bastion or bucket may be unreachable; or a bug
            return LoadOutcome(stream=stream, error=self._report_failure(stream, error))
        return replace(outcome, complete_before=self._target_complete_upto(settings, outcome))

    def replay(
        self, settings: StreamSettings, options: PassOptions, *, batch: BatchId | None, will_load: bool
    ) -> ExtractOutcome:
        """Make batches of quarantined rows that the policies accept by now; `will_load` checks the target first."""

        def make_producer(_running: RunningPass) -> PassProducer:
            quarantine = self.quarantine(settings)
            return self._factory.replay_producer(settings, quarantine, batch=batch, will_load=will_load)

        return self._run_pass(settings, options, make_producer)

    def repair_rows(self, settings: StreamSettings, options: PassOptions, repair: RepairPlan) -> ExtractOutcome:
        """Make batches of the rows in which source and target differ, and of the keys that the source has not."""
        return self._run_pass(settings, options, partial(self._factory.repair_producer, settings, options, repair))

    def find_closed_position(self, settings: StreamSettings, options: PassOptions) -> SourceBound:
        """Return the position below which a table is complete at its source now, without reading a row.

        Raises:
            HorizonNotKnown: open transactions keep it unknown.
        """
        with self.slot(settings.stream_name, Stage.EXTRACT).begin_pass() as running:
            return self._factory.planner(settings, options, running).find_closed_position()

    def end_pass(
        self, stream: StreamName, stage: Stage, *, why: str = "a stop was requested", overran: bool = False
    ) -> bool:
        """Interrupt the running pass of a stage, from any thread; return whether there was one.

        Only its own Spark job and connections are ended, so that it returns soon with `PassStopped` in its outcome,
        unless it was done at that moment. The pass counts as failed only if it `overran`.
        """
        return self.slot(stream, stage).end(why, overran=overran)

    def is_running(self, stream: StreamName, stage: Stage) -> bool:
        return self.slot(stream, stage).is_busy

    def quarantine(self, settings: StreamSettings) -> Quarantine:
        return Quarantine(stream=settings.stream_name, journal=self.journal, parts=self.lake)

    def _run_pass(
        self, settings: StreamSettings, options: PassOptions, make_producer: Callable[[RunningPass], PassProducer]
    ) -> ExtractOutcome:
        """Run an extract pass over the batches of a producer."""
        stream = settings.stream_name
        try:
            with self.slot(stream, Stage.EXTRACT).begin_pass() as running:
                producer = make_producer(running)
                extract_pass = self._factory.extract_pass(stream, producer, options)
                if options.dry_run:
                    outcome = extract_pass.preview()
                elif options.skip_if_at_rest and isinstance(producer, ExtractProducer):
                    outcome = self._factory.idle_streams.run_unless_idle(
                        extract_pass,
                        self._factory.new_run(options),
                        stream=stream,
                        settings=settings,
                        planner=producer.planner,
                    )
                else:
                    outcome = extract_pass.execute(self._factory.new_run(options))
                return replace(outcome, error=running.attribute_error(outcome.error) if outcome.error else None)
        except Exception as error:  # noqa: BLE001  # a bastion or bucket may be unreachable; or a bug
            return ExtractOutcome(stream=stream, error=self._report_failure(stream, error))

    def _report_failure(self, stream: StreamName, error: Exception) -> HintedError:
        failure = to_hinted_error(error)
        self.emit(StreamFailed(stream=stream, error=failure.message, hint=failure.hint))
        return failure

    def _mark_instant(self, settings: StreamSettings, mark: Cursor) -> datetime | None:
        """Return the instant of a mark, up to which everything has been read."""
        if settings.cursor == CURSOR_NONE:
            return None
        zone = next((source.zone for source in self.settings.sources if source.name == settings.source), None)
        return mark_to_instant(mark, zone=parse_zone(zone) if zone else None)

    def _target_complete_upto(self, settings: StreamSettings, outcome: LoadOutcome) -> datetime | None:
        """Return the completeness of the target: that of the lake, if no batch of the last extraction waits."""
        with self._guard:
            extracted = self._last_outcomes.get(outcome.stream)
        marked = self._mark_instant(settings, outcome.mark)
        if extracted is None or outcome.error is not None or extracted.last_batch > outcome.last_batch:
            return marked
        return latest_known(extracted.complete_before, marked)
