"""Adopting: where the marks of a table can stand that somebody else loaded, found by comparing both sides up to there.

Nothing is written anywhere: what comes of it is for whoever asked.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from syncd.app import PassOptions
from syncd.app.lake_access import new_nonce
from syncd.app.operator_context import OperatorContext, stream_name_of
from syncd.app.preview import open_preview_service
from syncd.app.verification_setup import ComparisonOptions, StreamVerifier
from syncd.errors import ConfigError, SchemaDrift, WarehouseBehind
from syncd.extract.start_position import build_start_search
from syncd.horizon import parse_zone
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
from syncd.operations.position_input import CursorShape
from syncd.redshift.target_table import add_column_statements, plan_table_changes, required_columns
from syncd.settings import FirstRun, StreamSettings
from syncd.tables.sort_order import StreamOrder
from syncd.verify.compared_columns import ComparisonBounds, ComparisonSubject
from syncd.verify.result import ComparisonResult
from syncd.verify.target_sql import last_position_query
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.errors import DataInDoubt, Misuse
from watermarks.operator import ImportedPosition, StreamAlreadyExtracted
from watermarks.progress import BEFORE_FIRST_BATCH

if TYPE_CHECKING:
    from syncd.redshift.target_table import ExistingTable as Target

OWN_COLUMN_PREFIX: Final = "_syncd_"
"""What the columns of our own begin with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """What whoever asks says of where to stand; nothing of it: where the target's last row does."""

    inherited: LegacyDocument | None = None
    timestamp: datetime | None = None
    key: Sequence[str] = ()


class ImportInspector:
    """Looks at one table after the other."""

    def __init__(self, context: OperatorContext, *, environ: Mapping[str, str], horizon_wait: timedelta) -> None:
        self._context = context
        self._environ = environ
        self._horizon_wait = horizon_wait
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        desk = self._context
        self._service = self._stack.enter_context(open_preview_service(desk, self._environ))
        verifying = StreamVerifier(desk.settings, lake=desk.lake, response_monitor=desk.response_monitor)
        self._verifier = self._stack.enter_context(verifying)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def inspect(self, settings: StreamSettings, request: ImportRequest) -> ImportCheck:
        """Where the marks can stand, and how the target compares up to there.

        Raises:
            OwnChain: the stream knows by itself where it stands.
            NothingThere: the target has no row up to there.
            SchemaDrift: the target has not the columns of the source.
            HintedError: a side cannot be asked, or cannot be compared.
        """
        require_importable(settings)
        if request.inherited is not None:
            request.inherited.legacy.require_table(stream_name_of(settings))
        self._require_never_loaded(settings)
        target = self._require_target(settings)
        subject = self._verifier.comparison_subject(settings, target)
        strangers = self._require_columns(subject)
        # The horizon first, then what the target has, then both snapshots: each later than what it is to cover.
        closed = self._service.find_closed_position(
            settings, PassOptions(horizon_wait=self._horizon_wait, dry_run=True)
        )
        top = lowest_limit(
            [*self._requested_limits(subject.order, request), MarkLimit(cursor=closed.cursor, basis=MarkBasis.HORIZON)]
        )
        mark, by = self._choose_mark(subject, top)
        since = self._find_start(subject, mark)
        verdict = self._compare(subject, ComparisonBounds(upto=mark, since=since))
        return ImportCheck(
            run=f"import-{new_nonce()}",
            checked_at=self._context.clock.now(),
            target=str(subject.target),
            mark=mark,
            basis=by,
            since=since,
            source_bound=closed,
            comparison=verdict,
            legacy_document=request.inherited,
            extra_columns=strangers,
            earliest_difference=self._earliest_difference(subject, verdict),
        )

    # Whether it may be taken over at all.

    def _require_never_loaded(self, settings: StreamSettings) -> None:
        stream = stream_name_of(settings)
        state = self._context.journal.read_newest(stream.stem)
        if (
            state is not None
            and next(state.required_extract_progress.batch_ids(after=BEFORE_FIRST_BATCH), None) is not None
        ):
            raise StreamAlreadyExtracted(
                f"{settings.name} has a chain of its own, up to batch {state.required_extract_progress.last_batch}",
                hint=f"It needs nobody's marks: syncd watermark get -t {settings.name}",
            )
        books = self._context.ledger_reader(settings)
        assert books
        if entries := books.read_entries():
            raise DataInDoubt(
                f"the warehouse's ledger has {len(entries)} batches of {settings.name} in {books.table}, and the lake"
                " has none: it was emptied, or is another one",
                hint="Restore the lake from the bucket's versions; or name another `target`.",
            )
        if others := books.find_other_streams():
            raise ConfigError(
                f"{books.table} is kept equal to another stream: {', '.join(others)}",
                hint="Two streams in one table undo each other: name another `target`.",
            )

    def _require_target(self, settings: StreamSettings) -> "Target":
        found = self._verifier.find_target_columns(settings)
        if found is None:
            raise NothingToImport(
                f"{self._verifier.target_table(settings)} is not there: nothing is to be taken over",
                hint=f"syncd makes it by itself: syncd run -t {settings.name}",
            )
        return found

    @staticmethod
    def _require_columns(subject: ComparisonSubject) -> tuple[str, ...]:
        """The columns that only the target has; refuse a target that lacks any, or has one of another type."""
        manifest = Manifest(schema=subject.table.fingerprint, columns=subject.columns, parts=())
        wanted = required_columns([manifest])
        lacking = plan_table_changes(subject.target, subject.existing, wanted).add
        if lacking:
            names = ", ".join(column.name for column in lacking)
            statements = " ".join(f"{statement};" for statement in add_column_statements(subject.target, lacking))
            raise SchemaDrift(
                f"{subject.target} has no column {names}, and the source has: its rows would stay without it",
                hint=f"{statements}  Fill them there, and ask again.",
            )
        names_wanted = {column.name for column in wanted}
        return tuple(
            name
            for name in subject.existing.columns
            if name not in names_wanted and not name.startswith(OWN_COLUMN_PREFIX)
        )

    # Where it can stand.

    @staticmethod
    def _requested_limits(order: StreamOrder, request: ImportRequest) -> list[MarkLimit]:
        limits: list[MarkLimit] = []
        if request.timestamp is not None or request.key:
            position = CursorShape.from_order(order).parse_position(
                START_CURSOR, timestamp=request.timestamp, key=request.key
            )
            limits.append(MarkLimit(cursor=position, basis=MarkBasis.ASKED))
        if request.inherited is not None:
            limits.append(limit_from_document(order, request.inherited))
        return limits

    def _choose_mark(self, subject: ComparisonSubject, upper_limit: MarkLimit) -> tuple[Cursor, MarkBasis]:
        from syncd.verify.target_side import position_from_row  # noqa: PLC0415  # only those who compare need it

        columns = comparable_order_columns(subject)
        if not columns:
            name = subject.settings.name
            raise Misuse(
                f"positions of {name} mean nothing in the target: where its last row stands cannot be asked there",
                hint=f"Let syncd load it itself: syncd run -t {name}, with another `target`.",
            )
        high = Cursor(upper_limit.cursor.values[: len(columns)])
        rows = self._verifier.warehouse_session(subject.settings).rows(last_position_query(subject, columns, high=high))
        if not rows:
            below = f" below {upper_limit.cursor}" if upper_limit.basis is not MarkBasis.HORIZON else ""
            raise NothingToImport(
                f"{subject.target} has no row{below}: nothing is to be taken over",
                hint=f"A table without rows needs no adoption: syncd run -t {subject.settings.name}",
            )
        mark = mark_after(subject.order, position_from_row(columns, rows[0]))
        return (mark, MarkBasis.TARGET) if mark <= upper_limit.cursor else (upper_limit.cursor, upper_limit.basis)

    def _find_start(self, subject: ComparisonSubject, mark: Cursor) -> Cursor | None:
        """Where the configuration has the stream begin: of earlier rows nothing was promised."""
        settings = subject.settings
        if settings.first_run is not FirstRun.FROM or settings.start is None:
            return None
        order = subject.order
        if order.clock is not None:
            since = Cursor((order.clock.ceil_value(settings.start),))
            return since if since < mark else None
        with self._verifier.source_connection(settings) as connection:
            from syncd.mysql.source import MySqlSource  # noqa: PLC0415  # as above

            here = self._verifier.source_settings(settings)
            source = MySqlSource(here, lambda: connection)
            zone = parse_zone(here.zone or "+00:00")
            start = build_start_search(source, order, subject.table, settings, instant=settings.start, zone=zone)
            return start.find_position_before(mark)

    # What is there.

    def _compare(self, subject: ComparisonSubject, bounds: ComparisonBounds) -> ComparisonResult:
        verdict = self._verifier.compare(subject, ComparisonOptions(), bounds)
        name = subject.settings.name
        if isinstance(verdict.error, WarehouseBehind):
            raise WarehouseBehind(
                f"{name}: {verdict.error.message}",
                hint="Let whatever loads it now bring it up to date once more, and ask again then.",
            ) from verdict.error
        if verdict.error is not None:
            raise verdict.error
        if verdict.not_compared_reason:
            raise Misuse(
                f"{name} cannot be compared: {verdict.not_compared_reason}",
                hint="What is not compared is not taken over.",
            )
        return verdict

    def _earliest_difference(self, subject: ComparisonSubject, verdict: ComparisonResult) -> datetime | None:
        """The earliest stamp of the rows that differ, where a mark below them would leave them to the next run."""
        clock = subject.order.clock
        if clock is None or not can_lower_mark(verdict):
            return None
        from syncd.verify.source_side import open_snapshot  # noqa: PLC0415  # as above

        keys = [one.position for one in verdict.differences if one.position is not None]
        settings = subject.settings
        with (
            self._verifier.source_connection(settings) as connection,
            open_snapshot(connection, self._verifier.source_settings(settings)) as ask,
        ):
            stamps = [raw for (raw,) in ask(stamps_of_keys_sql(subject.order, keys)) if raw is not None]
        values = [subject.order.columns[0].parse_value(raw) for raw in stamps]
        return min((clock.to_instant(value) for value in values), default=None)


def takeover_from(found: ImportCheck) -> ImportedPosition:
    """What a person does with what was found."""
    return ImportedPosition(
        cursor=found.mark,
        first_cursor=found.since,
        proven=found.proven,
        source_identity=found.source_bound.source_identity,
        legacy=found.legacy_document.legacy if found.legacy_document else None,
        proof=found.proof_fields,
    )
