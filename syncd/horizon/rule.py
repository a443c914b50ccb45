"""The rule of the horizon: the readings of one poll and the notes of the one before -> a bound for each table.

Each statement that runs and each transaction that changed rows gets a lower bound of the stamps that it can
still bring; the horizon of a table is the lowest of those that may write to it. Why that is sound, and in which
order the readings must be taken, is argued in `docs/horizon.md`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from syncd.horizon.notes import Candidate, Notes, joined, thinned
from syncd.horizon.readings import NO_CLIENT, Readings, Sight, Thread, Writer
from syncd.horizon.statements import writes
from syncd.ports.source import Asked, Break, Horizon, TableName
from watermarks.cursor import instant_text

PATIENCE: Final = timedelta(seconds=30)
"""How long the notes of a fuller sight are kept for while only some tables can be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Something that may still bring stamps."""

    since: datetime | None
    """Not after the first of them; None where that is not known."""
    who: str
    tables: frozenset[TableName] | None
    """The only tables it may write to, folded; None: any."""
    is_met: bool = True
    """Whether it is known to be there for about so long; else it may have come a moment ago, since the poll before."""

    def touches(self, table: TableName) -> bool:
        return self.tables is None or table in self.tables


def judge(
    readings: Readings, before: Notes | None, asked: Sequence[Asked]
) -> tuple[Mapping[TableName, Horizon], Notes | None]:
    """The horizon of each table asked for, and the notes for the next poll."""
    known, replaced, breaks = _usable(readings, before)
    horizons, notes = _judged(readings, before, asked, known=known, replaced=replaced, breaks=breaks)
    return {table: replace(horizon, breaks=breaks) for table, horizon in horizons.items()}, notes


def _judged(
    readings: Readings,
    before: Notes | None,
    asked: Sequence[Asked],
    *,
    known: Notes | None,
    replaced: bool,
    breaks: tuple[Break, ...],
) -> tuple[Mapping[TableName, Horizon], Notes | None]:
    if readings.sight in {Sight.NOTHING, Sight.BLIND}:
        # Old notes stay right: whatever they bound, they bound it too low rather than too high.
        return {each.table: _without_sight(each, readings, known, doubted=replaced) for each in asked}, before
    writers = _writers_since(readings, known)
    holds = (*_statements(readings, known), *_transactions(readings, writers, known))
    unseen = [Hold(since=None, who="whoever wrote there unseen", tables=_unseen(asked, readings))]
    answers = {each.table: _horizon(each, readings, (*unseen, *holds), known, doubted=replaced) for each in asked}
    seen = Notes(
        identity=readings.identity,
        t0=readings.t0,
        running={thread.connection: _since(thread, readings, known) for thread in readings.threads if thread.stamps},
        writers=writers,
        tables=readings.tables,
        replaced=replaced and None in writers.values(),
        here=readings.here,
        breaks=breaks,
    )
    return _with_ids(answers, asked, readings, _next_notes(seen, readings, known))


def _unseen(asked: Sequence[Asked], readings: Readings) -> frozenset[TableName]:
    """Tables that were asked for after the server had been."""
    return frozenset(each.table.folded for each in asked if readings.tables is not None) - (
        readings.tables or frozenset()
    )


def _usable(readings: Readings, before: Notes | None) -> tuple[Notes | None, bool, tuple[Break, ...]]:
    """The notes, if they are of this server's time; whether that is still in doubt; and every break in it."""
    if before is None:
        return None, False, ()
    found = _break(readings, before)
    if found is None:
        return before, before.replaced, before.breaks
    return None, True, joined(before.breaks, (found,))


def _break(readings: Readings, before: Notes) -> Break | None:
    """What came between the notes and this poll."""
    # Named by the notes alone: as long as they stay, every poll that meets it means the same break.
    seen = f"{before.identity}, {instant_text(before.t0)}"
    if before.identity != readings.identity:
        return Break(id=f"{seen}: {readings.identity}", other=True)
    if readings.t0 >= before.t0:
        return None
    # It may have gone on for a while before it went back, and for a while since: no longer than we were away. For how
    # long that was only our own clock can tell, and if that went back as well, nothing can.
    away = readings.here - before.here if readings.here and before.here else timedelta()
    return Break(id=f"{seen}: clock", low=readings.t0 - away if away > timedelta() else None)


def _next_notes(seen: Notes, readings: Readings, known: Notes | None) -> Notes:
    """What was seen, unless a fuller sight is worth waiting for; answers and candidates live on either way."""
    if known is None:
        return seen
    narrower = known.tables is None and readings.tables is not None
    kept = known if narrower and readings.passing and readings.t0 - known.t0 < PATIENCE else seen
    return replace(kept, answers=known.answers, candidates=known.candidates, breaks=seen.breaks)


# Lower bounds.


def _since(thread: Thread, readings: Readings, known: Notes | None) -> datetime:
    """An instant not after the start of the thread's statement."""
    began = readings.began(thread)
    if known is not None and thread.connection not in known.running:
        # It did not run when the last poll listed statements, and that was after its t0.
        return max(began, known.t0)
    return began


def _writers_since(readings: Readings, known: Notes | None) -> dict[str, datetime | None]:
    """Of each transaction that changed rows, an instant not after its first stamp."""
    if known is None or not _covers(known, readings):
        # A transaction may have changed rows of a table that nobody looked at.
        return {writer.trx_id: None for writer in readings.writers}
    return {
        writer.trx_id: known.writers[writer.trx_id] if writer.trx_id in known.writers else _first_seen(writer, known)
        for writer in readings.writers
    }


def _covers(known: Notes, readings: Readings) -> bool:
    return known.tables is None or (readings.tables is not None and readings.tables <= known.tables)


def _first_seen(writer: Writer, known: Notes) -> datetime:
    """None of its statements had changed rows when the last poll looked: each began since, or ran at that time."""
    if writer.xa or writer.connection == NO_CLIENT or writer.table is not None:
        # Which connection began it is not known any more, so every statement of that time counts.
        return min((known.t0, *known.running.values()))
    return min(known.t0, known.running.get(writer.connection, known.t0))


# Who may write where.


def _statements(readings: Readings, known: Notes | None) -> list[Hold]:
    return [
        Hold(
            since=_since(thread, readings, known),
            who=f"a statement of connection {thread.connection}, user {thread.user or 'unknown'}",
            tables=_tables_of_statement(thread, readings),
        )
        for thread in readings.threads
        if thread.stamps and thread.connection not in readings.read_only
    ]


def _tables_of_statement(thread: Thread, readings: Readings) -> frozenset[TableName] | None:
    if readings.locks is None or not thread.past_locking:
        return None
    if thread.holder not in readings.locks and writes(thread.kind):
        return None  # locks were not watched yet when it took its own
    return readings.locks.get(thread.holder, frozenset())


def _transactions(readings: Readings, since: Mapping[str, datetime | None], known: Notes | None) -> list[Hold]:
    users = {thread.connection: thread.user for thread in readings.threads}
    holders = frozenset(thread.holder for thread in readings.threads)
    return [
        Hold(
            since=since[writer.trx_id],
            who=f"transaction {writer.trx_id}, {_client(writer, users)}",
            tables=_tables_of_writer(writer, readings, holders),
            is_met=known is not None and writer.trx_id in known.writers,
        )
        for writer in readings.writers
    ]


def _client(writer: Writer, users: Mapping[int, str]) -> str:
    if writer.connection == NO_CLIENT:
        return "prepared, without a client (XA RECOVER lists it)"
    return f"user {users.get(writer.connection) or 'unknown'}"


def _tables_of_writer(writer: Writer, readings: Readings, holders: frozenset[int]) -> frozenset[TableName] | None:
    if writer.table is not None:
        return frozenset({writer.table.folded})
    detached = writer.xa or writer.connection == NO_CLIENT or writer.holder not in holders
    if readings.locks is None or detached:
        return None
    # Who changed rows holds a write lock; where none is seen, locks are kept under another name (a prepared XA).
    return readings.locks.get(writer.holder) or None


# Answers.


def _horizon(asked: Asked, readings: Readings, holds: Sequence[Hold], known: Notes | None, *, doubted: bool) -> Horizon:
    if not asked.transactional:
        return _settled(asked, readings, f"{asked.table} is not of InnoDB")
    t0, identity = readings.t0, readings.identity
    last = known.answers.get(asked.table) if known else None
    # The mark is of the time before: what is open since then may stamp rows below it.
    mark = None if doubted else asked.mark
    floor = max((instant for instant in (last, mark) if instant is not None), default=None)
    bound, who, holder = t0, "", ""
    for hold in holds:
        if not hold.touches(asked.table.folded):
            continue
        since = hold.since or floor
        if since is None:
            reason = f"waits for {hold.who}, open since before it was asked"
            return Horizon(bound=None, proven=False, t0=t0, identity=identity, reason=reason)
        if since < bound:
            bound, who, holder = since, hold.who, hold.who if hold.is_met else ""
    if last is not None and last > bound:
        bound = last  # only a stamp set by hand could lie below what was complete once
    reason = f"held by {who}, {_seconds(t0 - bound)}" if who else ""
    if doubted:
        reason = "; ".join(filter(None, ("another server answers, or its clock went back", reason)))
    return Horizon(bound=bound, proven=not doubted, t0=t0, identity=identity, reason=reason, holder=holder)


def _seconds(age: timedelta) -> str:
    return f"{age.total_seconds():.0f} s"


def _without_sight(asked: Asked, readings: Readings, known: Notes | None, *, doubted: bool) -> Horizon:
    if readings.sight is Sight.NOTHING or not asked.transactional:
        return _settled(asked, readings, readings.trouble)
    last = known.answers.get(asked.table) if known else None
    mark = None if doubted else asked.mark
    bound = max((instant for instant in (last, mark) if instant is not None), default=None)
    proven = bound is not None and not doubted
    return Horizon(bound=bound, proven=proven, t0=readings.t0, identity=readings.identity, reason=readings.trouble)


def _settled(asked: Asked, readings: Readings, why: str) -> Horizon:
    reason = f"not proven: {why}; stays {_seconds(asked.settle)} behind"
    bound = readings.t0 - asked.settle
    return Horizon(bound=bound, proven=False, t0=readings.t0, identity=readings.identity, reason=reason)


# Ids, which commit out of order: those up to MAX(id) are complete once a horizon has reached the t0 after that reading.


def _with_ids(
    answers: Mapping[TableName, Horizon],
    asked: Sequence[Asked],
    readings: Readings,
    notes: Notes,
) -> tuple[Mapping[TableName, Horizon], Notes]:
    """Give each answer the ids that it proves, and note the answers."""
    bounds, candidates = dict(notes.answers), dict(notes.candidates)
    told: dict[TableName, Horizon] = {}
    for each in asked:
        # As the server spells it: where it tells two spellings apart, one table's numbers are none of the other's.
        name, answer = each.table, answers[each.table]
        if answer.proven and answer.bound is not None:
            bounds[name] = answer.bound
        found = tuple(one for one in candidates.pop(name, ()) if _is_of_its_life(one, each))
        if name in readings.ids:
            # Of this poll too: its highest id was read before its t0.
            found = (*found, Candidate(t0=readings.t0, highest=readings.ids[name]))
        passed = [one for one in found if answer.bound is not None and one.t0 <= answer.bound]
        if each.id_column is not None and passed:
            answer = replace(answer, ids=passed[-1].highest)
        if found:
            candidates[name] = thinned((*passed[-1:], *(one for one in found if one not in passed)))
        told[each.table] = answer
    return told, replace(notes, answers=bounds, candidates=candidates)


def _is_of_its_life(candidate: Candidate, asked: Asked) -> bool:
    """Whether an id was read of the very table that is asked for: one that was made since numbers its rows anew."""
    return asked.made is None or candidate.t0 >= asked.made
