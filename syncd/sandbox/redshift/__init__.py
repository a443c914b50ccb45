"""A stand-in for Amazon Redshift on loopback: PostgreSQL behind Redshift's rules, strict where facts are in doubt."""

from syncd.sandbox.redshift.cluster import CannotStart
from syncd.sandbox.redshift.copy.s3_files import CopyStorage
from syncd.sandbox.redshift.faults import FaultInjector, FaultTiming, StatementFault
from syncd.sandbox.redshift.objects import Isolation
from syncd.sandbox.redshift.server import RedshiftStandIn

__all__ = [
    "CannotStart",
    "CopyStorage",
    "FaultInjector",
    "FaultTiming",
    "Isolation",
    "RedshiftStandIn",
    "StatementFault",
]
