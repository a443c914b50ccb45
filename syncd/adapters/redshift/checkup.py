"""What a warehouse has to offer before the first run: tried in transactions that are rolled back, whatever happens."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from syncd.adapters.redshift.session import Session
from syncd.adapters.redshift.way import way_to
from syncd.core.checkup import Sheet, near
from syncd.core.redshift.control import ISOLATION, LEDGER
from syncd.core.redshift.quoting import TableRef, quoted, text_literal
from syncd.core.settings import StreamSettings, Tls, WarehouseSettings
from watermarks.clock import SystemClock

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
    copy: Copy | None,
) -> None:
    """Look at one warehouse; without `copy` there is no lake to copy from."""
    bounded = replace(settings, silence=min(settings.silence, ANSWERED_WITHIN))
    with sheet.checking("login"), way_to(bounded) as way, closing(way.open("doctor")) as session:
        sheet.good("login", f"{session.site}")
        _Look(settings, session, sheet, nonce).all(streams, copy)


def region_of(host: str) -> str | None:
    """The region that the name of a warehouse tells."""
    found = _REGION.search(host)
    return found[1] if found else None


class _Look:
    """One look around a warehouse that let us in."""

    def __init__(self, settings: WarehouseSettings, session: Session, sheet: Sheet, nonce: str) -> None:
        self._settings = settings
        self._session = session
        self._sheet = sheet
        self._table = TableRef(schema=settings.schema, name=f"syncd_doctor_{nonce}")

    def all(self, streams: Sequence[StreamSettings], copy: Copy | None) -> None:
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
        user, schema = self._session.site.user, quoted(self._settings.schema)
        with sheet.checking("create"), self._rolled_back():
            self._session.run(f"CREATE TABLE {self._table.sql} (id BIGINT, word VARCHAR(16))")
            sheet.good("create", f"tables can be made in schema {self._settings.schema}")
        temp = f"GRANT TEMP ON DATABASE {quoted(self._settings.database)} TO {quoted(user)};"
        with sheet.checking("temporary tables", remedy=temp), self._rolled_back():
            self._session.run("CREATE TEMP TABLE syncd_doctor (id BIGINT)")
            sheet.good("temporary tables", "they can be made")
        if copy is None:
            sheet.doubt("copy", "not tried: the lake takes no file", "Mend the lake first, then ask again.")
        elif sheet.fits("create"):
            with sheet.checking("copy"), self._rolled_back():
                self._copied(copy)
        rights = f"GRANT SELECT, INSERT, DELETE ON {schema}.{LEDGER} TO {quoted(user)};"
        with sheet.checking("ledger", remedy=rights), self._rolled_back():
            self._ledger()
        for stream in streams:
            if stream.target is not None and stream.target.warehouse == self._settings.name:
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
        [(landed,)] = self._session.rows(f"SELECT COUNT(*) FROM {self._table.sql}")  # noqa: S608  # quoted
        if int(landed) != rows:
            return self._sheet.bad("copy", f"{landed} of {rows} rows landed")
        by = "the role" if self._settings.iam_role else "the credentials of this process"
        return self._sheet.good("copy", f"a file of the lake was loaded by {by}, and rolled back")

    def _ledger(self) -> None:
        ledger = self._table.beside(LEDGER)
        if not self._there(ledger):
            return self._sheet.good("ledger", "it is made with the first landing")
        self._session.run(f"INSERT INTO {ledger.sql} (lake, stream) VALUES ('doctor', 'doctor')")  # noqa: S608  # quoted
        self._session.rows(f"SELECT COUNT(*) FROM {ledger.sql} WHERE stream = 'doctor'")  # noqa: S608  # as above
        return self._sheet.good("ledger", "it can be read and written")

    def _there(self, table: TableRef) -> bool:
        return bool(self._owners(table))

    def _owners(self, table: TableRef) -> list[str]:
        where = f"schemaname = {text_literal(table.schema)} AND tablename = {text_literal(table.name)}"
        sql = f"SELECT tableowner FROM pg_tables WHERE {where}"  # noqa: S608  # quoted
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
