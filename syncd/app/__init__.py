"""From settings to a service that works: the only place where adapters are made, each when it is first needed."""

from syncd.app.lake_access import open_store, open_unwritten, stream_of
from syncd.app.source_access import Server
from syncd.app.stage_services import TTL, Pass, Service
from syncd.app.warehouse_access import Warehouse

__all__ = ["TTL", "Pass", "Server", "Service", "Warehouse", "open_store", "open_unwritten", "stream_of"]
