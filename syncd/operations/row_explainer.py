"""Facts about one row from MySQL, the lake and the warehouse; a server that gives no answer is reported as such."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from syncd.concurrency.thread_helpers import PARALLEL_REQUESTS
from syncd.datatypes.columns import ColumnMapping
from syncd.errors import ConfigError
from syncd.lake.manifest import Manifest
from syncd.lake.object_keys import data_prefix
from syncd.load.quarantine_listing import Quarantine
from syncd.operations.mark_change import require_known_stream
from syncd.operations.operator_access import OperatorAccess, PassPreviewer
from syncd.operations.reloadable_files import read_links
from syncd.operations.row_status import (
    QuarantinedVersion,
    RowFacts,
    RowVersion,
    SourceRow,
    TargetRow,
    format_cursor_value,
)
from syncd.operations.stream_status import cursor_to_instant
from syncd.parquet.batch_conversion import REASON_COLUMN
from syncd.s3.parquet_reader import find_key
from syncd.settings import StreamSettings
from syncd.tables.column_mapping import map_columns
from syncd.tables.sort_order import RowIdentity, resolve_identity
from watermarks.batch import BatchId, BatchKind, BatchLink
from watermarks.cursor import START_CURSOR, Cursor, parse_instant
from watermarks.document import Watermark
from watermarks.errors import HintedError, Misuse
from watermarks.extraction import BatchChain
from watermarks.progress import BEFORE_FIRST_BATCH

if TYPE_CHECKING:
    from syncd.lake.read_requests import Part

MAX_FILES_SEARCHED: Final = 500
"""The newest files that are searched, unless all are asked for."""


@dataclass(kw_only=True)
class _FileHits:
    """Versions of a row in the files of the lake."""

    versions: list[RowVersion] = field(default_factory=list[RowVersion])
    deleted_by: BatchId | None = None
    files_read: int = 0
    missing_files: int = 0
    searched_all: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExplainer:
    """Asks all sides about rows of one stream; nothing is written."""

    access: OperatorAccess
    settings: StreamSettings
    open_previewer: Callable[[], AbstractContextManager[PassPreviewer]]
    search_all_files: bool = False

    def collect_facts(self, key: Mapping[str, str]) -> RowFacts:
        """Collect the facts about the row with this key, given by its columns at the source.

        Raises:
            Misuse: the stream has never run, or these are not the columns of its key.
            LakeDown, LakeUnfit: the lake is not readable.
        """
        stream = self.settings.stream_name
        state = require_known_stream(self.access.journal.read_newest(stream.stem), stream)
        target_key = self._target_key(state, key)
        source = self._query_source(key)
        target = self._query_target(target_key)
        hits = self._search_files(state, target_key)
        quarantined = self._find_quarantined(state, target_key)
        hold_reason, next_high = self._find_hold(source) if self._is_above(source, state) else ("", None)
        newest = hits.versions[0] if hits.versions else None
        return RowFacts(
            table=self.settings.name,
            key=key,
            mark=state.required_extract_progress.cursor,
            stream_start=self._first_pass_start(state),
            all_files_checked=hits.searched_all,
            missing_files=hits.missing_files,
            load_progress=state.load_progress,
            source=source,
            target=target,
            versions=tuple(hits.versions),
            quarantined=tuple(quarantined),
            deleted_by=hits.deleted_by,
            next_high=next_high,
            hold_reason=hold_reason,
            loaded_at=self._loaded_at(state, newest.batch) if newest else "",
        )

    def _target_key(self, state: Watermark, key: Mapping[str, str]) -> Mapping[str, str]:
        """Return the key with the names that files and target have for its columns.

        Raises:
            Misuse: these are not the columns of the key.
        """
        links = (link for link in self._links_newest_first(state) if link.kind is not BatchKind.ABANDONED)
        manifest = next((Manifest.from_link(link) for link in links), None)
        columns, identity = (manifest.columns, manifest.identity) if manifest else self._describe_table(state)
        names = {mapping.column: mapping.name for mapping in columns}
        target_key = {names.get(column, column): text for column, text in key.items()}
        if set(target_key) != set(identity.key):
            wanted = " ".join(f"{name}=..." for name in identity.key) or "empty"
            raise Misuse(f"the key of {self.settings.name} is {wanted}", hint="Name each column of the key once.")
        return target_key

    def _describe_table(self, state: Watermark) -> tuple[Sequence[ColumnMapping], RowIdentity]:
        """Return what files of an imported table would hold, as none is written yet.

        Raises:
            Misuse: nothing is loaded.
        """
        if not state.load_progress.cursor:
            raise Misuse(
                f"{self.settings.name} has no batch yet", hint=f"Run it first: syncd run -t {self.settings.name}"
            )
        table = self.access.read_source_table(self.settings)
        columns = map_columns(table, self.settings)
        return columns, resolve_identity(table, self.settings, columns)

    def _links_newest_first(self, state: Watermark) -> Iterator[BatchLink]:
        """Yield every link of the chain, newest first; several are read at a time."""
        ids = state.required_extract_progress.batch_ids_newest_first(
            up_to=state.required_extract_progress.last_batch, after=BEFORE_FIRST_BATCH
        )
        chain = BatchChain(self.access.journal, state.stream)
        while chunk := list(islice(ids, PARALLEL_REQUESTS)):
            yield from read_links(chain, chunk)

    def _query_source(self, key: Mapping[str, str]) -> SourceRow:
        try:
            cursor = self.access.find_source_row(self.settings, key)
        except (ConfigError, Misuse):
            raise
        except HintedError as error:
            return SourceRow(problem=f"MySQL could not be queried: {error.message}")
        return SourceRow(was_asked=True, exists=cursor is not None, cursor=cursor, problem="")

    def _is_above(self, source: SourceRow, state: Watermark) -> bool:
        return source.exists and source.cursor is not None and source.cursor != state.required_extract_progress.cursor

    def _find_hold(self, source: SourceRow) -> tuple[str, Cursor | None]:
        """Return what holds the horizon below the row now, and the end of the next batch."""
        with self.open_previewer() as previewer:
            preview = previewer.preview_extract(self.settings, horizon_wait=timedelta(0))
        planned: Mapping[str, Any] | None = preview.preview
        if preview.error is not None:
            return "", None
        at = cursor_to_instant(
            source.cursor or START_CURSOR, self.settings, zone=self.access.writer_time_zone(self.settings)
        )
        if planned is None:
            return preview.wait_reason or _explain_unsettled(at, preview.complete_before), None
        windows = planned["windows"]
        horizon = planned["body"].get("horizon") or {}
        high = Cursor.from_texts(windows[-1][1]) if windows else None
        bound = parse_instant(horizon["bound"]) if horizon.get("bound") else None
        is_held = at is not None and bound is not None and at >= bound
        return (horizon.get("reason") or "rows of the last moments are never read" if is_held else ""), high

    @staticmethod
    def _first_pass_start(state: Watermark) -> Cursor:
        """Return the configured start of the first pass; the start of the order where it read the whole table."""
        progress = state.required_extract_progress
        if progress.generation_start:
            return progress.generation_start
        snapshot = progress.snapshot
        return snapshot.horizon if snapshot is not None and snapshot.done and not snapshot.reached_key else START_CURSOR

    def _query_target(self, target_key: Mapping[str, str]) -> TargetRow:
        try:
            return self.access.find_target_row(self.settings, target_key)
        except ConfigError:
            raise
        except HintedError as error:
            return TargetRow(problem=f"the warehouse could not be queried: {error.message}")

    def _loaded_at(self, state: Watermark, batch: BatchId) -> str:
        """Return when the loaded mark reached a batch, by a binary search in its history."""
        if batch > state.load_progress.last_batch:
            return ""

        def is_loaded(revision: int) -> int:
            entry = self.access.journal.read_entry(state.stem, revision)
            after = entry.after if entry else {}
            loaded = after.get("loaded_generation", 0), after.get("loaded_seq", 0)
            return int(loaded >= (batch.generation, batch.seq))

        revision = bisect_left(range(1, state.revision + 1), 1, key=is_loaded) + 1
        entry = self.access.journal.read_entry(state.stem, revision)
        return f"{entry.recorded_at:%Y-%m-%d %H:%M:%S} UTC" if entry else ""

    def _search_files(self, state: Watermark, target_key: Mapping[str, str]) -> _FileHits:
        """Search the newest file that has the row, or all that have it."""
        existing = {found.key for found in self.access.lake.list_objects(data_prefix(state.stream))}
        hits = _FileHits()
        for link in self._links_newest_first(state):
            manifest = Manifest.from_link(link) if link.kind is not BatchKind.ABANDONED else None
            for part in manifest.parts if manifest else ():
                assert manifest is not None
                if part.key not in existing:
                    hits.missing_files += 1
                    continue
                if hits.files_read >= MAX_FILES_SEARCHED and not self.search_all_files:
                    hits.searched_all = False
                    return hits
                hits.files_read += 1
                self._search_part(link, manifest, part, target_key, hits)
            if (hits.versions or hits.deleted_by) and not self.search_all_files:
                return hits
        return hits

    def _search_part(
        self, link: BatchLink, manifest: Manifest, part: "Part", target_key: Mapping[str, str], hits: _FileHits
    ) -> None:
        cursor = manifest.identity.cursor
        for hit in find_key(self.access.lake, part, target_key, extra_columns=(cursor,) if cursor else ()):
            if manifest.tombstones is not None:
                hits.deleted_by = hits.deleted_by or link.id
                continue
            at = hit.values.get(cursor) if cursor else None
            hits.versions.append(
                RowVersion(
                    batch=link.id,
                    first_read_by=link.rank,
                    file=self.access.lake.address_of(part.key),
                    row=hit.row_number,
                    planned_at=f"{link.made_at:%Y-%m-%d %H:%M:%S} UTC",
                    cursor=None if at is None else format_cursor_value(at),
                )
            )

    def _find_quarantined(self, state: Watermark, target_key: Mapping[str, str]) -> Iterator[QuarantinedVersion]:
        """Yield the versions in quarantine, newest first."""
        quarantine = Quarantine(stream=state.stream, journal=self.access.journal, parts=self.access.lake)
        files = quarantine.list_files(extracted=state.required_extract_progress).files
        for file in sorted(files, key=lambda file: file.batch, reverse=True):
            if file.is_missing:
                continue
            for hit in find_key(self.access.lake, file.part, target_key, extra_columns=(REASON_COLUMN,)):
                yield QuarantinedVersion(
                    batch=file.batch,
                    stage=str(file.stage),
                    file=self.access.lake.address_of(file.part.key),
                    reason=str(hit.values.get(REASON_COLUMN, "")),
                    replayed_by=file.replayed_by,
                )


def _explain_unsettled(row_instant: datetime | None, complete_upto: datetime | None) -> str:
    """Explain why nothing is due though a row is above the mark: its instant is not settled yet."""
    if row_instant is None or complete_upto is None or row_instant < complete_upto:
        return ""
    return f"rows of {complete_upto:%Y-%m-%d %H:%M:%S} UTC or later can still change"
