"""From settings to what a person needs at the marks: the lake, sometimes the warehouse and MySQL, never a stage."""

import getpass
import os
import socket
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from syncd.concurrency.response_monitor import Silences
from syncd.errors import ConfigError, SourceDown
from syncd.settings import Settings, SourceSettings, StreamSettings, WarehouseSettings
from watermarks.clock import Clock, SystemClock
from watermarks.document import Stage, Watermark
from watermarks.errors import HintedError, Misuse
from watermarks.history import Journal
from watermarks.lease import Claim, Owner
from watermarks.names import StreamName, claim_key, owner_key
from watermarks.system_default import SystemDefault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo

    from syncd.datatypes.source_table import Table
    from syncd.lake.manifest import Manifest
    from syncd.mysql.source import MySqlSource
    from syncd.operations.row_status import InTarget
    from syncd.ports.evidence import Books
    from syncd.redshift.control_tables import Ledgers
    from syncd.redshift.session import Session
    from syncd.s3.lake_client import Lake
    from syncd.tables.sort_order import Order
    from watermarks.cursor import Cursor
    from watermarks.store import Store

CONNECTIONS: Final = 16
PATIENCE: Final = timedelta(seconds=5)
"""How long MySQL may take for an answer that can be done without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What MySQL said of a stream; nothing, where it could not be asked."""

    order: "Order | None" = None
    trouble: str = ""
    """Why there is no order."""
    rows: int | None = None
    """About how many rows stand behind the cursor that was asked about."""


class Desk:
    """Opens each side when it is first asked for, and ends it with the `with`."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        connections: int = CONNECTIONS,
        looks: bool = False,
        silences: Silences | None = None,
    ) -> None:
        """Prepare; `connections` is how many requests to the lake may be on their way at once.

        Who only `looks` waits for the lake no longer than a person would; who changes something sits an outage out.
        """
        self.settings: Final = settings
        self._connections = connections
        self._looks = looks
        self.silences: Final = silences or Silences()
        self.clock: Final = clock or SystemClock()
        self._stack = ExitStack()
        self._stack.enter_context(self.silences)
        self._sessions = dict[str, "Session"]()
        self._ledgers = dict[str, "Ledgers"]()
        self._sources = dict[str, "MySqlSource"]()
        self._down = dict[str, str]()
        """Servers that were away: they are not waited for again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @cached_property
    def lake(self) -> "Lake":
        from syncd.s3.lake_client import Lake  # noqa: PLC0415  # boto3 takes long to load

        settings, most = self.settings.lake, self._connections
        made = Lake.for_looks(settings, connections=most) if self._looks else Lake.of(settings, connections=most)
        return made.heeded(self.silences)

    @cached_property
    def store(self) -> "Store":
        from watermarks.stores.s3 import S3Store  # noqa: PLC0415  # as above

        return S3Store(self.lake.client, bucket=self.settings.lake.bucket, prefix=self.settings.lake.prefix)

    @cached_property
    def journal(self) -> Journal[Watermark]:
        return Journal(self.store, Watermark, clock=self.clock)

    @cached_property
    def defaults(self) -> Journal[SystemDefault]:
        """Of the system-wide default."""
        return Journal(self.store, SystemDefault, clock=self.clock)

    def settings_of(self, stream: StreamName) -> StreamSettings | None:
        """What is configured of a stream; None where it is not any more."""
        return next((one for one in self.settings.streams if name_of(one) == stream), None)

    # Who is at work.

    def at_work(self, stream: StreamName, stage: Stage) -> str | None:
        """The process that holds a stage now, as far as its claim tells; None where none does."""
        stored = self.store.read(claim_key(stream, stage))
        claim = Claim.of_bytes(stored.body, stream=stream, stage=stage) if stored else None
        if claim is None or claim.released:
            return None
        there = self.store.read(owner_key(claim.owner))
        ended = there is not None and Owner.of_bytes(there.body, at=owner_key(claim.owner)).ended_by is not None
        return None if ended else claim.owner

    # The warehouse.

    def books(self, settings: StreamSettings) -> "Books | None":
        """The ledger and the target of a stream; None where no warehouse is configured."""
        from syncd.redshift.ledger_reader import LedgerBooks  # noqa: PLC0415  # its driver takes long to load
        from syncd.redshift.quoting import TableRef  # noqa: PLC0415  # as above

        target = settings.target
        if target is None:
            return None
        return LedgerBooks(
            lambda: self._session(target.warehouse),
            lambda: self._ledgers_of(target.warehouse),
            lake=self.settings.lake.address,
            stream=name_of(settings),
            table=TableRef(schema=target.schema, name=target.table),
        )

    def ddl(self, settings: StreamSettings, manifests: "Sequence[Manifest]") -> tuple[str, ...]:
        """The statements that would make the target take these files; none where there is no warehouse.

        Raises:
            SchemaDrift: something stands in the way that only a person should change.
            WarehouseDown, WarehouseUnfit: the target cannot be looked at.
        """
        from syncd.redshift.ddl_preview import ddl_for  # noqa: PLC0415  # as above
        from syncd.redshift.quoting import TableRef  # noqa: PLC0415  # as above
        from syncd.redshift.target_table import found_of, found_statement  # noqa: PLC0415  # as above

        target = settings.target
        if target is None or not manifests:
            return ()
        table = TableRef(schema=target.schema, name=target.table)
        found = found_of(self._session(target.warehouse).rows(found_statement(table)))
        about = f"{settings.name}, kept equal by syncd"
        return ddl_for(table, found, manifests, target, settings.mode, about=about)

    def _session(self, name: str) -> "Session":
        if name not in self._sessions:
            from syncd.redshift.connection_factory import way_to  # noqa: PLC0415  # its driver takes long to load

            way = self._stack.enter_context(way_to(self._warehouse(name), heed=self.silences.heed))
            session = way.open(f"syncd-{os.getpid()}")
            self._stack.callback(session.close)
            self._sessions[name] = session
        return self._sessions[name]

    def _ledgers_of(self, name: str) -> "Ledgers":
        if name not in self._ledgers:
            from syncd.redshift.ledger_discovery import ledgers_of  # noqa: PLC0415  # as above

            self._ledgers[name] = ledgers_of(self._session(name), self._warehouse(name).schema)
        return self._ledgers[name]

    def _warehouse(self, name: str) -> WarehouseSettings:
        return next(one for one in self.settings.warehouses if one.name == name)

    # MySQL.

    def asked(self, settings: StreamSettings, *, behind: "Cursor | None" = None) -> Asked:
        """What MySQL says of the stream's order, and of how many rows stand behind a cursor: by a guess, at once."""
        from syncd.extract.index_probes import Prober  # noqa: PLC0415  # as above
        from syncd.horizon import zone_of  # noqa: PLC0415  # only those who set a mark need it
        from syncd.tables.sort_order import order_of  # noqa: PLC0415  # as above

        if settings.source in self._down:
            return Asked(trouble=self._down[settings.source])
        try:
            source = self._source(settings.source)
            table = source.table(settings.database, settings.table)
            zone = self.source_settings(settings).zone or Prober(source=source, windows=1).zone()
            order = order_of(table, settings, zone=zone_of(zone))
            rows = None if behind is None else _rows_behind(source, order, behind)
        except ConfigError:
            raise
        except HintedError as error:
            if isinstance(error, SourceDown):
                self._down[settings.source] = error.message
            return Asked(trouble=error.message)
        return Asked(order=order, rows=rows)

    def table(self, settings: StreamSettings) -> "Table":
        """The table as it is at the source now.

        Raises:
            SourceDown, SourceUnfit: it cannot be looked at.
        """
        return self._source(settings.source).table(settings.database, settings.table)

    def row_at_source(self, settings: StreamSettings, key: "Mapping[str, str]") -> "Cursor | None":
        """Where the row with this key stands in the order of its stream; None where there is none.

        Raises:
            Misuse: these are not the columns of the key, or a value is none of its column.
            SourceDown, SourceUnfit: that cannot be told.
        """
        from syncd.horizon import zone_of  # noqa: PLC0415  # as above
        from syncd.mysql.sql import row_with  # noqa: PLC0415  # as above
        from syncd.tables.sort_order import order_of  # noqa: PLC0415  # as above
        from watermarks.cursor import Cursor, Value  # noqa: PLC0415  # as above

        if settings.source in self._down:
            raise SourceDown(self._down[settings.source])
        try:
            source = self._source(settings.source)
            table = source.table(settings.database, settings.table)
        except SourceDown as error:
            self._down[settings.source] = error.message
            raise
        order = order_of(table, settings, zone=zone_of(self.source_settings(settings).zone or "UTC"))
        folded = {name.lower(): text for name, text in key.items()}
        if set(folded) != {column.name.lower() for column in order.key}:
            wanted = " ".join(f"{column.name}=..." for column in order.key)
            raise Misuse(f"the key of {settings.name} is {wanted}", hint="Name each column of it once.")
        values = [Value.of_text(f"{column.kind}:{folded[column.name.lower()]}") for column in order.key]
        found = source.rows(row_with(order, values))
        if not found:
            return None
        pairs = zip(order.columns, found[0], strict=True)
        return Cursor(tuple(column.value(raw) for column, raw in pairs if raw is not None))

    def row_in_target(self, settings: StreamSettings, key: "Mapping[str, str]") -> "InTarget":
        """What stands in the target under this key, by the target's names of its columns.

        Raises:
            WarehouseDown, WarehouseUnfit: that cannot be told.
        """
        from syncd.lake.batch_number import COLUMN, batch_of  # noqa: PLC0415  # as above
        from syncd.operations.row_status import InTarget  # noqa: PLC0415  # as above
        from syncd.redshift.quoting import TableRef  # noqa: PLC0415  # as above
        from syncd.redshift.target_table import (  # noqa: PLC0415  # as above
            DELETED_AT,
            found_of,
            found_statement,
            rows_with,  # as above
        )

        target = settings.target
        if target is None:
            return InTarget(trouble="no warehouse is configured")
        table, session = TableRef(schema=target.schema, name=target.table), self._session(target.warehouse)
        found = found_of(session.rows(found_statement(table)))
        if found is None:
            return InTarget(asked=True, trouble="")
        ours = tuple(name for name in (COLUMN, DELETED_AT) if name in found)
        rows = [dict(zip(("1", *ours), row, strict=True)) for row in session.rows(rows_with(table, key, ours))]
        if not rows:
            return InTarget(asked=True, trouble="")
        newest = max(rows, key=lambda row: int(str(row.get(COLUMN) or 0)))
        number, gone = newest.get(COLUMN), newest.get(DELETED_AT)
        return InTarget(
            asked=True,
            rows=len(rows),
            batch=None if number is None else batch_of(int(str(number))),
            deleted_at=None if gone is None else str(gone),
            trouble="",
        )

    def rows_of(self, settings: StreamSettings) -> int | None:
        """About how many rows the table has, as the server keeps count; None where it keeps none."""
        from syncd.mysql.sql import table_rows  # noqa: PLC0415  # as above

        found = self._source(settings.source).rows(table_rows(settings.database, settings.table))
        return next((int(str(count)) for (count,) in found if count is not None), None)

    def source_settings(self, settings: StreamSettings) -> SourceSettings:
        return next(one for one in self.settings.sources if one.name == settings.source)

    def zone(self, settings: StreamSettings) -> "tzinfo | None":
        """The zone of those who write, where it is configured."""
        from syncd.horizon import zone_of  # noqa: PLC0415  # as above

        zone = self.source_settings(settings).zone
        return zone_of(zone) if zone else None

    def _source(self, name: str) -> "MySqlSource":
        if name not in self._sources:
            from syncd.mysql.connection_factory import way_to  # noqa: PLC0415  # as above
            from syncd.mysql.source import MySqlSource  # noqa: PLC0415  # only those who set a mark need it

            settings = next(one for one in self.settings.sources if one.name == name)
            quick = replace(settings, silence=min(settings.silence, PATIENCE))
            source = MySqlSource(quick, self._stack.enter_context(way_to(quick, heed=self.silences.heed)).open)
            self._stack.callback(source.close)
            self._sources[name] = source
        return self._sources[name]


def name_of(settings: StreamSettings) -> StreamName:
    return StreamName(source=settings.source, database=settings.database, table=settings.table)


def who() -> str:
    """Whoever sits here, as history will remember them."""
    try:
        user = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        user = f"user {os.getuid()}"  # a container may know no names
    return f"{user}@{socket.gethostname()}"


def _rows_behind(source: "MySqlSource", order: "Order", cursor: "Cursor") -> int | None:
    from syncd.mysql.query_plan import estimate, explain  # noqa: PLC0415  # as above
    from syncd.mysql.sql import rows_after  # noqa: PLC0415  # as above

    mariadb = source.server().mariadb
    return estimate(source.rows(explain(rows_after(order, cursor, mariadb=mariadb))), mariadb=mariadb)
