"""Forecast of a run: counted where the lake tells, estimated from the costs of past runs where it does not.

Source, lake and warehouse are asked, and nothing is written.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self

from syncd.errors import ConfigError
from syncd.extract.plan_body import build_queries
from syncd.extract.plan_rules import PlanSpan
from syncd.lake.manifest import Manifest
from syncd.lake.read_requests import PART_BYTES
from syncd.operations.operator_access import OperatorAccess, PassPreviewer
from syncd.operations.reloadable_files import MAX_COUNTED_LINKS, read_links
from syncd.settings import StreamSettings
from syncd.tables.column_mapping import map_columns
from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchLink, Plan
from watermarks.codec import FieldReader
from watermarks.document import Watermark
from watermarks.errors import HintedError
from watermarks.extraction import BatchChain
from watermarks.progress import BEFORE_FIRST_BATCH

if TYPE_CHECKING:
    from syncd.datatypes.columns import ColumnMapping
    from syncd.datatypes.source_table import SourceTable

RECENT_BATCHES: Final = 10
"""Batches whose sizes the size of the next one is estimated from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCosts:
    """Cost of one row so far; None for a cost that is not known yet."""

    read_seconds: float | None = None
    load_seconds: float | None = None
    bytes: float | None = None

    @classmethod
    def from_watermark(cls, state: Watermark | None, newest: Sequence[BatchLink]) -> Self:
        """Divide the counts of both stages, and the sizes of the newest batches, by their rows."""
        if state is None:
            return cls()
        read, loaded = state.required_extract_progress.counts, state.load_progress.counts
        manifests = [Manifest.from_link(link) for link in newest if link.kind is not BatchKind.ABANDONED]
        rows = sum(manifest.rows for manifest in manifests)
        return cls(
            read_seconds=read.milliseconds / 1000 / read.rows if read.rows else None,
            load_seconds=loaded.milliseconds / 1000 / loaded.rows if loaded.rows else None,
            bytes=sum(manifest.bytes for manifest in manifests) / rows if rows else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractForecast:
    """Forecast of the extract stage; a number that cannot be estimated is None."""

    kind: str | None = None
    """Kind of the next batch; None if there is nothing to read."""
    is_planned: bool = False
    """True if an earlier run has planned that batch already."""
    windows: int = 0
    """Windows of the next batch, which are read in parallel."""
    next_rows: int | None = 0
    """Upper bound for the rows of the next batch."""
    rows: int | None = 0
    """Estimated rows of all batches."""
    batches: int | None = 0
    bytes: int | None = None
    files: int | None = None
    seconds: float | None = None

    @classmethod
    def from_plan(
        cls, planned: Mapping[str, Any] | None, *, estimated_rows: int | None, batch_rows: int, costs: RowCosts
    ) -> Self:
        """Combine the plan of the next batch with the server's estimate of all rows that wait."""
        if planned is None:
            return cls()
        windows = max(1, len(planned["windows"]))
        next_rows: int | None = planned["body"].get("rows_at_most")
        rows = next_rows if estimated_rows is None else estimated_rows
        batches = None if rows is None else max(1, -(-rows // batch_rows))
        size = None if rows is None or costs.bytes is None else round(rows * costs.bytes)
        return cls(
            kind=planned["kind"],
            is_planned=planned["already_planned"],
            windows=windows,
            next_rows=next_rows,
            rows=rows,
            batches=batches,
            bytes=size,
            files=None if batches is None else _estimate_files(windows, batches, rows or 0, size),
            seconds=None if rows is None or costs.read_seconds is None else rows * costs.read_seconds,
        )


def _estimate_files(windows: int, batches: int, rows: int, size: int | None) -> int:
    """Count at least one file for each window that has rows, and one more whenever a file is full."""
    return 0 if not rows else max(windows * batches, -(-(size or 0) // PART_BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadForecast:
    """Forecast of the load stage; a number that cannot be estimated is None."""

    batches: int | None = 0
    rows: int | None = 0
    files: int | None = 0
    copies: int = 0
    """COPY statements: one for each schema among the files of a transaction."""
    ddl: tuple[str, ...] = ()
    seconds: float | None = None

    @classmethod
    def from_pending(
        cls,
        pending: Mapping[str, Any] | None,
        extract: ExtractForecast,
        *,
        schemas: int,
        ddl: tuple[str, ...],
        costs: RowCosts,
    ) -> Self:
        """Add the batches that wait to those that would be read before."""
        waits = pending or {"batches": 0, "rows": 0, "files": 0}
        rows = None if extract.rows is None else waits["rows"] + extract.rows
        new_files = extract.files if extract.kind is not None else 0
        return cls(
            batches=None if extract.batches is None else waits["batches"] + extract.batches,
            rows=rows,
            files=None if new_files is None else waits["files"] + new_files,
            copies=schemas,
            ddl=ddl,
            seconds=None if rows is None or costs.load_seconds is None else rows * costs.load_seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Forecast of a run over one stream."""

    extract: ExtractForecast
    load: LoadForecast | None = None
    """None without a warehouse."""
    statements: tuple[str, ...] = ()
    """Statements that would read the next batch."""
    notes: tuple[str, ...] = ()
    """Why nothing would be read, and what could not be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunForecaster:
    """Forecasts the runs of streams, one after the other."""

    access: OperatorAccess
    previewer: PassPreviewer
    horizon_wait: timedelta

    def forecast(self, settings: StreamSettings, *, limit: int | None) -> tuple[Forecast, tuple[HintedError, ...]]:
        """Return the forecast as far as it is known, and the errors that kept the rest unknown.

        Raises:
            StateUnreadable: the stream's watermark is damaged.
        """
        state = self.access.journal.read_newest(settings.stream_name.stem)
        costs = RowCosts.from_watermark(state, self._recent_links(state))
        preview = self.previewer.preview_extract(settings, limit=limit, horizon_wait=self.horizon_wait)
        planned: Mapping[str, Any] | None = preview.preview
        rows, problem = self._estimate_rows(settings, state, planned, limit)
        extract = ExtractForecast.from_plan(planned, estimated_rows=rows, batch_rows=settings.batch_rows, costs=costs)
        table = self.access.read_source_table(settings) if planned is not None else None
        columns = map_columns(table, settings) if table is not None else ()
        errors = [preview.error] if preview.error else []
        load = None
        if settings.target is not None:
            load, error = self._forecast_load(settings, state, extract, (table, columns), costs=costs, limit=limit)
            errors += [error] if error else []
        forecast = Forecast(
            extract=extract,
            load=load,
            statements=_source_queries(settings, planned, columns, planned_at=self.access.clock.now()),
            notes=tuple(filter(None, (preview.wait_reason, problem))),
        )
        return forecast, tuple(errors)

    def _recent_links(self, state: Watermark | None) -> list[BatchLink]:
        if state is None:
            return []
        progress = state.required_extract_progress
        newest = progress.batch_ids_newest_first(up_to=progress.last_batch, after=BEFORE_FIRST_BATCH)
        return self._read_links(state, islice(newest, RECENT_BATCHES))

    def _read_links(self, state: Watermark, batches: Iterable[BatchId]) -> list[BatchLink]:
        return read_links(BatchChain(self.access.journal, state.stream), batches)

    def _estimate_rows(
        self, settings: StreamSettings, state: Watermark | None, planned: Mapping[str, Any] | None, limit: int | None
    ) -> tuple[int | None, str]:
        """Return the server's estimate of the rows that wait, and why there is none.

        A batch that reads a part of the table only has no estimate: the server's would be about other rows.
        """
        if planned is None or planned["body"].get("span") in {None, PlanSpan.NONE}:
            return None, ""
        progress = state.required_extract_progress if state is not None else None
        if planned["kind"] == BatchKind.SNAPSHOT:
            starts_over = planned["body"]["span"] == PlanSpan.ALL or progress is None or progress.generation > 1
            read = 0 if starts_over or progress is None else progress.counts.rows
            table_rows = self.access.estimate_rows(settings)
            rows, problem = None if table_rows is None else max(0, table_rows - read), ""
        elif planned["kind"] == BatchKind.INCREMENT and progress is not None:
            answer = self.access.query_source(settings, after=progress.cursor)
            rows, problem = answer.rows_behind, answer.problem
        else:
            return None, ""
        return rows if rows is None or limit is None else min(rows, limit), problem

    def _forecast_load(
        self,
        settings: StreamSettings,
        state: Watermark | None,
        extract: ExtractForecast,
        table_columns: "tuple[SourceTable | None, tuple[ColumnMapping, ...]]",
        *,
        costs: RowCosts,
        limit: int | None,
    ) -> tuple[LoadForecast, HintedError | None]:
        preview = self.previewer.preview_load(settings, limit=limit)
        manifests: list[Manifest] = []
        if state is not None:
            due = islice(
                state.required_extract_progress.batch_ids(after=state.load_progress.last_batch), MAX_COUNTED_LINKS
            )
            manifests = [Manifest.from_link(link) for link in self._read_links(state, due) if link.files]
        table, columns = table_columns
        if extract.kind is not None and table is not None and extract.rows != 0:
            manifests.append(Manifest(schema=table.fingerprint, columns=columns, parts=()))
        ddl: tuple[str, ...] = ()
        error = preview.error
        try:
            ddl = self.access.preview_ddl(settings, manifests)
        except ConfigError:
            raise
        except HintedError as failure:
            error = error or failure
        schemas = len({manifest.schema for manifest in manifests})
        return LoadForecast.from_pending(preview.preview, extract, schemas=schemas, ddl=ddl, costs=costs), error


def _source_queries(
    settings: StreamSettings,
    planned: Mapping[str, Any] | None,
    mappings: "tuple[ColumnMapping, ...]",
    *,
    planned_at: datetime,
) -> tuple[str, ...]:
    if planned is None or not mappings or planned["body"].get("span") in {None, PlanSpan.NONE}:
        return ()
    # As the plan would be written to the lake: enums are texts there.
    fields = json.loads(json.dumps({name: value for name, value in planned.items() if name != "already_planned"}))
    draft = BatchDraft.from_fields(FieldReader(fields, location="the plan"), location="the plan")
    plan = Plan(
        stream=settings.stream_name, id=BEFORE_FIRST_BATCH.next, draft=draft, nonce="", epoch=0, planned_at=planned_at
    )
    return tuple(query.sql for query in build_queries(plan, mappings, custom_query=settings.query))
