"""Context of operator commands: lake, warehouse and MySQL, each opened with first use."""

import getpass
import os
import socket
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Final

from syncd.app.side_access import SideAccess
from syncd.concurrency.response_monitor import ResponseMonitor
from syncd.errors import ConfigError, SourceDown
from syncd.operations.operator_access import SourceAnswer
from syncd.settings import Settings, SourceSettings, StreamSettings
from watermarks.clock import Clock
from watermarks.document import Stage
from watermarks.errors import HintedError, Misuse
from watermarks.history import Journal
from watermarks.lease import Claim, LeaseOwner
from watermarks.names import StreamName, claim_key, owner_key
from watermarks.system_default import SystemDefault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo

    from syncd.datatypes.source_table import SourceTable
    from syncd.lake.manifest import Manifest
    from syncd.mysql.source import MySqlSource
    from syncd.operations.row_status import TargetRow
    from syncd.ports.source import LedgerReader
    from syncd.redshift.control_tables import LedgerTables
    from syncd.tables.sort_order import StreamOrder
    from watermarks.cursor import Cursor

MAX_LAKE_CONNECTIONS: Final = 16
MYSQL_ANSWER_TIMEOUT: Final = timedelta(seconds=5)
"""Timeout for answers of MySQL that commands can do without."""


class OperatorContext(SideAccess):
    """Lake, warehouse and MySQL for one command; see the port `OperatorAccess`."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        max_connections: int = MAX_LAKE_CONNECTIONS,
        read_only: bool = False,
        response_monitor: ResponseMonitor | None = None,
    ) -> None:
        monitor = response_monitor or ResponseMonitor()
        super().__init__(
            settings,
            session_name=f"syncd-{os.getpid()}",
            read_only=read_only,
            max_connections=max_connections,
            clock=clock,
            response_monitor=monitor,
        )
        self._stack.enter_context(monitor)
        self._ledgers = dict[str, "LedgerTables"]()
        self._sources = dict[str, "MySqlSource"]()
        self._unavailable_sources = dict[str, str]()
        """Errors of servers that did not answer: they are not asked again."""

    @cached_property
    def default_journal(self) -> Journal[SystemDefault]:
        """Journal of the system-wide default."""
        return Journal(self.store, SystemDefault, clock=self.clock)

    # Owners.

    def find_active_owner(self, stream: StreamName, stage: Stage) -> str | None:
        """Return the process that holds a stage, according to its claim."""
        stored = self.store.read(claim_key(stream, stage))
        claim = Claim.from_bytes(stored.body, stream=stream, stage=stage) if stored else None
        if claim is None or claim.is_released:
            return None
        key = owner_key(claim.owner)
        owner = self.store.read(key)
        is_ended = owner is not None and LeaseOwner.from_bytes(owner.body, location=key).ended_by is not None
        return None if is_ended else claim.owner

    # The warehouse.

    def ledger_reader(self, settings: StreamSettings) -> "LedgerReader | None":
        """Return the reader of a stream's ledger; None without a warehouse."""
        from syncd.redshift.ledger_reader import WarehouseLedgerReader  # noqa: PLC0415  # the driver takes long to load
        from syncd.redshift.quoting import TableRef  # noqa: PLC0415  # as above

        target = settings.target
        if target is None:
            return None
        return WarehouseLedgerReader(
            lambda: self.open_session(target.warehouse),
            lambda: self._ledgers_for(target.warehouse),
            lake=self.settings.lake.address,
            stream=settings.stream_name,
            table=TableRef(schema=target.schema, name=target.table),
        )

    def preview_ddl(self, settings: StreamSettings, manifests: "Sequence[Manifest]") -> tuple[str, ...]:
        """Return the statements that would make the target fit for these files; none without a warehouse.

        Raises:
            SchemaDrift: an operator has to change something first.
            WarehouseDown, WarehouseUnfit: the target cannot be read.
        """
        from syncd.redshift.quoting import TableRef  # noqa: PLC0415  # as above
        from syncd.redshift.target_resolver import preview_ddl  # noqa: PLC0415  # as above
        from syncd.redshift.target_table import columns_query, parse_existing_table  # noqa: PLC0415  # as above

        target = settings.target
        if target is None or not manifests:
            return ()
        table = TableRef(schema=target.schema, name=target.table)
        found = parse_existing_table(self.open_session(target.warehouse).rows(columns_query(table)))
        about = f"{settings.name}, kept equal by syncd"
        return preview_ddl(table, found, manifests, target, settings.mode, comment=about)

    def _ledgers_for(self, name: str) -> "LedgerTables":
        if name not in self._ledgers:
            from syncd.redshift.control_tables import LedgerTables  # noqa: PLC0415  # as above

            self._ledgers[name] = LedgerTables.discover(self.open_session(name), self.settings.warehouse(name).schema)
        return self._ledgers[name]

    # MySQL.

    def query_source(self, settings: StreamSettings, *, after: "Cursor | None" = None) -> SourceAnswer:
        """Ask MySQL for the stream's order, and for an estimate of the rows behind a cursor."""
        from syncd.extract.index_probes import Prober  # noqa: PLC0415  # as above
        from syncd.tables.order_clock import parse_zone  # noqa: PLC0415  # as above
        from syncd.tables.sort_order import resolve_order  # noqa: PLC0415  # as above

        if settings.source in self._unavailable_sources:
            return SourceAnswer(problem=self._unavailable_sources[settings.source])
        try:
            source = self._open_source(settings.source)
            table = source.describe_table(settings.database, settings.table)
            zone = self.source_settings(settings).zone or Prober(source=source, windows=1).read_zone()
            order = resolve_order(table, settings, zone=parse_zone(zone))
            rows = None if after is None else _estimate_rows_behind(source, order, after)
        except ConfigError:
            raise
        except HintedError as error:
            if isinstance(error, SourceDown):
                self._unavailable_sources[settings.source] = error.message
            return SourceAnswer(problem=error.message)
        return SourceAnswer(order=order, rows_behind=rows)

    def read_source_table(self, settings: StreamSettings) -> "SourceTable":
        """Return the table as it is at the source now.

        Raises:
            SourceDown, SourceUnfit: it cannot be read.
        """
        return self._open_source(settings.source).describe_table(settings.database, settings.table)

    def find_source_row(self, settings: StreamSettings, key: "Mapping[str, str]") -> "Cursor | None":
        """Return the position of the row with this key in the order of its stream; None without such a row.

        Raises:
            Misuse: the columns of the key are others, or a value does not fit its column.
            SourceDown, SourceUnfit: the source cannot be read.
        """
        from syncd.mysql.sql import position_of_key_sql  # noqa: PLC0415  # as above
        from syncd.tables.order_clock import parse_zone  # noqa: PLC0415  # as above
        from syncd.tables.sort_order import resolve_order  # noqa: PLC0415  # as above
        from watermarks.cursor import Cursor, CursorValue  # noqa: PLC0415  # as above

        if settings.source in self._unavailable_sources:
            raise SourceDown(self._unavailable_sources[settings.source])
        try:
            source = self._open_source(settings.source)
            table = source.describe_table(settings.database, settings.table)
        except SourceDown as error:
            self._unavailable_sources[settings.source] = error.message
            raise
        order = resolve_order(table, settings, zone=parse_zone(self.source_settings(settings).zone or "UTC"))
        folded = {name.lower(): text for name, text in key.items()}
        if set(folded) != {column.name.lower() for column in order.key}:
            wanted = " ".join(f"{column.name}=..." for column in order.key)
            raise Misuse(f"the key of {settings.name} is {wanted}", hint="Give each of its columns once.")
        values = [CursorValue.from_text(f"{column.kind}:{folded[column.name.lower()]}") for column in order.key]
        found = source.fetch_rows(position_of_key_sql(order, values))
        if not found:
            return None
        pairs = zip(order.columns, found[0], strict=True)
        return Cursor(tuple(column.parse_value(raw) for column, raw in pairs if raw is not None))

    def find_target_row(self, settings: StreamSettings, key: "Mapping[str, str]") -> "TargetRow":
        """Return what the target holds under this key, given by the target's column names.

        Raises:
            WarehouseDown, WarehouseUnfit: the warehouse cannot be read.
        """
        from syncd.lake.batch_number import BATCH_COLUMN, batch_from_number  # noqa: PLC0415  # as above
        from syncd.operations.row_status import TargetRow  # noqa: PLC0415  # as above
        from syncd.redshift.quoting import TableRef  # noqa: PLC0415  # as above
        from syncd.redshift.target_table import (  # noqa: PLC0415  # as above
            DELETED_AT,
            columns_query,
            parse_existing_table,
            rows_by_key_query,  # as above
        )

        target = settings.target
        if target is None:
            return TargetRow(problem="no warehouse is configured")
        table, session = TableRef(schema=target.schema, name=target.table), self.open_session(target.warehouse)
        found = parse_existing_table(session.rows(columns_query(table)))
        if found is None:
            return TargetRow(was_asked=True, problem="")
        columns = tuple(name for name in (BATCH_COLUMN, DELETED_AT) if name in found)
        rows = [
            dict(zip(("1", *columns), row, strict=True)) for row in session.rows(rows_by_key_query(table, key, columns))
        ]
        if not rows:
            return TargetRow(was_asked=True, problem="")
        newest = max(rows, key=lambda row: int(str(row.get(BATCH_COLUMN) or 0)))
        number, gone = newest.get(BATCH_COLUMN), newest.get(DELETED_AT)
        return TargetRow(
            was_asked=True,
            rows=len(rows),
            batch=None if number is None else batch_from_number(int(str(number))),
            deleted_at=None if gone is None else str(gone),
            problem="",
        )

    def estimate_rows(self, settings: StreamSettings) -> int | None:
        """Return the server's estimate of the rows of the table; None without statistics."""
        from syncd.mysql.sql import table_rows_sql  # noqa: PLC0415  # as above

        found = self._open_source(settings.source).fetch_rows(table_rows_sql(settings.database, settings.table))
        return next((int(str(count)) for (count,) in found if count is not None), None)

    def source_settings(self, settings: StreamSettings) -> SourceSettings:
        return self.settings.source(settings.source)

    def writer_time_zone(self, settings: StreamSettings) -> "tzinfo | None":
        """Return the configured time zone of the writers; None without one."""
        from syncd.tables.order_clock import parse_zone  # noqa: PLC0415  # as above

        zone = self.source_settings(settings).zone
        return parse_zone(zone) if zone else None

    def _open_source(self, name: str) -> "MySqlSource":
        if name not in self._sources:
            from syncd.mysql.source import MySqlSource  # noqa: PLC0415  # as above

            settings = self.settings.source(name)
            quick = replace(settings, silence=min(settings.silence, MYSQL_ANSWER_TIMEOUT))
            source = MySqlSource(quick, self.connection_factory(quick).open_connection)
            self._stack.callback(source.close)
            self._sources[name] = source
        return self._sources[name]


def current_operator() -> str:
    """Return the name of the operator for the history: user and host."""
    try:
        user = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        user = f"user {os.getuid()}"  # a container may have no user names
    return f"{user}@{socket.gethostname()}"


def _estimate_rows_behind(source: "MySqlSource", order: "StreamOrder", cursor: "Cursor") -> int | None:
    from syncd.mysql.query_plan import estimate_rows, explain_sql  # noqa: PLC0415  # as above
    from syncd.mysql.sql import rows_after_sql  # noqa: PLC0415  # as above

    mariadb = source.get_server_info().mariadb
    return estimate_rows(
        source.fetch_rows(explain_sql(rows_after_sql(order, cursor, mariadb=mariadb))), mariadb=mariadb
    )
