"""One pass of the extract stage over one stream: look, claim, extract batch after batch."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from syncd.concurrency.running_pass import is_cut
from syncd.concurrency.stage_claim import Claiming
from syncd.errors import AnotherServer, SchemaDrift, TableAltered, hinted
from syncd.events import BatchAbandoned, BatchExtracted, StreamFailed, Tell
from syncd.extract.orphan_sweep import Leftovers
from syncd.lake.manifest import Manifest
from syncd.ports.source import Parts
from watermarks.batch import BatchId, Draft, Kind, Link, Plan
from watermarks.clock import Clock
from watermarks.cursor import START, Cursor
from watermarks.document import Failure, Watermark
from watermarks.errors import HintedError, NotOwner, StateUnreadable
from watermarks.extraction import Chain, Extraction, Producer
from watermarks.history import Journal
from watermarks.lease import Held, Process
from watermarks.names import StreamName
from watermarks.progress import ORIGIN, Run

if TYPE_CHECKING:
    from watermarks.store import Revision

RETRY_FIRST: Final = timedelta(seconds=10)
RETRY_MOST: Final = timedelta(minutes=15)
MOST_ABANDONED: Final = 3


class RestlessWorld(SchemaDrift):
    """Whatever is planned, the world is another one a moment later."""


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
    last: BatchId = ORIGIN
    """The last batch that is extracted."""
    complete: datetime | None = None
    """What was committed at the source before it is in the lake; None where that is not known."""
    waiting: int = 0
    """Batches that are extracted and not loaded into the first target."""
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
            last=watermark.chain.last,
            waiting=_waiting(watermark),
            proven=watermark.chain.proven,
        )


def _waiting(watermark: Watermark) -> int:
    return watermark.chain.count(after=watermark.loaded.last)


class RunProducer(Producer, Protocol):
    """Whoever makes the batches of a pass: what reads from MySQL, or what brings rows back from quarantine."""

    @property
    def waits_for(self) -> str:
        """What is in the way of more, in words; empty when there is no more."""
        ...

    @property
    def complete(self) -> datetime | None:
        """What was committed at the source before it is in the lake, as far as the last proposal tells."""
        ...

    def look(self, watermark: Watermark) -> Draft | None:
        """What there is to do; writes nothing."""
        ...

    def prepare(self, draft: Draft) -> None:
        """Get ready for what is going to be sealed; raises nothing."""
        ...


class ExtractRun:
    """Runs the extract stage of one stream, as often as asked.

    The claim stays in `claiming` from pass to pass: whoever made that gives it back.

    `owner` gives the process under whose lease it is done; it is asked only when there is something to do.
    """

    def __init__(
        self,
        *,
        stream: StreamName,
        journal: Journal[Watermark],
        owner: Callable[[], Process],
        producer: RunProducer,
        parts: Parts,
        clock: Clock,
        tell: Tell,
        claiming: Claiming,
        named: Callable[[HintedError], HintedError] = lambda error: error,
    ) -> None:
        """Prepare; `named` says what a pass that was ended from outside failed by."""
        self._stream = stream
        self._journal = journal
        self._owner = owner
        self._producer = producer
        self._clock = clock
        self._tell = tell
        self._claiming = claiming
        self._named = named
        self._chain = Chain(journal, stream)
        self._so_far = Outcome(stream=stream)
        self._leftovers = Leftovers(self._chain, parts, tell)
        self._next = BatchId(1, 1)
        """The number that is being worked on."""
        self.revision: Revision | None = None
        """Of the document, as it was when the pass began."""

    def look(self) -> Outcome:
        """What the next batch would be. Nothing is written."""
        return self._timed(self._look)

    def once(self, run: Run) -> Outcome:
        """Extract until nothing is due; what goes wrong, a bug too, is part of the outcome.

        A stream with nothing to do is left as it is: no claim, no entry, no session of Spark.
        """
        return self._timed(partial(self._pass, run))

    def _timed(self, act: Callable[[], Outcome]) -> Outcome:
        began = self._clock.monotonic()
        self._so_far = Outcome(stream=self._stream)
        try:
            outcome = act()
        except Exception as error:  # noqa: BLE001  # no stream may stop another, not even by a bug of ours
            failure = hinted(error)
            if not isinstance(failure, NotOwner):  # whoever has the stage goes on with it
                self._tell(StreamFailed(stream=self._stream, error=failure.message, hint=failure.hint))
            outcome = replace(self._so_far, error=failure)
        return replace(outcome, seconds=self._clock.monotonic() - began)

    def _begun(self) -> tuple[Watermark, Plan | None]:
        """Where the stream stands, and the plan that somebody sealed for its next number."""
        seen = self._journal.seen(self._stream.stem)
        self.revision = seen.revision if seen else None
        watermark = seen.state if seen else Watermark.new(self._stream, at=self._clock.now())
        half = watermark.chain
        self._so_far = replace(
            self._so_far,
            began=half.cursor,
            mark=half.cursor,
            last=half.last,
            proven=half.proven,
            waiting=_waiting(watermark),
        )
        return watermark, self._chain.plan(half.next)

    def _look(self) -> Outcome:
        watermark, plan = self._begun()
        draft = plan.draft if plan else self._producer.look(watermark)
        if draft is None:
            return self._at_rest()
        return replace(self._so_far, planned={"sealed": plan is not None, **draft.fields()})

    def _pass(self, run: Run) -> Outcome:
        watermark, plan = self._begun()
        draft = plan.draft if plan else self._producer.look(watermark)
        if draft is None:
            return self._at_rest()
        self._next = watermark.chain.next
        self._leftovers.begin(watermark.chain.last, plan)
        if not self._claiming.is_anothers:  # who only watches another owner wants no reader
            self._producer.prepare(draft)
        with self._claiming.under(self._owner()) as held:
            self._extract(held, run)
        return self._at_rest()

    def _at_rest(self) -> Outcome:
        """The outcome where nothing more is due now."""
        return replace(self._so_far, reason=self._producer.waits_for, complete=self._producer.complete)

    def _extract(self, held: Held, run: Run) -> None:
        extraction = Extraction(self._journal, held, self._producer)
        try:
            self._take_turns(extraction, run)
        except StateUnreadable:
            raise  # nothing is to be written at all
        except NotOwner:
            self._sweep_what_may_go()  # what we wrote since another has the stage, nobody else will look for
            raise
        except Exception as error:  # noqa: BLE001  # a bug is noted as any failure is
            failure = self._named(hinted(error))
            if not is_cut(failure):
                extraction.fail(failure.message, retry_in=partial(self._failure, failure.message))
            self._sweep_what_may_go()
            # Who carries its plan out has another epoch then: by that whoever comes after sees that it was tried twice.
            self._claiming.release()
            raise failure from failure.__cause__

    def _take_turns(self, extraction: Extraction, run: Run) -> None:
        abandoned = in_vain = 0
        while True:
            began = self._clock.monotonic()
            try:
                turn = extraction.turn(run)
            except (TableAltered, AnotherServer):
                # The next turn finds the plan's world gone, and abandons it; one that is as it was again is not.
                in_vain += 1
                if in_vain > MOST_ABANDONED:
                    raise
                self._leftovers.note_next(self._next)
                continue
            if turn.link is None:
                return
            if turn.watermark is None:  # others were first
                self._sweep_what_may_go()
                return
            if turn.link.kind is Kind.ABANDONED:
                abandoned += 1
            else:
                abandoned = in_vain = 0
            if abandoned > MOST_ABANDONED:
                raise RestlessWorld(
                    f"{abandoned} plans of {self._stream} in a row were out of date before they were carried out",
                    hint="Does somebody alter the table, or do two servers answer at one address?",
                )
            self._next = turn.watermark.chain.next
            self._so_far = self._so_far.after(turn.link, turn.watermark)
            self._told(turn.link, seconds=self._clock.monotonic() - began)
            # Before the next batch is begun: whatever comes of that, this number is not looked at again.
            self._leftovers.remove()

    def _failure(self, message: str, attempt: int) -> Failure:
        now = self._clock.now()
        wait = min(RETRY_FIRST * 2 ** min(attempt - 1, 10), RETRY_MOST)
        return Failure(message=message, attempt=attempt, at=now, next_try=now + wait)

    def _told(self, link: Link, *, seconds: float) -> None:
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
                mark=self._so_far.mark,
                seconds=seconds,
            )
        )

    def _sweep_what_may_go(self) -> None:
        # The error that led here is the one to tell; what stays is swept with the next batch, or by its age.
        with suppress(HintedError):
            self._leftovers.note_next(self._next)
            self._leftovers.remove()
