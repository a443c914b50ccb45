"""Connection to the PostgreSQL server behind the stand-in."""

import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from syncd.sandbox.redshift import wire
from syncd.sandbox.redshift.wire import Message, MessageStream, PeerGone

FLUSH_MESSAGE: Final = wire.pack(b"H")
SYNC_MESSAGE: Final = wire.pack(b"S")
NO_PARAMETERS: Final = struct.pack("!hhh", 0, 0, 0)
ALL_ROWS: Final = struct.pack("!i", 0)
OWN_STATEMENT_NAME: Final = b"redshift_ours"


class BackendError(Exception):
    """An error of PostgreSQL; `fields` are those of its message."""

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
        self.cancel_key = b""
        self.stream.send(wire.pack_startup({"user": user, "database": database, **settings}))
        for message in self._read_until_ready():
            if message.kind == b"E":
                self.close()
                raise BackendError(wire.unpack_fields(message.body))
            if message.kind == b"K":
                self.cancel_key = message.body

    def close(self) -> None:
        self.stream.close()

    def read(self) -> Message:
        message = self.stream.read_message()
        if message.kind == b"Z":
            self.status = message.body
        return message

    def _read_until(self, kinds: bytes) -> Iterator[Message]:
        """Yield every message up to the first of one of the kinds, or an error, that one included."""
        while True:
            message = self.read()
            yield message
            if message.kind in kinds or message.kind == b"E":
                return

    def _read_until_ready(self) -> Iterator[Message]:
        while (message := self.read()).kind != b"Z":
            yield message

    def _skip_until_ready(self) -> None:
        for _ in self._read_until_ready():
            pass

    # -- the simple protocol ---------------------------------------------------------------

    def run(self, sql: str) -> list[list[str | None]]:
        """Run one statement by the simple protocol and return its rows as text.

        Raises:
            BackendError: PostgreSQL refused it.
        """
        self.stream.send(wire.pack_simple_query(sql))
        rows: list[list[str | None]] = []
        refused: dict[str, str] | None = None
        for message in self._read_until_ready():
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

    # -- the extended protocol -------------------------------------------------------------

    def request(self, message: bytes, last: bytes) -> Iterator[Message]:
        """Send one message and yield its answers, up to one of the kinds in `last`.

        Raises:
            BackendError: PostgreSQL refused it.
        """
        self.stream.send(message, FLUSH_MESSAGE)
        for reply in self._read_until(last):
            if reply.kind == b"E":
                raise BackendError(wire.unpack_fields(reply.body))
            yield reply

    def request_and_discard(self, message: bytes, last: bytes) -> None:
        for _ in self.request(message, last):
            pass

    def run_own_statement(self, sql: str) -> str:
        """Run a statement of the stand-in inside the client's transaction and return the value that it reads."""
        name = OWN_STATEMENT_NAME
        for kind in (b"P", b"S"):  # left by a refused statement; closing one that does not exist is no error
            self.request_and_discard(wire.pack(b"C", kind + name + b"\0"), b"3")
        self.request_and_discard(wire.pack_parse(name, sql), b"1")
        self.request_and_discard(wire.pack(b"B", name + b"\0" + name + b"\0" + NO_PARAMETERS), b"2")
        replies = self.request(wire.pack(b"E", name + b"\0" + ALL_ROWS), b"C")
        values = [value for message in replies if message.kind == b"D" for value in wire.unpack_row(message.body)]
        return (values[0] or b"").decode()

    def sync(self) -> Iterator[dict[str, str]]:
        """End what the messages so far began and yield the fields of its error; outside a block, Sync commits."""
        self.stream.send(SYNC_MESSAGE)
        for message in self._read_until_ready():
            if message.kind == b"E":
                yield wire.unpack_fields(message.body)

    # -- COPY FROM STDIN -------------------------------------------------------------------

    def copy_in(self, sql: str) -> None:
        """Begin COPY FROM STDIN; `copy_data` and then `copy_end` or `copy_fail` follow."""
        self.stream.send(wire.pack_simple_query(sql))
        for message in self._read_until(b"G"):
            self._raise_copy_error(message)

    def copy_data(self, data: bytes | memoryview) -> None:
        self.stream.send(b"d" + (len(data) + 4).to_bytes(4, "big"))
        try:
            self.stream.sock.sendall(data)
        except OSError as error:
            raise PeerGone(str(error)) from error

    def copy_end(self) -> int:
        """Finish the COPY and return its count of rows."""
        self.stream.send(wire.pack(b"c"))
        count = 0
        for message in self._read_until_ready():
            self._raise_copy_error(message)
            if message.kind == b"C":
                count = int(message.body[:-1].rsplit(b" ", 1)[-1])
        return count

    def copy_fail(self, reason: str) -> None:
        """Give the COPY up; its transaction has failed then."""
        self.stream.send(wire.pack(b"f", wire.pack_text(reason)))
        self._skip_until_ready()

    def _raise_copy_error(self, message: Message) -> None:
        if message.kind == b"E":
            self._skip_until_ready()
            raise BackendError(wire.unpack_fields(message.body))


def quote_literal(value: str) -> str:
    """Return a string constant that is the same under either setting of standard_conforming_strings."""
    plain = "'" + value.replace("'", "''") + "'"
    return "E" + plain.replace("\\", "\\\\") if "\\" in value else plain


def quote_array(values: Sequence[str]) -> str:
    return "ARRAY[" + ", ".join(quote_literal(v) for v in values) + "]::text[]"


def quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
