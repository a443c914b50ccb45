"""What MySQL, the lake and the warehouse say of one row; whoever is away is left out, and that is told."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from syncd.datatypes.columns import ColumnMapping
from syncd.errors import ConfigError
from syncd.lake.keys import data_prefix
from syncd.lake.manifest import Manifest
from syncd.load.quarantine_listing import Quarantine
from syncd.operations.change_impact import PARALLEL_REQUESTS, read_links
from syncd.operations.mark_change import require_known_stream
from syncd.operations.operator_access import OperatorAccess, PassPreviewer
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
from syncd.s3.key_lookup import LakeKeyFinder
from syncd.settings import StreamSettings
from syncd.tables.column_mapping import map_columns
from syncd.tables.row_identity import RowIdentity, resolve_identity
from watermarks.batch import BatchId, BatchKind, BatchLink
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.cursor import parse_instant as instant_of_text
from watermarks.document import Watermark
from watermarks.errors import HintedError, Misuse
from watermarks.extraction import BatchChain
from watermarks.progress import BEFORE_FIRST_BATCH

if TYPE_CHECKING:
    from syncd.lake.window_reads import Part

MAX_FILES_SEARCHED: Final = 500
"""Of the newest, unless all are asked for."""


@dataclass(kw_only=True)
class _FileHits:
    """What the files of the lake have of a row."""

    sightings: list[RowVersion] = field(default_factory=list[RowVersion])
    deleted_in: BatchId | None = None
    files_read: int = 0
    files_gone: int = 0
    searched_all: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExplainer:
    """Asks all sides about rows of one stream; nothing is written anywhere."""

    access: OperatorAccess
    settings: StreamSettings
    open_previewer: Callable[[], AbstractContextManager[PassPreviewer]]
    search_all_files: bool = False

    def collect_facts(self, key: Mapping[str, str]) -> RowFacts:
        """All that is known of the row with this key, by its columns at the source.

        Raises:
            Misuse: the stream has never run, or these are not the columns of its key.
            LakeDown, LakeUnfit: the lake cannot be asked.
        """
        stream = self.settings.stream_name
        state = require_known_stream(self.access.journal.read_newest(stream.stem), stream)
        named = self._target_key(state, key)
        source = self._query_source(key)
        target = self._query_target(named)
        found = self._search_files(state, named)
        refused = self._find_quarantined(state, named)
        held, next_high = self._find_hold(source) if self._is_above(source, state) else ("", None)
        newest = found.sightings[0] if found.sightings else None
        return RowFacts(
            table=self.settings.name,
            key=key,
            mark=state.required_extract_progress.cursor,
            stream_start=self._first_pass_start(state),
            all_files_checked=found.searched_all,
            missing_files=found.files_gone,
            load_progress=state.load_progress,
            source=source,
            target=target,
            versions=tuple(found.sightings),
            quarantined=tuple(refused),
            deleted_by=found.deleted_in,
            next_high=next_high,
            hold_reason=held,
            loaded_at=self._loaded_at(state, newest.batch) if newest else "",
        )

    # The key, as each side calls its columns.

    def _target_key(self, state: Watermark, key: Mapping[str, str]) -> Mapping[str, str]:
        """The key by the names that files and target have for its columns.

        Raises:
            Misuse: it is not the key.
        """
        manifest = next(
            (
                Manifest.from_link(link)
                for link in self._links_newest_first(state)
                if link.kind is not BatchKind.ABANDONED
            ),
            None,
        )
        ways, identity = (manifest.columns, manifest.identity) if manifest else self._describe_table(state)
        names = {passage.column: passage.name for passage in ways}
        found = {names.get(column, column): text for column, text in key.items()}
        if set(found) != set(identity.key):
            wanted = " ".join(f"{name}=..." for name in identity.key) or "nothing: it has no key"
            raise Misuse(f"the key of {self.settings.name} is {wanted}", hint="Name each column of it once.")
        return found

    def _describe_table(self, state: Watermark) -> tuple[Sequence[ColumnMapping], RowIdentity]:
        """What files of the table would hold, where all that is loaded was taken over and no file is made yet.

        Raises:
            Misuse: nothing is loaded.
        """
        if not state.load_progress.cursor:
            raise Misuse(f"{self.settings.name} has no batch yet", hint=f"First: syncd run -t {self.settings.name}")
        table = self.access.read_source_table(self.settings)
        ways = map_columns(table, self.settings)
        return ways, resolve_identity(table, self.settings, ways)

    def _links_newest_first(self, state: Watermark) -> Iterator[BatchLink]:
        """Every link of the chain, the newest first, some at once."""
        ids = state.required_extract_progress.batch_ids_newest_first(
            up_to=state.required_extract_progress.last_batch, after=BEFORE_FIRST_BATCH
        )
        chain = BatchChain(self.access.journal, state.stream)
        while some := list(islice(ids, PARALLEL_REQUESTS)):
            yield from read_links(chain, some)

    # MySQL.

    def _query_source(self, key: Mapping[str, str]) -> SourceRow:
        try:
            found = self.access.find_source_row(self.settings, key)
        except ConfigError:
            raise
        except HintedError as error:
            if isinstance(error, Misuse):
                raise
            return SourceRow(problem=f"MySQL could not be asked: {error.message}")
        return SourceRow(was_asked=True, exists=found is not None, cursor=found, problem="")

    def _is_above(self, source: SourceRow, state: Watermark) -> bool:
        return source.exists and source.cursor is not None and source.cursor != state.required_extract_progress.cursor

    def _find_hold(self, source: SourceRow) -> tuple[str, Cursor | None]:
        """What holds the horizon below the row now, and up to where the next batch would read."""
        with self.open_previewer() as previewer:
            seen = previewer.preview_extract(self.settings, horizon_wait=timedelta(0))
        planned: Mapping[str, Any] | None = seen.preview
        if seen.error is not None:
            return "", None
        at = cursor_to_instant(
            source.cursor or START_CURSOR, self.settings, zone=self.access.writer_time_zone(self.settings)
        )
        if planned is None:
            return seen.wait_reason or _explain_unsettled(at, seen.complete_before), None
        windows = planned["windows"]
        horizon = planned["body"].get("horizon") or {}
        high = Cursor.from_texts(windows[-1][1]) if windows else None
        bound = instant_of_text(horizon["bound"]) if horizon.get("bound") else None
        held = at is not None and bound is not None and at >= bound
        return (horizon.get("reason") or "the newest moments are never read" if held else ""), high

    @staticmethod
    def _first_pass_start(state: Watermark) -> Cursor:
        """Where the first pass was told to begin; nothing where it read the whole table."""
        half = state.required_extract_progress
        if half.generation_start:
            return half.generation_start
        snapshot = half.snapshot
        return snapshot.horizon if snapshot is not None and snapshot.done and not snapshot.reached_key else START_CURSOR

    # The warehouse.

    def _query_target(self, target_key: Mapping[str, str]) -> TargetRow:
        try:
            return self.access.find_target_row(self.settings, target_key)
        except ConfigError:
            raise
        except HintedError as error:
            return TargetRow(problem=f"the warehouse could not be asked: {error.message}")

    def _loaded_at(self, state: Watermark, batch: BatchId) -> str:
        """When the loaded mark came to a batch, as history has it; few entries are read, however many there are."""
        if batch > state.load_progress.last_batch:
            return ""

        def has(revision: int) -> bool:
            entry = self.access.journal.read_entry(state.stem, revision)
            after = entry.after if entry else {}
            return (after.get("loaded_generation", 0), after.get("loaded_seq", 0)) >= (batch.generation, batch.seq)

        revision = bisect_left(range(1, state.revision + 1), True, key=has) + 1  # noqa: FBT003  # what is looked for
        entry = self.access.journal.read_entry(state.stem, revision)
        return f"{entry.recorded_at:%Y-%m-%d %H:%M:%S} UTC" if entry else ""

    # The lake.

    def _search_files(self, state: Watermark, target_key: Mapping[str, str]) -> _FileHits:
        """The newest file that has the row, or all that do."""
        standing = self.access.lake.list_files(data_prefix(state.stream))
        found = _FileHits()
        for link in self._links_newest_first(state):
            manifest = Manifest.from_link(link) if link.kind is not BatchKind.ABANDONED else None
            for part in manifest.parts if manifest else ():
                assert manifest is not None
                if part.key not in standing:
                    found.files_gone += 1
                    continue
                if found.files_read >= MAX_FILES_SEARCHED and not self.search_all_files:
                    found.searched_all = False
                    return found
                found.files_read += 1
                self._search_part(link, manifest, part, target_key, found)
            if (found.sightings or found.deleted_in) and not self.search_all_files:
                return found
        return found

    def _search_part(
        self, link: BatchLink, manifest: Manifest, part: "Part", target_key: Mapping[str, str], hits: _FileHits
    ) -> None:
        cursor = manifest.identity.cursor
        for hit in LakeKeyFinder(self.access.lake).find_key(
            part, target_key, extra_columns=(cursor,) if cursor else ()
        ):
            if manifest.tombstones is not None:
                hits.deleted_in = hits.deleted_in or link.id
                continue
            at = hit.values.get(cursor) if cursor else None
            hits.sightings.append(
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
        """Its versions in quarantine, the newest first."""
        quarantine = Quarantine(stream=state.stream, journal=self.access.journal, parts=self.access.lake)
        files = LakeKeyFinder(self.access.lake)
        asides = quarantine.list_files(extracted=state.required_extract_progress).files
        for aside in sorted(asides, key=lambda one: one.batch, reverse=True):
            for hit in (
                () if aside.is_missing else files.find_key(aside.part, target_key, extra_columns=(REASON_COLUMN,))
            ):
                yield QuarantinedVersion(
                    batch=aside.batch,
                    stage=str(aside.stage),
                    file=self.access.lake.address_of(aside.part.key),
                    reason=str(hit.values.get(REASON_COLUMN, "")),
                    replayed_by=aside.replayed_by,
                )


def _explain_unsettled(row_instant: datetime | None, complete_upto: datetime | None) -> str:
    """Why nothing is due though a row stands above the mark: it is not below what is committed for good."""
    if row_instant is None or complete_upto is None or row_instant < complete_upto:
        return ""
    return f"what is of {complete_upto:%Y-%m-%d %H:%M:%S} UTC or later can still change"
