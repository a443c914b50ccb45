"""Mending what a comparison found: the rows that differ are read again, and those that are gone are buried.

Both are ordinary batches of kind `repair`. What is read now ranks above everything that was read before, and below
everything that is read later: whatever else is at work on the stream, the newest reading wins.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from syncd.errors import AnotherServer
from syncd.extract import plan_rules
from syncd.extract.delete_batches import Gone
from syncd.extract.plan_rules import Ground
from syncd.extract.reread import is_stranger
from syncd.lake.tombstones import Tombstones
from syncd.lake.window_reads import Part
from syncd.ports.source import Source
from syncd.settings import Deletes, StreamSettings
from syncd.tables.sort_order import BY_KEY, order_of
from syncd.verify.result import READ_AGAIN, Difference, Kind, Verdict
from watermarks.batch import BatchId, Draft, Filled, Plan
from watermarks.cursor import START, Cursor
from watermarks.document import Watermark
from watermarks.progress import ORIGIN, Extracted

MOST_KEYS: Final = 10_000
"""Rows that one batch reads by their keys: they stand in its plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grave:
    """Rows that the source no longer has, of which that is sure up to the same mark."""

    keys: tuple[Mapping[str, Any], ...]
    """As files hold them."""
    upto: Cursor
    """The mark that they were judged by. It moves while others are compared: what came back since is above it."""
    seen: BatchId = ORIGIN
    """The last batch that was loaded then: whatever stamp it bears, what had been read by then is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What is to be mended of one stream."""

    keys: tuple[Cursor, ...] = ()
    """Rows that are read again."""
    graves: tuple[Grave, ...] = ()
    """Rows that are buried, a batch each."""
    at: datetime
    """When it was looked."""

    @property
    def gone(self) -> int:
        """How many rows are buried."""
        return sum(len(grave.keys) for grave in self.graves)


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
    """Writes the keys of a grave to files of a batch; see `syncd.s3.tombstone_files`."""
    waits_for: str = ""
    complete: datetime | None = None
    """A repair tells nothing of it."""
    _next: int = field(default=0, init=False)
    _buried: int = field(default=0, init=False)
    """So many of the graves."""

    def look(self, watermark: Watermark) -> Draft | None:
        """What the next batch would be.

        Raises:
            AnotherServer: the stream has to read again first, for its server's place was taken.
        """
        self._require_known(watermark.chain)
        if (draft := self._again(watermark)) is not None:
            return draft
        return self._gone(grave).draft(watermark, ()) if (grave := self._grave) is not None else None

    def prepare(self, draft: Draft) -> None:
        self.inner.prepare(draft)

    def propose(self, watermark: Watermark) -> Draft | None:
        """The next batch; see `look`."""
        self._require_known(watermark.chain)
        if (draft := self._again(watermark)) is not None:
            self._next += MOST_KEYS
            return draft
        if (grave := self._grave) is None:
            return None
        self._buried += 1
        gone = self._gone(grave)
        return gone.draft(watermark, self.write(grave.keys, batch=watermark.chain.next, passages=gone.passages))

    def holds(self, plan: Plan) -> bool:
        return self.inner.holds(plan)

    def fill(self, plan: Plan) -> Filled:
        return self.inner.fill(plan)

    def drop(self, files: Sequence[str]) -> None:
        self.inner.drop(files)

    @property
    def _grave(self) -> Grave | None:
        """The next one, where rows are buried at all."""
        if self.settings.target is None or self.settings.target.deletes is Deletes.IGNORE:
            return None
        return next(iter(self.repair.graves[self._buried :]), None)

    def _require_known(self, chain: Extracted) -> None:
        """Leave a chain alone whose newest link is of another server: that alone may tell that this one is a stranger.

        Raises:
            AnotherServer: it is.
        """
        identity = self.source.server().identity
        if is_stranger(chain, identity):
            name = self.settings.name
            raise AnotherServer(
                f"another server answers than the one that {name} was read from: what that may have left below the mark"
                " is read again before anything is mended",
                hint=f"Run first, and compare again then: syncd run -t {name}",
            )

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
        return plan_rules.by_keys(ground, order_of(table, self.settings), keys)

    def _gone(self, grave: Grave) -> Gone:
        return Gone(
            table=self.source.table(self.settings.database, self.settings.table),
            source_identity=self.source.server().identity,
            settings=self.settings,
            tombstones=Tombstones(upto=grave.upto, seen=grave.seen, gone_at=self.repair.at),
        )


def repair_of(verdict: Verdict, settings: StreamSettings, *, at: datetime) -> Repair:
    """What a verdict asks to be mended: all differences that it names."""
    return Repair(
        keys=tuple(one.position for one in verdict.differences if one.kind in READ_AGAIN and one.position is not None),
        graves=tuple(_graves(verdict.differences, settings)),
        at=at,
    )


def _graves(differences: Sequence[Difference], settings: StreamSettings) -> Iterator[Grave]:
    by_bound: dict[tuple[Cursor, BatchId], list[Mapping[str, Any]]] = {}
    for one in differences:
        if one.kind is Kind.GHOST:
            upto = START if settings.cursor == BY_KEY else Cursor(one.upto.values[:1])
            by_bound.setdefault((upto, one.seen), []).append(one.file_key)
    for (upto, seen), keys in by_bound.items():
        yield Grave(keys=tuple(keys), upto=upto, seen=seen)
