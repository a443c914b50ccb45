"""A stand-in for Amazon Redshift on loopback: PostgreSQL behind, Redshift's rules in front; strict where in doubt."""

from syncd.sandbox.redshift.faults import Fault, Faults, When
from syncd.sandbox.redshift.lake import Lake
from syncd.sandbox.redshift.objects import Isolation
from syncd.sandbox.redshift.problems import CannotStart
from syncd.sandbox.redshift.server import RedshiftStandIn

__all__ = ["CannotStart", "Fault", "Faults", "Isolation", "Lake", "RedshiftStandIn", "When"]
