"""The lake and its store, and the names by which they know streams and attempts."""

import secrets
from typing import TYPE_CHECKING, Final

from syncd.concurrency.response_monitor import ResponseMonitor
from syncd.ports.request_stats import CallObserver, ignore_call
from syncd.settings import (
    LakeSettings,
)
from watermarks.store import Store

if TYPE_CHECKING:
    from syncd.s3.lake_client import S3Lake


MAX_LEASE_CONNECTIONS: Final = 8
"""Of several claims that are taken at once."""


def open_lake(
    settings: LakeSettings,
    *,
    read_only: bool = False,
    meter: CallObserver = ignore_call,
    response_monitor: ResponseMonitor | None = None,
) -> "S3Lake":
    """The lake; who works sits an outage of a minute or two out, who only `looks` does not."""
    from syncd.s3.lake_client import S3Lake  # noqa: PLC0415  # boto3 takes long to load

    lake = S3Lake.for_read_only_commands(settings) if read_only else S3Lake.from_settings(settings)
    lake = lake if meter is ignore_call else lake.register_meter(meter)
    return lake if response_monitor is None else lake.register_monitor(response_monitor)


def open_quick_lake(settings: LakeSettings, *, timeout_seconds: float, meter: CallObserver = ignore_call) -> "S3Lake":
    """The lake where an answer is worth nothing after so many seconds: what was asked is not asked again."""
    from syncd.s3.lake_client import S3Lake  # noqa: PLC0415  # as above

    lake = S3Lake.from_settings_with_timeout(
        settings, timeout_seconds=timeout_seconds, attempts=1, connections=MAX_LEASE_CONNECTIONS
    )
    return lake if meter is ignore_call else lake.register_meter(meter)


def open_store(lake: "S3Lake") -> Store:
    from watermarks.stores.s3 import S3Store  # noqa: PLC0415  # as above

    return S3Store(lake.client, bucket=lake.settings.bucket, prefix=lake.settings.prefix)


def open_overlay_store(lake: "S3Lake") -> Store:
    """The store of a look: what a run would leave there, such as notes of the horizon, is left nowhere."""
    from watermarks.stores.overlay import OverlayStore  # noqa: PLC0415  # only those who look need it

    return OverlayStore(open_store(lake))


def new_nonce() -> str:
    return secrets.token_hex(6)
