"""Import of tables that another tool loaded: find where the marks can stand by comparing both sides up to there.

Nothing is written; the command that asked sets the marks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from syncd.errors import ConfigError, SchemaDrift, WarehouseBehind
from syncd.extract.key_planner import build_start_search
from syncd.lake.manifest import Manifest
from syncd.mysql.sql import stamps_of_keys_sql
from syncd.operations.adoption_rules import (
    ImportCheck,
    LegacyDocument,
    MarkBasis,
    MarkLimit,
    NothingToImport,
    can_lower_mark,
    comparable_order_columns,
    limit_from_document,
    lowest_limit,
    mark_after,
    require_importable,
)
from syncd.operations.operator_access import OperatorAccess, PassPreviewer, TableComparer
from syncd.operations.position_input import CursorShape
from syncd.redshift.target_table import add_column_statements, plan_table_changes, required_columns
from syncd.settings import FirstRun, StreamSettings
from syncd.tables.order_clock import parse_zone
from syncd.tables.sort_order import StreamOrder
from syncd.verify.compared_columns import ComparisonBounds, ComparisonSubject
from syncd.verify.result import ComparisonResult
from syncd.verify.target_side import last_position_query, position_from_row
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.errors import DataInDoubt, Misuse
from watermarks.operator import ImportedPosition, StreamAlreadyExtracted
from watermarks.progress import BEFORE_FIRST_BATCH

if TYPE_CHECKING:
    from syncd.redshift.target_table import ExistingTable

OWN_COLUMN_PREFIX: Final = "_syncd_"
"""Prefix of the columns that syncd adds to a target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """Position that the operator asked for; without any, the target's last row decides."""

    inherited: LegacyDocument | None = None
    timestamp: datetime | None = None
    key: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportInspector:
    """Checks whether tables can be imported, one after the other."""

    access: OperatorAccess
    previewer: PassPreviewer
    comparer: TableComparer
    horizon_wait: timedelta
    make_nonce: Callable[[], str]

    def inspect(self, settings: StreamSettings, request: ImportRequest) -> ImportCheck:
        """Return where the marks can stand, and how the target compares with the source up to there.

        Raises:
            StreamAlreadyExtracted: the stream has batches of its own.
            NothingToImport: the target has no row up to there.
            SchemaDrift: the target lacks columns of the source.
            HintedError: a side is not reachable, or cannot be compared.
        """
        require_importable(settings)
        if request.inherited is not None:
            request.inherited.legacy.require_table(settings.stream_name)
        self._require_never_loaded(settings)
        existing = self._require_target(settings)
        subject = self.comparer.comparison_subject(settings, existing)
        extra_columns = self._require_columns(subject)
        # The horizon first, then the target's last row, then both snapshots: each has to be later than what it covers.
        closed = self.previewer.find_closed_position(settings, horizon_wait=self.horizon_wait)
        limits = self._requested_limits(subject.order, request)
        top = lowest_limit([*limits, MarkLimit(cursor=closed.cursor, basis=MarkBasis.HORIZON)])
        mark, basis = self._choose_mark(subject, top)
        since = self._find_start(subject, mark)
        comparison = self._compare(subject, ComparisonBounds(upto=mark, since=since))
        return ImportCheck(
            run=f"import-{self.make_nonce()}",
            checked_at=self.access.clock.now(),
            target=str(subject.target),
            mark=mark,
            basis=basis,
            since=since,
            source_bound=closed,
            comparison=comparison,
            legacy_document=request.inherited,
            extra_columns=extra_columns,
            earliest_difference=self._earliest_difference(subject, comparison),
        )

    def _require_never_loaded(self, settings: StreamSettings) -> None:
        state = self.access.journal.read_newest(settings.stream_name.stem)
        progress = state.required_extract_progress if state is not None else None
        if progress is not None and next(progress.batch_ids(after=BEFORE_FIRST_BATCH), None) is not None:
            raise StreamAlreadyExtracted(
                f"{settings.name} has batches of its own, up to batch {progress.last_batch}",
                hint=f"It needs no import. See its marks: syncd watermark get -t {settings.name}",
            )
        ledger = self.access.ledger_reader(settings)
        assert ledger
        if entries := ledger.read_entries():
            raise DataInDoubt(
                f"the warehouse's ledger lists {len(entries)} batches of {settings.name} in {ledger.table}, and the"
                " lake has none: the lake was emptied, or is another one",
                hint="Restore the lake from the bucket's versions; or configure another `target`.",
            )
        if others := ledger.find_other_streams():
            raise ConfigError(
                f"{ledger.table} is the target of another stream: {', '.join(others)}",
                hint="Two streams must not load into one table: configure another `target`.",
            )

    def _require_target(self, settings: StreamSettings) -> "ExistingTable":
        existing = self.comparer.find_target_columns(settings)
        if existing is None:
            raise NothingToImport(
                f"table {self.comparer.target_table(settings)} does not exist: there is nothing to import",
                hint=f"syncd creates it by itself: syncd run -t {settings.name}",
            )
        return existing

    @staticmethod
    def _require_columns(subject: ComparisonSubject) -> tuple[str, ...]:
        """Return the columns that only the target has; refuse a target that lacks one, or has one of another type."""
        wanted = required_columns([Manifest(schema=subject.table.fingerprint, columns=subject.columns, parts=())])
        lacking = plan_table_changes(subject.target, subject.existing, wanted).add
        if lacking:
            names = ", ".join(column.name for column in lacking)
            statements = " ".join(f"{statement};" for statement in add_column_statements(subject.target, lacking))
            raise SchemaDrift(
                f"{subject.target} has no column {names}, which the source has: imported rows would lack its values",
                hint=f"{statements}  Fill the columns there, and import again.",
            )
        wanted_names = {column.name for column in wanted}
        return tuple(
            name
            for name in subject.existing.columns
            if name not in wanted_names and not name.startswith(OWN_COLUMN_PREFIX)
        )

    @staticmethod
    def _requested_limits(order: StreamOrder, request: ImportRequest) -> list[MarkLimit]:
        limits: list[MarkLimit] = []
        if request.timestamp is not None or request.key:
            shape = CursorShape.from_order(order)
            position = shape.parse_position(START_CURSOR, timestamp=request.timestamp, key=request.key)
            limits.append(MarkLimit(cursor=position, basis=MarkBasis.ASKED))
        if request.inherited is not None:
            limits.append(limit_from_document(order, request.inherited))
        return limits

    def _choose_mark(self, subject: ComparisonSubject, upper_limit: MarkLimit) -> tuple[Cursor, MarkBasis]:
        columns = comparable_order_columns(subject)
        name = subject.settings.name
        if not columns:
            raise Misuse(
                f"the last row of {name} in the target is unknown, because its positions cannot be compared there",
                hint=f"Let syncd load the table itself: syncd run -t {name}, with another `target`.",
            )
        high = Cursor(upper_limit.cursor.values[: len(columns)])
        rows = self.comparer.warehouse_session(subject.settings).rows(last_position_query(subject, columns, high=high))
        if not rows:
            below = f" below {upper_limit.cursor}" if upper_limit.basis is not MarkBasis.HORIZON else ""
            raise NothingToImport(
                f"{subject.target} has no row{below}: there is nothing to import",
                hint=f"A table without rows needs no import: syncd run -t {name}",
            )
        mark = mark_after(subject.order, position_from_row(columns, rows[0]))
        return (mark, MarkBasis.TARGET) if mark <= upper_limit.cursor else (upper_limit.cursor, upper_limit.basis)

    def _find_start(self, subject: ComparisonSubject, mark: Cursor) -> Cursor | None:
        """Return the configured start, if it lies below the mark: nothing is promised of older rows."""
        settings, order = subject.settings, subject.order
        if settings.first_run is not FirstRun.FROM or settings.start is None:
            return None
        if order.clock is not None:
            since = Cursor((order.clock.ceil_value(settings.start),))
            return since if since < mark else None
        with self.comparer.source_connection(settings) as connection:
            from syncd.mysql.source import MySqlSource  # noqa: PLC0415  # only streams by key need it

            source_settings = self.comparer.source_settings(settings)
            source = MySqlSource(source_settings, lambda: connection)
            zone = parse_zone(source_settings.zone or "+00:00")
            search = build_start_search(source, order, subject.table, settings, instant=settings.start, zone=zone)
            return search.find_position_before(mark)

    def _compare(self, subject: ComparisonSubject, bounds: ComparisonBounds) -> ComparisonResult:
        result = self.comparer.compare(subject, bounds)
        name = subject.settings.name
        if isinstance(result.error, WarehouseBehind):
            raise WarehouseBehind(
                f"{name}: {result.error.message}",
                hint="Let the tool that loads it now update it once more, then import again.",
            ) from result.error
        if result.error is not None:
            raise result.error
        if result.not_compared_reason:
            raise Misuse(
                f"{name} cannot be compared: {result.not_compared_reason}",
                hint="Only a compared table can be imported.",
            )
        return result

    def _earliest_difference(self, subject: ComparisonSubject, result: ComparisonResult) -> datetime | None:
        """Return the earliest stamp of a row that differs, if a mark below it leaves all of them to the next run."""
        clock = subject.order.clock
        if clock is None or not can_lower_mark(result):
            return None
        from syncd.mysql.connection import open_snapshot  # noqa: PLC0415  # only those who compare need it

        keys = [difference.position for difference in result.differences if difference.position is not None]
        settings = subject.settings
        with (
            self.comparer.source_connection(settings) as connection,
            open_snapshot(connection, self.comparer.source_settings(settings)) as query,
        ):
            stamps = [raw for (raw,) in query(stamps_of_keys_sql(subject.order, keys)) if raw is not None]
        values = [subject.order.columns[0].parse_value(raw) for raw in stamps]
        return min((clock.to_instant(value) for value in values), default=None)


def takeover_from(check: ImportCheck) -> ImportedPosition:
    """Return the change of marks that imports a checked table."""
    return ImportedPosition(
        cursor=check.mark,
        first_cursor=check.since,
        proven=check.proven,
        source_identity=check.source_bound.source_identity,
        legacy=check.legacy_document.legacy if check.legacy_document else None,
        proof=check.proof_fields,
    )
