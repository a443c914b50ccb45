"""Columns that came or were altered: which ones a batch is the first to read, and what older rows hold in them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from syncd.datatypes.columns import Passage, Policies
from syncd.datatypes.mysql_quoting import qualified
from syncd.datatypes.source_table import Table
from syncd.events import ColumnIncomplete, TableRemade
from syncd.lake.manifest import Manifest, is_burial
from syncd.mysql.sql import defaults_of
from syncd.ports.source import Source
from syncd.tables.column_changes import Redeclared, redeclared
from syncd.tables.column_defaults import RENAMED, Added, Asked, Given, Unknown, added, declared
from syncd.tables.table_identity import remade_in
from watermarks.batch import BatchId, Kind, Link, Plan
from watermarks.cursor import START
from watermarks.names import StreamName


def columns_added(
    source: Source,
    table: Table,
    passages: Sequence[Passage],
    policies: Policies,
    *,
    before: Manifest | None,
    batch: BatchId,
) -> Mapping[str, Added]:
    """Every column that came into the chain by this batch or an earlier one, and is there still.

    Instead of the table's own words, the server is asked for each default: quotes, zones and character sets are its
    affair, and the answer travels as values do.
    """
    if before is None:
        return {}
    known = {passage.name for passage in before.passages}
    names = {passage.name for passage in passages}
    kept = {name: one for name, one in before.added.items() if name in names & known}
    new = [passage for passage in passages if passage.name not in known]
    if not new:
        return kept
    told = dict(_told(source, table, new, policies, batch))
    renamed = {
        name: Added(since=batch, unknown=RENAMED.format(was)) for name, was in _renamed(before.passages, passages)
    }
    return {**kept, **told, **renamed}


def _renamed(before: Sequence[Passage], now: Sequence[Passage]) -> Iterator[tuple[str, str]]:
    """Columns that may have had another name before: one of that type is gone from that very place.

    The server keeps a column's place and values when it renames it, and tells nobody what it was called.
    """
    both = {passage.name for passage in before} & {passage.name for passage in now}
    gone = {(behind, passage.redshift, passage.parquet): passage.name for behind, passage in _placed(before, both)}
    for behind, passage in _placed(now, both):
        if was := gone.get((behind, passage.redshift, passage.parquet)):
            yield passage.name, was


def _placed(passages: Sequence[Passage], both: Collection[str]) -> Iterator[tuple[str | None, Passage]]:
    """The columns that are not in both tables, each with the one before it that is."""
    behind: str | None = None
    for passage in passages:
        if passage.name in both:
            behind = passage.name
        else:
            yield behind, passage


def _told(
    source: Source, table: Table, new: Sequence[Passage], policies: Policies, batch: BatchId
) -> Iterator[tuple[str, Added]]:
    mariadb = source.server().mariadb
    columns = {column.name: column for column in table.columns}
    told = {passage.name: declared(columns[passage.column], mariadb=mariadb) for passage in new}
    asked = [passage for passage in new if isinstance(told[passage.name], Asked)]
    answers = _asked(source, table, asked)
    for passage in new:
        match told[passage.name]:
            case Unknown(why):
                yield passage.name, Added(since=batch, unknown=why)
            case Given(value):
                yield passage.name, added(passage, value, policies, since=batch)
            case Asked():
                yield passage.name, added(passage, answers.get(passage.name), policies, since=batch)


def _asked(source: Source, table: Table, passages: Sequence[Passage]) -> Mapping[str, object]:
    """What the server says; nothing of a table without rows, in which no older row can hold anything."""
    if not passages:
        return {}
    rows = source.rows(defaults_of(qualified(table.database, table.name), passages))
    return {passage.name: value for row in rows for passage, value in zip(passages, row, strict=True)}


def columns_redeclared(plan: Plan, declared: Mapping[str, str], before: Manifest | None) -> Mapping[str, Redeclared]:
    """Every column whose values may have changed by this batch or an earlier one, without a stamp.

    None where a generation begins with the table's first row: all that was read before is read again by it.
    """
    windows = plan.draft.windows
    anew = plan.id.seq == 1 and bool(windows) and windows[0].low == START
    if before is None or anew:
        return {}
    return redeclared(before.declared, declared, before.redeclared, batch=plan.id)


def tells(link: Link) -> bool:
    """Whether a batch says what it knows of columns: one that was abandoned, a replay and tombstones say nothing."""
    return link.kind not in {Kind.ABANDONED, Kind.REPLAY} and not is_burial(link)


def incomplete(
    stream: StreamName, links: Iterable[Link], *, after: BatchId, appends: bool
) -> Iterator[ColumnIncomplete | TableRemade]:
    """What has to be told of batches that landed behind another: columns whose older values nobody knows, and rows.

    Where the batch that brought such a column was left out, the next one that says it again brings it.
    """
    for link in links:
        remade = remade_in(link.body.get("plan", {})) if tells(link) else None
        if not (tells(link) and (link.body.get("added") or link.body.get("redeclared") or remade)):
            continue
        if remade is not None and after < remade <= link.id:
            again = _filled_by(stream, link, timed=True, appends=appends, why="another table")
            find = f"To find and mend them: syncd verify -t {stream.database}.{stream.table} --repair --yes."
            yield TableRemade(stream=stream, since=remade, hint=f"{find} {again}")
        manifest = Manifest.of_link(link)
        timed = manifest.identity.cursor is not None
        told = partial(ColumnIncomplete, stream=stream)
        for name, came in manifest.added.items():
            if came.unknown and after < came.since <= link.id:
                hint = _filled_by(stream, link, timed=timed, appends=appends, why="a column was added")
                yield told(column=name, since=came.since, why=came.unknown, hint=hint)
        for name, bent in manifest.redeclared.items():
            if after < bent.since <= link.id:
                hint = _filled_by(stream, link, timed=timed, appends=appends, why="a column was altered")
                yield told(column=name, since=bent.since, why=bent.why, hint=hint, kept=True)
        after = link.id


def remade_in_lake(plan: Plan) -> Iterator[TableRemade]:
    """What has to be told of a batch that lands nowhere: that it met another table than those before it."""
    if remade_in(plan.draft.body) == plan.id:
        yield TableRemade(stream=plan.stream, since=plan.id, hint=_again(plan.stream, plan.planned_at))


def _filled_by(stream: StreamName, link: Link, *, timed: bool, appends: bool, why: str) -> str:
    table = f"{stream.database}.{stream.table}"
    lost = ", which takes out older versions, and what is gone at the source" if appends else ""
    if timed:
        return _again(stream, link.made_at, lost=lost)
    return f"To read them again{lost}: syncd watermark reset -t {table} --mysql-only --reason '{why}'"


def _again(stream: StreamName, upto: datetime, *, lost: str = "") -> str:
    until = upto + timedelta(seconds=1)  # it is said in whole ones
    table = f"{stream.database}.{stream.table}"
    return f"To read them again{lost}: syncd run -t {table} --from 1970-01-01 --until {until:%Y-%m-%dT%H:%M:%SZ}"
