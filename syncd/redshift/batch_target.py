"""Load target in Redshift: one transaction for all due batches, under the lock of the stream's fence."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from syncd.errors import FileRefused, RowRefused, SchemaDrift, TransactionConflict, WarehouseUnfit
from syncd.ports.source import CopyLake
from syncd.redshift.amendments import Amendments
from syncd.redshift.error_table import object_key
from syncd.redshift.load_batches import ReloadCheck
from syncd.redshift.load_errors import LoadErrorReader
from syncd.redshift.load_transaction import ControlTablesMissing, LoadTransaction
from syncd.redshift.session import SessionProvider, WarehouseSession
from syncd.redshift.target_resolver import ColumnsTooNarrow, LoadTarget
from syncd.settings import Mode
from watermarks.batch import BatchId, BatchLink
from watermarks.loading import BatchLoadResult, LoadCycle

if TYPE_CHECKING:
    from syncd.redshift.refused_row_finder import RefusedRowFinder
    from watermarks.errors import HintedError

MAX_ATTEMPTS: Final = 8
"""Attempts of one cycle: each but the last finds columns to widen, or control tables to create."""


class RedshiftTarget:
    """Table of one stream; its contract is `watermarks.loading.Target`."""

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
        """Prepare; a finder is made only where rows are refused."""
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
        """True after the first load of this process."""
        self._last_session: WarehouseSession | None = None

    def load(self, cycle: LoadCycle) -> Mapping[BatchId, BatchLoadResult]:
        last_error: TransactionConflict | ControlTablesMissing = TransactionConflict(
            f"{self._load_target.table} was prepared {MAX_ATTEMPTS} times and still does not accept the rows"
        )
        attempts = 0
        while attempts < MAX_ATTEMPTS:
            session = self._prepare_session(cycle)
            attempt = self._make_attempt(session, cycle)
            attempts += 1
            try:
                counts = attempt.execute()
            except (RowRefused, FileRefused) as error:
                self._amend_refused(session, attempt, error)
                attempts -= 1  # each amends a file, or reads an amendment that was not known before
            except ColumnsTooNarrow as error:
                for statement, remedy in error.statements:
                    self._widen_column(session, statement, remedy)
            except ControlTablesMissing as error:
                last_error = error
                # A fence that is created anew has no epoch, and must be raised.
                for statement in self._control_tables.create_statements:
                    session.run(statement)
            else:
                self._has_loaded = True
                links = {link.id: link for link in (*cycle.due_links, *attempt.links)}
                return {batch: self._result_for(links[batch], counts) for batch in counts}
        raise last_error

    def _result_for(self, link: BatchLink, counts: Mapping[BatchId, int]) -> BatchLoadResult:
        rows = counts[link.id]
        if self._load_target.mode is Mode.REPLACE and link.id < max(counts):
            return BatchLoadResult(rows=rows)  # of whole tables, only the newest is loaded
        return self._amendments.result_for(link, rows)

    def _widen_column(self, session: WarehouseSession, statement: str, remedy: str) -> None:
        """Widen a column outside a transaction; another loader may do the same without harm.

        Raises:
            SchemaDrift: Redshift cannot widen it, for example because of its encoding, which Redshift may choose.
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
        """Quarantine the refused rows; any other error of a file needs an operator."""
        explained: HintedError = error
        if attempt.is_copying:  # the warehouse keeps errors of no other statement
            keys = [object_key(self._lake_files.address_of(part.key)) for load in attempt.loads for part in load.parts]
            table = self._control_tables.stream.table_name
            explained = LoadErrorReader(session).explain(error, table=table, keys=keys)
        if not isinstance(explained, RowRefused) or not attempt.loads:
            raise explained from error
        self._finder = self._finder or self._make_finder()
        self._finder.amend(session, attempt.loads, attempt.existing, explained)

    def _prepare_session(self, cycle: LoadCycle) -> WarehouseSession:
        session = self._sessions.session()
        last, self._last_session = self._last_session, session
        if last is None or not last.is_alive or not cycle.is_fenced:
            # The fence may be held by a session of an older owner, or by our last one, which may still work although
            # its connection is lost. A live session has left the fence, whatever it does for other streams now.
            self._end_fence_holders(session)
        return session

    def _end_fence_holders(self, session: WarehouseSession) -> None:
        """End the sessions that hold our fence: we hold the claim, so they are older.

        Each stream has its own fence, so none of them works for another stream of this process.
        """
        for (pid,) in session.rows(self._control_tables.fence_holders_query):
            session.rows(f"SELECT PG_TERMINATE_BACKEND({int(pid)})")
