"""Sessions with the stand-in, as the loader opens them, and whatever stands between."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from syncd.ports.request_stats import CallObserver, ignore_call
from syncd.redshift.connection import connect
from syncd.redshift.session import WarehouseSession
from syncd.sandbox.faults.tcp import TcpProxy
from syncd.sandbox.redshift import RedshiftStandIn
from syncd.settings import Secret, Tls, WarehouseSettings
from tests.standin.conftest import bucket, client, clients, no_fault_left, s3_url, server

__all__ = ["bucket", "client", "clients", "no_fault_left", "s3_url", "server"]


def settings_of(server: RedshiftStandIn, **words: Any) -> WarehouseSettings:
    settings = WarehouseSettings(
        name="warehouse",
        host=server.host,
        port=server.port,
        database=server.database,
        user=server.user,
        password=Secret(server.password),
        tls=Tls.DISABLE,
        silence=timedelta(seconds=20),
    )
    return replace(settings, **words)


class Sessions:
    """Opens sessions and closes what a test left open."""

    def __init__(self, server: RedshiftStandIn) -> None:
        self._server = server
        self._opened: list[WarehouseSession] = []

    def __call__(
        self, *, name: str = "test", at: tuple[str, int] | None = None, meter: CallObserver = ignore_call, **words: Any
    ) -> WarehouseSession:
        session = connect(settings_of(self._server, **words), session_name=name, tunnel_address=at, meter=meter)
        self._opened.append(session)
        return session

    def close(self) -> None:
        for session in self._opened:
            session.close()


@pytest.fixture
def sessions(server: RedshiftStandIn) -> Iterator[Sessions]:
    opener = Sessions(server)
    yield opener
    opener.close()


@pytest.fixture
def session(sessions: Sessions) -> WarehouseSession:
    return sessions()


@pytest.fixture
def wire(server: RedshiftStandIn) -> Iterator[TcpProxy]:
    with TcpProxy(server.port) as proxy:
        yield proxy
