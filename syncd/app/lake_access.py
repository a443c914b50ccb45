"""The lake and its store, and the names by which they know streams and attempts."""

import secrets
from typing import TYPE_CHECKING, Final

from syncd.concurrency.response_monitor import Silences
from syncd.ports.request_stats import Meter, unmetered
from syncd.settings import (
    LakeSettings,
    StreamSettings,
)
from watermarks.names import StreamName
from watermarks.store import Store

if TYPE_CHECKING:
    from syncd.s3.lake_client import Lake


CONNECTIONS_OF_SIGNS: Final = 8
"""Of several claims that are taken at once."""


def open_lake(
    settings: LakeSettings, *, looks: bool = False, meter: Meter = unmetered, silences: Silences | None = None
) -> "Lake":
    """The lake; who works sits an outage of a minute or two out, who only `looks` does not."""
    from syncd.s3.lake_client import Lake  # noqa: PLC0415  # boto3 takes long to load

    lake = Lake.for_looks(settings) if looks else Lake.of(settings)
    lake = lake if meter is unmetered else lake.metered(meter)
    return lake if silences is None else lake.heeded(silences)


def open_quick_lake(settings: LakeSettings, *, within: float, meter: Meter = unmetered) -> "Lake":
    """The lake where an answer is worth nothing after so many seconds: what was asked is not asked again."""
    from syncd.s3.lake_client import Lake  # noqa: PLC0415  # as above

    lake = Lake.quick(settings, within=within, attempts=1, connections=CONNECTIONS_OF_SIGNS)
    return lake if meter is unmetered else lake.metered(meter)


def open_store(lake: "Lake") -> Store:
    from watermarks.stores.s3 import S3Store  # noqa: PLC0415  # as above

    return S3Store(lake.client, bucket=lake.settings.bucket, prefix=lake.settings.prefix)


def open_unwritten(lake: "Lake") -> Store:
    """The store of a look: what a run would leave there, such as notes of the horizon, is left nowhere."""
    from syncd.operations.overlay_store import Unwritten  # noqa: PLC0415  # only those who look need it

    return Unwritten(open_store(lake))


def stream_of(settings: StreamSettings) -> StreamName:
    return StreamName(source=settings.source, database=settings.database, table=settings.table)


def nonce() -> str:
    return secrets.token_hex(6)
