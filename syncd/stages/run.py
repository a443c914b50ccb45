"""One pass of the extract stage over one stream: look, claim, extract batch after batch, give the claim back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Final

from syncd.core.events import BatchAbandoned, BatchExtracted, OrphansSwept, StreamFailed, Tell
from syncd.core.manifest import Manifest
from syncd.core.ports import Parts
from syncd.stages.extract import ExtractProducer
from syncd.stages.sweep import OLD, orphans
from watermarks.batch import Kind, Link
from watermarks.clock import Clock
from watermarks.cursor import START, Cursor
from watermarks.document import Failure, Stage, Watermark
from watermarks.errors import HintedError, NotOwner, StateUnreadable
from watermarks.extraction import Chain, Extraction, Turn
from watermarks.halves import Run
from watermarks.history import Journal
from watermarks.lease import Held, Process
from watermarks.names import StreamName

RETRY_FIRST: Final = timedelta(seconds=10)
RETRY_MOST: Final = timedelta(minutes=15)


class State(StrEnum):
    """How a pass ended, in one word."""

    EXTRACTED = "extracted"
    NOTHING = "nothing new"
    WAITING = "waiting"
    PLANNED = "planned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one pass over one stream came to."""

    stream: StreamName
    batches: int = 0
    rows: int = 0
    files: int = 0
    bytes: int = 0
    quarantined: int = 0
    began: Cursor = START
    mark: Cursor = START
    proven: bool = False
    reason: str = ""
    """Why there is no more to read yet, in words."""
    seconds: float = 0.0
    planned: Mapping[str, object] | None = None
    """Of a dry run: what the next batch would be."""
    error: HintedError | None = None

    @property
    def state(self) -> State:
        if self.error is not None:
            return State.FAILED
        if self.planned is not None:
            return State.PLANNED
        return State.EXTRACTED if self.batches else State.WAITING if self.reason else State.NOTHING

    def after(self, link: Link, watermark: Watermark) -> "Outcome":
        """The outcome with one more batch in it."""
        done = Manifest.of_link(link) if link.kind is not Kind.ABANDONED else None
        return replace(
            self,
            batches=self.batches + 1,
            rows=self.rows + link.rows,
            files=self.files + len(link.files),
            bytes=self.bytes + (done.bytes if done else 0),
            quarantined=self.quarantined + (done.refused if done else 0),
            mark=watermark.chain.cursor,
            proven=watermark.chain.proven,
        )


class ExtractRun:
    """Runs the extract stage of one stream, as often as asked.

    `owner` gives the process under whose lease it is done; it is asked only when there is something to do.
    """

    def __init__(
        self,
        *,
        stream: StreamName,
        journal: Journal[Watermark],
        owner: Callable[[], Process],
        producer: ExtractProducer,
        parts: Parts,
        clock: Clock,
        tell: Tell,
        orphan_age: timedelta = OLD,
    ) -> None:
        self._stream = stream
        self._journal = journal
        self._owner = owner
        self._producer = producer
        self._parts = parts
        self._clock = clock
        self._tell = tell
        self._orphan_age = orphan_age
        self._chain = Chain(journal, stream)

    def once(self, run: Run, *, enough: Callable[[Link, Outcome], bool]) -> Outcome:
        """Extract until nothing is due or `enough` says so; what goes wrong is part of the outcome.

        A stream with nothing to do is left as it is: no claim, no entry, no session.
        """
        began = self._clock.monotonic()
        outcome = Outcome(stream=self._stream)
        try:
            outcome = self._pass(run, outcome, enough=enough)
        except HintedError as error:
            self._tell(StreamFailed(stream=self._stream, error=error.message, hint=error.hint))
            outcome = replace(outcome, error=error)
        return replace(outcome, seconds=self._clock.monotonic() - began)

    def _pass(self, run: Run, outcome: Outcome, *, enough: Callable[[Link, Outcome], bool]) -> Outcome:
        watermark = self._journal.read(self._stream.stem) or Watermark.new(self._stream, at=self._clock.now())
        outcome = replace(
            outcome, began=watermark.chain.cursor, mark=watermark.chain.cursor, proven=watermark.chain.proven
        )
        left_behind = self._chain.plan(watermark.chain.next) is not None
        if not left_behind and not self._producer.look(watermark):
            return replace(outcome, reason=self._producer.waits_for)
        process = self._owner()
        held = process.acquire(self._stream, Stage.EXTRACT, self._journal)
        try:
            return self._extract(held, run, outcome, enough=enough, sweep=left_behind)
        finally:
            process.release(held)

    def _extract(
        self, held: Held, run: Run, outcome: Outcome, *, enough: Callable[[Link, Outcome], bool], sweep: bool
    ) -> Outcome:
        extraction = Extraction(self._journal, held, self._producer)
        try:
            while True:
                began = self._clock.monotonic()
                turn = extraction.turn(run)
                if turn.link is None or turn.watermark is None:
                    break
                outcome = outcome.after(turn.link, turn.watermark)
                self._told(turn, outcome, seconds=self._clock.monotonic() - began)
                if enough(turn.link, outcome):
                    break
        except (NotOwner, StateUnreadable):
            raise  # not ours to write any more, or not to be written to at all
        except HintedError as error:
            extraction.fail(error.message, retry_in=partial(self._failure, error.message))
            raise
        if sweep:
            self._sweep()
        return replace(outcome, reason=self._producer.waits_for)

    def _failure(self, message: str, attempt: int) -> Failure:
        now = self._clock.now()
        wait = min(RETRY_FIRST * 2 ** min(attempt - 1, 10), RETRY_MOST)
        return Failure(message=message, attempt=attempt, at=now, next_try=now + wait)

    def _told(self, turn: Turn, outcome: Outcome, *, seconds: float) -> None:
        link = turn.link
        assert link is not None
        if link.kind is Kind.ABANDONED:
            self._tell(BatchAbandoned(stream=self._stream, batch=link.id))
            return
        manifest = Manifest.of_link(link)
        self._tell(
            BatchExtracted(
                stream=self._stream,
                batch=link.id,
                kind=link.kind,
                rows=link.rows,
                files=len(link.files),
                bytes=manifest.bytes,
                quarantined=manifest.refused,
                mark=outcome.mark,
                seconds=seconds,
            )
        )

    def _sweep(self) -> None:
        """Remove what an earlier attempt left; after a clean one there is nothing, and nothing is listed."""
        watermark = self._journal.read(self._stream.stem)
        if watermark is None:
            return
        old = list(orphans(self._chain, watermark, self._parts, now=self._clock.now(), age=self._orphan_age))
        if old:
            self._parts.drop(old)
            self._tell(OrphansSwept(stream=self._stream, files=len(old)))
