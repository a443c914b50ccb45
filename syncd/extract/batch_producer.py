"""The extract stage: what it supplies to the order of effects of `watermarks.Extraction`."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Final, Protocol

from syncd.datatypes.columns import Passage
from syncd.datatypes.source_table import Table
from syncd.errors import AnotherServer, SchemaDrift, SourceReplaced, TableAltered
from syncd.events import BatchPlanned, RowsArrived, Tell
from syncd.extract.column_additions import columns_added, columns_redeclared, remade_in_lake
from syncd.extract.delete_batches import burial_of
from syncd.extract.plan_rules import is_little
from syncd.lake.batch_number import number_of
from syncd.lake.column_history import Earlier
from syncd.lake.keys import batch_prefix, quarantine_prefix
from syncd.lake.manifest import Manifest
from syncd.lake.window_reads import OrderField, Read, Reading, WindowQuery
from syncd.ports.source import Parts, Reader, Source
from syncd.settings import StreamSettings
from syncd.tables.column_changes import declarations
from syncd.tables.row_identity import identity_of
from syncd.tables.sort_order import WHOLE
from watermarks.batch import Draft, Filled, Kind, Plan
from watermarks.document import Watermark
from watermarks.names import StreamName


class Planning(Protocol):
    """Whoever decides what the next batch is, and how a sealed one is read."""

    @property
    def waiting(self) -> str:
        """What is in the way, where the last proposal was none; empty when everything was read."""
        ...

    @property
    def complete(self) -> datetime | None:
        """What was committed at the source before it is in the lake, as far as the last proposal tells."""
        ...

    def propose(self, watermark: Watermark) -> Draft | None:
        """What the next batch should move; None when nothing is due now."""
        ...

    def holds(self, plan: Plan) -> bool:
        """Whether server, table and mark are those that the plan was made for."""
        ...

    def queries(self, plan: Plan, passages: Sequence[Passage]) -> tuple[WindowQuery, ...]:
        """The statements of a plan; the same ones whoever asks, and whenever."""
        ...

    def order(self, plan: Plan, passages: Sequence[Passage]) -> tuple[OrderField, ...]:
        """The fields of those statements by which rows are held against their windows."""
        ...


class ExtractProducer:
    """Makes the content of one stream's batches: asks the planner, has Spark read, and writes the manifest down."""

    def __init__(
        self,
        *,
        stream: StreamName,
        settings: StreamSettings,
        source: Source,
        planning: Planning,
        passages: Callable[[Table, StreamSettings], tuple[Passage, ...]],
        reader: Reader,
        parts: Parts,
        earlier: Earlier,
        nonce: Callable[[], str],
        tell: Tell,
    ) -> None:
        self.stream: Final = stream
        self._settings = settings
        self._source = source
        self._planning = planning
        self._passages = passages
        self._reader = reader
        self._parts = parts
        self._earlier = earlier
        self._nonce = nonce
        self._tell = tell
        self._looked: tuple[object, Draft] | None = None
        self._backlog = ""
        self._last = Read(parts=())
        """What was read last."""

    @property
    def waits_for(self) -> str:
        return self._backlog or self._planning.waiting

    @property
    def complete(self) -> datetime | None:
        return self._planning.complete

    def look(self, watermark: Watermark) -> Draft | None:
        """What there is to do. It is proposed again without another probe, if nothing has moved until then."""
        draft = self._proposed(watermark)
        self._looked = (_place(watermark), draft) if draft else None
        return draft

    def prepare(self, draft: Draft) -> None:
        """Let the reader get ready for what is going to be sealed, while claim and plan are written."""
        if draft.windows:
            self._reader.prepare(little=is_little(draft))

    def propose(self, watermark: Watermark) -> Draft | None:
        looked, self._looked = self._looked, None
        if looked and looked[0] == _place(watermark):
            return looked[1]
        return self._proposed(watermark)

    def _proposed(self, watermark: Watermark) -> Draft | None:
        self._backlog = _backlog(watermark, self._settings)
        return None if self._backlog else self._planning.propose(watermark)

    def holds(self, plan: Plan) -> bool:
        # A replay that was planned and not carried out reads nothing of MySQL: its rows wait for the next one.
        return plan.draft.kind is not Kind.REPLAY and self._planning.holds(plan)

    def fill(self, plan: Plan) -> Filled:
        settings = self._settings
        draft = plan.draft
        self._tell(
            BatchPlanned(
                stream=self.stream, batch=plan.id, kind=draft.kind, windows=len(draft.windows), high=draft.high
            )
        )
        if (buried := burial_of(plan)) is not None:
            return buried.filled()
        table = self._unaltered(plan)
        passages = self._passages(table, settings)
        identity = identity_of(table, settings, passages)
        reading = Reading(
            queries=self._planning.queries(plan, passages),
            passages=passages,
            order=self._planning.order(plan, passages),
            policies=settings.policies,
            identity=draft.world.source_identity,
            prefix=batch_prefix(plan),
            quarantine=quarantine_prefix(plan.stream, plan.id),
            batch=number_of(draft.origin or plan.id),
            nonce=self._nonce(),
            keys=frozenset(filter(None, (*identity.key, identity.cursor))),
            cursor=identity.cursor,
            little=is_little(draft),
        )
        read = self._last = self._read(plan, reading)
        if settings.target is None:
            # Where it lands, whoever moves the loaded mark tells it.
            for event in remade_in_lake(plan):
                self._tell(event)
        before = self._before(plan)
        declared = declarations(table, passages)
        manifest = Manifest.of_read(
            read,
            schema=draft.world.schema,
            passages=passages,
            identity=identity,
            windows=() if draft.kind is Kind.SNAPSHOT else draft.windows,
            plan=draft.body,
            added=columns_added(self._source, table, passages, settings.policies, before=before, batch=plan.id),
            declared=declared,
            redeclared=columns_redeclared(plan, declared, before),
        )
        return manifest.filled()

    def _before(self, plan: Plan) -> Manifest | None:
        """The batch with which the columns are compared; where every batch is the whole table, no older row counts."""
        return None if self._settings.cursor == WHOLE else self._earlier.before(plan.id)

    def _read(self, plan: Plan, reading: Reading) -> Read:
        try:
            read = self._reader.read(reading, tell=lambda rows: self._arrived(plan, rows))
        except SchemaDrift:
            self._unaltered(plan)
            raise
        except SourceReplaced as error:
            self._require_planned_there(plan, error)
            raise
        # Windows are read one after the other: between two of them a column may have become another type, whose values
        # the statements of the plan would bend to the old one without a word.
        try:
            self._unaltered(plan)
        except TableAltered:
            self._parts.drop([part.key for part in (*read.parts, *read.quarantined)])
            raise
        return read

    def _require_planned_there(self, plan: Plan, met: SourceReplaced) -> None:
        """Make sure that the plan's server still is where the address leads, though a reading met another one there.

        Raises:
            AnotherServer: it was asked over what had been open for a while, and is not.
        """
        self._source.forget()
        if not self._planning.holds(plan):
            raise AnotherServer(
                f"another server answers than the one that batch {plan.id} was planned for",
                hint="Run again: the batch is planned anew, for the server of now.",
            ) from met

    def _unaltered(self, plan: Plan) -> Table:
        """The table, with the columns that it was planned with.

        Raises:
            TableAltered: it has others by now, which the manifest would not tell.
        """
        table = self._source.table(self._settings.database, self._settings.table)
        if table.fingerprint != plan.draft.world.schema:
            raise TableAltered(
                f"{table} was altered after batch {plan.id} of it was planned",
                hint="Run again: the batch is planned anew, with the columns of now.",
            )
        return table

    def drop(self, files: Sequence[str]) -> None:
        """Remove files, and what was put aside while they were written: it is named where they are, or nowhere."""
        ours = {part.key for part in self._last.parts}
        aside = self._last.quarantined if ours.issuperset(files) else ()
        self._parts.drop([*files, *(part.key for part in aside)])

    def _arrived(self, plan: Plan, rows: int) -> None:
        self._tell(RowsArrived(stream=self.stream, batch=plan.id, rows=rows))


def _backlog(watermark: Watermark, settings: StreamSettings) -> str:
    """Why nothing more is extracted while the warehouse is behind; empty where it is not, or there is none."""
    if settings.target is None:
        return ""
    most = settings.max_pending
    pending = sum(1 for _ in islice(watermark.chain.ids(after=watermark.loaded.last), most))
    if pending < most:
        return ""
    return (
        f"{most:,} batches or more wait to be loaded, and max_pending allows no more:"
        f" syncd run -t {settings.database}.{settings.table} --load-only"
    )


def _place(watermark: Watermark) -> object:
    """What a proposal depends on in the document: not the revision, which the loader moves too."""
    return replace(watermark.chain, at=None)
