"""The rule of the horizon: the readings of one poll and the notes of the one before -> a bound for each table.

Each statement that runs and each transaction that changed rows gets a lower bound of the stamps that it can
still bring; the horizon of a table is the lowest of those that may write to it. Why that is sound, and in which
order the readings must be taken, is argued in `docs/explanation/horizon.md`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from syncd.horizon.notes import HorizonNotes, IdCandidate, merge_breaks, thin_candidates
from syncd.horizon.readings import NO_CONNECTION, HorizonPoll, ServerThread, Visibility, WritingTransaction
from syncd.horizon.statements import may_write
from syncd.ports.source import Horizon, HorizonRequest, ServerTimeBreak, TableName
from watermarks.cursor import format_instant

FULL_NOTES_RETENTION: Final = timedelta(seconds=30)
"""How long the notes of a fuller sight are kept for while only some tables can be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonHold:
    """Something that may still bring stamps."""

    since: datetime | None
    """Not after the first of them; None where that is not known."""
    description: str
    tables: frozenset[TableName] | None
    """The only tables it may write to, folded; None: any."""
    is_seen_before: bool = True
    """Whether it is known to be there for about so long; else it may have come a moment ago, since the poll before."""

    def may_write_to(self, table: TableName) -> bool:
        return self.tables is None or table in self.tables


def compute_horizons(
    poll: HorizonPoll, previous: HorizonNotes | None, requests: Sequence[HorizonRequest]
) -> tuple[Mapping[TableName, Horizon], HorizonNotes | None]:
    """The horizon of each table asked for, and the notes for the next poll."""
    known, replaced, breaks = _usable_notes(poll, previous)
    horizons, notes = _compute_answers(poll, previous, requests, known=known, replaced=replaced, breaks=breaks)
    return {table: replace(horizon, breaks=breaks) for table, horizon in horizons.items()}, notes


def _compute_answers(
    readings: HorizonPoll,
    before: HorizonNotes | None,
    asked: Sequence[HorizonRequest],
    *,
    known: HorizonNotes | None,
    replaced: bool,
    breaks: tuple[ServerTimeBreak, ...],
) -> tuple[Mapping[TableName, Horizon], HorizonNotes | None]:
    if readings.visibility in {Visibility.NOTHING, Visibility.BLIND}:
        # Old notes stay right: whatever they bound, they bound it too low rather than too high.
        return {each.table: _horizon_without_sight(each, readings, known, doubted=replaced) for each in asked}, before
    writers = _first_stamps(readings, known)
    holds = (*_statement_holds(readings, known), *_transaction_holds(readings, writers, known))
    unseen = [HorizonHold(since=None, description="whoever wrote there unseen", tables=_unseen_tables(asked, readings))]
    answers = {each.table: _table_horizon(each, readings, (*unseen, *holds), known, doubted=replaced) for each in asked}
    seen = HorizonNotes(
        identity=readings.identity,
        t0=readings.t0,
        statement_starts={
            thread.connection: _statement_start(thread, readings, known)
            for thread in readings.threads
            if thread.may_stamp
        },
        first_stamps=writers,
        tables=readings.tables,
        is_break_open=replaced and None in writers.values(),
        local_time=readings.local_time,
        breaks=breaks,
    )
    return _add_complete_ids(answers, asked, readings, _next_notes(seen, readings, known))


def _unseen_tables(asked: Sequence[HorizonRequest], readings: HorizonPoll) -> frozenset[TableName]:
    """Tables that were asked for after the server had been."""
    return frozenset(each.table.normal_form for each in asked if readings.tables is not None) - (
        readings.tables or frozenset()
    )


def _usable_notes(
    readings: HorizonPoll, before: HorizonNotes | None
) -> tuple[HorizonNotes | None, bool, tuple[ServerTimeBreak, ...]]:
    """The notes, if they are of this server's time; whether that is still in doubt; and every break in it."""
    if before is None:
        return None, False, ()
    found = _find_break(readings, before)
    if found is None:
        return before, before.is_break_open, before.breaks
    return None, True, merge_breaks(before.breaks, (found,))


def _find_break(readings: HorizonPoll, before: HorizonNotes) -> ServerTimeBreak | None:
    """What came between the notes and this poll."""
    # Named by the notes alone: as long as they stay, every poll that meets it means the same break.
    seen = f"{before.identity}, {format_instant(before.t0)}"
    if before.identity != readings.identity:
        return ServerTimeBreak(id=f"{seen}: {readings.identity}", is_other_server=True)
    if readings.t0 >= before.t0:
        return None
    # It may have gone on for a while before it went back, and for a while since: no longer than we were away. For how
    # long that was only our own clock can tell, and if that went back as well, nothing can.
    away = readings.local_time - before.local_time if readings.local_time and before.local_time else timedelta()
    return ServerTimeBreak(id=f"{seen}: clock", clock_reset_to=readings.t0 - away if away > timedelta() else None)


def _next_notes(seen: HorizonNotes, readings: HorizonPoll, known: HorizonNotes | None) -> HorizonNotes:
    """What was seen, unless a fuller sight is worth waiting for; answers and candidates live on either way."""
    if known is None:
        return seen
    narrower = known.tables is None and readings.tables is not None
    kept = known if narrower and readings.is_temporary and readings.t0 - known.t0 < FULL_NOTES_RETENTION else seen
    return replace(kept, proven_bounds=known.proven_bounds, candidates=known.candidates, breaks=seen.breaks)


# Lower bounds.


def _statement_start(thread: ServerThread, readings: HorizonPoll, known: HorizonNotes | None) -> datetime:
    """An instant not after the start of the thread's statement."""
    began = readings.statement_start(thread)
    if known is not None and thread.connection not in known.statement_starts:
        # It did not run when the last poll listed statements, and that was after its t0.
        return max(began, known.t0)
    return began


def _first_stamps(readings: HorizonPoll, known: HorizonNotes | None) -> dict[str, datetime | None]:
    """Of each transaction that changed rows, an instant not after its first stamp."""
    if known is None or not _covers(known, readings):
        # A transaction may have changed rows of a table that nobody looked at.
        return {writer.trx_id: None for writer in readings.writers}
    return {
        writer.trx_id: known.first_stamps[writer.trx_id]
        if writer.trx_id in known.first_stamps
        else _first_stamp(writer, known)
        for writer in readings.writers
    }


def _covers(known: HorizonNotes, readings: HorizonPoll) -> bool:
    return known.tables is None or (readings.tables is not None and readings.tables <= known.tables)


def _first_stamp(writer: WritingTransaction, known: HorizonNotes) -> datetime:
    """None of its statements had changed rows when the last poll looked: each began since, or ran at that time."""
    if writer.xa or writer.connection == NO_CONNECTION or writer.table is not None:
        # Which connection began it is not known any more, so every statement of that time counts.
        return min((known.t0, *known.statement_starts.values()))
    return min(known.t0, known.statement_starts.get(writer.connection, known.t0))


# Who may write where.


def _statement_holds(readings: HorizonPoll, known: HorizonNotes | None) -> list[HorizonHold]:
    return [
        HorizonHold(
            since=_statement_start(thread, readings, known),
            description=f"a statement of connection {thread.connection}, user {thread.user or 'unknown'}",
            tables=_tables_of_statement(thread, readings),
        )
        for thread in readings.threads
        if thread.may_stamp and thread.connection not in readings.read_only
    ]


def _tables_of_statement(thread: ServerThread, readings: HorizonPoll) -> frozenset[TableName] | None:
    if readings.locks is None or not thread.has_all_locks:
        return None
    if thread.lock_owner not in readings.locks and may_write(thread.kind):
        return None  # locks were not watched yet when it took its own
    return readings.locks.get(thread.lock_owner, frozenset())


def _transaction_holds(
    readings: HorizonPoll, since: Mapping[str, datetime | None], known: HorizonNotes | None
) -> list[HorizonHold]:
    users = {thread.connection: thread.user for thread in readings.threads}
    holders = frozenset(thread.lock_owner for thread in readings.threads)
    return [
        HorizonHold(
            since=since[writer.trx_id],
            description=f"transaction {writer.trx_id}, {_describe_client(writer, users)}",
            tables=_tables_of_writer(writer, readings, holders),
            is_seen_before=known is not None and writer.trx_id in known.first_stamps,
        )
        for writer in readings.writers
    ]


def _describe_client(writer: WritingTransaction, users: Mapping[int, str]) -> str:
    if writer.connection == NO_CONNECTION:
        return "prepared, without a client (XA RECOVER lists it)"
    return f"user {users.get(writer.connection) or 'unknown'}"


def _tables_of_writer(
    writer: WritingTransaction, readings: HorizonPoll, holders: frozenset[int]
) -> frozenset[TableName] | None:
    if writer.table is not None:
        return frozenset({writer.table.normal_form})
    detached = writer.xa or writer.connection == NO_CONNECTION or writer.lock_owner not in holders
    if readings.locks is None or detached:
        return None
    # Who changed rows holds a write lock; where none is seen, locks are kept under another name (a prepared XA).
    return readings.locks.get(writer.lock_owner) or None


# Answers.


def _table_horizon(
    asked: HorizonRequest,
    readings: HorizonPoll,
    holds: Sequence[HorizonHold],
    known: HorizonNotes | None,
    *,
    doubted: bool,
) -> Horizon:
    if not asked.transactional:
        return _assumed_horizon(asked, readings, f"{asked.table} is not of InnoDB")
    t0, identity = readings.t0, readings.identity
    last = known.proven_bounds.get(asked.table) if known else None
    # The mark is of the time before: what is open since then may stamp rows below it.
    mark = None if doubted else asked.mark
    floor = max((instant for instant in (last, mark) if instant is not None), default=None)
    bound, who, holder = t0, "", ""
    for hold in holds:
        if not hold.may_write_to(asked.table.normal_form):
            continue
        since = hold.since or floor
        if since is None:
            reason = f"waits for {hold.description}, open since before it was asked"
            return Horizon(bound=None, proven=False, t0=t0, identity=identity, reason=reason)
        if since < bound:
            bound, who, holder = since, hold.description, hold.description if hold.is_seen_before else ""
    if last is not None and last > bound:
        bound = last  # only a stamp set by hand could lie below what was complete once
    reason = f"held by {who}, {_format_seconds(t0 - bound)}" if who else ""
    if doubted:
        reason = "; ".join(filter(None, ("another server answers, or its clock went back", reason)))
    return Horizon(bound=bound, proven=not doubted, t0=t0, identity=identity, reason=reason, holder=holder)


def _format_seconds(age: timedelta) -> str:
    return f"{age.total_seconds():.0f} s"


def _horizon_without_sight(
    asked: HorizonRequest, readings: HorizonPoll, known: HorizonNotes | None, *, doubted: bool
) -> Horizon:
    if readings.visibility is Visibility.NOTHING or not asked.transactional:
        return _assumed_horizon(asked, readings, readings.problem)
    last = known.proven_bounds.get(asked.table) if known else None
    mark = None if doubted else asked.mark
    bound = max((instant for instant in (last, mark) if instant is not None), default=None)
    proven = bound is not None and not doubted
    return Horizon(bound=bound, proven=proven, t0=readings.t0, identity=readings.identity, reason=readings.problem)


def _assumed_horizon(asked: HorizonRequest, readings: HorizonPoll, why: str) -> Horizon:
    reason = f"not proven: {why}; stays {_format_seconds(asked.settle)} behind"
    bound = readings.t0 - asked.settle
    return Horizon(bound=bound, proven=False, t0=readings.t0, identity=readings.identity, reason=reason)


# Ids, which commit out of order: those up to MAX(id) are complete once a horizon has reached the t0 after that reading.


def _add_complete_ids(
    answers: Mapping[TableName, Horizon],
    asked: Sequence[HorizonRequest],
    readings: HorizonPoll,
    notes: HorizonNotes,
) -> tuple[Mapping[TableName, Horizon], HorizonNotes]:
    """Give each answer the ids that it proves, and note the answers."""
    bounds, candidates = dict(notes.proven_bounds), dict(notes.candidates)
    told: dict[TableName, Horizon] = {}
    for each in asked:
        # As the server spells it: where it tells two spellings apart, one table's numbers are none of the other's.
        name, answer = each.table, answers[each.table]
        if answer.proven and answer.bound is not None:
            bounds[name] = answer.bound
        found = tuple(one for one in candidates.pop(name, ()) if _is_of_same_table(one, each))
        if name in readings.max_ids:
            # Of this poll too: its highest id was read before its t0.
            found = (*found, IdCandidate(t0=readings.t0, highest=readings.max_ids[name]))
        passed = [one for one in found if answer.bound is not None and one.t0 <= answer.bound]
        if each.id_column is not None and passed:
            answer = replace(answer, max_complete_id=passed[-1].highest)
        if found:
            candidates[name] = thin_candidates((*passed[-1:], *(one for one in found if one not in passed)))
        told[each.table] = answer
    return told, replace(notes, proven_bounds=bounds, candidates=candidates)


def _is_of_same_table(candidate: IdCandidate, asked: HorizonRequest) -> bool:
    """Whether an id was read of the very table that is asked for: one that was made since numbers its rows anew."""
    return asked.table_created_at is None or candidate.t0 >= asked.table_created_at
