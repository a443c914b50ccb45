"""Streams at rest: their last pass found nothing, and a short check tells whether another would.

A pass that finds nothing costs two requests to S3 and a dozen queries of the source. For many idle streams the check is
much cheaper: while a stream's document is the one that the last pass read, its marks have not moved; while no row lies
after its mark, there is nothing to read. One listing shows the documents of many streams. The documents of a few are
read one by one: an operator's change is then seen at once, and a shared lake is not listed for the sake of a few.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from threading import Lock
from typing import Final

from syncd.extract.extract_pass import ExtractOutcome, ExtractPass, ExtractState
from syncd.extract.plan_rules import IdleState
from syncd.extract.planner import Planner
from syncd.settings import StreamSettings
from watermarks.clock import Clock
from watermarks.errors import HintedError
from watermarks.names import StreamName, document_key
from watermarks.progress import Run
from watermarks.store import Revision, StoredObject

DOCUMENTS_PREFIX: Final = "watermarks/"
FULL_PASS_INTERVAL_SECONDS: Final = timedelta(minutes=10).total_seconds()
"""Time after which a stream at rest has a whole pass again, to report a table that cannot be read any more."""
LISTING_TTL_SECONDS: Final = (1.0, 10.0)
"""Shortest and longest time for which a listing is used: a sixth of the time between two passes, within these."""
MAX_SINGLE_READS: Final = 20
"""Most streams at rest whose documents are read one by one; the documents of more are listed."""

ReadObject = Callable[[str], StoredObject | None]
ListObjects = Callable[[str], Mapping[str, tuple[int, str]]]
"""Returns the size and tag of each object below a prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _IdleStream:
    """Facts of the last pass over a stream at rest."""

    settings: StreamSettings
    idle_state: IdleState
    revision: Revision
    """The revision of the document that the pass read."""
    outcome: ExtractOutcome
    since: float


class IdleStreams:
    """The streams of one process that are at rest, for any number of threads."""

    def __init__(self, read: ReadObject, list_objects: ListObjects, *, clock: Clock) -> None:
        self._read = read
        self._list_objects = list_objects
        self._clock = clock
        self._idle_streams: dict[StreamName, _IdleStream] = {}
        self._listing = Lock()
        self._listed: tuple[float, Mapping[str, tuple[int, str]]] | None = None

    def run_unless_idle(
        self, extract_pass: ExtractPass, run: Run, *, stream: StreamName, settings: StreamSettings, planner: Planner
    ) -> ExtractOutcome:
        """Run a pass, unless it is certain to find nothing."""
        outcome = self.find_outcome_if_idle(stream, settings, planner)
        if outcome is None:
            outcome = extract_pass.execute(run)
            self.record_pass(stream, settings, outcome, idle_state=planner.idle_state, revision=extract_pass.revision)
        return outcome

    def find_outcome_if_idle(
        self, stream: StreamName, settings: StreamSettings, planner: Planner
    ) -> ExtractOutcome | None:
        """Return the outcome of a pass that is certain to find nothing; None where only a pass can tell."""
        began = self._clock.monotonic()
        idle = self._idle_streams.get(stream)
        if idle is None or idle.settings != settings or began - idle.since > FULL_PASS_INTERVAL_SECONDS:
            return None
        try:
            if not self._is_document_unchanged(stream, idle, began) or not planner.is_still_idle(idle.idle_state):
                return None
        except HintedError:
            return None  # the pass meets the error too, and reports it as an error of a pass
        return replace(
            idle.outcome,
            complete_before=planner.complete_before,
            wait_reason=planner.wait_reason,
            seconds=self._clock.monotonic() - began,
        )

    def record_pass(
        self,
        stream: StreamName,
        settings: StreamSettings,
        outcome: ExtractOutcome,
        *,
        idle_state: IdleState | None,
        revision: Revision | None,
    ) -> None:
        """Record the outcome of a whole pass; the stream is at rest if there was nothing to do up to its horizon."""
        found_nothing = outcome.state in {ExtractState.NOTHING, ExtractState.WAITING}
        if not found_nothing or idle_state is None or revision is None:
            self._idle_streams.pop(stream, None)
            return
        self._idle_streams[stream] = _IdleStream(
            settings=settings,
            idle_state=idle_state,
            revision=revision,
            outcome=outcome,
            since=self._clock.monotonic(),
        )

    def _is_document_unchanged(self, stream: StreamName, idle: _IdleStream, now: float) -> bool:
        key = document_key(stream.stem)
        if len(self._idle_streams) <= MAX_SINGLE_READS:
            stored = self._read(key)
            return stored is not None and stored.revision == idle.revision
        shortest, longest = LISTING_TTL_SECONDS
        every = idle.settings.schedule.every
        ttl = longest if every is None else min(longest, max(shortest, every.total_seconds() / 6))
        listed = self._list_documents(since=now - ttl).get(key)
        return listed is not None and listed[1] == idle.revision

    def _list_documents(self, *, since: float) -> Mapping[str, tuple[int, str]]:
        with self._listing:
            if self._listed is None or self._listed[0] < since:
                began = self._clock.monotonic()
                self._listed = began, self._list_objects(DOCUMENTS_PREFIX)
            return self._listed[1]
