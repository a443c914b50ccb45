"""From settings to a service that works: the only place where adapters are made, each when it is first needed."""

from syncd.wiring.lake import open_store, open_unwritten, stream_of
from syncd.wiring.service import TTL, Pass, Service
from syncd.wiring.source import Server
from syncd.wiring.warehouse import Warehouse

__all__ = ["TTL", "Pass", "Server", "Service", "Warehouse", "open_store", "open_unwritten", "stream_of"]
