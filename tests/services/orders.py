"""The shop's orders as the extract stage meets them: a table, its passages, and readings of its windows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from syncd.datatypes.columns import ColumnMapping, Policies
from syncd.datatypes.source_table import SourceColumn, SourceIndex, SourceTable
from syncd.lake.read_requests import OrderField, ReadRequest, WindowQuery
from syncd.mysql.sql import identity_sql
from syncd.sandbox.mysql import MySqlAddress
from syncd.settings import Secret, SourceSettings, StreamSettings, Tls
from syncd.tables.column_mapping import map_columns
from watermarks.cursor import START_CURSOR, Cursor, ValueKind
from watermarks.window import Window

ORDER = (OrderField(name="update_at", kind=ValueKind.WALL), OrderField(name="id", kind=ValueKind.INT))

_COLUMNS = (
    "SELECT column_name, LOWER(data_type), column_type, is_nullable = 'YES', character_maximum_length,"
    " character_octet_length, numeric_precision, numeric_scale, COALESCE(datetime_precision, 0),"
    " character_set_name, collation_name FROM information_schema.columns"
    " WHERE table_schema = DATABASE() AND table_name = 'orders' ORDER BY ordinal_position"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The table on one server."""

    address: MySqlAddress
    identity: str
    passages: tuple[ColumnMapping, ...]
    ends: tuple[Cursor, ...]
    """The positions that cut it into as many windows of equal size."""

    def source(self, **further: Any) -> SourceSettings:
        """The server as it is configured, without TLS unless that is what a test is about."""
        address = self.address
        given: dict[str, Any] = {
            "name": "shop",
            "host": address.host,
            "port": address.port,
            "user": address.user,
            "password": Secret(address.password),
            "tls": Tls.DISABLE,
            "longest_read": timedelta(minutes=5),
        }
        return SourceSettings(**{**given, **further})

    def reading(self, nonce: str, *, windows: Sequence[Window] | None = None, **further: Any) -> ReadRequest:
        """All of the table, or these windows of it."""
        whole = [Window(low, high) for low, high in zip((START_CURSOR, *self.ends), self.ends, strict=False)]
        given: dict[str, Any] = {
            "queries": tuple(self.query(window) for window in (windows or whole)),
            "columns": self.passages,
            "order": ORDER,
            "policies": Policies(),
            "server_identity": self.identity,
            "part_prefix": f"data/orders/{nonce}/",
            "quarantine_prefix": f"quarantine/orders/{nonce}/",
            "batch_number": 1_000000000001,
            "nonce": nonce,
        }
        return ReadRequest(**{**given, **further})

    def query(self, window: Window, *, told: Window | None = None) -> WindowQuery:
        """The statement of a window; `told` is another one for the reader to hold its rows against."""
        selects = ", ".join(f"{each.select} AS `{each.name}`" for each in self.passages)
        table = f"`{self.address.database}`.orders FORCE INDEX (by_update)"
        return WindowQuery(window=told or window, sql=f"SELECT {selects} FROM {table} WHERE {_within(window)}")


def find_orders(address: MySqlAddress, *, windows: int) -> Orders:
    """The table as it stands, cut into windows."""
    with address.connect() as connection, connection.cursor() as cursor:
        cursor.execute(_COLUMNS)
        columns = tuple(_column(row) for row in cursor.fetchall())
        cursor.execute("SELECT VERSION()")
        expression = identity_sql(mariadb="MariaDB" in cursor.fetchone()[0])
        cursor.execute(f"SELECT {expression}")
        identity = cursor.fetchone()[0]
        cursor.execute("SELECT COUNT(*) FROM orders")
        rows = cursor.fetchone()[0]
        ends = []
        for end in range(1, windows + 1):
            cursor.execute(f"SELECT update_at, id FROM orders WHERE id = {rows * end // windows}")
            ends.append(Cursor.from_values(*cursor.fetchone()))
    key = SourceIndex(name="PRIMARY", columns=("id",), unique=True, whole=True)
    table = SourceTable(
        database=address.database, name="orders", kind="BASE TABLE", engine="InnoDB", columns=columns, indexes=(key,)
    )
    settings = StreamSettings(source="shop", database=address.database, table="orders")
    return Orders(address=address, identity=identity, passages=map_columns(table, settings), ends=tuple(ends))


def _column(row: tuple[Any, ...]) -> SourceColumn:
    names = ("name", "data_type", "column_type", "nullable", "length", "octets")
    more = ("precision", "scale", "fraction", "charset", "collation")
    return SourceColumn(**dict(zip((*names, *more), row, strict=True)))


def _within(window: Window) -> str:
    high_at, high_id = (str(value.raw) for value in window.high.values)
    upto = f"(update_at = '{high_at}' AND id <= {high_id})"
    if not window.low:
        return f"(update_at < '{high_at}' OR {upto})"
    low_at, low_id = (str(value.raw) for value in window.low.values)
    between = f"(update_at > '{low_at}' AND update_at < '{high_at}')"
    return f"((update_at = '{low_at}' AND id > {low_id}) OR {between} OR {upto})"
