import socket

import pytest

from syncd.sandbox.process import LOOPBACK, PortBusy, choose_port, is_port_free


def test_a_free_port_is_found() -> None:
    assert is_port_free(choose_port(requested=None, previous=None))


def test_the_port_of_last_time_is_kept() -> None:
    free = choose_port(requested=None, previous=None)

    assert choose_port(requested=None, previous=free) == free


def test_a_taken_port_of_last_time_is_replaced() -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        taken = other.getsockname()[1]

        assert choose_port(requested=None, previous=taken) != taken


def test_a_taken_port_that_was_asked_for_is_refused() -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        taken = other.getsockname()[1]

        with pytest.raises(PortBusy, match=f"port {taken} on 127.0.0.1 is used"):
            choose_port(requested=taken, previous=None)
