"""One warehouse: the way to it, its sessions, and where the batches of each stream land in it."""

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from syncd.app.lake_access import new_nonce
from syncd.app.open_resources import ResourceOwner
from syncd.concurrency.once import locked_cached_property
from syncd.concurrency.running_pass import StageSlot
from syncd.lake.batch_number import BATCH_COLUMN
from syncd.load.replay import missing_batch_number_error
from syncd.redshift.quoting import TableRef
from syncd.redshift.scratch_tables import role_clause
from syncd.redshift.target_table import columns_query, parse_existing_table
from syncd.settings import (
    StreamSettings,
    TargetSettings,
    WarehouseSettings,
)
from watermarks.batch import BatchId
from watermarks.loading import BatchLoadResult, LedgerKey, LoadCycle, Target
from watermarks.names import StreamName

if TYPE_CHECKING:
    from syncd.app.stage_services import StageService
    from syncd.concurrency.running_pass import RunningPass
    from syncd.redshift.aws import LakeCredentials
    from syncd.redshift.control_tables import ControlTables, LedgerTables
    from syncd.redshift.ledger_reader import LedgerCache
    from syncd.redshift.refused_row_finder import RefusedRowFinder
    from syncd.redshift.session import WarehouseSession
    from syncd.redshift.session_pool import ReusableSession, SessionPool

MAX_ROWS_PER_LOAD: Final = 10_000_000
"""About so many rows are landed in one transaction."""


class PassSessions:
    """The session of one stream's pass: borrowed when it is first asked for, and given back with the pass."""

    def __init__(self, pool: "Callable[[], SessionPool]", lane: StageSlot) -> None:
        self._pool = pool
        self._lane = lane
        self._borrowed: tuple[RunningPass, ReusableSession] | None = None

    def session(self) -> "WarehouseSession":
        """A living session.

        Raises:
            PassStopped: the pass was ended.
            WarehouseDown, WarehouseUnfit: there is none to be had.
        """
        now = self._lane.current_pass
        now.require_running()
        if self._borrowed is None or self._borrowed[0] is not now:
            self._borrowed = now, self._pool().borrow(now)
            now.cleanup.callback(self._forget_session)
        return self._borrowed[1].session()

    def _forget_session(self) -> None:
        self._borrowed = None


class WarehouseResources(ResourceOwner):
    """One warehouse: the way to it and its sessions, opened with the first landing."""

    def __init__(self, settings: WarehouseSettings, service: "StageService") -> None:
        super().__init__()
        self.settings: Final = settings
        self._service = service
        self._ledgers_lock = threading.Lock()
        self._ledgers: LedgerTables | None = None
        """Asked once."""

    @locked_cached_property
    def _session_pool(self) -> "SessionPool":
        from syncd.redshift.connection import connection_to  # noqa: PLC0415  # as above
        from syncd.redshift.session_pool import SessionOpener, SessionPool  # noqa: PLC0415  # only those who land need it

        way = self._stack.enter_context(
            connection_to(self.settings, meter=self._service.meter, monitor=self._service.watch_response)
        )
        pool = SessionPool(
            SessionOpener(lambda: way.open(self._service.process_name)), max_sessions=self.settings.max_sessions
        )
        self._stack.callback(pool.close)
        return pool

    def pass_sessions(self, lane: StageSlot) -> PassSessions:
        """The session of whatever pass is under way there."""
        return PassSessions(lambda: self._session_pool, lane)

    @locked_cached_property
    def _ledger_cache(self) -> "LedgerCache":
        from syncd.redshift.ledger_reader import LedgerCache  # noqa: PLC0415  # as above

        return LedgerCache()

    def ledger_holds(self, key: LedgerKey, sessions: PassSessions) -> bool:
        """Whether the ledger seems to hold a batch; asked for all streams at once, and then every ten minutes."""
        return self._ledger_cache.holds(sessions, self._ledger_controls(key.stream, sessions), key)

    def _ledger_controls(self, stream: StreamName, sessions: PassSessions) -> "ControlTables":
        ledgers = self._ledgers or self._discover_ledgers(sessions)
        return ledgers.for_stream(stream, lake=self._service.lake.settings.address)

    def _discover_ledgers(self, sessions: PassSessions) -> "LedgerTables":
        from syncd.redshift.control_tables import LedgerTables  # noqa: PLC0415  # as above

        session = sessions.session()  # before the guard: who has it waits for nobody
        with self._ledgers_lock:
            self._ledgers = self._ledgers or LedgerTables.discover(session, self.settings.schema)
            return self._ledgers

    @locked_cached_property
    def _lake_keys(self) -> "LakeCredentials":
        from syncd.redshift.aws import LakeCredentials  # noqa: PLC0415  # as above

        return LakeCredentials()

    def require_batch_column(self, settings: StreamSettings, target: TargetSettings, sessions: PassSessions) -> None:
        """Make sure that the table, where it is there, has the column by which versions of a row are told apart.

        Raises:
            ConfigError: it has not.
            WarehouseDown, WarehouseUnfit: it could not be asked.
        """
        table = TableRef(schema=target.schema, name=target.table)
        found = parse_existing_table(sessions.session().rows(columns_query(table)))
        if found is not None and BATCH_COLUMN not in found:
            raise missing_batch_number_error(settings.name)

    def make_target(
        self, stream: StreamName, settings: StreamSettings, target: TargetSettings, sessions: PassSessions
    ) -> Target:
        """Where the batches of one stream land.

        Raises:
            WarehouseDown, WarehouseUnfit: its bastion is away, or refuses us.
        """
        from syncd.redshift.amendments import Amendments  # noqa: PLC0415  # as above
        from syncd.redshift.batch_target import RedshiftTarget  # noqa: PLC0415  # as above
        from syncd.redshift.target_resolver import LoadTarget  # noqa: PLC0415  # as above

        lake = self._service.lake
        controls = self._ledger_controls(stream, sessions)
        place = LoadTarget(
            control_tables=controls,
            table=TableRef(schema=target.schema, name=target.table),
            mode=settings.mode,
            settings=target,
            copy_credentials=self._credentials,
            statement_timeout=self.settings.longest_statement,
            max_rows=MAX_ROWS_PER_LOAD,
        )
        amendments = Amendments(self._service.store)

        def sieve() -> "RefusedRowFinder":
            from syncd.redshift.refused_row_finder import RefusedRowFinder  # noqa: PLC0415  # pyarrow takes long to load

            return RefusedRowFinder(place, lake=lake, amendments=amendments, nonce=new_nonce)

        return RedshiftTarget(
            place, sessions=sessions, lake_files=lake, amendments=amendments, make_finder=sieve, nonce=new_nonce
        )

    def _credentials(self) -> str:
        role = self.settings.iam_role
        return self._lake_keys.copy_clause() if role is None else role_clause(role)


class LazyTarget:
    """A target that is made with the first landing, and with it all that it stands on."""

    def __init__(self, make: Callable[[], Target]) -> None:
        self._make = make
        self._target: Target | None = None

    def load(self, cycle: LoadCycle) -> Mapping[BatchId, BatchLoadResult]:
        return self._get_target().load(cycle)

    def _get_target(self) -> Target:
        self._target = self._target or self._make()
        return self._target
