"""Columns of earlier batches, and the reports of columns and tables whose older rows are incomplete."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from syncd.events import ColumnIncomplete, TableReplaced
from syncd.lake.manifest import Manifest, is_tombstone_batch
from syncd.tables.table_identity import find_replacing_batch
from watermarks.batch import BatchId, BatchKind, BatchLink, Plan
from watermarks.names import StreamName
from watermarks.progress import BEFORE_FIRST_BATCH, ExtractProgress


@dataclass(frozen=True, kw_only=True)
class EarlierBatches:
    """The batches before a batch, and the columns that they were read with."""

    read_link: Callable[[BatchId], BatchLink | None]
    get_progress: Callable[[], ExtractProgress | None]
    """Returns the progress of the stream; called only where a generation begins."""

    def manifest_before(self, batch: BatchId) -> Manifest | None:
        """Return the manifest of the newest earlier batch whose rows were read from the table itself."""
        for earlier in self._ids_before(batch):
            link = self.read_link(earlier)
            # A replay has the columns of the batch that first read its rows.
            if link is None or link.kind in {BatchKind.ABANDONED, BatchKind.REPLAY}:
                continue
            manifest = Manifest.from_link(link)
            if manifest.tombstones is None:
                return manifest
        return None

    def _ids_before(self, batch: BatchId) -> Iterator[BatchId]:
        yield from (BatchId(batch.generation, seq) for seq in range(batch.seq - 1, 0, -1))
        if batch.generation > BEFORE_FIRST_BATCH.generation and (progress := self.get_progress()) is not None:
            upto = BatchId(batch.generation - 1, progress.last_seq_of(batch.generation - 1))
            yield from progress.batch_ids_newest_first(up_to=upto, after=BEFORE_FIRST_BATCH)


def reports_columns(link: BatchLink) -> bool:
    """Return whether a batch records its columns: abandoned batches, replays and tombstones do not."""
    return link.kind not in {BatchKind.ABANDONED, BatchKind.REPLAY} and not is_tombstone_batch(link)


def incomplete_column_events(
    stream: StreamName, links: Iterable[BatchLink], *, after: BatchId, appends: bool
) -> Iterator[ColumnIncomplete | TableReplaced]:
    """Return the events for loaded batches: columns whose older values are unknown, and tables that were replaced.

    Where the batch that added such a column was skipped, the next batch that records the column reports it.
    """
    for link in links:
        if not reports_columns(link):
            continue
        replaced_in = find_replacing_batch(link.body.get("plan", {}))
        if not (link.body.get("added") or link.body.get("redeclared") or replaced_in):
            continue
        if replaced_in is not None and after < replaced_in <= link.id:
            hint = _refill_hint(stream, link, timed=True, appends=appends, reason="another table")
            find = f"To find and repair them: syncd verify -t {stream.table_name} --repair --yes."
            yield TableReplaced(stream=stream, since=replaced_in, hint=f"{find} {hint}")
        manifest = Manifest.from_link(link)
        timed = manifest.identity.cursor is not None
        make_hint = partial(_refill_hint, stream, link, timed=timed, appends=appends)
        event = partial(ColumnIncomplete, stream=stream)
        for name, added in manifest.added_columns.items():
            if added.unknown_reason and after < added.since <= link.id:
                hint = make_hint(reason="a column was added")
                yield event(column=name, since=added.since, reason=added.unknown_reason, hint=hint)
        for name, altered in manifest.redeclared_columns.items():
            if after < altered.since <= link.id:
                hint = make_hint(reason="a column was altered")
                yield event(column=name, since=altered.since, reason=altered.reason, hint=hint, values_kept=True)
        after = link.id


def remade_table_events(plan: Plan) -> Iterator[TableReplaced]:
    """Return the event for a batch without a target that met another table than the batches before it."""
    if find_replacing_batch(plan.draft.body) == plan.id:
        yield TableReplaced(stream=plan.stream, since=plan.id, hint=_reread_hint(plan.stream, plan.planned_at))


def _refill_hint(stream: StreamName, link: BatchLink, *, timed: bool, appends: bool, reason: str) -> str:
    loss = ", which removes older versions of these rows and rows that were deleted at the source" if appends else ""
    if timed:
        return _reread_hint(stream, link.made_at, loss=loss)
    return f"To read them again{loss}: syncd watermark reset -t {stream.table_name} --mysql-only --reason '{reason}'"


def _reread_hint(stream: StreamName, upto: datetime, *, loss: str = "") -> str:
    until = upto + timedelta(seconds=1)  # the command takes whole seconds
    command = f"syncd run -t {stream.table_name} --from 1970-01-01 --until {until:%Y-%m-%dT%H:%M:%SZ}"
    return f"To read them again{loss}: {command}"
