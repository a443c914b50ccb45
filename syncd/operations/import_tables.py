"""Adopting: where the marks of a table can stand that somebody else loaded, found by comparing both sides up to there.

Nothing is written anywhere: what comes of it is for whoever asked.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from syncd.app import Pass
from syncd.app.lake_access import nonce
from syncd.app.operator_context import Desk, name_of
from syncd.app.preview import looking
from syncd.app.verification_setup import Verifying, Wanted
from syncd.errors import ConfigError, SchemaDrift, WarehouseBehind
from syncd.extract.start_position import start_of
from syncd.horizon import zone_of
from syncd.lake.manifest import Manifest
from syncd.mysql.sql import stamps_of
from syncd.operations.adoption_rules import (
    By,
    Found,
    Inherited,
    Limit,
    NothingThere,
    behind,
    can_stand_lower,
    lowest,
    placed,
    require_adoptable,
    said_by,
)
from syncd.operations.position_input import Shape
from syncd.redshift.target_table import add_statements, changes, wanted_columns
from syncd.settings import FirstRun, StreamSettings
from syncd.tables.sort_order import Order
from syncd.verify.compared_columns import Bounds, Compared
from syncd.verify.result import Verdict
from syncd.verify.target_sql import last_position
from watermarks.cursor import START, Cursor
from watermarks.errors import DataInDoubt, Misuse
from watermarks.operator import OwnChain, Takeover
from watermarks.progress import ORIGIN

if TYPE_CHECKING:
    from syncd.redshift.target_table import Found as Target

OURS: Final = "_syncd_"
"""What the columns of our own begin with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What whoever asks says of where to stand; nothing of it: where the target's last row does."""

    inherited: Inherited | None = None
    timestamp: datetime | None = None
    key: Sequence[str] = ()


class Adopter:
    """Looks at one table after the other."""

    def __init__(self, desk: Desk, *, environ: Mapping[str, str], wait: timedelta) -> None:
        self._desk = desk
        self._environ = environ
        self._wait = wait
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        desk = self._desk
        self._service = self._stack.enter_context(looking(desk, self._environ))
        verifying = Verifying(desk.settings, lake=desk.lake, silences=desk.silences)
        self._verifying = self._stack.enter_context(verifying)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def look(self, settings: StreamSettings, wish: Wish) -> Found:
        """Where the marks can stand, and how the target compares up to there.

        Raises:
            OwnChain: the stream knows by itself where it stands.
            NothingThere: the target has no row up to there.
            SchemaDrift: the target has not the columns of the source.
            HintedError: a side cannot be asked, or cannot be compared.
        """
        require_adoptable(settings)
        if wish.inherited is not None:
            wish.inherited.legacy.require_table(name_of(settings))
        self._require_no_chain(settings)
        target = self._target(settings)
        subject = self._verifying.subject(settings, target)
        strangers = self._require_columns(subject)
        # The horizon first, then what the target has, then both snapshots: each later than what it is to cover.
        closed = self._service.closed(settings, Pass(wait=self._wait, dry=True))
        top = lowest([*self._wishes(subject.order, wish), Limit(cursor=closed.cursor, by=By.HORIZON)])
        mark, by = self._mark(subject, top)
        since = self._since(subject, mark)
        verdict = self._compared(subject, Bounds(upto=mark, since=since))
        return Found(
            run=f"import-{nonce()}",
            at=self._desk.clock.now(),
            target=str(subject.target),
            mark=mark,
            by=by,
            since=since,
            closed=closed,
            verdict=verdict,
            inherited=wish.inherited,
            strangers=strangers,
            lowest=self._lowest(subject, verdict),
        )

    # Whether it may be taken over at all.

    def _require_no_chain(self, settings: StreamSettings) -> None:
        stream = name_of(settings)
        state = self._desk.journal.newest(stream.stem)
        if state is not None and next(state.chain.ids(after=ORIGIN), None) is not None:
            raise OwnChain(
                f"{settings.name} has a chain of its own, up to batch {state.chain.last}",
                hint=f"It needs nobody's marks: syncd watermark get -t {settings.name}",
            )
        books = self._desk.books(settings)
        assert books
        if entries := books.entries():
            raise DataInDoubt(
                f"the warehouse's ledger has {len(entries)} batches of {settings.name} in {books.table}, and the lake"
                " has none: it was emptied, or is another one",
                hint="Restore the lake from the bucket's versions; or name another `target`.",
            )
        if others := books.others():
            raise ConfigError(
                f"{books.table} is kept equal to another stream: {', '.join(others)}",
                hint="Two streams in one table undo each other: name another `target`.",
            )

    def _target(self, settings: StreamSettings) -> "Target":
        found = self._verifying.found(settings)
        if found is None:
            raise NothingThere(
                f"{self._verifying.target(settings)} is not there: nothing is to be taken over",
                hint=f"syncd makes it by itself: syncd run -t {settings.name}",
            )
        return found

    @staticmethod
    def _require_columns(subject: Compared) -> tuple[str, ...]:
        """The columns that only the target has; refuse a target that lacks any, or has one of another type."""
        manifest = Manifest(schema=subject.table.fingerprint, passages=subject.passages, parts=())
        wanted = wanted_columns([manifest])
        lacking = changes(subject.target, subject.found, wanted).add
        if lacking:
            names = ", ".join(column.name for column in lacking)
            statements = " ".join(f"{statement};" for statement in add_statements(subject.target, lacking))
            raise SchemaDrift(
                f"{subject.target} has no column {names}, and the source has: its rows would stay without it",
                hint=f"{statements}  Fill them there, and ask again.",
            )
        names_wanted = {column.name for column in wanted}
        return tuple(name for name in subject.found.columns if name not in names_wanted and not name.startswith(OURS))

    # Where it can stand.

    @staticmethod
    def _wishes(order: Order, wish: Wish) -> list[Limit]:
        limits: list[Limit] = []
        if wish.timestamp is not None or wish.key:
            position = Shape.of_order(order).position(START, timestamp=wish.timestamp, key=wish.key)
            limits.append(Limit(cursor=position, by=By.ASKED))
        if wish.inherited is not None:
            limits.append(said_by(order, wish.inherited))
        return limits

    def _mark(self, subject: Compared, top: Limit) -> tuple[Cursor, By]:
        from syncd.verify.target_side import position  # noqa: PLC0415  # only those who compare need it

        columns = placed(subject)
        if not columns:
            name = subject.settings.name
            raise Misuse(
                f"positions of {name} mean nothing in the target: where its last row stands cannot be asked there",
                hint=f"Let syncd load it itself: syncd run -t {name}, with another `target`.",
            )
        high = Cursor(top.cursor.values[: len(columns)])
        rows = self._verifying.session(subject.settings).rows(last_position(subject, columns, high=high))
        if not rows:
            below = f" below {top.cursor}" if top.by is not By.HORIZON else ""
            raise NothingThere(
                f"{subject.target} has no row{below}: nothing is to be taken over",
                hint=f"A table without rows needs no adoption: syncd run -t {subject.settings.name}",
            )
        mark = behind(subject.order, position(columns, rows[0]))
        return (mark, By.TARGET) if mark <= top.cursor else (top.cursor, top.by)

    def _since(self, subject: Compared, mark: Cursor) -> Cursor | None:
        """Where the configuration has the stream begin: of earlier rows nothing was promised."""
        settings = subject.settings
        if settings.first_run is not FirstRun.FROM or settings.start is None:
            return None
        order = subject.order
        if order.clock is not None:
            since = Cursor((order.clock.ceil(settings.start),))
            return since if since < mark else None
        with self._verifying.connected(settings) as connection:
            from syncd.mysql.source import MySqlSource  # noqa: PLC0415  # as above

            here = self._verifying.source(settings)
            source = MySqlSource(here, lambda: connection)
            zone = zone_of(here.zone or "+00:00")
            start = start_of(source, order, subject.table, settings, instant=settings.start, zone=zone)
            return start.before(mark)

    # What is there.

    def _compared(self, subject: Compared, bounds: Bounds) -> Verdict:
        verdict = self._verifying.compare(subject, Wanted(), bounds)
        name = subject.settings.name
        if isinstance(verdict.error, WarehouseBehind):
            raise WarehouseBehind(
                f"{name}: {verdict.error.message}",
                hint="Let whatever loads it now bring it up to date once more, and ask again then.",
            ) from verdict.error
        if verdict.error is not None:
            raise verdict.error
        if verdict.reason:
            raise Misuse(f"{name} cannot be compared: {verdict.reason}", hint="What is not compared is not taken over.")
        return verdict

    def _lowest(self, subject: Compared, verdict: Verdict) -> datetime | None:
        """The earliest stamp of the rows that differ, where a mark below them would leave them to the next run."""
        clock = subject.order.clock
        if clock is None or not can_stand_lower(verdict):
            return None
        from syncd.verify.source_side import snapshot  # noqa: PLC0415  # as above

        keys = [one.position for one in verdict.differences if one.position is not None]
        settings = subject.settings
        with (
            self._verifying.connected(settings) as connection,
            snapshot(connection, self._verifying.source(settings)) as ask,
        ):
            stamps = [raw for (raw,) in ask(stamps_of(subject.order, keys)) if raw is not None]
        values = [subject.order.columns[0].value(raw) for raw in stamps]
        return min((clock.instant(value) for value in values), default=None)


def takeover_of(found: Found) -> Takeover:
    """What a person does with what was found."""
    return Takeover(
        cursor=found.mark,
        since=found.since,
        proven=found.proven,
        source_identity=found.closed.source_identity,
        legacy=found.inherited.legacy if found.inherited else None,
        proof=found.proof,
    )
