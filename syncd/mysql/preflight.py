"""Checks of a source before the first run; they read no rows and change nothing."""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Final

from syncd.datatypes.mysql_quoting import quote_table
from syncd.datatypes.source_table import ServerInfo, SourceTable
from syncd.horizon import (
    HorizonPoll,
    StampKind,
    Visibility,
    find_bypassing_trigger,
    find_stamp_kind,
    find_unstamped_change,
    parse_triggers,
)
from syncd.mysql.connection import ConnectionFactory, map_driver_errors, open_connection_factory
from syncd.mysql.horizon_poll import MISSING_PRIVILEGE, NotPrimaryServer, Poller
from syncd.mysql.query_plan import explain_sql, find_plan_problem
from syncd.mysql.replica import read_replication
from syncd.mysql.source import MySqlSource
from syncd.mysql.sql import SERVER_CLOCK_SQL, before_triggers_sql, last_position_sql, parse_server_clock
from syncd.ports.preflight import CheckSheet, is_loopback_host
from syncd.ports.source import TableName
from syncd.settings import SourceSettings, StreamSettings, Tls
from syncd.tables.order_clock import parse_zone
from syncd.tables.sort_order import CURSOR_NONE, StreamOrder, resolve_order
from watermarks.clock import SystemClock

ANSWER_TIMEOUT: Final = timedelta(seconds=10)
"""No query of these checks takes long."""
OLDEST_SUPPORTED_VERSIONS: Final = {False: (5, 7, 0), True: (10, 6, 0)}
_TLS_STATUS_QUERY: Final = "SHOW SESSION STATUS WHERE Variable_name IN ('Ssl_cipher', 'Ssl_version')"
_CURRENT_ACCOUNT_QUERY: Final = "SELECT CURRENT_USER()"


def check_source(settings: SourceSettings, streams: Sequence[StreamSettings], sheet: CheckSheet) -> None:
    """Check one source and the tables that are read from it."""
    bounded = replace(settings, silence=min(settings.silence, ANSWER_TIMEOUT))
    with (
        sheet.record_errors("login"),
        open_connection_factory(bounded) as way,
        closing(MySqlSource(bounded, way.open_connection)) as source,
    ):
        account = _read_account(source)
        sheet.add_pass("login", f"{account} at {settings.host}:{settings.port}")
        _SourceCheck(bounded, way, source, sheet, account).run(streams)


def _read_account(source: MySqlSource) -> str:
    """Return the account as a GRANT names it."""
    [(account,)] = source.fetch_rows(_CURRENT_ACCOUNT_QUERY)
    user, _, host = str(account).rpartition("@")
    return f"'{user}'@'{host}'"


class _SourceCheck:
    """The checks of one source after a successful login."""

    def __init__(
        self,
        settings: SourceSettings,
        connection_factory: ConnectionFactory,
        source: MySqlSource,
        sheet: CheckSheet,
        account: str,
    ) -> None:
        self._settings = settings
        self._connection_factory = connection_factory
        self._source = source
        self._sheet = sheet
        self._account = account

    def run(self, streams: Sequence[StreamSettings]) -> None:
        sheet = self._sheet
        with sheet.record_errors("tls"):
            self._check_tls()
        with sheet.record_errors("version"):
            self._check_version(self._source.get_server_info())
        with sheet.record_errors("clock"):
            sheet.check_clock(
                lambda: parse_server_clock(self._source.fetch_rows(SERVER_CLOCK_SQL)),
                step=timedelta(),
                now=SystemClock().now,
            )
        with sheet.record_errors("time zone"):
            self._check_time_zone()
        with sheet.record_errors("horizon"):
            self._check_horizon(streams)
        if self._settings.primary is not None:
            with sheet.record_errors("replication", remedy=f"GRANT REPLICATION CLIENT ON *.* TO {self._account};"):
                following = self._source.run(read_replication)
                sheet.add_pass(
                    "replication", "it follows another server" if following else "it follows no other server"
                )
        for stream in streams:
            with sheet.record_errors(stream.name):
                self._check_table(stream)

    def _check_tls(self) -> None:
        status = {str(name): str(value) for name, value in self._source.fetch_rows(_TLS_STATUS_QUERY)}
        if cipher := status.get("Ssl_cipher"):
            unverified = (
                "" if self._settings.tls is Tls.VERIFY else "; the certificate is not verified (see tls: verify)"
            )
            return self._sheet.add_pass("tls", f"{status.get('Ssl_version', '')} {cipher}{unverified}".strip())
        if is_loopback_host(self._settings.host) and self._settings.tunnel is None:
            return self._sheet.add_pass("tls", "none; the connection stays on this machine")
        if self._settings.tls in {Tls.PREFER, Tls.DISABLE}:
            return self._sheet.add_warning("tls", "rows and password are sent unencrypted", "source: {tls: verify}")
        return self._sheet.add_failure("tls", "the session is not encrypted")

    def _check_version(self, server: ServerInfo) -> None:
        name, oldest = "MariaDB" if server.mariadb else "MySQL", OLDEST_SUPPORTED_VERSIONS[server.mariadb]
        version = f"{name} {'.'.join(map(str, server.version))}"
        if server.version < oldest:
            return self._sheet.add_failure("version", f"{version} is older than {'.'.join(map(str, oldest[:2]))}")
        return self._sheet.add_pass("version", version)

    def _check_time_zone(self) -> None:
        [(zone, system)] = self._source.fetch_rows("SELECT @@global.time_zone, @@system_time_zone")
        server_zone = f"the server's is {system if zone == 'SYSTEM' else zone}"
        if self._settings.zone is None:
            return self._sheet.add_warning(
                "time zone",
                f"{server_zone}; that of the writers is not configured, so a DATETIME stamp is not proven",
                "source: {zone: UTC}  # or the session zone of the writers",
            )
        return self._sheet.add_pass("time zone", f"{server_zone}; writers use {self._settings.zone}")

    def _check_horizon(self, streams: Sequence[StreamSettings]) -> None:
        tables = frozenset(TableName(database=stream.database, table=stream.table) for stream in streams)
        try:
            readings = self._poll(tables)
        except NotPrimaryServer as error:
            if self._settings.primary is not None:
                return self._sheet.add_pass("horizon", "read from source.primary, where rows are stamped")
            return self._sheet.add_warning("horizon", error.message, error.hint)
        return self._report_horizon(readings)

    def _poll(self, tables: frozenset[TableName]) -> HorizonPoll:
        with map_driver_errors(self._settings):
            poller = Poller(self._connection_factory.open_connection, pause=time.sleep)
            try:
                return poller.poll(tables, ids={})
            finally:
                poller.close()

    def _report_horizon(self, readings: HorizonPoll) -> None:
        grant = f"GRANT PROCESS ON *.* TO {self._account};"
        match readings.visibility:
            case Visibility.SERVER if readings.locks is not None:
                self._sheet.add_pass("horizon", "every open transaction is visible, with the tables it writes to")
            case Visibility.SERVER:
                finding = "every open transaction is visible, but not its tables: a long one holds back all tables"
                self._sheet.add_warning("horizon", finding, self._lock_visibility_remedy())
            case Visibility.TABLES:
                finding = "transactions are visible only table by table: rows count as complete later"
                self._sheet.add_warning("horizon", finding, grant)
            case Visibility.NOTHING:
                finding = f"{readings.problem}: batches stay `settle` behind now and are not proven"
                self._sheet.add_warning("horizon", finding, grant if MISSING_PRIVILEGE in readings.problem else "")
            case Visibility.BLIND:
                self._sheet.add_warning("horizon", readings.problem or "not visible this time: try again")

    def _lock_visibility_remedy(self) -> str:
        if self._source.get_server_info().mariadb:
            return "INSTALL SONAME 'metadata_lock_info';"
        return f"GRANT SELECT ON performance_schema.* TO {self._account};"

    def _check_table(self, stream: StreamSettings) -> None:
        table = self._source.describe_table(stream.database, stream.table)
        if stream.cursor == CURSOR_NONE:
            return self._sheet.add_pass(stream.name, "read whole each time")
        order = resolve_order(table, stream, zone=parse_zone(self._settings.zone or "UTC"))
        if problem := self._index_problem(order):
            columns = ", ".join(column.sql for column in order.columns)
            remedy = f"CREATE INDEX syncd_order ON {quote_table(stream.database, stream.table)} ({columns});"
            return self._sheet.add_failure(stream.name, f"index {order.index} is not used: {problem}", remedy)
        finding = f"read along index {order.index}"
        if doubt := self._completeness_doubt(table, order):
            return self._sheet.add_warning(stream.name, f"{finding}; {doubt[0]}", doubt[1])
        return self._sheet.add_pass(stream.name, finding)

    def _index_problem(self, order: StreamOrder) -> str | None:
        lines = self._source.fetch_rows(explain_sql(last_position_sql(order, order.columns, order.index, "TRUE")))
        return find_plan_problem(lines, index=order.index, mariadb=self._source.get_server_info().mariadb)

    def _completeness_doubt(self, table: SourceTable, order: StreamOrder) -> tuple[str, str] | None:
        """Return why completeness cannot be proven, with a remedy; None if it can."""
        if (table.engine or "").lower() != "innodb":
            return (
                f"not proven: its engine is {table.engine}, not InnoDB",
                f"ALTER TABLE {quote_table(table.database, table.name)} ENGINE = InnoDB;",
            )
        if order.clock is None:
            return None
        column = table.find_column(order.columns[0].name)
        stamp = find_stamp_kind(column) if column else None
        if column is None or stamp is None:
            digits = f"({column.fraction})" if column and column.fraction else ""
            now = f"CURRENT_TIMESTAMP{digits}"
            kind = column.column_type if column else "DATETIME"
            finding = f"not proven: the server does not stamp {order.columns[0].name} at every insert and update"
            definition = f"{kind} NOT NULL DEFAULT {now} ON UPDATE {now}"
            return (
                finding,
                f"ALTER TABLE {quote_table(table.database, table.name)} MODIFY {order.columns[0].sql} {definition};",
            )
        if stamp is StampKind.WALL and self._settings.zone is None:
            return f"not proven: {column.name} is a DATETIME, and `zone` is not set", "source: {zone: UTC}"
        bypass = find_unstamped_change(self._source.show_create_table(table.database, table.name))
        if not bypass:
            triggers = parse_triggers(self._source.fetch_rows(before_triggers_sql(table.database, table.name)))
            bypass = find_bypassing_trigger(triggers, column, mariadb=self._source.get_server_info().mariadb)
        return (f"not proven: {bypass}", "") if bypass else None
