"""Horizon rule: the readings of one poll and the notes of the previous one give a bound for each table.

Each running statement and each transaction that changed rows gets a lower bound of the stamps that it can still
bring. The horizon of a table is the lowest bound of those that may write to it. `docs/explanation/horizon.md` argues
why that is sound, and in which order the readings must be taken.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from syncd.events import WaitKind, WaitReason, with_context
from syncd.horizon.horizon_notes import HorizonNotes, IdCandidate, merge_breaks, thin_candidates
from syncd.horizon.running_statements import may_write
from syncd.horizon.transaction_readings import NO_CONNECTION, HorizonPoll, ServerThread, Visibility, WritingTransaction
from syncd.ports.source import Horizon, HorizonRequest, ServerTimeBreak, TableName
from watermarks.cursor import format_instant

FULL_NOTES_RETENTION: Final = timedelta(seconds=30)
"""While only some tables are visible, the notes of a full view are kept this long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonHold:
    """A statement or transaction that may still bring stamps."""

    since: datetime | None
    """An instant not after the first of them; None if unknown."""
    description: str
    tables: frozenset[TableName] | None
    """The only tables it may write to, folded; None: any."""
    is_seen_before: bool = True
    """Whether an earlier poll saw it; otherwise it may have begun since that poll."""

    def may_write_to(self, table: TableName) -> bool:
        return self.tables is None or table in self.tables


def compute_horizons(
    poll: HorizonPoll, previous: HorizonNotes | None, requests: Sequence[HorizonRequest]
) -> tuple[Mapping[TableName, Horizon], HorizonNotes | None]:
    """Return the horizon of each requested table, and the notes for the next poll."""
    known, is_break_open, breaks = _usable_notes(poll, previous)
    horizons, notes = _compute_answers(
        poll, previous, requests, known=known, is_break_open=is_break_open, breaks=breaks
    )
    return {table: replace(horizon, breaks=breaks) for table, horizon in horizons.items()}, notes


def _compute_answers(
    readings: HorizonPoll,
    before: HorizonNotes | None,
    requests: Sequence[HorizonRequest],
    *,
    known: HorizonNotes | None,
    is_break_open: bool,
    breaks: tuple[ServerTimeBreak, ...],
) -> tuple[Mapping[TableName, Horizon], HorizonNotes | None]:
    if readings.visibility in {Visibility.NOTHING, Visibility.BLIND}:
        # Old notes stay valid: their bounds are too low rather than too high.
        return {
            each.table: _horizon_without_sight(each, readings, known, is_doubted=is_break_open) for each in requests
        }, before
    writers = _first_stamps(readings, known)
    holds = (*_statement_holds(readings, known), *_transaction_holds(readings, writers, known))
    unseen = [
        HorizonHold(since=None, description="a writer that is not visible", tables=_unseen_tables(requests, readings))
    ]
    horizons = {
        each.table: _table_horizon(each, readings, (*unseen, *holds), known, is_doubted=is_break_open)
        for each in requests
    }
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
        is_break_open=is_break_open and None in writers.values(),
        local_time=readings.local_time,
        breaks=breaks,
    )
    return _add_complete_ids(horizons, requests, readings, _next_notes(seen, readings, known))


def _unseen_tables(requests: Sequence[HorizonRequest], readings: HorizonPoll) -> frozenset[TableName]:
    """Return the requested tables that the poll did not cover."""
    return frozenset(each.table.normal_form for each in requests if readings.tables is not None) - (
        readings.tables or frozenset()
    )


def _usable_notes(
    readings: HorizonPoll, before: HorizonNotes | None
) -> tuple[HorizonNotes | None, bool, tuple[ServerTimeBreak, ...]]:
    """Return the notes if they are of this server's time, whether that is in doubt, and every known break."""
    if before is None:
        return None, False, ()
    new_break = _find_break(readings, before)
    if new_break is None:
        return before, before.is_break_open, before.breaks
    return None, True, merge_breaks(before.breaks, (new_break,))


def _find_break(readings: HorizonPoll, before: HorizonNotes) -> ServerTimeBreak | None:
    """Return the break between the notes and this poll, if there is one."""
    # The id depends on the notes alone, so that every poll that meets these notes names the same break.
    seen = f"{before.identity}, {format_instant(before.t0)}"
    if before.identity != readings.identity:
        return ServerTimeBreak(id=f"{seen}: {readings.identity}", is_other_server=True)
    if readings.t0 >= before.t0:
        return None
    # The server's clock may have run on before it went back, and since, but no longer than the time between the polls.
    # Only this machine's clock can measure that time; if it went back too, nothing can.
    elapsed = readings.local_time - before.local_time if readings.local_time and before.local_time else timedelta()
    return ServerTimeBreak(id=f"{seen}: clock", clock_reset_to=readings.t0 - elapsed if elapsed > timedelta() else None)


def _next_notes(seen: HorizonNotes, readings: HorizonPoll, known: HorizonNotes | None) -> HorizonNotes:
    """Return the new notes, or the older ones of a fuller view that may return; bounds and candidates are kept."""
    if known is None:
        return seen
    narrower = known.tables is None and readings.tables is not None
    kept = known if narrower and readings.is_temporary and readings.t0 - known.t0 < FULL_NOTES_RETENTION else seen
    return replace(kept, proven_bounds=known.proven_bounds, candidates=known.candidates, breaks=seen.breaks)


# Lower bounds.


def _statement_start(thread: ServerThread, readings: HorizonPoll, known: HorizonNotes | None) -> datetime:
    """Return an instant not after the start of the thread's statement."""
    began = readings.statement_start(thread)
    if known is not None and thread.connection not in known.statement_starts:
        # It did not run when the last poll listed statements, which was after that poll's t0.
        return max(began, known.t0)
    return began


def _first_stamps(readings: HorizonPoll, known: HorizonNotes | None) -> dict[str, datetime | None]:
    """Return for each transaction that changed rows an instant not after its first stamp."""
    if known is None or not _covers(known, readings):
        # A transaction may have changed rows of a table that the last poll did not cover.
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
    """Return an instant not after the first stamp of a writer that is new since the last poll.

    It had not changed rows at the last poll, so each statement of it began since then, or ran at that time.
    """
    if writer.xa or writer.connection == NO_CONNECTION or writer.table is not None:
        # The connection that began it is unknown, so every statement of that time counts.
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
        return None  # lock instruments were off when it took its locks
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
    # A writer holds a write lock; if none is visible, another owner holds it (a prepared XA transaction).
    return readings.locks.get(writer.lock_owner) or None


# Horizons.


def _table_horizon(
    request: HorizonRequest,
    readings: HorizonPoll,
    holds: Sequence[HorizonHold],
    known: HorizonNotes | None,
    *,
    is_doubted: bool,
) -> Horizon:
    if not request.transactional:
        return _assumed_horizon(request, readings, f"the engine of {request.table} is not InnoDB")
    t0, identity = readings.t0, readings.identity
    last = known.proven_bounds.get(request.table) if known else None
    # After a break the mark proves nothing: transactions that are open since then may stamp rows below it.
    mark = None if is_doubted else request.mark
    floor = max((instant for instant in (last, mark) if instant is not None), default=None)
    bound, who, holder = t0, "", ""
    for hold in holds:
        if not hold.may_write_to(request.table.normal_form):
            continue
        since = hold.since or floor
        if since is None:
            text = f"waits for {hold.description}, open since before the first poll"
            waits = WaitReason(text, WaitKind.HELD_TRANSACTION)
            return Horizon(bound=None, proven=False, t0=t0, identity=identity, reason=waits)
        if since < bound:
            bound, who, holder = since, hold.description, hold.description if hold.is_seen_before else ""
    if last is not None and last > bound:
        bound = last  # only a stamp set by hand could lie below a bound that was proven before
    reason: str = ""
    if who:
        reason = WaitReason(f"held by {who}, {_format_seconds(t0 - bound)}", WaitKind.HELD_TRANSACTION)
    if is_doubted:
        reason = with_context("another server answers, or its clock went back", reason, separator="; ")
    return Horizon(bound=bound, proven=not is_doubted, t0=t0, identity=identity, reason=reason, holder=holder)


def _format_seconds(age: timedelta) -> str:
    return f"{age.total_seconds():.0f} s"


def _horizon_without_sight(
    request: HorizonRequest, readings: HorizonPoll, known: HorizonNotes | None, *, is_doubted: bool
) -> Horizon:
    if readings.visibility is Visibility.NOTHING or not request.transactional:
        return _assumed_horizon(request, readings, readings.problem)
    last = known.proven_bounds.get(request.table) if known else None
    mark = None if is_doubted else request.mark
    bound = max((instant for instant in (last, mark) if instant is not None), default=None)
    proven = bound is not None and not is_doubted
    return Horizon(bound=bound, proven=proven, t0=readings.t0, identity=readings.identity, reason=readings.problem)


def _assumed_horizon(request: HorizonRequest, readings: HorizonPoll, why: str) -> Horizon:
    reason = f"not proven: {why}; stays {_format_seconds(request.settle)} behind"
    bound = readings.t0 - request.settle
    return Horizon(bound=bound, proven=False, t0=readings.t0, identity=readings.identity, reason=reason)


# Ids commit out of order: those up to MAX(id) are complete once a horizon has reached the t0 after that reading.


def _add_complete_ids(
    horizons: Mapping[TableName, Horizon],
    requests: Sequence[HorizonRequest],
    readings: HorizonPoll,
    notes: HorizonNotes,
) -> tuple[Mapping[TableName, Horizon], HorizonNotes]:
    """Add to each horizon the ids that it proves complete; note the bounds and the candidates."""
    bounds, candidates = dict(notes.proven_bounds), dict(notes.candidates)
    extended: dict[TableName, Horizon] = {}
    for each in requests:
        # As the server spells it: if it distinguishes two spellings, they are two tables.
        name, horizon = each.table, horizons[each.table]
        if horizon.proven and horizon.bound is not None:
            bounds[name] = horizon.bound
        ids = tuple(one for one in candidates.pop(name, ()) if _is_of_same_table(one, each))
        if name in readings.max_ids:
            # This poll counts too: its highest id was read before its t0.
            ids = (*ids, IdCandidate(t0=readings.t0, highest=readings.max_ids[name]))
        passed = [one for one in ids if horizon.bound is not None and one.t0 <= horizon.bound]
        if each.id_column is not None and passed:
            horizon = replace(horizon, max_complete_id=passed[-1].highest)
        if ids:
            candidates[name] = thin_candidates((*passed[-1:], *(one for one in ids if one not in passed)))
        extended[each.table] = horizon
    return extended, replace(notes, proven_bounds=bounds, candidates=candidates)


def _is_of_same_table(candidate: IdCandidate, request: HorizonRequest) -> bool:
    """Return whether an id was read from the requested table: a table created since numbers its rows anew."""
    return request.table_created_at is None or candidate.t0 >= request.table_created_at
