"""One connection to the PostgreSQL behind: what it is asked, what it answers."""

import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from syncd.sandbox.redshift import wire
from syncd.sandbox.redshift.wire import Message, MessageStream, PeerGone

READY_FOR_QUERY: Final = frozenset(b"Z")


class BackendError(Exception):
    """PostgreSQL refused; `fields` are those of its message."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__(fields.get("M", ""))
        self.fields = dict(fields)


class PostgresConnection:
    """A connection over the socket file; `status` is that of the last ReadyForQuery: I, T or E."""

    def __init__(self, path: Path, *, user: str, database: str, settings: Mapping[str, str]) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(str(path))
        except OSError:
            sock.close()
            raise
        self.stream = MessageStream(sock)
        self.status = b"I"
        self.parameters: dict[str, str] = {}
        self.cancel_key = b""
        self.stream.send(wire.pack_startup({"user": user, "database": database, **settings}))
        self._read_startup()

    def _read_startup(self) -> None:
        while (message := self.stream.read_message()).kind != b"Z":
            if message.kind == b"E":
                self.close()
                raise BackendError(wire.unpack_fields(message.body))
            if message.kind == b"S":
                name, value = wire.unpack_strings(message.body)
                self.parameters[name] = value
            elif message.kind == b"K":
                self.cancel_key = message.body

    def read(self) -> Message:
        message = self.stream.read_message()
        if message.kind == b"Z":
            self.status = message.body
        return message

    def read_until(self, kinds: bytes) -> Iterator[Message]:
        """Every message up to the first of one of the kinds, or an error, that one included."""
        while True:
            message = self.read()
            yield message
            if message.kind in kinds or message.kind == b"E":
                return

    def run(self, sql: str) -> list[list[str | None]]:
        """Carry out one statement by the simple protocol and return its rows as text.

        Raises:
            BackendError: PostgreSQL refused it.
        """
        self.stream.send(wire.pack_simple_query(sql))
        rows: list[list[str | None]] = []
        refused: dict[str, str] | None = None
        while (message := self.read()).kind != b"Z":
            if message.kind == b"D":
                rows.append([None if v is None else v.decode() for v in wire.unpack_row(message.body)])
            elif message.kind == b"E":
                refused = wire.unpack_fields(message.body)
        if refused is not None:
            raise BackendError(refused)
        return rows

    def fetch_value(self, sql: str) -> str | None:
        rows = self.run(sql)
        return rows[0][0] if rows else None

    def copy_in(self, sql: str) -> None:
        """Begin COPY FROM STDIN; what follows is `copy_data`, then `copy_end`."""
        self.stream.send(wire.pack_simple_query(sql))
        for message in self.read_until(b"G"):
            if message.kind == b"E":
                fields = wire.unpack_fields(message.body)
                self._skip_until_ready()
                raise BackendError(fields)

    def copy_data(self, data: bytes | memoryview) -> None:
        self.stream.send(b"d" + (len(data) + 4).to_bytes(4, "big"))
        try:
            self.stream.sock.sendall(data)
        except OSError as error:
            raise PeerGone(str(error)) from error

    def copy_end(self) -> int:
        """Finish the COPY and return its count of rows."""
        self.stream.send(wire.pack(b"c"))
        return self._finish_copy()

    def copy_fail(self, why: str) -> None:
        """Give the COPY up; the transaction it stands in has failed then."""
        self.stream.send(wire.pack(b"f", wire.pack_text(why)))
        for _ in self._read_until_ready():
            pass

    def _finish_copy(self) -> int:
        count = 0
        for message in self._read_until_ready():
            if message.kind == b"E":
                fields = wire.unpack_fields(message.body)
                self._skip_until_ready()
                raise BackendError(fields)
            if message.kind == b"C":
                count = int(message.body[:-1].rsplit(b" ", 1)[-1])
        return count

    def _read_until_ready(self) -> Iterator[Message]:
        while (message := self.read()).kind != b"Z":
            yield message

    def _skip_until_ready(self) -> None:
        for _ in self._read_until_ready():
            pass

    def close(self) -> None:
        self.stream.close()


def quote_literal(value: str) -> str:
    """A string constant, the same under either setting of standard_conforming_strings."""
    plain = "'" + value.replace("'", "''") + "'"
    return "E" + plain.replace("\\", "\\\\") if "\\" in value else plain


def quote_array(values: Sequence[str]) -> str:
    """A constant of type text[]."""
    return "ARRAY[" + ", ".join(quote_literal(v) for v in values) + "]::text[]"
