"""Short words for what the cases do: connections of `redshift_connector`, objects on S3."""

import io
import itertools
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import redshift_connector
from redshift_connector.error import Error, ProgrammingError

ROLE = "iam_role 'arn:aws:iam::123456789012:role/load'"
BUCKET = "lake"
numbers = itertools.count(1)


@dataclass
class Bucket:
    """Objects for COPY to read."""

    client: Any
    name: str = BUCKET
    prefix: str = ""

    def put(self, key: str, body: bytes) -> str:
        self.client.put_object(Bucket=self.name, Key=f"{self.prefix}{key}", Body=body)
        return self.at(key)

    def at(self, key: str) -> str:
        """The address that a key would have."""
        return f"s3://{self.name}/{self.prefix}{key}"

    def get(self, location: str) -> bytes:
        key = location.removeprefix(f"s3://{self.name}/")
        body: bytes = self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return body

    def parquet(self, table: pa.Table, **options: object) -> tuple[str, int]:
        """A Parquet object of its own key, and its size."""
        sink = io.BytesIO()
        pq.write_table(table, sink, **options)
        key = f"data/{next(numbers)}/part.parquet"
        return self.put(key, sink.getvalue()), len(sink.getvalue())

    def manifest(self, entries: Sequence[Any]) -> str:
        return self.put(f"copy/{next(numbers)}.manifest", json.dumps({"entries": entries}).encode())

    def manifest_of(self, *tables: pa.Table, **options: object) -> str:
        return self.manifest([entry(*self.parquet(table, **options)) for table in tables])


def entry(location: str, size: int, *, mandatory: bool = True) -> dict[str, Any]:
    return {"url": location, "mandatory": mandatory, "meta": {"content_length": size}}


@dataclass
class Client:
    """A connection of `redshift_connector`, and short words for what tests do with it."""

    connection: Any
    role: str = ROLE

    @property
    def pid(self) -> int:
        """The process that serves it, known from the greeting: asking by SQL would take a snapshot."""
        (pid,) = struct.unpack_from("!i", self.connection._backend_key_data)
        return int(pid)

    def run(self, sql: str, args: Sequence[Any] | None = None) -> int:
        """Carry out a statement and return the driver's row count."""
        cursor = self.connection.cursor()
        if args is None:
            cursor.execute(sql)
        else:
            cursor.execute(sql, args)
        return int(cursor.rowcount)

    def rows(self, sql: str, args: Sequence[Any] | None = None) -> list[list[Any]]:
        cursor = self.connection.cursor()
        if args is None:
            cursor.execute(sql)
        else:
            cursor.execute(sql, args)
        return [list(row) for row in cursor.fetchall()]

    def value(self, sql: str, args: Sequence[Any] | None = None) -> Any:  # a cell
        return self.rows(sql, args)[0][0]

    def refused(self, sql: str, args: Sequence[Any] | None = None) -> dict[str, str]:
        """The fields of the error that a statement gets."""
        with pytest.raises(ProgrammingError) as caught:
            self.run(sql, args)
        fields = caught.value.args[0]
        assert isinstance(fields, dict)
        return fields

    def copy(
        self, table: str, location: str, *, words: str = "format as parquet manifest", role: str | None = None
    ) -> int:
        self.run(self._copy(table, location, words, role))
        return int(self.value("select pg_last_copy_count()"))

    def copy_refused(
        self, table: str, location: str, *, words: str = "format as parquet manifest", role: str | None = None
    ) -> dict[str, str]:
        return self.refused(self._copy(table, location, words, role))

    def _copy(self, table: str, location: str, words: str, role: str | None) -> str:
        return f"copy {table} from '{location}' {self.role if role is None else role} {words}"

    def table(self, columns: str) -> str:
        """A new table of its own name."""
        name = f"t{next(numbers)}"
        self.run(f"create table {name} ({columns})")
        return name

    def load_error(self) -> str:
        """The whole sentence of this session's last failed load."""
        rows = self.rows(
            "select error_message from sys_load_error_detail where session_id = %s order by query_id desc", (self.pid,)
        )
        return str(rows[0][0])

    def close(self) -> None:
        self.connection.close()


class Address(Protocol):
    """A server to connect to, in this process or apart."""

    host: str
    port: int
    database: str
    user: str
    password: str


def connect(server: Address, **options: object) -> Client:
    settings: dict[str, Any] = {
        "host": server.host,
        "port": server.port,
        "database": server.database,
        "user": server.user,
        "password": server.password,
        "ssl": False,
    }
    return Client(redshift_connector.connect(**{**settings, **options}))


class Clients:
    """Opens connections and closes what a test left open."""

    def __init__(self, server: Address) -> None:
        self._server = server
        self._opened: list[Client] = []

    def __call__(self, *, autocommit: bool = True, **options: Any) -> Client:  # the driver's own
        client = connect(self._server, **options)
        client.connection.autocommit = autocommit
        self._opened.append(client)
        return client

    def close(self) -> None:
        for client in self._opened:
            try:
                client.close()
            except (Error, OSError):
                continue


def ints(**columns: int | None) -> pa.Table:
    """A table of one row of integers."""
    return pa.table({name: pa.array([value], pa.int32()) for name, value in columns.items()})
