"""Where batches land: one transaction in Redshift for all that is due, under the lock of the stream's fence."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from syncd.errors import Collided, FileRefused, RowRefused, SchemaDrift, WarehouseUnfit
from syncd.ports.source import Lists
from syncd.redshift.amendments import Amendments
from syncd.redshift.error_table import key_of
from syncd.redshift.load_errors import LoadErrors
from syncd.redshift.load_transaction import Attempt, ControlsMissing, Place, TooNarrow
from syncd.redshift.reload_check import Proofs
from syncd.redshift.session import Session
from syncd.settings import Mode
from watermarks.batch import BatchId, Link
from watermarks.loading import Brought, Cycle

if TYPE_CHECKING:
    from syncd.redshift.refused_row_finder import Sieve
    from watermarks.errors import HintedError

MOST_ATTEMPTS: Final = 8
"""Of one cycle: each but the last finds columns to widen, or tables of our own to make."""


class Sessions(Protocol):
    """Whoever keeps a connection to the warehouse."""

    def session(self) -> Session:
        """A living session; another one than before where that was lost.

        Raises:
            WarehouseDown, WarehouseUnfit: there is none to be had.
        """
        ...


class RedshiftTarget:
    """One stream's table; see `watermarks.loading.Target` for what is promised."""

    def __init__(
        self,
        place: Place,
        *,
        sessions: Sessions,
        lists: Lists,
        amendments: Amendments,
        sieve: "Callable[[], Sieve]",
        nonce: Callable[[], str],
    ) -> None:
        """Prepare; a sieve is made only where rows are refused."""
        self._place = place
        self._controls = place.controls
        self._sessions = sessions
        self._lists = lists
        self._amendments = amendments
        self._make_sieve = sieve
        self._sieve: Sieve | None = None
        self._nonce = nonce
        self._proofs = Proofs(lists)
        self._landed = False
        """Whether this process has landed anything here."""
        self._served: Session | None = None
        """The session that was here last."""

    def land(self, cycle: Cycle) -> Mapping[BatchId, Brought]:
        refused: Collided | ControlsMissing = Collided(
            f"{self._place.table} was made ready {MOST_ATTEMPTS} times, and does not take the rows still"
        )
        tries = 0
        while tries < MOST_ATTEMPTS:
            session = self._ready(cycle)
            attempt = self._attempt(session, cycle)
            tries += 1
            try:
                landed = attempt.landed()
            except (RowRefused, FileRefused) as error:
                self._amend(session, attempt, error)
                tries -= 1  # each amends a file, or knows of an amendment more than before
            except TooNarrow as found:
                for statement, remedy in found.statements:
                    self._widen(session, statement, remedy)
            except ControlsMissing as error:
                refused = error
                self._make(session)
            else:
                self._landed = True
                links = {link.id: link for link in (*cycle.due, *attempt.links)}
                return {batch: self._brought(links[batch], landed) for batch in landed}
        raise refused

    def _brought(self, link: Link, landed: Mapping[BatchId, int]) -> Brought:
        rows = landed[link.id]
        if self._place.mode is Mode.REPLACE and link.id < max(landed):
            return Brought(rows=rows)  # of whole tables, the rows of the newest land
        return self._amendments.brought(link, rows)

    def _widen(self, session: Session, statement: str, remedy: str) -> None:
        """Widen a column: refused inside a transaction; and whoever else does the same does no harm.

        Raises:
            SchemaDrift: it is none that Redshift widens, for its encoding, say: such a one it may choose by itself.
        """
        try:
            session.run(statement, within=self._place.longest)
        except WarehouseUnfit as error:
            if error.hint:
                raise
            raise SchemaDrift(error.message, hint=remedy) from error

    def _attempt(self, session: Session, cycle: Cycle) -> Attempt:
        return Attempt(
            self._place,
            session,
            cycle,
            lists=self._lists,
            proofs=self._proofs,
            nonce=self._nonce,
            manifest=self._amendments.manifest,
            first=not self._landed,
        )

    def _amend(self, session: Session, attempt: Attempt, error: RowRefused | FileRefused) -> None:
        """Put the rows aside that were refused; what else was wrong with the files is for a person."""
        explained: HintedError = error
        if attempt.copies:  # of other statements the warehouse keeps no such errors
            keys = [key_of(self._lists.at(part.key)) for load in attempt.loads for part in load.parts]
            table = f"{self._controls.stream.database}.{self._controls.stream.table}"
            explained = LoadErrors(session).explained(error, table=table, keys=keys)
        if not isinstance(explained, RowRefused) or not attempt.loads:
            raise explained from error
        self._sieve = self._sieve or self._make_sieve()
        self._sieve.amend(session, attempt.loads, attempt.found, explained)

    def _make(self, session: Session) -> None:
        """Make fence and ledger, where they are not there; a fence made anew is at no epoch, and has to be raised."""
        for statement in self._controls.create:
            session.run(statement)

    def _ready(self, cycle: Cycle) -> Session:
        session = self._sessions.session()
        before, self._served = self._served, session
        if before is None or not before.alive or not cycle.fenced:
            # An older owner's may hold the fence; or the one before of ours, still at work though its line is broken.
            # One that lives has left it, whatever it does for other streams by now.
            self._clear(session)
        return session

    def _clear(self, session: Session) -> None:
        """End the sessions at our fence: we hold the claim, so that they are older ones.

        Each stream has a fence of its own, so that none of them is at work for another stream of this process.
        """
        for (pid,) in session.rows(self._controls.holders):
            session.rows(f"SELECT PG_TERMINATE_BACKEND({int(pid)})")
