"""Ways to open the lake and its store."""

import secrets
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from syncd.concurrency.response_monitor import ResponseMonitor
from syncd.ports.request_stats import CallObserver, ignore_call
from syncd.settings import (
    LakeSettings,
)
from watermarks.store import Store

if TYPE_CHECKING:
    from syncd.s3.lake_client import S3Lake


MAX_LEASE_CONNECTIONS: Final = 8


class ResourceOwner:
    """Closes at the end of its `with` block what was opened in it, the last first."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def open_lake(
    settings: LakeSettings,
    *,
    read_only: bool = False,
    connections: int | None = None,
    meter: CallObserver = ignore_call,
    response_monitor: ResponseMonitor | None = None,
) -> "S3Lake":
    """Open the lake client. Workers retry through outages of up to two minutes; read-only commands fail fast."""
    from syncd.s3.lake_client import S3Lake  # noqa: PLC0415  # boto3 takes long to load

    make = S3Lake.for_read_only_commands if read_only else S3Lake.from_settings
    lake = make(settings) if connections is None else make(settings, connections=connections)
    lake = lake if meter is ignore_call else lake.register_meter(meter)
    return lake if response_monitor is None else lake.register_monitor(response_monitor)


def open_quick_lake(settings: LakeSettings, *, timeout_seconds: float, meter: CallObserver = ignore_call) -> "S3Lake":
    """Open a lake client whose requests time out soon and are not retried."""
    from syncd.s3.lake_client import S3Lake  # noqa: PLC0415  # as above

    lake = S3Lake.from_settings_with_timeout(
        settings, timeout_seconds=timeout_seconds, attempts=1, connections=MAX_LEASE_CONNECTIONS
    )
    return lake if meter is ignore_call else lake.register_meter(meter)


def open_store(lake: "S3Lake") -> Store:
    from watermarks.stores.s3 import S3Store  # noqa: PLC0415  # as above

    return S3Store(lake.client, bucket=lake.settings.bucket, prefix=lake.settings.prefix)


def open_overlay_store(lake: "S3Lake") -> Store:
    """Open a store that discards writes, such as notes of the horizon; for previews."""
    from watermarks.stores.memory import OverlayStore  # noqa: PLC0415  # only previews need it

    return OverlayStore(open_store(lake))


def new_nonce() -> str:
    return secrets.token_hex(6)
