"""One warehouse: the way to it, its sessions, and where the batches of each stream land in it."""

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from syncd.app.lake_access import nonce
from syncd.app.open_resources import Opened
from syncd.concurrency.once import once
from syncd.concurrency.running_pass import Lane
from syncd.lake.batch_number import COLUMN
from syncd.load.replay import no_number
from syncd.redshift.copy_statement import role_words
from syncd.redshift.quoting import TableRef
from syncd.redshift.target_table import found_of, found_statement
from syncd.settings import (
    StreamSettings,
    TargetSettings,
    WarehouseSettings,
)
from watermarks.batch import BatchId
from watermarks.loading import Brought, Cycle, LedgerKey, Target
from watermarks.names import StreamName

if TYPE_CHECKING:
    from syncd.app.stage_services import Service
    from syncd.concurrency.running_pass import UnderWay
    from syncd.redshift.aws import LakeKeys
    from syncd.redshift.control_tables import Controls, Ledgers
    from syncd.redshift.ledger_cache import Glance
    from syncd.redshift.refused_row_finder import Sieve
    from syncd.redshift.session import Session
    from syncd.redshift.session_pool import KeptSession, SessionPool

MOST_ROWS: Final = 10_000_000
"""About so many rows are landed in one transaction."""


class PassSessions:
    """The session of one stream's pass: borrowed when it is first asked for, and given back with the pass."""

    def __init__(self, pool: "Callable[[], SessionPool]", lane: Lane) -> None:
        self._pool = pool
        self._lane = lane
        self._lent: tuple[UnderWay, KeptSession] | None = None

    def session(self) -> "Session":
        """A living session.

        Raises:
            PassStopped: the pass was ended.
            WarehouseDown, WarehouseUnfit: there is none to be had.
        """
        now = self._lane.now
        now.require()
        if self._lent is None or self._lent[0] is not now:
            self._lent = now, self._pool().lent(now)
            now.until_its_end.callback(self._forget)
        return self._lent[1].session()

    def _forget(self) -> None:
        self._lent = None


class Warehouse(Opened):
    """One warehouse: the way to it and its sessions, opened with the first landing."""

    def __init__(self, settings: WarehouseSettings, service: "Service") -> None:
        super().__init__()
        self.settings: Final = settings
        self._service = service
        self._guard = threading.Lock()
        self._ledgers: Ledgers | None = None
        """Asked once."""

    @once
    def _pool(self) -> "SessionPool":
        from syncd.redshift.connection_factory import way_to  # noqa: PLC0415  # as above
        from syncd.redshift.session_pool import Door, SessionPool  # noqa: PLC0415  # only those who land need it

        way = self._stack.enter_context(way_to(self.settings, meter=self._service.meter, heed=self._service.watch))
        pool = SessionPool(Door(lambda: way.open(self._service.name)), most=self.settings.max_sessions)
        self._stack.callback(pool.close)
        return pool

    def sessions(self, lane: Lane) -> PassSessions:
        """The session of whatever pass is under way there."""
        return PassSessions(lambda: self._pool, lane)

    @once
    def _glance(self) -> "Glance":
        from syncd.redshift.ledger_cache import Glance  # noqa: PLC0415  # as above

        return Glance()

    def holds(self, key: LedgerKey, sessions: PassSessions) -> bool:
        """Whether the ledger seems to hold a batch; asked for all streams at once, and then every ten minutes."""
        return self._glance.holds(sessions, self._controls(key.stream, sessions), key)

    def _controls(self, stream: StreamName, sessions: PassSessions) -> "Controls":
        ledgers = self._ledgers or self._asked_ledgers(sessions)
        return ledgers.of_stream(stream, lake=self._service.lake.settings.address)

    def _asked_ledgers(self, sessions: PassSessions) -> "Ledgers":
        from syncd.redshift.ledger_discovery import ledgers_of  # noqa: PLC0415  # as above

        session = sessions.session()  # before the guard: who has it waits for nobody
        with self._guard:
            self._ledgers = self._ledgers or ledgers_of(session, self.settings.schema)
            return self._ledgers

    @once
    def _keys(self) -> "LakeKeys":
        from syncd.redshift.aws import LakeKeys  # noqa: PLC0415  # as above

        return LakeKeys()

    def require_number(self, settings: StreamSettings, target: TargetSettings, sessions: PassSessions) -> None:
        """Make sure that the table, where it is there, has the column by which versions of a row are told apart.

        Raises:
            ConfigError: it has not.
            WarehouseDown, WarehouseUnfit: it could not be asked.
        """
        table = TableRef(schema=target.schema, name=target.table)
        found = found_of(sessions.session().rows(found_statement(table)))
        if found is not None and COLUMN not in found:
            raise no_number(f"{settings.database}.{settings.table}")

    def target(
        self, stream: StreamName, settings: StreamSettings, target: TargetSettings, sessions: PassSessions
    ) -> Target:
        """Where the batches of one stream land.

        Raises:
            WarehouseDown, WarehouseUnfit: its bastion is away, or refuses us.
        """
        from syncd.redshift.amendments import Amendments  # noqa: PLC0415  # as above
        from syncd.redshift.batch_target import RedshiftTarget  # noqa: PLC0415  # as above
        from syncd.redshift.load_transaction import Place  # noqa: PLC0415  # as above

        lake = self._service.lake
        controls = self._controls(stream, sessions)
        place = Place(
            controls=controls,
            table=TableRef(schema=target.schema, name=target.table),
            mode=settings.mode,
            settings=target,
            credentials=self._credentials,
            longest=self.settings.longest_statement,
            most_rows=MOST_ROWS,
        )
        amendments = Amendments(self._service.store)

        def sieve() -> "Sieve":
            from syncd.redshift.refused_row_finder import Sieve  # noqa: PLC0415  # pyarrow takes long to load

            return Sieve(place, lake=lake, amendments=amendments, nonce=nonce)

        return RedshiftTarget(place, sessions=sessions, lists=lake, amendments=amendments, sieve=sieve, nonce=nonce)

    def _credentials(self) -> str:
        role = self.settings.iam_role
        return self._keys.words() if role is None else role_words(role)


class LateTarget:
    """A target that is made with the first landing, and with it all that it stands on."""

    def __init__(self, make: Callable[[], Target]) -> None:
        self._make = make
        self._made: Target | None = None

    def land(self, cycle: Cycle) -> Mapping[BatchId, Brought]:
        return self._real().land(cycle)

    def _real(self) -> Target:
        self._made = self._made or self._make()
        return self._made
