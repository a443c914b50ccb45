"""Adoption: up to which position a table that somebody else loaded can be taken over, and what was found on the way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from syncd.errors import ConfigError
from syncd.settings import Mode, StreamSettings
from syncd.tables.order_clock import Clock
from syncd.tables.sort_order import BY_KEY, WHOLE, Order
from syncd.verify.compared_columns import Compared
from syncd.verify.key_ranges import ThereColumn
from syncd.verify.result import READ_AGAIN, Verdict
from watermarks.cursor import Cursor, Kind, Value
from watermarks.errors import DataInDoubt, Misuse
from watermarks.legacy import Legacy

_MICROSECOND: Final = timedelta(microseconds=1)


class Differs(DataInDoubt):
    """The target is not what the source is, below the mark that would be taken."""


class NothingThere(Misuse):
    """There is no row that could be taken over."""


class By(StrEnum):
    """What decided where the mark can stand."""

    TARGET = "target"
    """The last row that the target has."""
    DOCUMENT = "document"
    """How far the earlier tool says that it read."""
    ASKED = "asked"
    """Whoever asked named the place."""
    HORIZON = "horizon"
    """What lies above it can still be committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A position that the mark must not pass."""

    cursor: Cursor
    by: By


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """Below which position a table is complete at the source, by one poll of its server."""

    cursor: Cursor
    proven: bool
    reason: str
    """What holds it there, or keeps it from being proven."""
    source_identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """A document of the earlier tool, and where it lies."""

    at: str
    legacy: Legacy


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found of one table: where its marks can stand, and how the target compares up to there."""

    run: str
    at: datetime
    target: str
    mark: Cursor
    by: By
    since: Cursor | None
    closed: Closed
    verdict: Verdict
    inherited: Inherited | None = None
    strangers: tuple[str, ...] = ()
    """Columns of the target that the source has not, and that new rows will leave NULL."""
    lowest: datetime | None = None
    """The earliest stamp at the source of a row that differs; None where none does, or it is not known."""

    @property
    def equal(self) -> bool:
        return self.verdict.counts.total() == 0

    @property
    def proven(self) -> bool:
        """Whether nothing at or below the mark is in doubt, or can still come."""
        return self.equal and self.closed.proven and self.since is None

    @property
    def proof(self) -> Mapping[str, Any]:
        """What history keeps of it."""
        verdict, closed = self.verdict, self.closed
        return {
            "run": self.run,
            "at": self.at.isoformat(),
            "target": self.target,
            "mark": self.mark.texts(),
            "limited_by": self.by,
            "since": self.since.texts() if self.since else None,
            "closed_up_to": closed.cursor.texts(),
            "closed_is_proven": closed.proven,
            "source_identity": closed.source_identity,
            "rows": verdict.rows,
            "ranges": verdict.ranges,
            "differences": {str(kind): count for kind, count in verdict.counts.items() if count},
            "kept": verdict.kept,
            "left_out": verdict.left_out.told,
            "fetched_only": [one.name for one in verdict.unlike],
            "document_at": self.inherited.at if self.inherited else None,
        }


def require_adoptable(settings: StreamSettings) -> None:
    """Make sure that a stream goes on from a mark, and tells versions apart by what any table has.

    Raises:
        ConfigError: it has no target, is read whole each time, or keeps history.
    """
    name = settings.name
    if settings.target is None:
        raise ConfigError(f"{name} has no warehouse", hint="Add `warehouse:` to the configuration.")
    if settings.cursor == WHOLE or settings.mode is Mode.REPLACE:
        raise ConfigError(
            f"{name} is read whole each time: it has no mark to take over", hint=f"Just run it: syncd run -t {name}"
        )
    if settings.mode is Mode.HISTORY:
        raise ConfigError(
            f"{name} keeps history, and which rows of a strange table are versions of which, only columns of ours tell",
            hint="Take it over with `mode: upsert`, or let syncd make a table of its own: name another `target`.",
        )


def said_by(order: Order, inherited: Inherited) -> Limit:
    """The position behind all that the earlier tool says it read.

    Its times are the readings of the column, whatever zone they were labelled with.

    Raises:
        Misuse: it says nothing of the order of this stream.
    """
    legacy, clock = inherited.legacy, order.clock
    table = f"{order.database}.{order.table}"
    alone = f"Without it the target's own last row decides: syncd watermark import -t {table}"
    if clock is None:
        if legacy.key is None or [column.kind for column in order.columns] != [Kind.INT]:
            raise Misuse(f"{inherited.at} says no key, and {table} is read by its key", hint=alone)
        return Limit(cursor=Cursor.of(legacy.key), by=By.DOCUMENT)
    if legacy.timestamp is None:
        raise Misuse(f"{inherited.at} says no time up to which {table} was read", hint=alone)
    return Limit(cursor=Cursor((_reading(clock, legacy.timestamp + _MICROSECOND),)), by=By.DOCUMENT)


def _reading(clock: Clock, instant: datetime) -> Value:
    return replace(clock, zone=instant.tzinfo or clock.zone).ceil(instant)


def lowest(limits: Sequence[Limit]) -> Limit:
    """The one that comes first."""
    found = limits[0]
    for limit in limits[1:]:
        found = limit if limit.cursor < found.cursor else found
    return found


def placed(compared: Compared) -> tuple[ThereColumn, ...]:
    """The columns of the order in the target, as far as positions in them mean the same there."""
    time = compared.order.time
    by_name = dict(
        zip((column.name for column in compared.here_columns), compared.there_columns, strict=True),
    )
    found: list[ThereColumn] = []
    for column in compared.order.columns:
        there = compared.cursor if column is time else by_name.get(column.name)
        if there is None:
            break
        found.append(there)
    return tuple(found)


def behind(order: Order, last: Cursor) -> Cursor:
    """The mark behind the target's last row; where its key says nothing there, behind all rows of its instant."""
    if len(last) == len(order.columns):
        return last
    assert order.clock
    plain = last.values[0].plain
    if isinstance(plain, datetime):
        return Cursor((Value(last.values[0].kind, plain + timedelta(seconds=1) / order.clock.per_second),))
    assert isinstance(plain, int)
    return Cursor((Value(Kind.INT, plain + 1),))


def require_equal(found: Found, settings: StreamSettings) -> None:
    """Make sure that the target is what the source is, up to the mark.

    Raises:
        Differs: it is not; the hint is what can be done, of which each is compared again before it counts.
    """
    if found.equal:
        return
    counts = found.verdict.counts
    told = ", ".join(f"{counts[kind]:,} {kind}" for kind in sorted(counts) if counts[kind])
    name = settings.name
    mend = (
        f"Take it over and mend these rows: syncd watermark import -t {name} --with-differences,"
        f" then syncd verify -t {name} --repair --yes."
    )
    lower = ""
    if found.lowest is not None and settings.cursor != BY_KEY:
        at = f"{found.lowest:%Y-%m-%d %H:%M:%S.%f}".removesuffix(".000000")
        lower = f" Or stand below them all, and read on from there: syncd watermark import -t {name} --timestamp '{at}'"
    raise Differs(
        f"{found.target} is not what {name} is at the source: {told}, among {found.verdict.rows:,} rows",
        hint=mend + lower,
    )


def can_stand_lower(verdict: Verdict) -> bool:
    """Whether a lower mark would leave all differences to the next run: each is known, and comes of being read."""
    kinds = {kind for kind, count in verdict.counts.items() if count}
    known = all(one.position is not None for one in verdict.differences)
    return bool(kinds) and kinds <= READ_AGAIN and known and len(verdict.differences) == verdict.counts.total()
