"""What a source has to offer before the first run: looked at without reading a table, and without changing anything."""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from syncd.datatypes.source_table import Column, Server, Table
from syncd.horizon import Readings, Sight, Stamp, bypassed, stamp_of, triggers_of, unstamped, zone_of
from syncd.mysql.connection import mapped
from syncd.mysql.connection_factory import Way, way_to
from syncd.mysql.horizon_poll import Poller, StampedElsewhere
from syncd.mysql.query_plan import explain, judge
from syncd.mysql.source import MySqlSource
from syncd.mysql.sql import SERVER_CLOCK, last_position, triggers_before
from syncd.ports.preflight import Sheet, near
from syncd.ports.source import TableName
from syncd.settings import SourceSettings, StreamSettings, Tls
from syncd.tables.sort_order import WHOLE, Order, order_of
from watermarks.clock import SystemClock

ANSWERED_WITHIN: Final = timedelta(seconds=10)
"""No question here is a long one."""
OLDEST: Final = {False: (5, 7, 0), True: (10, 6, 0)}
_ENCRYPTION: Final = "SHOW SESSION STATUS WHERE Variable_name IN ('Ssl_cipher', 'Ssl_version')"
_ACCOUNT: Final = "SELECT CURRENT_USER()"


def examine(settings: SourceSettings, streams: Sequence[StreamSettings], sheet: Sheet) -> None:
    """Look at one source and at the tables that are read from it."""
    bounded = replace(settings, silence=min(settings.silence, ANSWERED_WITHIN))
    with (
        sheet.checking("login"),
        way_to(bounded) as way,
        closing(MySqlSource(bounded, way.open)) as source,
    ):
        account = _account(source)
        sheet.good("login", f"{account} at {settings.host}:{settings.port}")
        _Look(bounded, way, source, sheet, account).all(streams)


def _account(source: MySqlSource) -> str:
    """The account as a GRANT names it."""
    [(named,)] = source.rows(_ACCOUNT)
    user, _, host = str(named).rpartition("@")
    return f"'{user}'@'{host}'"


class _Look:
    """One look around a source that let us in."""

    def __init__(self, settings: SourceSettings, way: Way, source: MySqlSource, sheet: Sheet, account: str) -> None:
        self._settings = settings
        self._way = way
        self._source = source
        self._sheet = sheet
        self._account = account

    def all(self, streams: Sequence[StreamSettings]) -> None:
        sheet = self._sheet
        with sheet.checking("tls"):
            self._tls()
        with sheet.checking("version"):
            self._version(self._source.server())
        with sheet.checking("clock"):
            sheet.clock(self._clock, step=timedelta(), now=SystemClock().now)
        with sheet.checking("time zone"):
            self._zone()
        with sheet.checking("horizon"):
            self._horizon(streams)
        if self._settings.primary is not None:
            with sheet.checking("replication", remedy=f"GRANT REPLICATION CLIENT ON *.* TO {self._account};"):
                following = self._source.following()
                sheet.good("replication", "it follows another server" if following else "it follows nobody")
        for stream in streams:
            with sheet.checking(stream.name):
                self._table(stream)

    def _tls(self) -> None:
        told = {str(name): str(value) for name, value in self._source.rows(_ENCRYPTION)}
        if cipher := told.get("Ssl_cipher"):
            believed = "" if self._settings.tls is Tls.VERIFY else "; who answers is not checked (tls: verify would)"
            return self._sheet.good("tls", f"{told.get('Ssl_version', '')} {cipher}{believed}".strip())
        if near(self._settings.host) and self._settings.tunnel is None:
            return self._sheet.good("tls", "none, and nothing leaves this machine")
        if self._settings.tls in {Tls.PREFER, Tls.DISABLE}:
            return self._sheet.doubt("tls", "rows and password travel unencrypted", "source: {tls: verify}")
        return self._sheet.bad("tls", "the session is not encrypted")

    def _version(self, server: Server) -> None:
        name, oldest = "MariaDB" if server.mariadb else "MySQL", OLDEST[server.mariadb]
        told = f"{name} {'.'.join(map(str, server.version))}"
        if server.version < oldest:
            return self._sheet.bad("version", f"{told} is older than {'.'.join(map(str, oldest[:2]))}")
        return self._sheet.good("version", told)

    def _clock(self) -> datetime:
        [(text,)] = self._source.rows(SERVER_CLOCK)
        return datetime.fromisoformat(str(text)).replace(tzinfo=UTC)

    def _zone(self) -> None:
        [(zone, system)] = self._source.rows("SELECT @@global.time_zone, @@system_time_zone")
        shown = f"the server's is {system if zone == 'SYSTEM' else zone}"
        if self._settings.zone is None:
            told = f"{shown}; of those who write it is not said: a DATETIME stamp is not proven"
            return self._sheet.doubt(
                "time zone", told, "source: {zone: UTC}  # or whatever the sessions of writers have"
            )
        return self._sheet.good("time zone", f"{shown}; writers use {self._settings.zone}")

    def _horizon(self, streams: Sequence[StreamSettings]) -> None:
        tables = frozenset(TableName(database=stream.database, table=stream.table) for stream in streams)
        try:
            readings = self._polled(tables)
        except StampedElsewhere as error:
            if self._settings.primary is not None:
                return self._sheet.good("horizon", "asked of source.primary, where rows are stamped")
            return self._sheet.doubt("horizon", error.message, error.hint)
        return self._judged(readings)

    def _polled(self, tables: frozenset[TableName]) -> Readings:
        with mapped(self._settings):
            poller = Poller(self._way.open, pause=time.sleep)
            try:
                return poller.poll(tables, ids={})
            finally:
                poller.close()

    def _judged(self, readings: Readings) -> None:
        grant = f"GRANT PROCESS ON *.* TO {self._account};"
        match readings.sight:
            case Sight.SERVER if readings.locks is not None:
                self._sheet.good("horizon", "every open transaction is seen, and which tables it writes to")
            case Sight.SERVER:
                told = "every open transaction is seen, but not which tables it writes to: a long one holds all tables"
                self._sheet.doubt("horizon", told, self._to_see_locks())
            case Sight.TABLES:
                told = "transactions are seen table by table only: what is complete is known later"
                self._sheet.doubt("horizon", told, grant)
            case Sight.NOTHING:
                told = f"{readings.trouble}: batches stay `settle` behind now, and are not proven"
                self._sheet.doubt("horizon", told, grant if "right" in readings.trouble else "")
            case Sight.BLIND:
                self._sheet.doubt("horizon", readings.trouble or "it could not be seen this time: ask again")

    def _to_see_locks(self) -> str:
        if self._source.server().mariadb:
            return "INSTALL SONAME 'metadata_lock_info';"
        return f"GRANT SELECT ON performance_schema.* TO {self._account};"

    # Tables.

    def _table(self, stream: StreamSettings) -> None:
        table = self._source.table(stream.database, stream.table)
        if stream.cursor == WHOLE:
            return self._sheet.good(stream.name, "read whole each time")
        order = order_of(table, stream, zone=zone_of(self._settings.zone or "UTC"))
        if trouble := self._trouble_of_index(order):
            columns = ", ".join(column.sql for column in order.columns)
            remedy = f"CREATE INDEX syncd_order ON `{stream.database}`.`{stream.table}` ({columns});"
            return self._sheet.bad(stream.name, f"index {order.index} is not used: {trouble}", remedy)
        told = f"read along index {order.index}"
        doubt = self._doubt_of(table, order)
        return (
            self._sheet.doubt(stream.name, f"{told}; {doubt[0]}", doubt[1])
            if doubt
            else self._sheet.good(stream.name, told)
        )

    def _trouble_of_index(self, order: Order) -> str | None:
        lines = self._source.rows(explain(last_position(order, order.columns, order.index, "TRUE")))
        return judge(lines, index=order.index, mariadb=self._source.server().mariadb)

    def _doubt_of(self, table: Table, order: Order) -> tuple[str, str] | None:
        """Why completeness cannot be proven, and what would change it; none where it can."""
        if (table.engine or "").lower() != "innodb":
            return f"not proven: it is of {table.engine}, not of InnoDB", f"ALTER TABLE {_sql(table)} ENGINE = InnoDB;"
        if order.clock is None:
            return None
        column = table.column(order.columns[0].name)
        stamp = stamp_of(column) if column else None
        if column is None or stamp is None:
            digits = f"({column.fraction})" if column and column.fraction else ""
            now = f"CURRENT_TIMESTAMP{digits}"
            kind = column.column_type if column else "DATETIME"
            told = f"not proven: {order.columns[0].name} is not stamped by the server at every insert and update"
            rest = f"{kind} NOT NULL DEFAULT {now} ON UPDATE {now}"
            return told, f"ALTER TABLE {_sql(table)} MODIFY {order.columns[0].sql} {rest};"
        if stamp is Stamp.WALL and self._settings.zone is None:
            return f"not proven: {column.name} is a DATETIME, and `zone` is not said", "source: {zone: UTC}"
        if past := unstamped(self._source.created_by(table.database, table.name)) or self._bypassed(table, column):
            return f"not proven: {past}", ""
        return None

    def _bypassed(self, table: Table, stamp: Column) -> str:
        triggers = triggers_of(self._source.rows(triggers_before(table.database, table.name)))
        return bypassed(triggers, stamp, mariadb=self._source.server().mariadb)


def _sql(table: Table) -> str:
    return f"`{table.database}`.`{table.name}`"
