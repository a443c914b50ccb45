"""What a warehouse has to offer before the first run: tried in transactions that are rolled back, whatever happens."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from syncd.ports.preflight import Sheet, near
from syncd.redshift.connection_factory import way_to
from syncd.redshift.control_tables import ISOLATION
from syncd.redshift.ledger_discovery import ledgers_of
from syncd.redshift.quoting import TableRef, quoted, text_literal
from syncd.redshift.session import Session
from syncd.settings import StreamSettings, Tls, WarehouseSettings
from watermarks.clock import SystemClock
from watermarks.names import StreamName

ANSWERED_WITHIN: Final = timedelta(seconds=20)
COPIED_WITHIN: Final = timedelta(seconds=60)
_CLOCK: Final = "SELECT GETDATE()"
_REGION: Final = re.compile(r"\.([a-z]{2}(?:-[a-z]+)+-\d)\.redshift(?:-serverless)?\.amazonaws\.com")

Copy = Callable[[str], tuple[str, int]]
"""Given the table, the COPY of a tiny file that was written for it, and how many rows it has."""


def examine(
    settings: WarehouseSettings,
    streams: Sequence[StreamSettings],
    sheet: Sheet,
    *,
    nonce: str,
    lake: str,
    copy: Copy | None,
) -> None:
    """Look at one warehouse, into which a lake is loaded; without `copy` nothing can be copied from it."""
    bounded = replace(settings, silence=min(settings.silence, ANSWERED_WITHIN))
    with sheet.checking("login"), way_to(bounded) as way, closing(way.open("doctor")) as session:
        sheet.good("login", f"{session.site}")
        mine = [one for one in streams if one.target is not None and one.target.warehouse == settings.name]
        _Look(settings, session, sheet, nonce).all(mine, lake, copy)


def region_of(host: str) -> str | None:
    """The region that the name of a warehouse tells."""
    found = _REGION.search(host)
    return found[1] if found else None


def look_at_case(session: Session, sheet: Sheet) -> None:
    """Whether texts of a new table that differ in case alone are two; in a transaction of which nothing stays."""
    session.run("CREATE TEMP TABLE syncd_doctor_case (word VARCHAR(16))")
    session.run("INSERT INTO syncd_doctor_case VALUES ('a')")
    if session.rows("SELECT word FROM syncd_doctor_case WHERE word = 'A'"):
        sheet.bad(
            "collation",
            "texts that differ in case alone are one to this database: of rows whose keys do, one would be left",
            "Load into a database that was made with COLLATE CASE_SENSITIVE, or where no key is a text.",
        )
    else:
        sheet.good("collation", "texts that differ in case are two")


class _Look:
    """One look around a warehouse that let us in."""

    def __init__(self, settings: WarehouseSettings, session: Session, sheet: Sheet, nonce: str) -> None:
        self._settings = settings
        self._session = session
        self._sheet = sheet
        self._table = TableRef(schema=settings.schema, name=f"syncd_doctor_{nonce}")

    def all(self, streams: Sequence[StreamSettings], lake: str, copy: Copy | None) -> None:
        sheet = self._sheet
        self._tls()
        with sheet.checking("version"):
            [(version,)] = self._session.rows("SELECT version()")
            sheet.good("version", str(version).rpartition(", ")[2].strip("\0 "))
        with sheet.checking("isolation"):
            [(level,)] = self._session.rows(ISOLATION)
            sheet.good("isolation", str(level))
        with sheet.checking("clock"):
            sheet.clock(self._clock, step=timedelta(seconds=1), now=SystemClock().now)
        user = self._session.site.user
        with sheet.checking("create"), self._rolled_back():
            self._session.run(f"CREATE TABLE {self._table.sql} (id BIGINT, word VARCHAR(16))")
            sheet.good("create", f"tables can be made in schema {self._settings.schema}")
        temp = f"GRANT TEMP ON DATABASE {quoted(self._settings.database)} TO {quoted(user)};"
        with sheet.checking("temporary tables", remedy=temp), self._rolled_back():
            self._session.run("CREATE TEMP TABLE syncd_doctor (id BIGINT)")
            sheet.good("temporary tables", "they can be made")
        with sheet.checking("collation"), self._rolled_back():
            look_at_case(self._session, sheet)
        if copy is None:
            sheet.doubt("copy", "not tried: the lake takes no file", "Mend the lake first, then ask again.")
        elif sheet.fits("create"):
            with sheet.checking("copy"), self._rolled_back():
                self._copied(copy)
        with sheet.checking("ledger"):
            self._ledgers([_stream_of(one) for one in streams], lake)
        for stream in streams:
            if stream.target is not None:
                table = TableRef(schema=stream.target.schema, name=stream.target.table)
                with sheet.checking(str(table)):
                    self._owned(table, user)

    def _tls(self) -> None:
        if self._settings.tls is Tls.VERIFY:
            self._sheet.good("tls", "encrypted, and the certificate is checked")
        elif near(self._settings.host) and self._settings.tunnel is None:
            self._sheet.good("tls", "none, and nothing leaves this machine")
        else:
            self._sheet.doubt("tls", "rows and password travel unencrypted", "warehouse: {tls: verify}")

    def _clock(self) -> datetime:
        [(shown,)] = self._session.rows(_CLOCK)
        found = shown if isinstance(shown, datetime) else datetime.fromisoformat(str(shown))
        return found.replace(tzinfo=UTC)

    def _copied(self, copy: Copy) -> None:
        self._session.run(f"CREATE TABLE {self._table.sql} (id BIGINT, word VARCHAR(16))")
        statement, rows = copy(self._table.sql)
        self._session.run(statement, within=COPIED_WITHIN)
        [(landed,)] = self._session.rows(f"SELECT COUNT(*) FROM {self._table.sql}")  # quoted
        if int(landed) != rows:
            return self._sheet.bad("copy", f"{landed} of {rows} rows landed")
        by = "the role" if self._settings.iam_role else "the credentials of this process"
        return self._sheet.good("copy", f"a file of the lake was loaded by {by}, and rolled back")

    def _ledgers(self, streams: Sequence[StreamName], lake: str) -> None:
        """What landings of these streams read, and write to, as far as it stands: where it fits, in one line."""
        found = ledgers_of(self._session, self._settings.schema)
        used = [found.of_stream(stream, lake=lake) for stream in streams]
        checks = {table: "ledger" for one in used for table in one.ledgers}
        checks |= {one.ledger: f"ledger of {one.stream.database}.{one.stream.table}" for one in used if one.apart}
        written = {one.ledger for one in used}
        stand = [table for table in found.tables if table in checks and self._there(table)]
        before = len(self._sheet.findings)
        for table in stand:
            self._tried(checks[table], table, written=table in written)
        if len(self._sheet.findings) > before:
            return
        many = sum(table in written for table in stand)
        told = (f"{many} " if found.serializable else "it ") + "can be read and written"
        each = "each stream has its own: " if found.serializable else ""
        self._sheet.good("ledger", each + (told if many else "it is made with the first landing"))

    def _tried(self, check: str, ledger: TableRef, *, written: bool) -> None:
        """Use a ledger as a landing does; only what goes wrong is told."""
        rights = f"GRANT SELECT, INSERT, DELETE ON {ledger.sql} TO {quoted(self._session.site.user)};"
        with self._sheet.checking(check, remedy=rights), self._rolled_back():
            if written:
                row = f"INSERT INTO {ledger.sql} (lake, stream) VALUES ('doctor', 'doctor')"  # quoted
                self._session.run(row)
            self._session.rows(f"SELECT COUNT(*) FROM {ledger.sql} WHERE stream = 'doctor'")  # as above

    def _there(self, table: TableRef) -> bool:
        return bool(self._owners(table))

    def _owners(self, table: TableRef) -> list[str]:
        where = f"schemaname = {text_literal(table.schema)} AND tablename = {text_literal(table.name)}"
        sql = f"SELECT tableowner FROM pg_tables WHERE {where}"  # quoted
        return [str(owner) for (owner,) in self._session.rows(sql)]

    def _owned(self, table: TableRef, user: str) -> None:
        owners = self._owners(table)
        if not owners:
            return self._sheet.good(str(table), "it is made with the first landing")
        if owners != [user]:
            told = f"it belongs to {owners[0]}: columns that come at the source could not be added by {user}"
            return self._sheet.doubt(str(table), told, f"ALTER TABLE {table.sql} OWNER TO {quoted(user)};")
        return self._sheet.good(str(table), f"it is there, and is {user}'s")

    @contextmanager
    def _rolled_back(self) -> Iterator[None]:
        """A transaction of which nothing stays: the server forgets it too when this process is killed."""
        self._session.begin()
        try:
            yield
        finally:
            self._session.rollback()


def _stream_of(settings: StreamSettings) -> StreamName:
    return StreamName(source=settings.source, database=settings.database, table=settings.table)
