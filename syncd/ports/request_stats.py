"""What was asked of the outside, and how long the answer took, as values; metrics read them."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class SourceQueryPurpose(StrEnum):
    """What a question to a source is about."""

    PLAN = "plan"
    """What a table looks like, where rows stand, how busy the server is."""
    HORIZON = "horizon"
    """Which transactions are open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceQueried:
    """A question to a source was answered, or was not."""

    source: str
    purpose: SourceQueryPurpose
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonLagMeasured:
    """How far behind the server's clock the horizon was at a poll, where it is proven."""

    source: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeRequested:
    """One request to S3, each attempt by itself."""

    operation: str
    """As S3 names it: `PutObject`."""
    status: int
    """Of HTTP; 0 where no answer came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarehouseQueried:
    """One statement was carried out by a warehouse, or was not."""

    warehouse: str
    statement: str
    """Its first word, in lower case; `other` where it is none of those that are told apart."""
    seconds: float


ExternalCall: TypeAlias = SourceQueried | HorizonLagMeasured | LakeRequested | WarehouseQueried

CallObserver: TypeAlias = Callable[[ExternalCall], None]
"""Whoever counts; it is called from any thread, returns at once and raises nothing."""


def ignore_call(_call: ExternalCall) -> None:
    """Nobody counts."""
