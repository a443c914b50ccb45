"""One pass of the load stage over one stream: claim, land what is due in as few transactions as fit.

It needs the lake and the warehouse, and nothing of the source.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Final

from syncd.concurrency.running_pass import is_cut
from syncd.concurrency.stage_claim import Claiming
from syncd.errors import Collided, WarehouseDown, WarehouseStillDown, hinted
from syncd.events import BatchesLanded, LandingRetried, LedgerBehind, RowsPutAside, StreamFailed, Tell
from syncd.extract.column_additions import incomplete, tells
from syncd.extract.extract_pass import RETRY_FIRST, RETRY_MOST
from watermarks.batch import BatchId, Link
from watermarks.clock import Clock
from watermarks.cursor import START, Cursor
from watermarks.document import Failure, Stage, Watermark
from watermarks.errors import HintedError, NotOwner, OutcomeUnknown, StateUnreadable
from watermarks.extraction import Chain
from watermarks.history import Journal, Seen
from watermarks.lease import Held, Process
from watermarks.loading import NOTHING, FenceLost, Landed, Landing, LedgerKey, Target
from watermarks.names import StreamName
from watermarks.progress import ORIGIN, Extracted, Run

MOST_BATCHES: Final = 1_000
"""Of one transaction."""
TRIES: Final = 6
FIRST_PAUSE: Final = 0.5
"""Seconds; each further one is twice as long, give or take."""
PASSING: Final = (Collided, OutcomeUnknown, FenceLost, WarehouseDown)
"""What the next try may meet no more."""


class LoadState(StrEnum):
    """How a pass ended, in one word."""

    LOADED = "loaded"
    NOTHING = "nothing new"
    PLANNED = "planned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOutcome:
    """What one pass over one stream came to."""

    stream: StreamName
    batches: int = 0
    rows: int = 0
    files: int = 0
    last: BatchId = ORIGIN
    """The last batch that is loaded."""
    mark: Cursor = START
    quarantined: int = 0
    """Rows that are not in the target by what landed: the warehouse refused them, and they were put aside."""
    incomplete: tuple[str, ...] = ()
    """Columns that came by now, and that rows read before do not have right; with what mends it."""
    waiting: int = 0
    """Batches that are extracted and not loaded."""
    complete: datetime | None = None
    """What was committed at the source before it is in the target; None where that is not known."""
    seconds: float = 0.0
    planned: Mapping[str, object] | None = None
    """Of a dry run: what would be loaded of what is extracted by now."""
    error: HintedError | None = None

    @property
    def state(self) -> LoadState:
        if self.error is not None:
            return LoadState.FAILED
        if self.planned is not None:
            return LoadState.PLANNED
        return LoadState.LOADED if self.batches else LoadState.NOTHING


class LoadRun:
    """Runs the load stage of one stream, as often as asked; `owner` is asked only when there is something to do.

    The claim stays in `claiming` from pass to pass: whoever made that gives it back.
    """

    def __init__(
        self,
        *,
        stream: StreamName,
        journal: Journal[Watermark],
        owner: Callable[[], Process],
        target: Target,
        clock: Clock,
        tell: Tell,
        rows: int,
        claiming: Claiming,
        appends: bool = False,
        holds: Callable[[LedgerKey], bool] = lambda _key: True,
        pause: Callable[[float], None] = time.sleep,
        named: Callable[[HintedError], HintedError] = lambda error: error,
    ) -> None:
        """Prepare; a transaction takes batches of so many `rows`, one batch at least.

        `holds` says, by a look that costs little, whether the warehouse's ledger has a batch; it is asked where
        nothing is due. `named` says what a pass that was ended from outside failed by.
        """
        self._stream = stream
        self._journal = journal
        self._owner = owner
        self._target = target
        self._clock = clock
        self._tell = tell
        self._rows = rows
        self._pause = pause
        self._claiming = claiming
        self._appends = appends
        self._named = named
        self._holds = holds
        self._landing: tuple[Held, Landing] | None = None
        self._so_far = LoadOutcome(stream=stream)

    def once(self, run: Run, *, limit: int | None = None, compare: bool = False) -> LoadOutcome:
        """Land until nothing is due; with a `limit`, whole batches up to so many rows, and one at least.

        What goes wrong is part of the outcome.

        With `compare` the warehouse's ledger is asked even though nothing is due.
        """
        return self._timed(partial(self._pass, run, limit=limit, compare=compare))

    def look(self, *, limit: int | None = None) -> LoadOutcome:
        """What `once` would land of what is extracted by now. Nothing is written, and the warehouse is not asked."""
        return self._timed(partial(self._look, limit=limit))

    def _look(self, *, limit: int | None) -> None:
        links = tuple(self._within(limit, self._due(self._journal.read(self._stream.stem))))
        if links:
            planned = {
                "first": str(links[0].id),
                "last": str(links[-1].id),
                "batches": len(links),
                "rows": sum(link.rows for link in links),
                "files": sum(len(link.files) for link in links),
            }
            self._so_far = replace(self._so_far, planned=planned)

    def _within(self, limit: int | None, due: Iterable[BatchId]) -> Iterator[Link]:
        """The first batches that are due, so many that their rows keep to the limit; one at least."""
        chain = Chain(self._journal, self._stream)
        rows = 0
        for number, batch in enumerate(due):
            link = chain.required(batch)
            rows += link.rows
            if number and limit is not None and rows > limit:
                return
            yield link

    def _timed(self, act: Callable[[], None]) -> LoadOutcome:
        began = self._clock.monotonic()
        self._so_far = LoadOutcome(stream=self._stream)
        try:
            act()
        except Exception as error:  # noqa: BLE001  # no stream may stop another, not even by a bug of ours
            failure = hinted(error)
            if not isinstance(failure, NotOwner):  # whoever has the stage goes on with it
                self._tell(StreamFailed(stream=self._stream, error=failure.message, hint=failure.hint))
            self._so_far = replace(self._so_far, error=failure)
        return replace(self._so_far, seconds=self._clock.monotonic() - began)

    def _pass(self, run: Run, *, limit: int | None, compare: bool) -> None:
        seen = self._journal.seen(self._stream.stem)
        due = self._due(seen.state if seen else None)
        compare = compare or (not due and seen is not None and self._is_behind(seen.state))
        if not due and not compare:
            return
        most = None if limit is None else sum(1 for _ in self._within(limit, due))
        with self._claiming.under(self._owner()) as held:
            self._noted(self._landing_of(held), partial(self._land, run, most=most, compare=compare, since=seen))

    def _is_behind(self, mine: Watermark) -> bool:
        """Whether the ledger seems to lack what the mark says has landed; a warehouse that is away tells nothing."""
        half, chain = mine.loaded, self._chain(mine)
        ids = chain.ids_back(upto=half.last, after=ORIGIN) if chain else iter(())
        newest = next(filter(half.expects, ids), None)
        if newest is None:
            return False
        key = LedgerKey(stream=self._stream, load_generation=half.landed_under(newest), batch=newest)
        try:
            return not self._holds(key)
        except WarehouseDown:
            return False

    def _chain(self, mine: Watermark | None) -> Extracted | None:
        if mine is not None and mine.extracted is not None:
            return mine.extracted
        first = self._journal.read(self._stream.default.stem)
        return first.extracted if first else None

    def _noted(self, landing: Landing, land: Callable[[Landing], None]) -> None:
        """Land; whatever goes wrong is an entry of history, but for an end that says nothing of the stream."""
        try:
            land(landing)
        except (NotOwner, StateUnreadable):
            raise  # not ours to write any more, or not to be written to at all
        except Exception as error:  # noqa: BLE001  # a bug is noted as any failure is
            failure = self._named(hinted(error))
            if not is_cut(failure):
                landing.fail(failure.message, failure=self._failure(failure))
            raise failure from failure.__cause__

    def _landing_of(self, held: Held) -> Landing:
        if self._landing is None or self._landing[0] != held:
            self._landing = held, Landing(self._journal, held, self._target)
        return self._landing[1]

    def _due(self, mine: Watermark | None) -> tuple[BatchId, ...]:
        """What waits, as the documents say."""
        chain = self._chain(mine)
        if chain is None:
            return ()
        last = mine.loaded.last if mine else ORIGIN
        if mine is not None:
            self._so_far = replace(self._so_far, last=last, mark=mine.loaded.cursor)
        due = tuple(chain.ids(after=last))
        self._so_far = replace(self._so_far, waiting=len(due))
        return due

    def _land(
        self, run: Run, landing: Landing, *, most: int | None, compare: bool, since: Seen[Watermark] | None
    ) -> None:
        while True:
            left = MOST_BATCHES if most is None else min(MOST_BATCHES, most - self._so_far.batches)
            began = self._clock.monotonic()
            turn = partial(landing.turn, run, most=left, compare=compare, rows=self._rows, hear=self._hear)
            landed = self._tried(partial(turn, since=since), turn)
            since = None
            if landed is NOTHING:
                return
            # What the ledger has lost may be too much for one transaction.
            compare = compare and landed.again > 0
            self._counted(landed, seconds=self._clock.monotonic() - began)
            if landed.links and self._so_far.batches == most:
                return
            if landed.links and not compare and not self._so_far.waiting:
                return

    def _tried(self, first: Callable[[], Landed], again: Callable[[], Landed]) -> Landed:
        """A turn, again after what passes by itself; an unknown outcome is settled by the ledger."""
        turn = first
        for attempt in range(1, TRIES):
            try:
                return turn()
            except WarehouseStillDown:
                raise  # another stream has waited for it already
            except PASSING as error:
                wait = FIRST_PAUSE * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)  # noqa: S311  # jitter, no secret
                self._tell(LandingRetried(stream=self._stream, error=error.message, seconds=wait))
                self._pause(wait)
                turn = again
        return turn()

    def _counted(self, landed: Landed, *, seconds: float) -> None:
        links, watermark = landed.links, landed.watermark
        so_far = self._so_far
        if watermark is not None:
            waiting = max(so_far.waiting - len(links), 0)
            if watermark.extracted is not None:
                waiting = sum(1 for _ in watermark.extracted.ids(after=watermark.loaded.last))
            so_far = replace(so_far, last=watermark.loaded.last, mark=watermark.loaded.cursor, waiting=waiting)
        rows, files = landed.rows, sum(len(link.files) for link in links)
        self._so_far = replace(
            so_far, batches=so_far.batches + len(links), rows=so_far.rows + rows, files=so_far.files + files
        )
        self._put_aside(landed)
        if landed.again:
            self._tell(LedgerBehind(stream=self._stream, batches=landed.again))
        if links:
            self._tell(
                BatchesLanded(
                    stream=self._stream,
                    first=links[0].id,
                    last=links[-1].id,
                    batches=len(links),
                    rows=rows,
                    files=files,
                    mark=self._so_far.mark,
                    seconds=seconds,
                )
            )

    def _hear(self, landed: Landed) -> None:
        """Tell what is incomplete while the mark does not say yet that these have landed; once, if asked again."""
        for event in incomplete(self._stream, landed.links, after=self._told_upto(landed), appends=self._appends):
            if event.said not in self._so_far.incomplete:
                self._tell(event)
                self._so_far = replace(self._so_far, incomplete=(*self._so_far.incomplete, event.said))

    def _told_upto(self, landed: Landed) -> BatchId:
        """The last batch before these that told what it knew of columns; another than the last one matters seldom.

        Where batches were left out, what they would have told is told by the next one that tells anything.
        """
        state = landed.watermark
        if state is None or state.extracted is None or not (landed.links and state.loaded.skipped):
            return landed.after
        chain = Chain(self._journal, self._stream)
        before = filter(state.loaded.expects, state.extracted.ids_back(upto=landed.after, after=ORIGIN))
        return next((batch for batch in before if tells(chain.required(batch))), ORIGIN)

    def _put_aside(self, landed: Landed) -> None:
        """Count and tell the rows that are not in the target by this landing, whoever sifted them out of its files."""
        for batch, brought in landed.refused.items():
            self._so_far = replace(self._so_far, quarantined=self._so_far.quarantined + brought.refused)
            look = f"syncd quarantine show -t {self._stream.database}.{self._stream.table} --batch {batch}"
            reason = brought.reason or f"an earlier attempt was refused ({look})"
            self._tell(RowsPutAside(stream=self._stream, batch=batch, rows=brought.refused, reason=reason))

    def _failure(self, error: HintedError) -> Failure:
        state = self._journal.read(self._stream.stem)
        before = state.failures.get(Stage.LOAD) if state else None
        attempt = before.attempt + 1 if before else 1
        now = self._clock.now()
        wait = min(RETRY_FIRST * 2 ** min(attempt - 1, 10), RETRY_MOST)
        return Failure(message=error.message, attempt=attempt, at=now, next_try=now + wait)
