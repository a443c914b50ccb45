"""What a run over a stream would do: asked of the source, the lake and the warehouse, and written to none of them."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from syncd.app import Pass
from syncd.app.operator_context import Desk, name_of
from syncd.app.preview import looking
from syncd.errors import ConfigError
from syncd.extract.plan_rules import Request, Span, queries_of
from syncd.lake.manifest import Manifest
from syncd.operations.change_impact import MOST_LINKS, links
from syncd.operations.forecast import Forecast, Landing, Rates, Reading
from syncd.settings import StreamSettings
from syncd.tables.column_mapping import passages
from watermarks.batch import Draft, Kind, Link, Plan
from watermarks.codec import Fields
from watermarks.document import Watermark
from watermarks.errors import HintedError
from watermarks.extraction import Chain
from watermarks.progress import ORIGIN

if TYPE_CHECKING:
    from syncd.datatypes.columns import Passage
    from syncd.datatypes.source_table import Table

NEWEST: Final = 10
"""Batches whose sizes are what the next one's is guessed from."""


class Foreteller:
    """Looks ahead for one stream after the other."""

    def __init__(self, desk: Desk, *, environ: Mapping[str, str], wait: timedelta) -> None:
        self._desk = desk
        self._environ = environ
        self._wait = wait
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._service = self._stack.enter_context(looking(self._desk, self._environ))
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
        wanted = Pass(request=Request(limit=limit), wait=self._wait, dry=True)
        stream = name_of(settings)
        state = self._desk.journal.newest(stream.stem)
        newest = self._newest(state)
        rates = Rates.of(state, newest)
        seen = self._service.extract(settings, wanted)
        planned: Mapping[str, Any] | None = seen.planned
        errors = [seen.error] if seen.error else []
        notes = [seen.reason] if seen.reason else []
        guess, trouble = self._guess(settings, state, planned, limit)
        notes += [trouble] if trouble else []
        reading = Reading.of(planned, guess=guess, most=settings.batch_rows, rates=rates)
        table = self._desk.table(settings) if planned is not None else None
        ways = passages(table, settings) if table is not None else ()
        landing = None
        if settings.target is not None:
            landing, failed = self._landing(settings, state, reading, (table, ways), rates=rates, wanted=wanted)
            errors += [failed] if failed else []
        statements = _statements(settings, planned, ways, at=self._desk.clock.now())
        forecast = Forecast(reading=reading, landing=landing, statements=statements, notes=tuple(notes))
        return forecast, tuple(errors)

    def _newest(self, state: Watermark | None) -> list[Link]:
        if state is None:
            return []
        half = state.chain
        return links(
            Chain(self._desk.journal, state.stream), islice(half.ids_back(upto=half.last, after=ORIGIN), NEWEST)
        )

    def _guess(
        self, settings: StreamSettings, state: Watermark | None, planned: Mapping[str, Any] | None, limit: int | None
    ) -> tuple[int | None, str]:
        """How many rows wait, as the server guesses; None where its guess would be about something else."""
        if planned is None or planned["body"].get("span") in {None, Span.NONE}:
            return None, ""
        if planned["kind"] == Kind.SNAPSHOT:
            again = planned["body"]["span"] == Span.ALL or state is None or state.chain.generation > 1
            read = 0 if again or state is None else state.chain.tally.rows
            rows = self._desk.rows_of(settings)
            found, trouble = None if rows is None else max(0, rows - read), ""
        elif planned["kind"] == Kind.INCREMENT and state is not None:
            asked = self._desk.asked(settings, behind=state.chain.cursor)
            found, trouble = asked.rows, asked.trouble
        else:
            return None, ""
        return found if found is None or limit is None else min(found, limit), trouble

    def _landing(
        self,
        settings: StreamSettings,
        state: Watermark | None,
        reading: Reading,
        described: "tuple[Table | None, tuple[Passage, ...]]",
        *,
        rates: Rates,
        wanted: Pass,
    ) -> tuple[Landing, HintedError | None]:
        seen = self._service.load(settings, wanted)
        due = list(islice(state.chain.ids(after=state.loaded.last), MOST_LINKS)) if state else []
        waiting = [link for link in links(Chain(self._desk.journal, name_of(settings)), due) if link.files]
        manifests = [Manifest.of_link(link) for link in waiting]
        table, ways = described
        if reading.kind is not None and table is not None and reading.rows != 0:
            manifests.append(Manifest(schema=table.fingerprint, passages=ways, parts=()))
        ddl: tuple[str, ...] = ()
        error = seen.error
        try:
            ddl = self._desk.ddl(settings, manifests)
        except ConfigError:
            raise
        except HintedError as failed:
            error = error or failed
        schemas = len({manifest.schema for manifest in manifests})
        return Landing.of(seen.planned, reading, schemas=schemas, ddl=ddl, rates=rates), error


def _statements(
    settings: StreamSettings, planned: Mapping[str, Any] | None, ways: "tuple[Passage, ...]", *, at: datetime
) -> tuple[str, ...]:
    if planned is None or not ways or planned["body"].get("span") in {None, Span.NONE}:
        return ()
    # As the plan would stand in the lake: enums are texts there.
    fields = json.loads(json.dumps({name: value for name, value in planned.items() if name != "sealed"}))
    draft = Draft.of_fields(Fields(fields, at="the plan"), at="the plan")
    stream = name_of(settings)
    plan = Plan(stream=stream, id=ORIGIN.next, draft=draft, nonce="", epoch=0, planned_at=at)
    return tuple(query.sql for query in queries_of(plan, ways, own=settings.query))
