"""Composition root: from settings to a service that runs passes, each resource opened with its first use."""

from syncd.app.lake_access import open_overlay_store, open_store
from syncd.app.pass_factory import PassOptions
from syncd.app.process_resources import LEASE_TTL_SECONDS
from syncd.app.source_access import SourceResources
from syncd.app.stage_services import StageService
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
