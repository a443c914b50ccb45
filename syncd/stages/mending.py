"""Mending what a comparison found: the rows that differ are read again, and those that are gone are buried.

Both are ordinary batches of kind `repair`. What is read now ranks above everything that was read before, and below
everything that is read later: whatever else is at work on the stream, the newest reading wins.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from syncd.core import planner
from syncd.core.columns import Passage
from syncd.core.order import BY_KEY, order_of
from syncd.core.planner import Ground
from syncd.core.ports import Source
from syncd.core.reading import Part
from syncd.core.settings import Deletes, StreamSettings
from syncd.core.tombstones import Tombstones
from syncd.core.verify.verdict import READ_AGAIN, Kind, Verdict
from syncd.stages.burying import Gone
from watermarks.batch import BatchId, Draft, Filled, Plan
from watermarks.cursor import START, Cursor
from watermarks.document import Watermark

MOST_KEYS: Final = 10_000
"""Rows that one batch reads by their keys: they stand in its plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What is to be mended of one stream."""

    keys: tuple[Cursor, ...] = ()
    """Rows that are read again."""
    gone: tuple[Mapping[str, Any], ...] = ()
    """Keys that the source no longer has, as files hold them."""
    upto: Cursor = START
    """The mark up to which that is sure."""
    at: datetime
    """When it was looked."""


class Filler(Protocol):
    """Whoever carries out the plans of the stream."""

    def prepare(self, draft: Draft) -> None: ...
    def holds(self, plan: Plan) -> bool: ...
    def fill(self, plan: Plan) -> Filled: ...
    def drop(self, files: Sequence[str]) -> None: ...


@dataclass(kw_only=True)
class MendingProducer:
    """A producer of the batches of one repair; what else stands in the chain's next place, is carried out first."""

    inner: Filler
    source: Source
    settings: StreamSettings
    repair: Repair
    write: Callable[..., Sequence[Part]]
    """Writes the keys that are gone to files of a batch; see `syncd.adapters.tombstones`."""
    waits_for: str = ""
    complete: datetime | None = None
    """A repair tells nothing of it."""
    _next: int = field(default=0, init=False)
    _buried: bool = field(default=False, init=False)

    def look(self, watermark: Watermark) -> Draft | None:
        return self._again(watermark) or (None if self._done else self._gone().draft(watermark, ()))

    def prepare(self, draft: Draft) -> None:
        self.inner.prepare(draft)

    def propose(self, watermark: Watermark) -> Draft | None:
        draft = self._again(watermark)
        if draft is not None:
            self._next += MOST_KEYS
            return draft
        if self._done:
            return None
        self._buried = True
        gone = self._gone()
        return gone.draft(watermark, self._written(watermark.chain.next, gone.passages))

    def holds(self, plan: Plan) -> bool:
        return self.inner.holds(plan)

    def fill(self, plan: Plan) -> Filled:
        return self.inner.fill(plan)

    def drop(self, files: Sequence[str]) -> None:
        self.inner.drop(files)

    @property
    def _done(self) -> bool:
        ignored = self.settings.target is None or self.settings.target.deletes is Deletes.IGNORE
        return self._buried or ignored or not self.repair.gone

    def _again(self, watermark: Watermark) -> Draft | None:
        keys = self.repair.keys[self._next : self._next + MOST_KEYS]
        if not keys:
            return None
        table = self.source.table(self.settings.database, self.settings.table)
        ground = Ground(
            mark=watermark.chain.cursor,
            identity=self.source.server().identity,
            fingerprint=table.fingerprint,
            created=table.created,
        )
        return planner.by_keys(ground, order_of(table, self.settings), keys)

    def _gone(self) -> Gone:
        return Gone(
            table=self.source.table(self.settings.database, self.settings.table),
            source_identity=self.source.server().identity,
            settings=self.settings,
            tombstones=Tombstones(upto=self.repair.upto, gone_at=self.repair.at),
        )

    def _written(self, batch: BatchId, passages: Sequence[Passage]) -> Sequence[Part]:
        return self.write(batch=batch, passages=passages)


def repair_of(verdict: Verdict, settings: StreamSettings, *, at: datetime) -> Repair:
    """What a verdict asks to be mended: all differences that it names."""
    mark = verdict.mark or START
    return Repair(
        keys=tuple(one.position for one in verdict.differences if one.kind in READ_AGAIN and one.position is not None),
        gone=tuple(one.file_key for one in verdict.differences if one.kind is Kind.GHOST),
        upto=START if settings.cursor == BY_KEY else Cursor(mark.values[:1]),
        at=at,
    )
