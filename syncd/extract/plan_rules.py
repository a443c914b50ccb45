"""What a stream's next batch is: decisions over the watermark, the horizon and the positions that probes found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from syncd.datatypes.columns import Passage, Travel
from syncd.datatypes.mysql_quoting import qualified
from syncd.datatypes.source_table import Table
from syncd.errors import ConfigError
from syncd.lake.window_reads import OrderField, WindowQuery
from syncd.mysql.sql import at_any, below, hinted, own_rows, read_rows, selects_of, within
from syncd.ports.source import Horizon
from syncd.settings import Mode, StreamSettings
from syncd.tables.order_column import OrderColumn
from syncd.tables.sort_order import WHOLE, Order, serves
from syncd.tables.table_identity import Made
from watermarks.batch import Draft, Kind, Plan, Snapshot, World
from watermarks.cursor import START, Cursor, OrderedByDatabase, instant_text
from watermarks.cursor import Kind as ValueKind
from watermarks.progress import Extracted
from watermarks.window import Window

FEWEST_ROWS: Final = 50_000
"""Below so many rows a window is not worth a task and a connection of its own."""
KEYS_AT_ONCE: Final = 500
"""Rows that one statement reads by their keys."""


class Way(StrEnum):
    """How a stream goes on."""

    WHOLE = "whole"
    """The whole table, each time."""
    BEGIN = "begin"
    """It has no position yet."""
    CHUNKS = "chunks"
    """Its first pass is not done."""
    FOLLOW = "follow"
    """From mark to mark."""


class Span(StrEnum):
    """What the windows of a plan are ranges of."""

    ORDER = "order"
    KEY = "key"
    """Chunks of a first pass."""
    ALL = "all"
    """One statement without a window."""
    NONE = "none"
    """Nothing is read: the plan names what is known already."""
    ROWS = "rows"
    """Single rows, named by their keys: what a comparison found to differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What one run asks for beyond the configuration."""

    limit: int | None = None
    """Rows of this run, at most."""
    since: datetime | None = None
    """With `until`: a range that is read again, and moves no mark."""
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Positions of real rows, in order, that windows end at."""

    low: Cursor
    ends: tuple[Cursor, ...] = ()
    rows: int = 0
    """How many rows there were up to the last end, at most."""
    more: bool = False
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
class Ground:
    """What every plan of this moment has in common."""

    mark: Cursor
    identity: str
    fingerprint: str
    created: datetime | None
    horizon: Horizon | None = None
    made: Made | None = None
    """Of a table that is read by its stamps: which one it is."""

    @property
    def world(self) -> World:
        return World(mark=self.mark, source_identity=self.identity, schema=self.fingerprint)


def way_of(chain: Extracted, settings: StreamSettings) -> Way:
    """How the stream goes on from where its chain stands."""
    if settings.cursor == WHOLE:
        return Way.WHOLE
    if chain.snapshot is not None and not chain.snapshot.done:
        return Way.CHUNKS
    # A finished pass over an empty table with no horizon yet is no beginning either.
    return Way.BEGIN if chain.cursor == START and chain.snapshot is None else Way.FOLLOW


def window_rows(batch_rows: int, windows: int) -> int:
    """How many rows a window should have, so that a batch gives about as many windows as can be read at once."""
    return max(FEWEST_ROWS, -(-batch_rows // max(windows, 1)))


def steps(rows: int, *, each: int) -> list[int]:
    """The sizes of windows that make up so many rows."""
    return [min(each, rows - done) for done in range(0, rows, each)]


def rows_left(settings: StreamSettings, request: Request, *, done: int) -> int:
    """How many rows the next batch of a run may have."""
    return settings.batch_rows if request.limit is None else min(settings.batch_rows, request.limit - done)


def reaches(high: Cursor, low: Cursor) -> bool:
    """Whether there can be rows behind one position up to another; what only the database can judge, it shall."""
    try:
        return low < high
    except OrderedByDatabase:
        return low != high


def ahead_is_due(horizon: Horizon, settings: StreamSettings, *, looked: datetime | None) -> bool:
    """Whether rows have waited too long above a horizon that something holds."""
    if settings.mode is not Mode.UPSERT or horizon.bound is None:
        return False
    rested = looked is None or horizon.t0 - looked >= settings.ahead_after
    return rested and horizon.t0 - horizon.bound > settings.ahead_after


def held_by(horizon: Horizon, settings: StreamSettings, request: Request) -> str:
    """Who has held a horizon for longer than rows are to wait for it, in words; empty where nobody has."""
    bound, promised = horizon.bound, settings.schedule.fresh_within
    if bound is None or not horizon.holder or (request.until is not None and request.until <= bound):
        return ""
    # A promise breaks between two passes: the one before has to have said why.
    patience = settings.ahead_after if promised is None else min(settings.ahead_after, promised / 2)
    return hold_of(horizon) if horizon.t0 - bound > patience else ""


def hold_of(horizon: Horizon) -> str:
    """What holds a horizon, in words; they stay the same while one transaction does, for that is no news."""
    if horizon.bound is None or not horizon.holder:
        return horizon.reason
    # Between the poll that first met it and the one before nobody looked.
    return f"held by {horizon.holder}, since {horizon.bound:%Y-%m-%d %H:%M:%S} UTC at the earliest"


def required_start(settings: StreamSettings) -> datetime:
    if settings.start is None:
        raise ConfigError("first_run: from says no instant", hint="Write it like first_run: {from: 2025-01-01}.")
    return settings.start


def required_range(request: Request) -> tuple[datetime, datetime]:
    if request.since is None or request.until is None:
        raise ConfigError("a range has two ends", hint="Give both: --from INSTANT --until INSTANT")
    return request.since, request.until


def require_no_bounds(request: Request, settings: StreamSettings) -> None:
    """A table that is read whole can be cut nowhere.

    Raises:
        ConfigError: the run asks for a part of it.
    """
    if request != Request():
        raise ConfigError(
            f"{settings.database}.{settings.table} is read whole each time, and no part of it means anything",
            hint="Leave out --limit, --from and --until for a stream with `cursor: none`.",
        )


def require_keys_only(request: Request, settings: StreamSettings) -> None:
    """A table that is read by its key knows no time.

    Raises:
        ConfigError: the run names one.
    """
    if request.since is None and request.until is None:
        return
    raise ConfigError(
        f"{settings.database}.{settings.table} is read by its key, which tells no time",
        hint="Leave out --from and --until; to begin at a key: syncd watermark set --id",
    )


def increment(ground: Ground, order: Order, bounds: Bounds) -> Draft:
    """The rows after the mark up to a real row."""
    return Draft(
        kind=Kind.INCREMENT,
        world=ground.world,
        windows=bounds.windows,
        high=bounds.high,
        proven=_proven(ground),
        body=_body(ground, order, bounds, Span.ORDER),
    )


def beginning(ground: Ground, order: Order, start: Cursor) -> Draft:
    """No rows: the mark is put where the stream begins. What lies before is not promised, so nothing is proven."""
    time = {"time": order.time.fields()} if order.time else {}
    return Draft(
        kind=Kind.SNAPSHOT,
        world=ground.world,
        high=start,
        snapshot=Snapshot(horizon=start, reached=START, done=True),
        proven=False,
        body=_body(ground, order, Bounds(low=START), Span.KEY) | time,
    )


def chunk(ground: Ground, order: Order, bounds: Bounds, horizon: Cursor, *, proven: bool, nulls: bool) -> Draft:
    """A range of keys of the first pass; the last one moves the mark to the horizon that the first one fixed."""
    done = not bounds.more
    body = _body(ground, order, bounds, Span.KEY) | {
        "below": str(horizon.values[0]),
        "time": order.columns[0].fields(),
        "nulls": nulls and order.nullable,
    }
    return Draft(
        kind=Kind.SNAPSHOT,
        world=ground.world,
        windows=bounds.windows,
        high=horizon if done else ground.mark,
        snapshot=Snapshot(horizon=horizon, reached=bounds.high, done=done),
        proven=proven and not is_remade(ground),
        body=body,
    )


def beside(kind: Kind, ground: Ground, order: Order, bounds: Bounds, *, proven: bool = False) -> Draft:
    """A batch that moves no mark: rows ahead of the horizon, or a range read again."""
    return Draft(
        kind=kind,
        world=ground.world,
        windows=bounds.windows,
        high=ground.mark,
        proven=proven,
        body=_body(ground, order, bounds, Span.ORDER) | {"more": bounds.more},
    )


def by_keys(ground: Ground, order: Order, keys: Sequence[Cursor]) -> Draft:
    """The rows with these keys, read again; it moves no mark."""
    facts = _body(ground, order, Bounds(low=START, rows=len(keys)), Span.KEY)
    return Draft(
        kind=Kind.REPAIR,
        world=ground.world,
        high=ground.mark,
        body={**facts, "span": Span.ROWS, "keys": [key.texts() for key in keys]},
    )


def upto_end(bounds: Bounds, end: Cursor) -> Bounds:
    """Where no row follows up to the end of a range, bounds that reach it: to be read again is all of the range.

    A target that appends loses what stood there, and what is gone at the source has left no row to end a window at.
    """
    if bounds.more or not reaches(end, bounds.high):
        return bounds
    return replace(bounds, ends=(*bounds.ends[:-1], end))


def again(ground: Ground, order: Order, bounds: Bounds, why: Mapping[str, Any]) -> Draft:
    """What was read before a break in the server's time, once more: it moves no mark, and knows of the break."""
    made = beside(Kind.REPAIR, ground, order, bounds)
    return replace(made, body={**made.body, "again": dict(why)})


def whole(ground: Ground, database: str, table: str, *, proven: bool) -> Draft:
    """The whole table, in one statement and so in one snapshot."""
    facts = _facts(ground) | {"span": Span.ALL, "database": database, "table": table}
    return Draft(
        kind=Kind.SNAPSHOT,
        world=ground.world,
        high=START,
        snapshot=Snapshot(horizon=START, reached=START, done=True),
        proven=proven,
        body=facts,
    )


def _proven(ground: Ground) -> bool:
    return ground.horizon is not None and ground.horizon.proven and not is_remade(ground)


def is_remade(ground: Ground) -> bool:
    """Whether rows may stand below the mark that were never read, for the table was another one when they were due."""
    return ground.made is not None and ground.made.remade is not None


def _body(ground: Ground, order: Order, bounds: Bounds, span: Span) -> dict[str, Any]:
    by_key = span is Span.KEY
    return _facts(ground) | {
        "span": span,
        "database": order.database,
        "table": order.table,
        "index": order.key_index if by_key else order.index,
        "columns": [column.fields() for column in (order.key if by_key else order.columns)],
        "rows_at_most": bounds.rows,
    }


def _facts(ground: Ground) -> dict[str, Any]:
    horizon = ground.horizon
    shown = None if horizon is None else _shown(horizon)
    created = ground.created
    made = ground.made.fields() if ground.made else {}
    return {"horizon": shown, "created": instant_text(created) if created else None, **made}


def _shown(horizon: Horizon) -> dict[str, Any]:
    return {
        "bound": instant_text(horizon.bound) if horizon.bound else None,
        "t0": instant_text(horizon.t0),
        "proven": horizon.proven,
        "reason": horizon.reason,
        "breaks": [each.id for each in horizon.breaks],
    }


def queries_of(plan: Plan, passages: Sequence[Passage], *, own: str | None = None) -> tuple[WindowQuery, ...]:
    """The statements that read a plan: of the sealed plan, the passages and one's own SQL alone."""
    body = plan.draft.body
    if Span(body["span"]) is Span.ALL:
        source = own_rows(own, "TRUE") if own else qualified(body["database"], body["table"])
        return (WindowQuery(window=None, sql=read_rows(selects_of(passages), source, "TRUE")),)
    columns = _columns(body)
    if Span(body["span"]) is Span.ROWS:
        keys = [Cursor.of_texts(key) for key in body["keys"]]
        some = (keys[first : first + KEYS_AT_ONCE] for first in range(0, len(keys), KEYS_AT_ONCE))
        selects = selects_of(passages)
        return tuple(WindowQuery(window=None, sql=_read(body, selects, at_any(columns, each), own)) for each in some)
    selects = selects_of(passages) + _extra(columns, passages)
    return tuple(
        WindowQuery(window=window, sql=_read(body, selects, _condition(body, columns, window), own))
        for window in plan.draft.windows
    )


def _read(body: Mapping[str, Any], selects: Sequence[tuple[str, str]], where: str, own: str | None) -> str:
    if own:
        return read_rows(selects, own_rows(own, where), "TRUE")
    return read_rows(selects, hinted(body["database"], body["table"], body["index"]), where)


def _condition(body: Mapping[str, Any], columns: Sequence[OrderColumn], window: Window) -> str:
    where = within(columns, window)
    if "below" not in body:
        return where
    time = OrderColumn.of_fields(body["time"])
    horizon = Cursor.of_texts([body["below"]])
    return f"{where} AND {below(time, horizon.values[0], nulls=body['nulls'])}"


def reads(plan: Plan) -> bool:
    """Whether a plan was made to read rows from the source in their order, by its body: so it knows the horizon."""
    return plan.draft.body.get("span") not in {Span.NONE, Span.ROWS}


def is_little(draft: Draft) -> bool:
    """Whether a draft reads few rows; of a table that is read whole nobody knows."""
    most = draft.body.get("rows_at_most")
    return most is None or most <= FEWEST_ROWS


def is_served(body: Mapping[str, Any], table: Table) -> bool:
    """Whether the index that a plan's statements name is still there for the columns they need it for."""
    if Span(body["span"]) in {Span.ALL, Span.NONE}:
        return True
    return serves(table, body["index"], [column["name"] for column in body["columns"]])


def order_fields(plan: Plan, passages: Sequence[Passage]) -> tuple[OrderField, ...]:
    """Where each value of a row's position stands among what a query gives."""
    body = plan.draft.body
    if Span(body["span"]) in {Span.ALL, Span.ROWS}:
        return ()
    columns = _columns(body)
    return tuple(
        OrderField(name=name, kind=column.kind) for name, column in zip(_names(columns, passages), columns, strict=True)
    )


def _columns(body: Mapping[str, Any]) -> tuple[OrderColumn, ...]:
    return tuple(map(OrderColumn.of_fields, body["columns"]))


def _names(columns: Sequence[OrderColumn], passages: Sequence[Passage]) -> list[str]:
    """A passage's own field where it carries the order's value, else one beside it."""
    return [_carrier(column, passages) or f"_syncd_order_{place}" for place, column in enumerate(columns)]


def _carrier(column: OrderColumn, passages: Sequence[Passage]) -> str | None:
    """The field in which a value of the order travels already: in its very form, or as an integer of the same column.

    An integer of 64 bits without a sign travels in the two's complement of one, which whoever holds rows against
    their window knows from the passage.
    """
    for passage in passages:
        integer = column.kind is ValueKind.INT and passage.travel is Travel.INTEGER and passage.whole_number
        if passage.select == column.select or (integer and passage.column == column.name):
            return passage.name
    return None


def _extra(columns: Sequence[OrderColumn], passages: Sequence[Passage]) -> list[tuple[str, str]]:
    beside = ((column, place) for place, column in enumerate(columns) if _carrier(column, passages) is None)
    return [(column.select, f"_syncd_order_{place}") for column, place in beside]
