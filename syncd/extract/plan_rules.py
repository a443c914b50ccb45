"""Values and pure decisions of planning: how a stream goes on, and how many rows its next batch may have."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from syncd.datatypes.source_table import SourceTable
from syncd.errors import ConfigError
from syncd.events import WaitKind, WaitReason
from syncd.ports.source import Horizon, ServerTimeBreak
from syncd.settings import Mode, StreamSettings
from syncd.tables.order_clock import OrderClock
from syncd.tables.sort_order import CURSOR_NONE, StreamOrder
from syncd.tables.table_identity import TableIncarnation
from watermarks.batch import BatchDraft, BatchId, Plan, PlanBasis
from watermarks.cursor import START_CURSOR, Cursor, OrderedByDatabase
from watermarks.progress import ExtractProgress
from watermarks.window import Window

FEWEST_ROWS: Final = 50_000
"""Rows of the smallest window: fewer are not worth a task and a connection of their own."""


class PlanMode(StrEnum):
    """How a stream goes on."""

    WHOLE = "whole"
    """It reads the whole table each time."""
    BEGIN = "begin"
    """It has no position yet."""
    CHUNKS = "chunks"
    """Its first pass is not done."""
    FOLLOW = "follow"
    """It reads from mark to mark."""


class PlanSpan(StrEnum):
    """Kind of range that the windows of a plan cover."""

    ORDER = "order"
    KEY = "key"
    """Chunks of a first pass."""
    ALL = "all"
    """One statement without a window."""
    NONE = "none"
    """Nothing is read: the plan itself says all that is known."""
    ROWS = "rows"
    """Single rows, by their keys: those that a comparison found to differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractRequest:
    """Options of one run beyond the configuration."""

    limit: int | None = None
    """Most rows of this run."""
    since: datetime | None = None
    """With `until`: a range to read again; it moves no mark."""
    until: datetime | None = None

    def limit_bound(self, bound: datetime) -> datetime:
        return bound if self.until is None else min(bound, self.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowBounds:
    """Positions of real rows, in order, at which windows end."""

    low: Cursor
    ends: tuple[Cursor, ...] = ()
    rows: int = 0
    """Upper bound of the rows up to the last end."""
    has_more: bool = False
    """Whether rows may follow."""

    @property
    def high(self) -> Cursor:
        return self.ends[-1] if self.ends else self.low

    @property
    def windows(self) -> tuple[Window, ...]:
        if not self.ends:
            return ()
        return tuple(Window(low, high) for low, high in zip((self.low, *self.ends), self.ends, strict=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContext:
    """Facts that every plan of this moment records."""

    mark: Cursor
    identity: str
    fingerprint: str
    created: datetime | None
    horizon: Horizon | None = None
    incarnation: TableIncarnation | None = None
    """The table that the name leads to, for a table that is read by its stamps."""

    @property
    def basis(self) -> PlanBasis:
        return PlanBasis(mark=self.mark, source_identity=self.identity, schema=self.fingerprint)

    @property
    def is_proven(self) -> bool:
        return self.horizon is not None and self.horizon.proven and not self.is_table_replaced

    @property
    def is_table_replaced(self) -> bool:
        """Return whether rows that were never read may stand below the mark, since another table had them."""
        return self.incarnation is not None and self.incarnation.replaced_in is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalContext:
    """The stream, its table and the request, as they are for one proposal."""

    progress: ExtractProgress
    table: SourceTable
    facts: PlanContext
    order: StreamOrder
    settings: StreamSettings
    request: ExtractRequest
    mode: PlanMode
    max_rows: int
    """Most rows of the batch."""
    run_start: BatchId
    """The last batch before this run."""
    numbers_known_since: datetime | None = None
    """For a table that is read by its key: the instant since when the notes of its numbers are about this table."""

    @property
    def mark(self) -> Cursor:
        return self.facts.mark

    @property
    def final_mark(self) -> Cursor:
        """The mark; during a first pass the mark that the pass will set."""
        snapshot = self.progress.snapshot
        return self.mark if snapshot is None or snapshot.done else snapshot.horizon

    @property
    def is_restarted(self) -> bool:
        """Return whether an operator has set the marks and nothing was read since: often the table is another one."""
        return self.progress.generation > 1 and not self.progress.seq

    @property
    def horizon(self) -> Horizon:
        assert self.facts.horizon
        return self.facts.horizon

    def with_horizon(self, horizon: Horizon) -> "ProposalContext":
        return replace(self, facts=replace(self.facts, horizon=horizon))


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleState:
    """Facts of a proposal that found nothing left to read: a short check can tell whether they still hold."""

    context: ProposalContext
    clock: OrderClock
    breaks: tuple[ServerTimeBreak, ...]
    """All breaks in the server's time that were known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The next batch of a stream, or the reason why there is none."""

    draft: BatchDraft | None = None
    wait_reason: str = ""
    """The obstacle, where there is no draft; empty when everything was read."""
    complete_before: datetime | None = None
    """The bound below which nothing is left to read; None where that is not so."""
    idle_state: IdleState | None = None


def choose_plan_mode(chain: ExtractProgress, settings: StreamSettings) -> PlanMode:
    """Return how the stream goes on from its progress."""
    if settings.cursor == CURSOR_NONE:
        return PlanMode.WHOLE
    if chain.snapshot is not None and not chain.snapshot.done:
        return PlanMode.CHUNKS
    # After a finished pass over an empty table without a horizon the cursor is still the start; that is no beginning.
    return PlanMode.BEGIN if chain.cursor == START_CURSOR and chain.snapshot is None else PlanMode.FOLLOW


def window_rows(batch_rows: int, windows: int) -> int:
    """Return the rows of a window, so that a batch has about as many windows as can be read at once."""
    return max(FEWEST_ROWS, -(-batch_rows // max(windows, 1)))


def split_rows(rows: int, *, window_size: int) -> list[int]:
    """Return the sizes of the windows that make up so many rows."""
    return [min(window_size, rows - done) for done in range(0, rows, window_size)]


def rows_left(settings: StreamSettings, request: ExtractRequest, *, done: int) -> int:
    """Return the most rows that the next batch of a run may have."""
    return settings.batch_rows if request.limit is None else min(settings.batch_rows, request.limit - done)


def may_hold_rows(high: Cursor, low: Cursor) -> bool:
    """Return whether rows can lie after one position up to another; where only the database can compare, say yes."""
    try:
        return low < high
    except OrderedByDatabase:
        return low != high


def is_ahead_due(horizon: Horizon, settings: StreamSettings, *, checked_at: datetime | None) -> bool:
    """Return whether rows have waited too long above a held horizon."""
    if settings.mode is not Mode.UPSERT or horizon.bound is None:
        return False
    rested = checked_at is None or horizon.t0 - checked_at >= settings.ahead_after
    return rested and horizon.t0 - horizon.bound > settings.ahead_after


def describe_long_hold(horizon: Horizon, settings: StreamSettings, request: ExtractRequest) -> str:
    """Describe the holder of a horizon that is held longer than rows should wait; empty where it is not."""
    bound, promised = horizon.bound, settings.schedule.fresh_within
    if bound is None or not horizon.holder or (request.until is not None and request.until <= bound):
        return ""
    # A promise breaks between two passes, so the pass before has to have said why.
    patience = settings.ahead_after if promised is None else min(settings.ahead_after, promised / 2)
    return describe_hold(horizon) if horizon.t0 - bound > patience else ""


def describe_hold(horizon: Horizon) -> str:
    """Describe the holder of a horizon; the text stays the same for one transaction, so that it is reported once."""
    if horizon.bound is None or not horizon.holder:
        return horizon.reason
    # The transaction may have begun at any time between the poll that first saw it and the poll before.
    text = f"held by {horizon.holder}, since {horizon.bound:%Y-%m-%d %H:%M:%S} UTC at the earliest"
    return WaitReason(text, WaitKind.HELD_TRANSACTION)


def require_start(settings: StreamSettings) -> datetime:
    if settings.start is None:
        raise ConfigError("`first_run: from` has no instant", hint="Write it like first_run: {from: 2025-01-01}.")
    return settings.start


def require_range(request: ExtractRequest) -> tuple[datetime, datetime]:
    if request.since is None or request.until is None:
        raise ConfigError("the range has only one end", hint="Give both ends: --from INSTANT --until INSTANT")
    return request.since, request.until


def require_no_bounds(request: ExtractRequest, settings: StreamSettings) -> None:
    """Refuse a request for a part of a table that is read whole.

    Raises:
        ConfigError: the run asks for a part.
    """
    if request != ExtractRequest():
        raise ConfigError(
            f"{settings.name} is read whole each time, so a run cannot read a part of it",
            hint="Leave out --limit, --from and --until for a stream with `cursor: none`.",
        )


def require_no_time_range(request: ExtractRequest, settings: StreamSettings) -> None:
    """Refuse a range of time for a table that is read by its key.

    Raises:
        ConfigError: the run names a range of time.
    """
    if request.since is None and request.until is None:
        return
    raise ConfigError(
        f"{settings.name} is read in the order of its key, so a range of time cannot be read",
        hint="Leave out --from and --until; to begin at a key: syncd watermark set --id",
    )


def extend_to_end(bounds: WindowBounds, end: Cursor) -> WindowBounds:
    """Extend the last window to the end of a range where no row follows, so that all of the range is read again.

    A target that appends deletes the range first, and rows that were deleted at the source left no row at which a
    window could end.
    """
    if bounds.has_more or not may_hold_rows(end, bounds.high):
        return bounds
    return replace(bounds, ends=(*bounds.ends[:-1], end))


def reads_in_order(plan: Plan) -> bool:
    """Return whether a plan reads rows from the source in their order: only such plans know the horizon."""
    return plan.draft.body.get("span") not in {PlanSpan.NONE, PlanSpan.ROWS}


def is_small(draft: BatchDraft) -> bool:
    """Return whether a draft reads few rows; a whole table counts as few, since its size is not known."""
    most: Any = draft.body.get("rows_at_most")
    return most is None or most <= FEWEST_ROWS
