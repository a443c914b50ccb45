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

from syncd.extract.extract_pass import ExtractRun, Outcome, State
from syncd.extract.planner import Planner, Rest
from syncd.settings import StreamSettings
from watermarks.clock import Clock
from watermarks.errors import HintedError
from watermarks.names import StreamName, document_key
from watermarks.progress import Run
from watermarks.store import Revision, Stored

DOCUMENTS: Final = "watermarks/"
WHOLE_AGAIN: Final = timedelta(minutes=10).total_seconds()
"""Seconds after which a stream at rest has a whole pass again: a table that cannot be read any more is to be told."""
LISTED_EVERY: Final = (1.0, 10.0)
"""Seconds for which a listing is good: a sixth of the time between two passes, within these."""

FEW: Final = 20
"""Streams at rest of which each one's document is asked for; those of more are listed."""

Read = Callable[[str], Stored | None]
"""Reads what stands at a key."""
Standing = Callable[[str], Mapping[str, tuple[int, str]]]
"""Lists what stands below a prefix: size and tag of each object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resting:
    """One stream at rest."""

    settings: StreamSettings
    rest: Rest
    revision: Revision
    """Of the document as the pass read it."""
    outcome: Outcome
    since: float


class Rests:
    """The streams of one process that are at rest, for any number of threads."""

    def __init__(self, read: Read, standing: Standing, *, clock: Clock) -> None:
        self._read = read
        self._standing = standing
        self._clock = clock
        self._resting: dict[StreamName, _Resting] = {}
        self._listing = Lock()
        self._listed: tuple[float, Mapping[str, tuple[int, str]]] | None = None

    def still(self, stream: StreamName, settings: StreamSettings, planner: Planner) -> Outcome | None:
        """What a pass would come to, where it is certain to find nothing; None where only a pass can tell."""
        began = self._clock.monotonic()
        kept = self._resting.get(stream)
        if kept is None or kept.settings != settings or began - kept.since > WHOLE_AGAIN:
            return None
        try:
            if not self._stands(stream, kept, began) or not planner.rests(kept.rest):
                return None
        except HintedError:
            return None  # the pass meets it too, and tells it as it should be told
        seconds = self._clock.monotonic() - began
        return replace(kept.outcome, complete=planner.complete, reason=planner.waiting, seconds=seconds)

    def note(
        self,
        stream: StreamName,
        settings: StreamSettings,
        outcome: Outcome,
        *,
        rest: Rest | None,
        revision: Revision | None,
    ) -> None:
        """What a whole pass came to; it is at rest where there was nothing to do, up to a horizon that may be held."""
        if outcome.state in {State.NOTHING, State.WAITING} and rest is not None and revision is not None:
            self._resting[stream] = _Resting(
                settings=settings, rest=rest, revision=revision, outcome=outcome, since=self._clock.monotonic()
            )
        else:
            self._resting.pop(stream, None)

    def _stands(self, stream: StreamName, kept: _Resting, now: float) -> bool:
        """Whether its document is the one that its last pass read."""
        key = document_key(stream.stem)
        if len(self._resting) <= FEW:
            stored = self._read(key)
            return stored is not None and stored.revision == kept.revision
        least, most = LISTED_EVERY
        every = kept.settings.schedule.every
        good_for = most if every is None else min(most, max(least, every.total_seconds() / 6))
        found = self._documents(since=now - good_for).get(key)
        return found is not None and found[1] == kept.revision

    def _documents(self, *, since: float) -> Mapping[str, tuple[int, str]]:
        with self._listing:
            if self._listed is None or self._listed[0] < since:
                began = self._clock.monotonic()
                self._listed = began, self._standing(DOCUMENTS)
            return self._listed[1]


class RestingRun:
    """One pass over a stream that may be at rest: then it is only asked whether it still is."""

    def __init__(
        self, run: ExtractRun, *, stream: StreamName, settings: StreamSettings, planner: Planner, rests: Rests
    ) -> None:
        self._run = run
        self._stream = stream
        self._settings = settings
        self._planner = planner
        self._rests = rests

    def look(self) -> Outcome:
        """What the next batch would be, as a whole pass tells it."""
        return self._run.look()

    def once(self, run: Run) -> Outcome:
        """Extract until nothing is due."""
        still = self._rests.still(self._stream, self._settings, self._planner)
        if still is not None:
            return still
        outcome = self._run.once(run)
        self._rests.note(self._stream, self._settings, outcome, rest=self._planner.rest, revision=self._run.revision)
        return outcome
