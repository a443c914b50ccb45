"""PostgreSQL's wire protocol, version 3: reading and building messages."""

import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

CANCEL_REQUEST: Final = 80877102
PROTOCOL_3: Final = 196608
CHUNK_BYTES: Final = 1 << 18


class PeerGone(ConnectionError):
    """The other side closed the connection, or it broke."""


@dataclass(frozen=True, slots=True)
class Message:
    kind: bytes
    body: bytes


class MessageStream:
    """Messages of the protocol over one socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._read = bytearray()
        self._read_position = 0
        self._unsent: list[bytes] = []
        self._unsent_size = 0

    @property
    def has_unread(self) -> bool:
        return len(self._read) > self._read_position

    def read(self, size: int) -> bytes:
        while len(self._read) - self._read_position < size:
            self._fill(size)
        start, self._read_position = self._read_position, self._read_position + size
        taken = bytes(self._read[start : self._read_position])
        if self._read_position == len(self._read):
            self._read.clear()
            self._read_position = 0
        return taken

    def _fill(self, size: int) -> None:
        if self._read_position:
            del self._read[: self._read_position]
            self._read_position = 0
        try:
            chunk = self.sock.recv(max(CHUNK_BYTES, min(size, 1 << 22)))
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
        """Keep a message until `flush`, or until enough bytes wait to be worth sending."""
        self._unsent.append(message)
        self._unsent_size += len(message)
        if self._unsent_size >= CHUNK_BYTES:
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


def pack_text(value: str) -> bytes:
    return value.encode() + b"\0"


def pack_startup(settings: Mapping[str, str]) -> bytes:
    body = struct.pack("!i", PROTOCOL_3) + b"".join(pack_text(k) + pack_text(v) for k, v in settings.items()) + b"\0"
    return struct.pack("!i", len(body) + 4) + body


def unpack_strings(body: bytes) -> list[str]:
    """Return the strings of a startup packet: key, value, key, value."""
    return [part.decode() for part in body.split(b"\0")[:-1]]


def unpack_fields(body: bytes) -> dict[str, str]:
    """Return the fields of an error or a notice by their letter."""
    return {part[:1].decode(): part[1:].decode(errors="replace") for part in body.split(b"\0") if part}


def pack_report(kind: bytes, fields: Mapping[str, str]) -> bytes:
    """Build an error (kind E) or a notice (kind N)."""
    return pack(kind, b"".join(letter.encode() + pack_text(value) for letter, value in fields.items()) + b"\0")


def pack_parse(name: bytes, sql: str, types: Sequence[int] = ()) -> bytes:
    return pack(b"P", name + b"\0" + pack_text(sql) + struct.pack(f"!h{len(types)}I", len(types), *types))


def pack_simple_query(sql: str) -> bytes:
    return pack(b"Q", pack_text(sql))


def unpack_row(body: bytes) -> Iterator[bytes | None]:
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


def pack_row(values: Sequence[bytes | None]) -> bytes:
    cells = [struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value for value in values]
    return pack(b"D", struct.pack("!h", len(values)) + b"".join(cells))


@dataclass(frozen=True, slots=True)
class ResultField:
    """One column of a result, as RowDescription gives it."""

    name: bytes
    table: int
    column: int
    type: int
    size: int
    modifier: int
    format: int


def unpack_row_description(body: bytes) -> list[ResultField]:
    (count,) = struct.unpack_from("!h", body)
    at, fields = 2, []
    for _ in range(count):
        end = body.index(b"\0", at)
        fields.append(ResultField(body[at:end], *struct.unpack_from("!IhIhih", body, end + 1)))
        at = end + 19
    return fields


def pack_row_description(fields: Sequence[ResultField]) -> bytes:
    packed = [
        f.name + b"\0" + struct.pack("!IhIhih", f.table, f.column, f.type, f.size, f.modifier, f.format) for f in fields
    ]
    return pack(b"T", struct.pack("!h", len(fields)) + b"".join(packed))


def unpack_parse(body: bytes) -> tuple[bytes, str, tuple[int, ...]]:
    """Return the name, the statement and the parameter types of a Parse message."""
    end = body.index(b"\0")
    stop = body.index(b"\0", end + 1)
    (count,) = struct.unpack_from("!h", body, stop + 1)
    return body[:end], body[end + 1 : stop].decode(), struct.unpack_from(f"!{count}I", body, stop + 3)
