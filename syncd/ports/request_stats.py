"""Requests to other systems and their durations, as values for the metrics."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class SourceQueryPurpose(StrEnum):
    """Purpose of a query to a source."""

    PLAN = "plan"
    """Table definitions, positions of rows, load of the server."""
    HORIZON = "horizon"
    """Open transactions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceQueried:
    """A query to a source ended, with or without an answer."""

    source: str
    purpose: SourceQueryPurpose
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonLagMeasured:
    """Lag of a proven horizon behind the server's clock at a poll."""

    source: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeRequested:
    """One attempt of a request to S3."""

    operation: str
    """Its name in S3: `PutObject`."""
    status: int
    """Of HTTP; 0 without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarehouseQueried:
    """One statement of a warehouse ended, with or without success."""

    warehouse: str
    statement: str
    """Its first word in lower case, or `other`."""
    seconds: float


ExternalCall: TypeAlias = SourceQueried | HorizonLagMeasured | LakeRequested | WarehouseQueried

CallObserver: TypeAlias = Callable[[ExternalCall], None]
"""Called from any thread; returns at once and raises nothing."""


def ignore_call(_call: ExternalCall) -> None:
    """Discard the call."""
