"""Resources of one warehouse: sessions, ledger and the targets of streams."""

import threading
from typing import TYPE_CHECKING, Final

from syncd.app.lake_access import ResourceOwner, new_nonce
from syncd.concurrency.running_pass import StageSlot
from syncd.concurrency.thread_helpers import locked_cached_property
from syncd.lake.batch_number import BATCH_COLUMN
from syncd.load.quarantine_replay import missing_batch_number_error
from syncd.redshift.quoting import TableRef
from syncd.redshift.scratch_tables import role_clause
from syncd.redshift.target_table import columns_query, parse_existing_table
from syncd.settings import (
    StreamSettings,
    TargetSettings,
    WarehouseSettings,
)
from watermarks.loading import LedgerKey, Target
from watermarks.names import StreamName

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncd.app.process_resources import ProcessResources
    from syncd.concurrency.running_pass import RunningPass
    from syncd.redshift.aws_credentials import LakeCredentials
    from syncd.redshift.control_tables import ControlTables, LedgerTables
    from syncd.redshift.ledger_reader import LedgerCache
    from syncd.redshift.refused_row_finder import RefusedRowFinder
    from syncd.redshift.session import WarehouseSession
    from syncd.redshift.session_pool import ReusableSession, SessionPool

MAX_ROWS_PER_LOAD: Final = 10_000_000
"""Approximate number of rows that one transaction loads."""


class PassSessions:
    """Session of one stream's pass: borrowed with first use and returned with the end of the pass."""

    def __init__(self, pool: "Callable[[], SessionPool]", slot: StageSlot) -> None:
        self._pool = pool
        self._slot = slot
        self._borrowed: tuple[RunningPass, ReusableSession] | None = None

    def session(self) -> "WarehouseSession":
        """Return a live session.

        Raises:
            PassStopped: the pass was interrupted.
            WarehouseDown, WarehouseUnfit: no session can be opened.
        """
        now = self._slot.current_pass
        now.require_running()
        if self._borrowed is None or self._borrowed[0] is not now:
            self._borrowed = now, self._pool().borrow(now)
            now.cleanup.callback(self._forget_session)
        return self._borrowed[1].session()

    def _forget_session(self) -> None:
        self._borrowed = None


class WarehouseResources(ResourceOwner):
    """Resources of one warehouse, opened with the first load."""

    def __init__(self, settings: WarehouseSettings, process: "ProcessResources") -> None:
        super().__init__()
        self.settings: Final = settings
        self._process = process
        self._ledgers_lock = threading.Lock()
        self._ledgers: LedgerTables | None = None
        """Read once."""

    @locked_cached_property
    def _session_pool(self) -> "SessionPool":
        from syncd.redshift.connection import connection_to  # noqa: PLC0415  # as above
        from syncd.redshift.session_pool import SessionOpener, SessionPool  # noqa: PLC0415  # only loads need it

        connections = self._stack.enter_context(
            connection_to(self.settings, meter=self._process.meter, monitor=self._process.watch_response)
        )
        pool = SessionPool(
            SessionOpener(lambda: connections.open(self._process.process_name)), max_sessions=self.settings.max_sessions
        )
        self._stack.callback(pool.close)
        return pool

    def pass_sessions(self, slot: StageSlot) -> PassSessions:
        """Return the session of the pass that runs in a slot."""
        return PassSessions(lambda: self._session_pool, slot)

    @locked_cached_property
    def _ledger_cache(self) -> "LedgerCache":
        from syncd.redshift.ledger_reader import LedgerCache  # noqa: PLC0415  # as above

        return LedgerCache()

    def ledger_holds(self, key: LedgerKey, sessions: PassSessions) -> bool:
        """Return whether the ledger holds a batch, as read at most ten minutes ago for all streams at once."""
        return self._ledger_cache.holds(sessions, self._ledger_controls(key.stream, sessions), key)

    def _ledger_controls(self, stream: StreamName, sessions: PassSessions) -> "ControlTables":
        ledgers = self._ledgers or self._discover_ledgers(sessions)
        return ledgers.for_stream(stream, lake=self._process.lake.settings.address)

    def _discover_ledgers(self, sessions: PassSessions) -> "LedgerTables":
        from syncd.redshift.control_tables import LedgerTables  # noqa: PLC0415  # as above

        session = sessions.session()  # outside the lock, which is never held during a wait for a session
        with self._ledgers_lock:
            self._ledgers = self._ledgers or LedgerTables.discover(session, self.settings.schema)
            return self._ledgers

    @locked_cached_property
    def _lake_keys(self) -> "LakeCredentials":
        from syncd.redshift.aws_credentials import LakeCredentials  # noqa: PLC0415  # as above

        return LakeCredentials()

    def require_batch_column(self, settings: StreamSettings, target: TargetSettings, sessions: PassSessions) -> None:
        """Require that the table, if it exists, has the column that numbers the versions of a row.

        Raises:
            ConfigError: it does not.
            WarehouseDown, WarehouseUnfit: the warehouse did not answer.
        """
        table = TableRef(schema=target.schema, name=target.table)
        found = parse_existing_table(sessions.session().rows(columns_query(table)))
        if found is not None and BATCH_COLUMN not in found:
            raise missing_batch_number_error(settings.name)

    def make_target(
        self, stream: StreamName, settings: StreamSettings, target: TargetSettings, sessions: PassSessions
    ) -> Target:
        """Make the target of one stream's batches.

        Raises:
            WarehouseDown, WarehouseUnfit: its bastion does not answer or refuses the connection.
        """
        from syncd.redshift.amendments import Amendments  # noqa: PLC0415  # as above
        from syncd.redshift.batch_target import RedshiftTarget  # noqa: PLC0415  # as above
        from syncd.redshift.target_resolver import LoadTarget  # noqa: PLC0415  # as above

        lake = self._process.lake
        controls = self._ledger_controls(stream, sessions)
        load_target = LoadTarget(
            control_tables=controls,
            table=TableRef(schema=target.schema, name=target.table),
            mode=settings.mode,
            settings=target,
            copy_credentials=self._credentials,
            statement_timeout=self.settings.longest_statement,
            max_rows=MAX_ROWS_PER_LOAD,
        )
        amendments = Amendments(self._process.store)

        def make_finder() -> "RefusedRowFinder":
            from syncd.redshift.refused_row_finder import RefusedRowFinder  # noqa: PLC0415  # pyarrow takes long to load

            return RefusedRowFinder(load_target, lake=lake, amendments=amendments, nonce=new_nonce)

        return RedshiftTarget(
            load_target,
            sessions=sessions,
            lake_files=lake,
            amendments=amendments,
            make_finder=make_finder,
            nonce=new_nonce,
        )

    def _credentials(self) -> str:
        role = self.settings.iam_role
        return self._lake_keys.copy_clause() if role is None else role_clause(role)
