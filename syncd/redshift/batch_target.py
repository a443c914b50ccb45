"""Where batches land: one transaction in Redshift for all that is due, under the lock of the stream's fence."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from syncd.errors import FileRefused, RowRefused, SchemaDrift, TransactionConflict, WarehouseUnfit
from syncd.ports.source import CopyLake
from syncd.redshift.amendments import Amendments
from syncd.redshift.error_table import object_key
from syncd.redshift.load_errors import LoadErrorReader
from syncd.redshift.load_transaction import ColumnsTooNarrow, ControlTablesMissing, LoadTarget, LoadTransaction
from syncd.redshift.reload_check import ReloadCheck
from syncd.redshift.session import WarehouseSession
from syncd.settings import Mode
from watermarks.batch import BatchId, BatchLink
from watermarks.loading import BatchLoadResult, LoadCycle

if TYPE_CHECKING:
    from syncd.redshift.refused_row_finder import RefusedRowFinder
    from watermarks.errors import HintedError

MAX_ATTEMPTS: Final = 8
"""Of one cycle: each but the last finds columns to widen, or tables of our own to make."""


class SessionProvider(Protocol):
    """Whoever keeps a connection to the warehouse."""

    def session(self) -> WarehouseSession:
        """A living session; another one than before where that was lost.

        Raises:
            WarehouseDown, WarehouseUnfit: there is none to be had.
        """
        ...


class RedshiftTarget:
    """One stream's table; see `watermarks.loading.Target` for what is promised."""

    def __init__(
        self,
        load_target: LoadTarget,
        *,
        sessions: SessionProvider,
        lake_files: CopyLake,
        amendments: Amendments,
        make_finder: "Callable[[], RefusedRowFinder]",
        nonce: Callable[[], str],
    ) -> None:
        """Prepare; a sieve is made only where rows are refused."""
        self._load_target = load_target
        self._control_tables = load_target.control_tables
        self._sessions = sessions
        self._lake_files = lake_files
        self._amendments = amendments
        self._make_finder = make_finder
        self._finder: RefusedRowFinder | None = None
        self._nonce = nonce
        self._reload_check = ReloadCheck(lake_files)
        self._has_loaded = False
        """Whether this process has landed anything here."""
        self._last_session: WarehouseSession | None = None
        """The session that was here last."""

    def load(self, cycle: LoadCycle) -> Mapping[BatchId, BatchLoadResult]:
        refused: TransactionConflict | ControlTablesMissing = TransactionConflict(
            f"{self._load_target.table} was made ready {MAX_ATTEMPTS} times, and does not take the rows still"
        )
        tries = 0
        while tries < MAX_ATTEMPTS:
            session = self._prepare_session(cycle)
            attempt = self._make_attempt(session, cycle)
            tries += 1
            try:
                landed = attempt.execute()
            except (RowRefused, FileRefused) as error:
                self._amend_refused(session, attempt, error)
                tries -= 1  # each amends a file, or knows of an amendment more than before
            except ColumnsTooNarrow as found:
                for statement, remedy in found.statements:
                    self._widen_column(session, statement, remedy)
            except ControlTablesMissing as error:
                refused = error
                self._create_control_tables(session)
            else:
                self._has_loaded = True
                links = {link.id: link for link in (*cycle.due_links, *attempt.links)}
                return {batch: self._result_for(links[batch], landed) for batch in landed}
        raise refused

    def _result_for(self, link: BatchLink, landed: Mapping[BatchId, int]) -> BatchLoadResult:
        rows = landed[link.id]
        if self._load_target.mode is Mode.REPLACE and link.id < max(landed):
            return BatchLoadResult(rows=rows)  # of whole tables, the rows of the newest land
        return self._amendments.result_for(link, rows)

    def _widen_column(self, session: WarehouseSession, statement: str, remedy: str) -> None:
        """Widen a column: refused inside a transaction; and whoever else does the same does no harm.

        Raises:
            SchemaDrift: it is none that Redshift widens, for its encoding, say: such a one it may choose by itself.
        """
        try:
            session.run(statement, within=self._load_target.statement_timeout)
        except WarehouseUnfit as error:
            if error.hint:
                raise
            raise SchemaDrift(error.message, hint=remedy) from error

    def _make_attempt(self, session: WarehouseSession, cycle: LoadCycle) -> LoadTransaction:
        return LoadTransaction(
            self._load_target,
            session,
            cycle,
            lake_files=self._lake_files,
            reload_check=self._reload_check,
            nonce=self._nonce,
            manifest_of=self._amendments.manifest,
            is_first_load=not self._has_loaded,
        )

    def _amend_refused(
        self, session: WarehouseSession, attempt: LoadTransaction, error: RowRefused | FileRefused
    ) -> None:
        """Put the rows aside that were refused; what else was wrong with the files is for a person."""
        explained: HintedError = error
        if attempt.is_copying:  # of other statements the warehouse keeps no such errors
            keys = [object_key(self._lake_files.address_of(part.key)) for load in attempt.loads for part in load.parts]
            table = self._control_tables.stream.table_name
            explained = LoadErrorReader(session).explain(error, table=table, keys=keys)
        if not isinstance(explained, RowRefused) or not attempt.loads:
            raise explained from error
        self._finder = self._finder or self._make_finder()
        self._finder.amend(session, attempt.loads, attempt.existing, explained)

    def _create_control_tables(self, session: WarehouseSession) -> None:
        """Make fence and ledger, where they are not there; a fence made anew is at no epoch, and has to be raised."""
        for statement in self._control_tables.create_statements:
            session.run(statement)

    def _prepare_session(self, cycle: LoadCycle) -> WarehouseSession:
        session = self._sessions.session()
        before, self._last_session = self._last_session, session
        if before is None or not before.is_alive or not cycle.is_fenced:
            # An older owner's may hold the fence; or the one before of ours, still at work though its line is broken.
            # One that lives has left it, whatever it does for other streams by now.
            self._end_fence_holders(session)
        return session

    def _end_fence_holders(self, session: WarehouseSession) -> None:
        """End the sessions at our fence: we hold the claim, so that they are older ones.

        Each stream has a fence of its own, so that none of them is at work for another stream of this process.
        """
        for (pid,) in session.rows(self._control_tables.fence_holders_query):
            session.rows(f"SELECT PG_TERMINATE_BACKEND({int(pid)})")
