"""From settings to a comparison of both sides: each opened when it is first needed, and ended with the `with`."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from syncd.app.lake_access import open_lake, open_store, stream_of
from syncd.app.open_resources import Opened
from syncd.concurrency.response_monitor import Silences, unheeded
from syncd.errors import ConfigError, WarehouseUnfit, hinted
from syncd.horizon import zone_of
from syncd.lake.manifest import Manifest
from syncd.load.quarantine_listing import Quarantine
from syncd.operations.proof_gaps import unproven
from syncd.operations.stream_status import instant_of
from syncd.redshift.quoting import TableRef
from syncd.redshift.target_table import Found, found_of, found_statement
from syncd.settings import Mode, Settings, SourceSettings, StreamSettings, WarehouseSettings
from syncd.tables.column_mapping import passages
from syncd.tables.row_identity import identity_of
from syncd.tables.sort_order import WHOLE, order_of
from syncd.verify.compared_columns import Bounds, Compared, compared
from syncd.verify.result import LeftOut, Verdict
from syncd.verify.sides import Pair
from syncd.verify.source_sql import HereSql
from syncd.verify.target_sql import ThereSql
from syncd.verify.verification import ALL, LEAF_ROWS, RANGE_ROWS, Sample, Verification
from watermarks.cursor import START
from watermarks.document import Watermark
from watermarks.extraction import Chain
from watermarks.history import Journal

if TYPE_CHECKING:
    from syncd.mysql.connection import Connection
    from syncd.mysql.connection_factory import Way
    from syncd.redshift.session import Session
    from syncd.s3.lake_client import Lake
    from syncd.verify.row_diff import Known

NOT_LOADED: Final = "its first pass is not loaded yet, and until then nothing is promised"
READ_WHOLE: Final = "it is read whole each time: what changed since the last reading cannot be told from what is wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What one comparison is asked for."""

    sample: Sample = ALL
    most: int = 1_000
    """Differences that are kept; all are counted."""
    range_rows: int = RANGE_ROWS
    leaf_rows: int = LEAF_ROWS
    tell: Callable[[str, int], None] = lambda _name, _rows: None


class Verifying(Opened):
    """Compares streams, one after the other; nothing is written anywhere."""

    def __init__(self, settings: Settings, *, lake: "Lake | None" = None, silences: Silences | None = None) -> None:
        """Prepare; a `lake` that whoever asks has open already need not be opened again."""
        super().__init__()
        self._settings = settings
        self._given = lake
        self._silences = silences
        self._heed = unheeded if silences is None else silences.heed
        self._ways = dict[str, "Way"]()
        self._sessions = dict[str, "Session"]()

    def verify(self, settings: StreamSettings, wanted: Wanted) -> Verdict:
        """Compare one stream; whatever stands in its way is part of the verdict, and stops no other stream."""
        return self._told(lambda: self._verified(settings, wanted))

    def compare(self, subject: Compared, wanted: Wanted, bounds: Bounds) -> Verdict:
        """Compare a target that somebody else loaded, up to a position that the caller names; see `verify`."""

        def compared() -> Verdict:
            with self.connected(subject.settings) as connection:
                return self._compared(subject, wanted, connection, lambda: bounds)

        return self._told(compared)

    @staticmethod
    def _told(compare: Callable[[], Verdict]) -> Verdict:
        began = time.monotonic()
        try:
            verdict = compare()
        except Exception as error:  # noqa: BLE001  # no stream may stop another, not even by a bug of ours
            verdict = Verdict(error=hinted(error))
        return replace(verdict, seconds=time.monotonic() - began)

    def _verified(self, settings: StreamSettings, wanted: Wanted) -> Verdict:
        state = self.journal.read(stream_of(settings).stem)
        if settings.cursor == WHOLE or settings.mode is Mode.REPLACE:
            return Verdict(reason=READ_WHOLE)
        if state is None or state.loaded.cursor == START:
            return Verdict(reason=NOT_LOADED)
        with self.connected(settings) as connection:
            subject = self._subject(settings, connection, lambda: self._found(settings))
            verdict = self._compared(subject, wanted, connection, lambda: self._bounds(settings))
        if verdict.reason:
            return verdict
        return self._weighed(settings, verdict, before=state, after=self._state(settings))

    def _weighed(self, settings: StreamSettings, verdict: Verdict, *, before: Watermark, after: Watermark) -> Verdict:
        """The verdict, with what it proves of a stream that stood like this `before` the comparison, and `after` it."""
        found = unproven(after.chain, Chain(self.journal, stream_of(settings)))
        if found is None:
            return replace(verdict, proven=after.chain.proven)
        verdict = replace(verdict, unproven=found.because)
        whole = verdict.seed is None and not verdict.counts.total()
        # What has taken the table's name later was not compared, or not all of it.
        if whole and found.remade is not None and found.remade <= before.loaded.last and verdict.mark:
            zone = self._source(settings).zone
            at = instant_of(verdict.mark, settings, zone=zone_of(zone) if zone else None)
            return replace(verdict, provable=at)
        return verdict

    @contextmanager
    def connected(self, settings: StreamSettings) -> Iterator["Connection"]:
        """A connection to the source of a stream."""
        connection = self._connection(settings)
        try:
            yield connection
        finally:
            with suppress(OSError):
                connection.close()

    def subject(self, settings: StreamSettings, found: Found) -> Compared:
        """What is compared of a stream, whose target was found to have these columns."""
        with self.connected(settings) as connection:
            return self._subject(settings, connection, lambda: found)

    def _subject(self, settings: StreamSettings, connection: "Connection", found: Callable[[], Found]) -> Compared:
        from syncd.mysql.source import MySqlSource  # noqa: PLC0415  # only those who compare need it

        source = MySqlSource(self._source(settings), lambda: connection)
        table = source.table(settings.database, settings.table)
        ways = passages(table, settings)
        return compared(
            settings=settings,
            table=table,
            order=order_of(table, settings, zone=zone_of(self._source(settings).zone or "+00:00")),
            passages=ways,
            identity=identity_of(table, settings, ways),
            target=self.target(settings),
            found=found(),
        )

    def _compared(
        self, subject: Compared, wanted: Wanted, connection: "Connection", bounds: Callable[[], Bounds]
    ) -> Verdict:
        if (subject.table.engine or "").lower() != "innodb":
            return Verdict(reason=f"its engine, {subject.table.engine}, has no snapshot to compare")
        pairs = _Pairs(self, subject, connection)
        verification = Verification(
            pairs=pairs,
            bounds=bounds,
            by_range=bool(subject.there_columns),
            deletes=subject.deletes,
            sample=wanted.sample,
            most=wanted.most,
            range_rows=wanted.range_rows,
            leaf_rows=wanted.leaf_rows,
            tell=partial(wanted.tell, subject.settings.name),
        )
        verdict = verification.run()
        return replace(
            verdict,
            unlike=subject.unlike,
            partly=tuple(form.name for form in subject.forms if form.part),
            left_out=pairs.left_out(verdict, bounds()),
        )

    def found(self, settings: StreamSettings) -> Found | None:
        """The target's columns as they stand; None where there is no such table."""
        return found_of(self.session(settings).rows(found_statement(self.target(settings))))

    def _found(self, settings: StreamSettings) -> Found:
        table = self.target(settings)
        found = self.found(settings)
        if found is None:
            raise WarehouseUnfit(
                f"{table} is not there, and rows of {settings.name} have landed in it",
                hint=f"Was it dropped? To fill it again: syncd watermark reset -t {settings.name} --redshift-only",
            )
        return found

    def _bounds(self, settings: StreamSettings) -> Bounds:
        """What is promised now: the mark of what is loaded, and where the stream began."""
        state = self._state(settings)
        snapshot = state.chain.snapshot
        began_later = snapshot is not None and snapshot.done and snapshot.reached == START
        since = snapshot.horizon if snapshot is not None and began_later and snapshot.horizon != START else None
        return Bounds(upto=state.loaded.cursor, since=since, seen=state.loaded.last)

    def _state(self, settings: StreamSettings) -> Watermark:
        state = self.journal.read(stream_of(settings).stem)
        if state is None or state.loaded.cursor == START:
            raise ConfigError(f"{settings.name}: its mark was taken back while it was compared", hint="Verify again.")
        return state

    @staticmethod
    def target(settings: StreamSettings) -> TableRef:
        if settings.target is None:
            raise ConfigError(f"{settings.name} has no warehouse", hint="Add `warehouse:` to the configuration.")
        return TableRef(schema=settings.target.schema, name=settings.target.table)

    # What it stands on.

    @cached_property
    def lake(self) -> "Lake":
        return self._given or open_lake(self._settings.lake, looks=True, silences=self._silences)

    @cached_property
    def journal(self) -> Journal[Watermark]:
        return Journal(open_store(self.lake), Watermark)

    def _source(self, settings: StreamSettings) -> SourceSettings:
        found = next(source for source in self._settings.sources if source.name == settings.source)
        # A sum of many rows says nothing until it is done.
        return replace(found, silence=max(found.silence, found.longest_read))

    def _connection(self, settings: StreamSettings) -> "Connection":
        from syncd.mysql.connection_factory import way_to  # noqa: PLC0415  # as above

        if settings.source not in self._ways:
            self._ways[settings.source] = self._stack.enter_context(way_to(self._source(settings), heed=self._heed))
        return self._ways[settings.source].open()

    def warehouse(self, settings: StreamSettings) -> WarehouseSettings:
        assert settings.target
        name = settings.target.warehouse
        return next(one for one in self._settings.warehouses if one.name == name)

    def session(self, settings: StreamSettings) -> "Session":
        from syncd.redshift.connection_factory import way_to  # noqa: PLC0415  # its driver takes long to load

        warehouse = self.warehouse(settings)
        known = self._sessions.get(warehouse.name)
        if known is None or not known.alive:
            known = self._stack.enter_context(way_to(warehouse, heed=self._heed)).open("syncd verify")
            self._stack.callback(known.close)
            self._sessions[warehouse.name] = known
        return known

    def source(self, settings: StreamSettings) -> SourceSettings:
        return self._source(settings)

    def quarantined(self, subject: Compared) -> "Known":
        """Key and stamp of every row of a stream that lies in quarantine."""
        from syncd.s3.quarantine_files import LakeRestorer  # noqa: PLC0415  # pyarrow takes long to load

        lies = Quarantine(stream=stream_of(subject.settings), journal=self.journal, parts=self.lake)
        identity = subject.identity
        names = (*identity.key, *((identity.cursor,) if identity.cursor else ()))
        restorer = LakeRestorer(self.lake)
        found: set[tuple[object, ...]] = set()
        for aside in lies.look().asides:
            if aside.replayed_by is None and not aside.gone:
                manifest = Manifest.of_link(lies.chain.required(aside.batch))
                found.update(tuple(row.values.get(name) for name in names) for row in restorer.shown(aside, manifest))
        return frozenset(found)


class _Pairs:
    """Opens both sides of one stream: the warehouse's snapshot first, and then the source's."""

    def __init__(self, verifying: Verifying, subject: Compared, connection: "Connection") -> None:
        self._verifying = verifying
        self._subject = subject
        self._connection = connection

    @contextmanager
    def opened(self, bounds: Bounds) -> Iterator[Pair]:
        from syncd.verify.row_diff import RowJudge  # noqa: PLC0415  # pyarrow takes long to load
        from syncd.verify.source_side import HereSide, snapshot  # noqa: PLC0415  # as above
        from syncd.verify.target_side import ThereSide  # noqa: PLC0415  # as above

        subject, settings = self._subject, self._subject.settings
        session = self._verifying.session(settings)
        longest = self._verifying.warehouse(settings).longest_statement
        session.begin()
        try:
            there = ThereSide(session, ThereSql(compared=subject, bounds=bounds), longest=longest)
            there.begin()
            with snapshot(self._connection, self._verifying.source(settings)) as ask:
                here = HereSide(ask, HereSql(compared=subject, bounds=bounds))
                known = partial(self._verifying.quarantined, subject)
                yield Pair(here=here, there=there, judge=RowJudge(subject, here=here, there=there, quarantined=known))
        finally:
            session.rollback()

    def left_out(self, verdict: Verdict, bounds: Bounds) -> LeftOut:
        """Rows that nothing is promised of, counted on each side."""
        from syncd.verify.source_side import snapshot  # noqa: PLC0415  # as above

        found = verdict.left_out
        settings = self._subject.settings
        asked = HereSql(compared=self._subject, bounds=bounds).left_out()
        if asked is not None:
            with snapshot(self._connection, self._verifying.source(settings)) as ask:
                [(nulls, before)] = ask(asked)
            found = replace(found, without_stamp=int(nulls), before_start=int(before))
        told = ThereSql(compared=self._subject, bounds=bounds).left_out()
        if told is not None:
            [(gone, followed)] = self._verifying.session(settings).rows(told)
            found = replace(found, marked_gone=int(gone), earlier_versions=int(followed))
        return found
