"""PostgreSQL's wire protocol, version 3: messages read from a socket, messages built for one."""

import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

SSL_REQUEST: Final = 80877103
CANCEL_REQUEST: Final = 80877102
PROTOCOL_3: Final = 196608
CHUNK: Final = 1 << 18


class PeerGone(ConnectionError):
    """The other side closed the connection, or it broke."""


@dataclass(frozen=True, slots=True)
class Message:
    kind: bytes
    body: bytes

    def packed(self) -> bytes:
        return pack(self.kind, self.body)


class Stream:
    """A socket that speaks in messages."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._read = bytearray()
        self._from = 0
        self._unsent: list[bytes] = []
        self._unsent_size = 0

    @property
    def has_unread(self) -> bool:
        return len(self._read) > self._from

    def read(self, size: int) -> bytes:
        while len(self._read) - self._from < size:
            self._fill(size)
        start, self._from = self._from, self._from + size
        taken = bytes(self._read[start : self._from])
        if self._from == len(self._read):
            self._read.clear()
            self._from = 0
        return taken

    def _fill(self, size: int) -> None:
        if self._from:
            del self._read[: self._from]
            self._from = 0
        try:
            chunk = self.sock.recv(max(CHUNK, min(size, 1 << 22)))
        except OSError as error:
            raise PeerGone(str(error)) from error
        if not chunk:
            raise PeerGone("the connection was closed")
        self._read += chunk

    def read_message(self) -> Message:
        head = self.read(5)
        (length,) = struct.unpack_from("!i", head, 1)
        return Message(head[:1], self.read(length - 4))

    def queue(self, message: bytes) -> None:
        """Keep a message until `flush`, or until there is enough to be worth sending."""
        self._unsent.append(message)
        self._unsent_size += len(message)
        if self._unsent_size >= CHUNK:
            self.flush()

    def flush(self) -> None:
        unsent, self._unsent, self._unsent_size = b"".join(self._unsent), [], 0
        try:
            self.sock.sendall(unsent)
        except OSError as error:
            raise PeerGone(str(error)) from error

    def send(self, *messages: bytes) -> None:
        for message in messages:
            self.queue(message)
        self.flush()

    def close(self) -> None:
        self.sock.close()


def pack(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def startup(settings: Mapping[str, str]) -> bytes:
    body = struct.pack("!i", PROTOCOL_3) + b"".join(text(k) + text(v) for k, v in settings.items()) + b"\0"
    return struct.pack("!i", len(body) + 4) + body


def strings(body: bytes) -> list[str]:
    """The strings of a startup packet: key, value, key, value."""
    return [part.decode() for part in body.split(b"\0")[:-1]]


def fields_of(body: bytes) -> dict[str, str]:
    """The fields of an error or a notice, by their letter."""
    return {part[:1].decode(): part[1:].decode(errors="replace") for part in body.split(b"\0") if part}


def report(kind: bytes, fields: Mapping[str, str]) -> bytes:
    """An error (kind E) or a notice (kind N)."""
    return pack(kind, b"".join(letter.encode() + text(value) for letter, value in fields.items()) + b"\0")


def parse(name: bytes, sql: str, types: Sequence[int] = ()) -> bytes:
    return pack(b"P", name + b"\0" + text(sql) + struct.pack(f"!h{len(types)}I", len(types), *types))


def simple_query(sql: str) -> bytes:
    return pack(b"Q", text(sql))


def row_values(body: bytes) -> Iterator[bytes | None]:
    (count,) = struct.unpack_from("!h", body)
    at = 2
    for _ in range(count):
        (length,) = struct.unpack_from("!i", body, at)
        at += 4
        if length < 0:
            yield None
        else:
            yield body[at : at + length]
            at += length


def row(values: Sequence[bytes | None]) -> bytes:
    cells = [struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value for value in values]
    return pack(b"D", struct.pack("!h", len(values)) + b"".join(cells))


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a result, as RowDescription tells it."""

    name: bytes
    table: int
    column: int
    type: int
    size: int
    modifier: int
    format: int


def row_fields(body: bytes) -> list[Field]:
    (count,) = struct.unpack_from("!h", body)
    at, fields = 2, []
    for _ in range(count):
        end = body.index(b"\0", at)
        fields.append(Field(body[at:end], *struct.unpack_from("!IhIhih", body, end + 1)))
        at = end + 19
    return fields


def row_description(fields: Sequence[Field]) -> bytes:
    told = [
        f.name + b"\0" + struct.pack("!IhIhih", f.table, f.column, f.type, f.size, f.modifier, f.format) for f in fields
    ]
    return pack(b"T", struct.pack("!h", len(fields)) + b"".join(told))


def types_of_parse(body: bytes) -> tuple[bytes, str, tuple[int, ...]]:
    """The name, the statement and the parameter types of a Parse message."""
    end = body.index(b"\0")
    stop = body.index(b"\0", end + 1)
    (count,) = struct.unpack_from("!h", body, stop + 1)
    return body[:end], body[end + 1 : stop].decode(), struct.unpack_from(f"!{count}I", body, stop + 3)
