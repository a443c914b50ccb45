"""Positions as an operator writes them: a cursor by instant and key, and the batch after which loading starts."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Self

from syncd.settings import StreamSettings
from syncd.tables.order_clock import STEPS_PER_SECOND, OrderClock
from syncd.tables.sort_order import CURSOR_BY_KEY, CURSOR_NONE, StreamOrder
from watermarks.batch import BatchId, BatchLink
from watermarks.cursor import START_CURSOR, Cursor, CursorValue, ValueKind
from watermarks.errors import Misuse
from watermarks.extraction import BatchChain
from watermarks.progress import BEFORE_FIRST_BATCH, ExtractProgress

_MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorShape:
    """Types of the values that make a position of a stream."""

    clock: OrderClock | None
    """Clock of the first value; None where the table is read by its key."""
    key: tuple[ValueKind, ...]
    """The kinds of the values of the key."""

    @classmethod
    def from_order(cls, order: StreamOrder) -> Self:
        kinds = tuple(column.kind for column in order.columns)
        return cls(clock=order.clock, key=kinds[1:] if order.clock else kinds)

    @classmethod
    def from_mark(cls, mark: Cursor, settings: StreamSettings, *, zone: tzinfo | None) -> Self | None:
        """Derive the shape from the mark; None where the mark does not tell it."""
        kinds = tuple(value.kind for value in mark.values)
        if not kinds:
            return None
        if settings.cursor == CURSOR_BY_KEY:
            return cls(clock=None, key=kinds)
        if kinds[0] is ValueKind.WALL and zone is None:
            return None
        unit = settings.cursor_unit
        steps = STEPS_PER_SECOND[unit] if kinds[0] is ValueKind.INT and unit is not None else _MICROSECONDS
        clock = OrderClock(kind=kinds[0], steps_per_second=steps, **({} if zone is None else {"zone": zone}))
        return cls(clock=clock, key=kinds[1:])

    def parse_position(self, mark: Cursor, *, timestamp: datetime | None, key: Sequence[str]) -> Cursor:
        """Return the cursor of an instant and a key; a part that is not given is taken from the mark.

        An instant alone stands before its first row. The key of the mark stays only with the mark's own
        instant: at any other instant it would skip rows that were never read.

        Raises:
            Misuse: the stream has no such positions.
        """
        values = self._parse_key(key)
        if self.clock is None:
            if timestamp is not None:
                raise Misuse(
                    "this table is read in the order of its key, so an instant is not a position",
                    hint="Give a key: --id",
                )
            return Cursor(values)
        if timestamp is not None:
            stamp = self.clock.ceil_value(timestamp)
        elif mark:
            stamp = mark.values[0]
        else:
            raise Misuse(
                "a key without an instant is not a position here, and there is no mark to take the instant from",
                hint="Add --timestamp: rows are read in the order of time, then key.",
            )
        same = mark.values[:1] == (stamp,)
        return Cursor((stamp, *(values or (mark.values[1:] if same else ()))))

    def _parse_key(self, texts: Sequence[str]) -> tuple[CursorValue, ...]:
        if len(texts) > len(self.key):
            known = ", ".join(self.key) or "columns that are unknown without MySQL"
            raise Misuse(f"{len(texts)} key values were given, but the key consists of {known}")
        return tuple(CursorValue.from_text(f"{kind}:{text}") for kind, text in zip(self.key, texts, strict=False))


def require_settable_position(settings: StreamSettings) -> None:
    """Check that the stream has positions.

    Raises:
        Misuse: it is read whole each time.
    """
    if settings.cursor == CURSOR_NONE:
        raise Misuse(
            f"{settings.name} is read whole each time, and has no position to set",
            hint="To load its newest batch again: syncd watermark reset --redshift-only",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStart:
    """Batch after which loading starts, with the mark that it reached."""

    after: BatchId = BEFORE_FIRST_BATCH
    loaded_mark: Cursor = START_CURSOR


LOAD_FROM_BEGINNING = LoadStart()


def find_start_by_time(chain: BatchChain, extracted: ExtractProgress, instant: datetime) -> LoadStart:
    """Start after the last batch whose files were written at an instant or before it.

    Batches are made one after another, so a binary search finds it with few requests.
    """
    ids = tuple(extracted.batch_ids(after=BEFORE_FIRST_BATCH))
    return _start_after(chain, ids, bisect_right(ids, instant, key=lambda batch: chain.require_link(batch).made_at))


def find_start_by_cursor(chain: BatchChain, extracted: ExtractProgress, cursor: Cursor) -> LoadStart:
    """Start after the last batch that holds no row above a position.

    Positions grow only within a generation; rows above the position that an older generation holds are read
    again by a newer one that begins at or below it.

    Raises:
        Misuse: only the database can order these positions.
    """
    for generation in (extracted.generation, *sorted(extracted.closed_generations, reverse=True)):
        ids = tuple(BatchId(generation, seq) for seq in range(1, extracted.last_seq_of(generation) + 1))
        if found := bisect_right(ids, cursor, key=lambda batch: _highest_position(chain.require_link(batch))):
            return _start_after(chain, ids, found)
    return LOAD_FROM_BEGINNING


def start_after_batch(chain: BatchChain, extracted: ExtractProgress, batch: BatchId) -> LoadStart:
    """Start after a named batch."""
    if not extracted.has_batch(batch):
        return LoadStart(after=batch)
    return LoadStart(after=batch, loaded_mark=chain.require_link(batch).high)


def _start_after(chain: BatchChain, ids: tuple[BatchId, ...], count: int) -> LoadStart:
    if count == 0:
        return LOAD_FROM_BEGINNING
    return LoadStart(after=ids[count - 1], loaded_mark=chain.require_link(ids[count - 1]).high)


def _highest_position(link: BatchLink) -> Cursor:
    """Return the highest position whose rows a batch may hold: a chunk of a first pass has rows of any time."""
    return link.snapshot.horizon if link.snapshot else link.high
