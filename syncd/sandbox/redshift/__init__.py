"""A stand-in for Amazon Redshift on loopback: PostgreSQL behind, Redshift's rules in front; strict where in doubt."""

from syncd.sandbox.redshift.copy.s3_files import CopyStorage
from syncd.sandbox.redshift.faults import FaultInjector, FaultTiming, StatementFault
from syncd.sandbox.redshift.objects import Isolation
from syncd.sandbox.redshift.server import RedshiftStandIn
from syncd.sandbox.redshift.start_errors import CannotStart

__all__ = [
    "CannotStart",
    "CopyStorage",
    "FaultInjector",
    "FaultTiming",
    "Isolation",
    "RedshiftStandIn",
    "StatementFault",
]
