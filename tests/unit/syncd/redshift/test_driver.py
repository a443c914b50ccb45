"""A read that comes short is never taken for a whole one."""

import socket
from collections.abc import Iterator

import pytest

from syncd.redshift.driver import MAX_MESSAGE_BYTES, ConnectionEnded, DriverSocket


@pytest.fixture
def ends() -> Iterator[tuple[DriverSocket, socket.socket]]:
    near, far = socket.socketpair()
    wire = DriverSocket(near)
    yield wire, far
    wire.close()
    far.close()


@pytest.mark.parametrize("sent", [b"", b"C", b"COMMI"])
def test_a_line_that_ends_in_the_middle_is_lost(ends: tuple[DriverSocket, socket.socket], sent: bytes) -> None:
    wire, far = ends
    far.sendall(sent)
    far.close()

    with pytest.raises(ConnectionEnded, match="ended the connection"):
        wire.read(6)


def test_what_comes_in_pieces_is_read_whole(ends: tuple[DriverSocket, socket.socket]) -> None:
    wire, far = ends
    for piece in (b"COM", b"MIT"):
        far.sendall(piece)

    assert wire.read(6) == b"COMMIT"


@pytest.mark.parametrize("size", [-1, MAX_MESSAGE_BYTES + 1])
def test_a_length_that_cannot_be_is_not_waited_for(ends: tuple[DriverSocket, socket.socket], size: int) -> None:
    with pytest.raises(ConnectionEnded, match="not possible in Redshift's protocol"):
        ends[0].read(size)


def test_a_line_that_is_shut_wakes_whoever_reads(ends: tuple[DriverSocket, socket.socket]) -> None:
    wire, _ = ends
    wire.end_connection()

    with pytest.raises(ConnectionEnded):
        wire.read(1)
