"""Streams at rest: whose last pass found nothing, and where a few questions tell that another would find nothing.

A pass that finds nothing costs two requests to S3 and a dozen questions to the source. Of many idle streams that is
all that is ever done. While a stream's document is the one that the last pass read, nobody has changed where it
stands; while no row lies behind its mark, there is nothing to read. The documents of many streams are told by one
listing, those of a few by a question for each: a person's change is then seen at once, and a lake that others share
is not listed for the sake of a few.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from threading import Lock
from typing import Final

from syncd.extract.extract_pass import ExtractOutcome, ExtractPass, ExtractState
from syncd.extract.planner import IdleState, Planner
from syncd.settings import StreamSettings
from watermarks.clock import Clock
from watermarks.errors import HintedError
from watermarks.names import StreamName, document_key
from watermarks.progress import Run
from watermarks.store import Revision, StoredObject

DOCUMENTS_PREFIX: Final = "watermarks/"
FULL_PASS_INTERVAL_SECONDS: Final = timedelta(minutes=10).total_seconds()
"""Seconds after which a stream at rest has a whole pass again: a table that cannot be read any more is to be told."""
LISTING_TTL_SECONDS: Final = (1.0, 10.0)
"""Seconds for which a listing is good: a sixth of the time between two passes, within these."""

MAX_SINGLE_READS: Final = 20
"""Streams at rest of which each one's document is asked for; those of more are listed."""

ReadObject = Callable[[str], StoredObject | None]
"""Reads what stands at a key."""
ListObjects = Callable[[str], Mapping[str, tuple[int, str]]]
"""Lists what stands below a prefix: size and tag of each object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _IdleStream:
    """One stream at rest."""

    settings: StreamSettings
    idle_state: IdleState
    revision: Revision
    """Of the document as the pass read it."""
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

    def find_outcome_if_idle(
        self, stream: StreamName, settings: StreamSettings, planner: Planner
    ) -> ExtractOutcome | None:
        """What a pass would come to, where it is certain to find nothing; None where only a pass can tell."""
        began = self._clock.monotonic()
        kept = self._idle_streams.get(stream)
        if kept is None or kept.settings != settings or began - kept.since > FULL_PASS_INTERVAL_SECONDS:
            return None
        try:
            if not self._is_document_unchanged(stream, kept, began) or not planner.is_still_idle(kept.idle_state):
                return None
        except HintedError:
            return None  # the pass meets it too, and tells it as it should be told
        seconds = self._clock.monotonic() - began
        return replace(
            kept.outcome, complete_before=planner.complete_before, wait_reason=planner.wait_reason, seconds=seconds
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
        """What a whole pass came to; it is at rest where there was nothing to do, up to a horizon that may be held."""
        if (
            outcome.state in {ExtractState.NOTHING, ExtractState.WAITING}
            and idle_state is not None
            and revision is not None
        ):
            self._idle_streams[stream] = _IdleStream(
                settings=settings,
                idle_state=idle_state,
                revision=revision,
                outcome=outcome,
                since=self._clock.monotonic(),
            )
        else:
            self._idle_streams.pop(stream, None)

    def _is_document_unchanged(self, stream: StreamName, idle_stream: _IdleStream, now: float) -> bool:
        """Whether its document is the one that its last pass read."""
        key = document_key(stream.stem)
        if len(self._idle_streams) <= MAX_SINGLE_READS:
            stored = self._read(key)
            return stored is not None and stored.revision == idle_stream.revision
        least, most = LISTING_TTL_SECONDS
        every = idle_stream.settings.schedule.every
        good_for = most if every is None else min(most, max(least, every.total_seconds() / 6))
        found = self._list_documents(since=now - good_for).get(key)
        return found is not None and found[1] == idle_stream.revision

    def _list_documents(self, *, since: float) -> Mapping[str, tuple[int, str]]:
        with self._listing:
            if self._listed is None or self._listed[0] < since:
                began = self._clock.monotonic()
                self._listed = began, self._list_objects(DOCUMENTS_PREFIX)
            return self._listed[1]


class IdleAwareExtractPass:
    """One pass over a stream that may be at rest: then it is only asked whether it still is."""

    def __init__(
        self,
        extract_pass: ExtractPass,
        *,
        stream: StreamName,
        settings: StreamSettings,
        planner: Planner,
        idle_streams: IdleStreams,
    ) -> None:
        self._extract_pass = extract_pass
        self._stream = stream
        self._settings = settings
        self._planner = planner
        self._idle_streams = idle_streams

    def preview(self) -> ExtractOutcome:
        """What the next batch would be, as a whole pass tells it."""
        return self._extract_pass.preview()

    def execute(self, run: Run) -> ExtractOutcome:
        """Extract until nothing is due."""
        still = self._idle_streams.find_outcome_if_idle(self._stream, self._settings, self._planner)
        if still is not None:
            return still
        outcome = self._extract_pass.execute(run)
        self._idle_streams.record_pass(
            self._stream,
            self._settings,
            outcome,
            idle_state=self._planner.idle_state,
            revision=self._extract_pass.revision,
        )
        return outcome
