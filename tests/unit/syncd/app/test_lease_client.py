"""Leases on a line that takes every connection and never says a word."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from syncd.app.lake_access import open_store
from syncd.app.process_resources import LEASE_TTL_SECONDS
from syncd.app.stage_services import StageService
from syncd.concurrency.stage_claim import RENEWALS_PER_TTL
from syncd.s3.lake_client import S3Lake
from syncd.settings import LakeSettings, Settings
from tests.builders import Here
from tests.services.mute import Mute
from watermarks.errors import OutcomeUnknown, StoreUnavailable
from watermarks.lease import ProcessLease
from watermarks.stores.memory import MemoryStore


@pytest.fixture
def mute(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mute]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with closing(Mute()) as mute:
        yield mute


def settings(mute: Mute) -> LakeSettings:
    return LakeSettings(bucket="lake", region="us-east-1", endpoint=f"http://127.0.0.1:{mute.port}")


def test_a_renewal_gives_a_dead_connection_up_at_once_and_sends_nothing_twice(mute: Mute) -> None:
    quick = S3Lake.from_settings_with_timeout(settings(mute), timeout_seconds=0.2, attempts=1)
    process = ProcessLease(MemoryStore(), "p1", owner_store=open_store(quick), ttl_seconds=1.2, host=Here("p1"))

    with pytest.raises((OutcomeUnknown, StoreUnavailable)):
        process.renew()

    assert mute.calls <= 3, "one attempt to write it, and what stands there is asked for twice at most"


def test_leases_have_a_client_of_their_own_whose_waits_are_short(mute: Mute) -> None:
    def never(event: object) -> None:
        raise AssertionError(event)

    with StageService(Settings(sources=(), lake=settings(mute), streams=()), environ={}, emit=never) as service:
        config: Any = service.lease_lake.client.meta.config  # its stubs leave out what it was made with

        assert service.lease_lake.client is not service.lake.client
        assert max(config.connect_timeout, config.read_timeout) <= LEASE_TTL_SECONDS / 6
        assert config.retries["total_max_attempts"] == 1
        assert LEASE_TTL_SECONDS / RENEWALS_PER_TTL + LEASE_TTL_SECONDS / 6 < LEASE_TTL_SECONDS / 2
