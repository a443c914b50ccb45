"""What a run over a stream would do: asked of the source, the lake and the warehouse, and written to none of them."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from syncd.app import PassOptions
from syncd.app.operator_context import OperatorContext, stream_name_of
from syncd.app.preview import open_preview_service
from syncd.errors import ConfigError
from syncd.extract.plan_rules import ExtractRequest, PlanSpan, build_queries
from syncd.lake.manifest import Manifest
from syncd.operations.change_impact import MAX_COUNTED_LINKS, read_links
from syncd.operations.forecast import ExtractForecast, Forecast, LoadForecast, RowCosts
from syncd.settings import StreamSettings
from syncd.tables.column_mapping import map_columns
from watermarks.batch import BatchDraft, BatchKind, BatchLink, Plan
from watermarks.codec import FieldReader
from watermarks.document import Watermark
from watermarks.errors import HintedError
from watermarks.extraction import BatchChain
from watermarks.progress import BEFORE_FIRST_BATCH

if TYPE_CHECKING:
    from syncd.datatypes.columns import ColumnMapping
    from syncd.datatypes.source_table import SourceTable

RECENT_BATCHES: Final = 10
"""Batches whose sizes are what the next one's is guessed from."""


class RunForecaster:
    """Looks ahead for one stream after the other."""

    def __init__(self, context: OperatorContext, *, environ: Mapping[str, str], horizon_wait: timedelta) -> None:
        self._context = context
        self._environ = environ
        self._horizon_wait = horizon_wait
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._service = self._stack.enter_context(open_preview_service(self._context, self._environ))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def forecast(self, settings: StreamSettings, *, limit: int | None) -> tuple[Forecast, tuple[HintedError, ...]]:
        """What a run would do, as far as it can be told, and what stood in the way of telling more.

        Raises:
            StateUnreadable: the stream's watermark cannot be believed.
        """
        wanted = PassOptions(request=ExtractRequest(limit=limit), horizon_wait=self._horizon_wait, dry_run=True)
        stream = stream_name_of(settings)
        state = self._context.journal.read_newest(stream.stem)
        newest = self._recent_links(state)
        rates = RowCosts.from_watermark(state, newest)
        seen = self._service.extract(settings, wanted)
        planned: Mapping[str, Any] | None = seen.preview
        errors = [seen.error] if seen.error else []
        notes = [seen.wait_reason] if seen.wait_reason else []
        guess, trouble = self._estimate_rows(settings, state, planned, limit)
        notes += [trouble] if trouble else []
        reading = ExtractForecast.from_plan(planned, estimated_rows=guess, batch_rows=settings.batch_rows, costs=rates)
        table = self._context.read_source_table(settings) if planned is not None else None
        ways = map_columns(table, settings) if table is not None else ()
        landing = None
        if settings.target is not None:
            landing, failed = self._forecast_load(settings, state, reading, (table, ways), rates=rates, options=wanted)
            errors += [failed] if failed else []
        statements = _source_queries(settings, planned, ways, planned_at=self._context.clock.now())
        forecast = Forecast(extract=reading, load=landing, statements=statements, notes=tuple(notes))
        return forecast, tuple(errors)

    def _recent_links(self, state: Watermark | None) -> list[BatchLink]:
        if state is None:
            return []
        half = state.required_extract_progress
        return read_links(
            BatchChain(self._context.journal, state.stream),
            islice(half.batch_ids_newest_first(up_to=half.last_batch, after=BEFORE_FIRST_BATCH), RECENT_BATCHES),
        )

    def _estimate_rows(
        self, settings: StreamSettings, state: Watermark | None, planned: Mapping[str, Any] | None, limit: int | None
    ) -> tuple[int | None, str]:
        """How many rows wait, as the server guesses; None where its guess would be about something else."""
        if planned is None or planned["body"].get("span") in {None, PlanSpan.NONE}:
            return None, ""
        if planned["kind"] == BatchKind.SNAPSHOT:
            again = (
                planned["body"]["span"] == PlanSpan.ALL
                or state is None
                or state.required_extract_progress.generation > 1
            )
            read = 0 if again or state is None else state.required_extract_progress.counts.rows
            rows = self._context.estimate_rows(settings)
            found, trouble = None if rows is None else max(0, rows - read), ""
        elif planned["kind"] == BatchKind.INCREMENT and state is not None:
            asked = self._context.query_source(settings, after=state.required_extract_progress.cursor)
            found, trouble = asked.rows_behind, asked.problem
        else:
            return None, ""
        return found if found is None or limit is None else min(found, limit), trouble

    def _forecast_load(
        self,
        settings: StreamSettings,
        state: Watermark | None,
        reading: ExtractForecast,
        table_mapping: "tuple[SourceTable | None, tuple[ColumnMapping, ...]]",
        *,
        rates: RowCosts,
        options: PassOptions,
    ) -> tuple[LoadForecast, HintedError | None]:
        seen = self._service.load(settings, options)
        due = (
            list(
                islice(
                    state.required_extract_progress.batch_ids(after=state.load_progress.last_batch), MAX_COUNTED_LINKS
                )
            )
            if state
            else []
        )
        waiting = [
            link for link in read_links(BatchChain(self._context.journal, stream_name_of(settings)), due) if link.files
        ]
        manifests = [Manifest.from_link(link) for link in waiting]
        table, ways = table_mapping
        if reading.kind is not None and table is not None and reading.rows != 0:
            manifests.append(Manifest(schema=table.fingerprint, columns=ways, parts=()))
        ddl: tuple[str, ...] = ()
        error = seen.error
        try:
            ddl = self._context.preview_ddl(settings, manifests)
        except ConfigError:
            raise
        except HintedError as failed:
            error = error or failed
        schemas = len({manifest.schema for manifest in manifests})
        return LoadForecast.from_pending(seen.preview, reading, schemas=schemas, ddl=ddl, costs=rates), error


def _source_queries(
    settings: StreamSettings,
    planned: Mapping[str, Any] | None,
    mappings: "tuple[ColumnMapping, ...]",
    *,
    planned_at: datetime,
) -> tuple[str, ...]:
    if planned is None or not mappings or planned["body"].get("span") in {None, PlanSpan.NONE}:
        return ()
    # As the plan would stand in the lake: enums are texts there.
    fields = json.loads(json.dumps({name: value for name, value in planned.items() if name != "sealed"}))
    draft = BatchDraft.from_fields(FieldReader(fields, location="the plan"), location="the plan")
    stream = stream_name_of(settings)
    plan = Plan(stream=stream, id=BEFORE_FIRST_BATCH.next, draft=draft, nonce="", epoch=0, planned_at=planned_at)
    return tuple(query.sql for query in build_queries(plan, mappings, custom_query=settings.query))
