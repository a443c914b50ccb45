"""From settings to a service that works: the only place where adapters are made, each when it is first needed."""

from syncd.app.lake_access import open_overlay_store, open_store
from syncd.app.source_access import SourceResources
from syncd.app.stage_services import LEASE_TTL_SECONDS, PassOptions, StageService
from syncd.app.warehouse_access import WarehouseResources

__all__ = [
    "LEASE_TTL_SECONDS",
    "PassOptions",
    "SourceResources",
    "StageService",
    "WarehouseResources",
    "open_overlay_store",
    "open_store",
]
