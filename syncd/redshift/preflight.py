"""What a warehouse has to offer before the first run: tried in transactions that are rolled back, whatever happens."""

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
"""Given the table, the COPY of a tiny file that was written for it, and how many rows it has."""


def check_warehouse(
    settings: WarehouseSettings,
    streams: Sequence[StreamSettings],
    sheet: CheckSheet,
    *,
    nonce: str,
    lake: str,
    copy: CopyFactory | None,
) -> None:
    """Look at one warehouse, into which a lake is loaded; without `copy` nothing can be copied from it."""
    bounded = replace(settings, silence=min(settings.silence, ANSWER_TIMEOUT))
    with sheet.record_errors("login"), connection_to(bounded) as way, closing(way.open("doctor")) as session:
        sheet.add_pass("login", f"{session.address}")
        mine = [one for one in streams if one.target is not None and one.target.warehouse == settings.name]
        _WarehouseCheck(settings, session, sheet, nonce).run(mine, lake, copy)


def region_from_host(host: str) -> str | None:
    """The region that the name of a warehouse tells."""
    found = _REGION_PATTERN.search(host)
    return found[1] if found else None


def check_collation(session: WarehouseSession, sheet: CheckSheet) -> None:
    """Whether texts of a new table that differ in case alone are two; in a transaction of which nothing stays."""
    session.run("CREATE TEMP TABLE syncd_doctor_case (word VARCHAR(16))")
    session.run("INSERT INTO syncd_doctor_case VALUES ('a')")
    if session.rows("SELECT word FROM syncd_doctor_case WHERE word = 'A'"):
        sheet.add_failure(
            "collation",
            "texts that differ in case alone are one to this database: of rows whose keys do, one would be left",
            "Load into a database that was made with COLLATE CASE_SENSITIVE, or where no key is a text.",
        )
    else:
        sheet.add_pass("collation", "texts that differ in case are two")


class _WarehouseCheck:
    """One look around a warehouse that let us in."""

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
            sheet.add_pass("create", f"tables can be made in schema {self._settings.schema}")
        temp = f"GRANT TEMP ON DATABASE {quote_name(self._settings.database)} TO {quote_name(user)};"
        with sheet.record_errors("temporary tables", remedy=temp), self._rolled_back_transaction():
            self._session.run("CREATE TEMP TABLE syncd_doctor (id BIGINT)")
            sheet.add_pass("temporary tables", "they can be made")
        with sheet.record_errors("collation"), self._rolled_back_transaction():
            check_collation(self._session, sheet)
        if copy is None:
            sheet.add_warning("copy", "not tried: the lake takes no file", "Mend the lake first, then ask again.")
        elif sheet.has_passed("create"):
            with sheet.record_errors("copy"), self._rolled_back_transaction():
                self._check_copy(copy)
        with sheet.record_errors("ledger"):
            self._check_ledgers([one.stream_name for one in streams], lake)
        for stream in streams:
            if stream.target is not None:
                table = TableRef(schema=stream.target.schema, name=stream.target.table)
                with sheet.record_errors(str(table)):
                    self._check_owner(table, user)

    def _check_tls(self) -> None:
        if self._settings.tls is Tls.VERIFY:
            self._sheet.add_pass("tls", "encrypted, and the certificate is checked")
        elif is_loopback_host(self._settings.host) and self._settings.tunnel is None:
            self._sheet.add_pass("tls", "none, and nothing leaves this machine")
        else:
            self._sheet.add_warning("tls", "rows and password travel unencrypted", "warehouse: {tls: verify}")

    def _read_clock(self) -> datetime:
        [(shown,)] = self._session.rows(_CLOCK_QUERY)
        found = shown if isinstance(shown, datetime) else datetime.fromisoformat(str(shown))
        return found.replace(tzinfo=UTC)

    def _check_copy(self, copy: CopyFactory) -> None:
        self._session.run(f"CREATE TABLE {self._table.sql} (id BIGINT, word VARCHAR(16))")
        statement, rows = copy(self._table.sql)
        self._session.run(statement, within=COPY_TIMEOUT)
        [(landed,)] = self._session.rows(f"SELECT COUNT(*) FROM {self._table.sql}")  # quoted
        if int(landed) != rows:
            return self._sheet.add_failure("copy", f"{landed} of {rows} rows landed")
        by = "the role" if self._settings.iam_role else "the credentials of this process"
        return self._sheet.add_pass("copy", f"a file of the lake was loaded by {by}, and rolled back")

    def _check_ledgers(self, streams: Sequence[StreamName], lake: str) -> None:
        """What landings of these streams read, and write to, as far as it stands: where it fits, in one line."""
        found = LedgerTables.discover(self._session, self._settings.schema)
        used = [found.for_stream(stream, lake=lake) for stream in streams]
        checks = {table: "ledger" for one in used for table in one.ledgers}
        checks |= {one.ledger: f"ledger of {one.stream.table_name}" for one in used if one.has_own_ledger}
        written = {one.ledger for one in used}
        stand = [table for table in found.tables if table in checks and self._table_exists(table)]
        before = len(self._sheet.results)
        for table in stand:
            self._try_ledger(checks[table], table, written=table in written)
        if len(self._sheet.results) > before:
            return
        many = sum(table in written for table in stand)
        told = (f"{many} " if found.is_serializable else "it ") + "can be read and written"
        each = "each stream has its own: " if found.is_serializable else ""
        self._sheet.add_pass("ledger", each + (told if many else "it is made with the first landing"))

    def _try_ledger(self, check: str, ledger: TableRef, *, written: bool) -> None:
        """Use a ledger as a landing does; only what goes wrong is told."""
        rights = f"GRANT SELECT, INSERT, DELETE ON {ledger.sql} TO {quote_name(self._session.address.user)};"
        with self._sheet.record_errors(check, remedy=rights), self._rolled_back_transaction():
            if written:
                row = f"INSERT INTO {ledger.sql} (lake, stream) VALUES ('doctor', 'doctor')"  # quoted
                self._session.run(row)
            self._session.rows(f"SELECT COUNT(*) FROM {ledger.sql} WHERE stream = 'doctor'")  # as above

    def _table_exists(self, table: TableRef) -> bool:
        return bool(self._owners(table))

    def _owners(self, table: TableRef) -> list[str]:
        where = f"schemaname = {text_literal(table.schema)} AND tablename = {text_literal(table.name)}"
        sql = f"SELECT tableowner FROM pg_tables WHERE {where}"  # quoted
        return [str(owner) for (owner,) in self._session.rows(sql)]

    def _check_owner(self, table: TableRef, user: str) -> None:
        owners = self._owners(table)
        if not owners:
            return self._sheet.add_pass(str(table), "it is made with the first landing")
        if owners != [user]:
            told = f"it belongs to {owners[0]}: columns that come at the source could not be added by {user}"
            return self._sheet.add_warning(str(table), told, f"ALTER TABLE {table.sql} OWNER TO {quote_name(user)};")
        return self._sheet.add_pass(str(table), f"it is there, and is {user}'s")

    @contextmanager
    def _rolled_back_transaction(self) -> Iterator[None]:
        """A transaction of which nothing stays: the server forgets it too when this process is killed."""
        self._session.begin()
        try:
            yield
        finally:
            self._session.rollback()
