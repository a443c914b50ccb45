"""Comparison of source and target, built from settings; each side is opened with first use."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from syncd.app.side_access import SideAccess
from syncd.concurrency.response_monitor import ResponseMonitor
from syncd.errors import ConfigError, WarehouseUnfit, to_hinted_error
from syncd.lake.manifest import Manifest
from syncd.load.quarantine_listing import Quarantine
from syncd.operations.stream_status import cursor_to_instant, find_unproven_reason
from syncd.redshift.quoting import TableRef
from syncd.redshift.target_table import ExistingTable, columns_query, parse_existing_table
from syncd.settings import Mode, Settings, SourceSettings, StreamSettings, WarehouseSettings
from syncd.tables.column_mapping import map_columns
from syncd.tables.order_clock import parse_zone
from syncd.tables.sort_order import CURSOR_NONE, resolve_identity, resolve_order
from syncd.verify.compared_columns import ComparisonBounds, ComparisonSubject, build_comparison_subject
from syncd.verify.result import ComparisonResult, LeftOutRows
from syncd.verify.sides import SidePair
from syncd.verify.source_side import MySqlSide
from syncd.verify.target_side import RedshiftSide
from syncd.verify.verification import ALL_RANGES, LEAF_ROWS, RANGE_ROWS, Sample, Verification
from watermarks.cursor import START_CURSOR
from watermarks.document import Watermark
from watermarks.extraction import BatchChain

if TYPE_CHECKING:
    from syncd.mysql.connection import Connection
    from syncd.redshift.session import WarehouseSession
    from syncd.s3.lake_client import S3Lake
    from syncd.verify.row_diff import QuarantinedVersions

NOT_LOADED_REASON: Final = "its first pass is not loaded yet, so there is nothing to compare"
READ_WHOLE_REASON: Final = "it is read whole each time: changes since the last read cannot be distinguished from errors"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonOptions:
    """Options of one comparison."""

    sample: Sample = ALL_RANGES
    max_differences: int = 1_000
    """Differences that are kept; all of them are counted."""
    range_rows: int = RANGE_ROWS
    leaf_rows: int = LEAF_ROWS
    on_progress: Callable[[str, int], None] = lambda _name, _rows: None


class StreamVerifier(SideAccess):
    """Compares streams, one after the other, and writes nothing."""

    def __init__(
        self, settings: Settings, *, lake: "S3Lake | None" = None, response_monitor: ResponseMonitor | None = None
    ) -> None:
        """Open nothing yet; `lake` is a client that the caller has open."""
        super().__init__(
            settings, session_name="syncd verify", read_only=True, lake=lake, response_monitor=response_monitor
        )

    def verify(self, settings: StreamSettings, options: ComparisonOptions) -> ComparisonResult:
        """Compare one stream; errors are part of the result."""
        return self._run_timed(lambda: self._verify(settings, options))

    def compare(self, subject: ComparisonSubject, bounds: ComparisonBounds) -> ComparisonResult:
        """Compare a target that another tool loaded, within the bounds that the caller gives; see `verify`."""

        def compared() -> ComparisonResult:
            with self.source_connection(subject.settings) as connection:
                return self._compare(subject, ComparisonOptions(), connection, lambda: bounds)

        return self._run_timed(compared)

    @staticmethod
    def _run_timed(compare: Callable[[], ComparisonResult]) -> ComparisonResult:
        began = time.monotonic()
        try:
            verdict = compare()
        except Exception as error:  # noqa: BLE001  # no stream may stop another, not even by a bug
            verdict = ComparisonResult(error=to_hinted_error(error))
        return replace(verdict, seconds=time.monotonic() - began)

    def _verify(self, settings: StreamSettings, options: ComparisonOptions) -> ComparisonResult:
        state = self.journal.read(settings.stream_name.stem)
        if settings.cursor == CURSOR_NONE or settings.mode is Mode.REPLACE:
            return ComparisonResult(not_compared_reason=READ_WHOLE_REASON)
        if state is None or state.load_progress.cursor == START_CURSOR:
            return ComparisonResult(not_compared_reason=NOT_LOADED_REASON)
        with self.source_connection(settings) as connection:
            subject = self._comparison_subject(settings, connection, lambda: self._require_target_columns(settings))
            verdict = self._compare(subject, options, connection, lambda: self._promised_bounds(settings))
        if verdict.not_compared_reason:
            return verdict
        return self._with_proof(settings, verdict, before=state, after=self._require_loaded_state(settings))

    def _with_proof(
        self, settings: StreamSettings, verdict: ComparisonResult, *, before: Watermark, after: Watermark
    ) -> ComparisonResult:
        """Return the result with what it proves of a stream whose document was this `before` and `after` it."""
        found = find_unproven_reason(
            after.required_extract_progress, BatchChain(self.journal, settings.stream_name).read_plan
        )
        if found is None:
            return replace(verdict, proven=after.required_extract_progress.proven)
        verdict = replace(verdict, unproven_reason=found.reason)
        whole = verdict.seed is None and not verdict.counts.total()
        # A table that took the name later was not compared, or only in part.
        if (
            whole
            and found.table_replaced_in is not None
            and found.table_replaced_in <= before.load_progress.last_batch
            and verdict.mark
        ):
            zone = self.source_settings(settings).zone
            at = cursor_to_instant(verdict.mark, settings, zone=parse_zone(zone) if zone else None)
            return replace(verdict, provable_upto=at)
        return verdict

    @contextmanager
    def source_connection(self, settings: StreamSettings) -> Iterator["Connection"]:
        """Open a connection to the source of a stream."""
        connection = self.connection_factory(self.source_settings(settings)).open_connection()
        try:
            yield connection
        finally:
            with suppress(OSError):
                connection.close()

    def comparison_subject(self, settings: StreamSettings, existing: ExistingTable) -> ComparisonSubject:
        """Return what is compared of a stream whose target has these columns."""
        with self.source_connection(settings) as connection:
            return self._comparison_subject(settings, connection, lambda: existing)

    def _comparison_subject(
        self, settings: StreamSettings, connection: "Connection", found: Callable[[], ExistingTable]
    ) -> ComparisonSubject:
        from syncd.mysql.source import MySqlSource  # noqa: PLC0415  # only those who compare need it

        source = MySqlSource(self.source_settings(settings), lambda: connection)
        table = source.describe_table(settings.database, settings.table)
        ways = map_columns(table, settings)
        return build_comparison_subject(
            settings=settings,
            table=table,
            order=resolve_order(table, settings, zone=parse_zone(self.source_settings(settings).zone or "+00:00")),
            mappings=ways,
            identity=resolve_identity(table, settings, ways),
            target=self.target_table(settings),
            existing=found(),
        )

    def _compare(
        self,
        subject: ComparisonSubject,
        options: ComparisonOptions,
        connection: "Connection",
        bounds: Callable[[], ComparisonBounds],
    ) -> ComparisonResult:
        if (subject.table.engine or "").lower() != "innodb":
            return ComparisonResult(not_compared_reason=f"its engine, {subject.table.engine}, has no snapshots")
        pairs = _SnapshotPairs(self, subject, connection)
        verification = Verification(
            pairs=pairs,
            bounds=bounds,
            by_range=bool(subject.target_columns),
            deletes=subject.deletes,
            sample=options.sample,
            max_differences=options.max_differences,
            range_rows=options.range_rows,
            leaf_rows=options.leaf_rows,
            on_rows_compared=partial(options.on_progress, subject.settings.name),
        )
        verdict = verification.run()
        return replace(
            verdict,
            uncomparable=subject.uncomparable,
            partly_compared=tuple(form.name for form in subject.texts if form.is_partial),
            left_out=pairs.left_out(verdict, bounds()),
        )

    def find_target_columns(self, settings: StreamSettings) -> ExistingTable | None:
        """Return the columns of the target; None without such a table."""
        return parse_existing_table(self.warehouse_session(settings).rows(columns_query(self.target_table(settings))))

    def _require_target_columns(self, settings: StreamSettings) -> ExistingTable:
        table = self.target_table(settings)
        found = self.find_target_columns(settings)
        if found is None:
            raise WarehouseUnfit(
                f"table {table} does not exist, although rows of {settings.name} were loaded into it",
                hint=f"To create and fill it again: syncd watermark reset -t {settings.name} --redshift-only",
            )
        return found

    def _promised_bounds(self, settings: StreamSettings) -> ComparisonBounds:
        """Return what the stream promises now: its start and the mark of what is loaded."""
        state = self._require_loaded_state(settings)
        snapshot = state.required_extract_progress.snapshot
        began_later = snapshot is not None and snapshot.done and snapshot.reached_key == START_CURSOR
        since = snapshot.horizon if snapshot is not None and began_later and snapshot.horizon != START_CURSOR else None
        return ComparisonBounds(upto=state.load_progress.cursor, since=since, last_batch=state.load_progress.last_batch)

    def _require_loaded_state(self, settings: StreamSettings) -> Watermark:
        state = self.journal.read(settings.stream_name.stem)
        if state is None or state.load_progress.cursor == START_CURSOR:
            raise ConfigError(
                f"the mark of {settings.name} was reset during the comparison", hint="Run the command again."
            )
        return state

    @staticmethod
    def target_table(settings: StreamSettings) -> TableRef:
        if settings.target is None:
            raise ConfigError(f"{settings.name} has no warehouse", hint="Add `warehouse:` to the configuration.")
        return TableRef(schema=settings.target.schema, name=settings.target.table)

    # Resources.

    def source_settings(self, settings: StreamSettings) -> SourceSettings:
        found = self.settings.source(settings.source)
        # A sum over many rows sends nothing until it is complete.
        return replace(found, silence=max(found.silence, found.longest_read))

    def warehouse_settings(self, settings: StreamSettings) -> WarehouseSettings:
        assert settings.target
        return self.settings.warehouse(settings.target.warehouse)

    def warehouse_session(self, settings: StreamSettings) -> "WarehouseSession":
        return self.open_session(self.warehouse_settings(settings).name)

    def quarantined_keys(self, subject: ComparisonSubject) -> "QuarantinedVersions":
        """Return key and stamp of every quarantined row of a stream."""
        from syncd.s3.quarantine_files import LakeQuarantineRestorer  # noqa: PLC0415  # pyarrow takes long to load

        quarantine = Quarantine(stream=subject.settings.stream_name, journal=self.journal, parts=self.lake)
        identity = subject.identity
        names = (*identity.key, *((identity.cursor,) if identity.cursor else ()))
        restorer = LakeQuarantineRestorer(self.lake)
        found: set[tuple[object, ...]] = set()
        for aside in quarantine.list_files().files:
            if aside.replayed_by is None and not aside.is_missing:
                manifest = Manifest.from_link(quarantine.chain.require_link(aside.batch))
                found.update(
                    tuple(row.values.get(name) for name in names) for row in restorer.read_refused_rows(aside, manifest)
                )
        return frozenset(found)


class _SnapshotPairs:
    """Opener of both sides of one stream: first the warehouse's snapshot, then the source's."""

    def __init__(self, verifier: StreamVerifier, subject: ComparisonSubject, connection: "Connection") -> None:
        self._verifier = verifier
        self._subject = subject
        self._connection = connection

    @contextmanager
    def open_sides(self, bounds: ComparisonBounds) -> Iterator[SidePair]:
        from syncd.verify.row_diff import RowComparer  # noqa: PLC0415  # pyarrow takes long to load

        session = self._verifier.warehouse_session(self._subject.settings)
        session.begin()
        try:
            target = self._target_side(bounds)
            target.take_snapshot()
            with self._source_side(bounds) as source:
                quarantined = partial(self._verifier.quarantined_keys, self._subject)
                comparer = RowComparer(self._subject, source=source, target=target, load_quarantined=quarantined)
                yield SidePair(source=source, target=target, comparer=comparer)
        finally:
            session.rollback()

    def left_out(self, verdict: ComparisonResult, bounds: ComparisonBounds) -> LeftOutRows:
        """Count the rows outside the promise on each side."""
        with self._source_side(bounds) as source:
            without_stamp, before_start = source.count_left_out()
        marked_gone, earlier_versions = self._target_side(bounds).count_left_out()
        return replace(
            verdict.left_out,
            without_stamp=without_stamp,
            before_start=before_start,
            marked_gone=marked_gone,
            earlier_versions=earlier_versions,
        )

    @contextmanager
    def _source_side(self, bounds: ComparisonBounds) -> Iterator[MySqlSide]:
        from syncd.mysql.connection import open_snapshot  # noqa: PLC0415  # as above

        settings = self._verifier.source_settings(self._subject.settings)
        with open_snapshot(self._connection, settings) as query:
            yield MySqlSide(query, self._subject, bounds)

    def _target_side(self, bounds: ComparisonBounds) -> RedshiftSide:
        settings = self._subject.settings
        longest = self._verifier.warehouse_settings(settings).longest_statement
        session = self._verifier.warehouse_session(settings)
        return RedshiftSide(session, self._subject, bounds, statement_timeout=longest)
