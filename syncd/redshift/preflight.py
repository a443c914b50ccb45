"""Checks of a warehouse before the first run, in transactions that are always rolled back."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from syncd.ports.preflight import CheckSheet, is_loopback_host
from syncd.redshift.connection import connection_to
from syncd.redshift.control_tables import ISOLATION_LEVEL_QUERY, LedgerTables
from syncd.redshift.quoting import TableRef, quote_name, text_literal
from syncd.redshift.session import WarehouseSession
from syncd.settings import StreamSettings, Tls, WarehouseSettings
from watermarks.clock import SystemClock
from watermarks.names import StreamName

ANSWER_TIMEOUT: Final = timedelta(seconds=20)
COPY_TIMEOUT: Final = timedelta(seconds=60)
_CLOCK_QUERY: Final = "SELECT GETDATE()"
_REGION_PATTERN: Final = re.compile(r"\.([a-z]{2}(?:-[a-z]+)+-\d)\.redshift(?:-serverless)?\.amazonaws\.com")

CopyFactory = Callable[[str], tuple[str, int]]
"""Writes a tiny file for a table; returns its COPY statement and the number of its rows."""


def check_warehouse(
    settings: WarehouseSettings,
    streams: Sequence[StreamSettings],
    sheet: CheckSheet,
    *,
    nonce: str,
    lake: str,
    copy: CopyFactory | None,
) -> None:
    """Check one warehouse that a lake is loaded into; without `copy`, COPY is not tried."""
    bounded = replace(settings, silence=min(settings.silence, ANSWER_TIMEOUT))
    with sheet.record_errors("login"), connection_to(bounded) as factory, closing(factory.open("doctor")) as session:
        sheet.add_pass("login", f"{session.address}")
        own = [stream for stream in streams if stream.target is not None and stream.target.warehouse == settings.name]
        _WarehouseCheck(settings, session, sheet, nonce).run(own, lake, copy)


def region_from_host(host: str) -> str | None:
    """Return the region in the host name of a warehouse."""
    match = _REGION_PATTERN.search(host)
    return match[1] if match else None


def check_collation(session: WarehouseSession, sheet: CheckSheet) -> None:
    """Check that the database compares texts with their case; the caller rolls back."""
    session.run("CREATE TEMP TABLE syncd_doctor_case (word VARCHAR(16))")
    session.run("INSERT INTO syncd_doctor_case VALUES ('a')")
    if session.rows("SELECT word FROM syncd_doctor_case WHERE word = 'A'"):
        sheet.add_failure(
            "collation",
            "this database ignores the case of texts: of two rows whose keys differ only in case, one would be lost",
            "Load into a database that was created with COLLATE CASE_SENSITIVE, or only tables without text keys.",
        )
    else:
        sheet.add_pass("collation", "texts are compared case-sensitively")


class _WarehouseCheck:
    """Checks over one open session."""

    def __init__(self, settings: WarehouseSettings, session: WarehouseSession, sheet: CheckSheet, nonce: str) -> None:
        self._settings = settings
        self._session = session
        self._sheet = sheet
        self._table = TableRef(schema=settings.schema, name=f"syncd_doctor_{nonce}")

    def run(self, streams: Sequence[StreamSettings], lake: str, copy: CopyFactory | None) -> None:
        sheet = self._sheet
        self._check_tls()
        with sheet.record_errors("version"):
            [(version,)] = self._session.rows("SELECT version()")
            sheet.add_pass("version", str(version).rpartition(", ")[2].strip("\0 "))
        with sheet.record_errors("isolation"):
            [(level,)] = self._session.rows(ISOLATION_LEVEL_QUERY)
            sheet.add_pass("isolation", str(level))
        with sheet.record_errors("clock"):
            sheet.check_clock(self._read_clock, step=timedelta(seconds=1), now=SystemClock().now)
        user = self._session.address.user
        with sheet.record_errors("create"), self._rolled_back_transaction():
            self._session.run(f"CREATE TABLE {self._table.sql} (id BIGINT, word VARCHAR(16))")
            sheet.add_pass("create", f"tables can be created in schema {self._settings.schema}")
        temp = f"GRANT TEMP ON DATABASE {quote_name(self._settings.database)} TO {quote_name(user)};"
        with sheet.record_errors("temporary tables", remedy=temp), self._rolled_back_transaction():
            self._session.run("CREATE TEMP TABLE syncd_doctor (id BIGINT)")
            sheet.add_pass("temporary tables", "they can be created")
        with sheet.record_errors("collation"), self._rolled_back_transaction():
            check_collation(self._session, sheet)
        if copy is None:
            sheet.add_warning("copy", "not tried: no file can be written to the lake", "Correct the lake first.")
        elif sheet.has_passed("create"):
            with sheet.record_errors("copy"), self._rolled_back_transaction():
                self._check_copy(copy)
        with sheet.record_errors("ledger"):
            self._check_ledgers([stream.stream_name for stream in streams], lake)
        for stream in streams:
            if stream.target is not None:
                table = TableRef(schema=stream.target.schema, name=stream.target.table)
                with sheet.record_errors(str(table)):
                    self._check_owner(table, user)

    def _check_tls(self) -> None:
        if self._settings.tls is Tls.VERIFY:
            self._sheet.add_pass("tls", "encrypted, and the certificate is checked")
        elif is_loopback_host(self._settings.host) and self._settings.tunnel is None:
            self._sheet.add_pass("tls", "none; the connection stays on this machine")
        else:
            self._sheet.add_warning("tls", "rows and password are sent unencrypted", "warehouse: {tls: verify}")

    def _read_clock(self) -> datetime:
        [(value,)] = self._session.rows(_CLOCK_QUERY)
        now = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        return now.replace(tzinfo=UTC)

    def _check_copy(self, copy: CopyFactory) -> None:
        self._session.run(f"CREATE TABLE {self._table.sql} (id BIGINT, word VARCHAR(16))")
        statement, rows = copy(self._table.sql)
        self._session.run(statement, within=COPY_TIMEOUT)
        [(loaded,)] = self._session.rows(f"SELECT COUNT(*) FROM {self._table.sql}")
        if int(loaded) != rows:
            return self._sheet.add_failure("copy", f"{loaded} of {rows} rows were loaded")
        by = "the role" if self._settings.iam_role else "the credentials of this process"
        return self._sheet.add_pass("copy", f"a file of the lake was loaded by {by}, and rolled back")

    def _check_ledgers(self, streams: Sequence[StreamName], lake: str) -> None:
        """Check the existing ledgers of these streams; if all work, report one line."""
        ledgers = LedgerTables.discover(self._session, self._settings.schema)
        used = [ledgers.for_stream(stream, lake=lake) for stream in streams]
        checks = {table: "ledger" for tables in used for table in tables.ledgers}
        checks |= {tables.ledger: f"ledger of {tables.stream.table_name}" for tables in used if tables.has_own_ledger}
        written = {tables.ledger for tables in used}
        existing = [table for table in ledgers.tables if table in checks and self._owners(table)]
        before = len(self._sheet.results)
        for table in existing:
            self._try_ledger(checks[table], table, written=table in written)
        if len(self._sheet.results) > before:
            return
        count = sum(table in written for table in existing)
        usable = (f"{count} " if ledgers.is_serializable else "it ") + "can be read and written"
        each = "each stream has its own: " if ledgers.is_serializable else ""
        self._sheet.add_pass("ledger", each + (usable if count else "created by the first load"))

    def _try_ledger(self, check: str, ledger: TableRef, *, written: bool) -> None:
        """Use a ledger as a load does; only errors are reported."""
        rights = f"GRANT SELECT, INSERT, DELETE ON {ledger.sql} TO {quote_name(self._session.address.user)};"
        with self._sheet.record_errors(check, remedy=rights), self._rolled_back_transaction():
            if written:
                self._session.run(f"INSERT INTO {ledger.sql} (lake, stream) VALUES ('doctor', 'doctor')")
            self._session.rows(f"SELECT COUNT(*) FROM {ledger.sql} WHERE stream = 'doctor'")

    def _owners(self, table: TableRef) -> list[str]:
        where = f"schemaname = {text_literal(table.schema)} AND tablename = {text_literal(table.name)}"
        return [str(owner) for (owner,) in self._session.rows(f"SELECT tableowner FROM pg_tables WHERE {where}")]

    def _check_owner(self, table: TableRef, user: str) -> None:
        owners = self._owners(table)
        if not owners:
            return self._sheet.add_pass(str(table), "created by the first load")
        if owners != [user]:
            problem = f"owned by {owners[0]}: {user} could not add new columns of the source"
            return self._sheet.add_warning(str(table), problem, f"ALTER TABLE {table.sql} OWNER TO {quote_name(user)};")
        return self._sheet.add_pass(str(table), f"exists, and is owned by {user}")

    @contextmanager
    def _rolled_back_transaction(self) -> Iterator[None]:
        """Open a transaction that is rolled back, by the server if this process is killed."""
        self._session.begin()
        try:
            yield
        finally:
            self._session.rollback()
