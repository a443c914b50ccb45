"""What is asked of a Redshift that may not be there yet."""

import gc
import socket
import warnings

import pytest

from syncd.sandbox import warehouse
from syncd.sandbox.process import LOOPBACK
from syncd.sandbox.warehouse import RedshiftAddress


def test_a_server_that_listens_and_does_not_greet_is_none_and_leaves_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warehouse, "PROBE_TIMEOUT_SECONDS", 0.1)
    with socket.create_server((LOOPBACK, 0)) as mute, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        port = mute.getsockname()[1]

        found = RedshiftAddress(host=LOOPBACK, port=port, user="u", password="p", database="d").ask_version()
        gc.collect()

    assert found is None
    assert [one for one in warned if one.category is ResourceWarning] == []
