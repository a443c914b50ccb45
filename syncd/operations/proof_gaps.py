"""Why a stream is not proven, as far as its newest plans tell."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Protocol

from syncd.tables.table_identity import remade_in
from watermarks.batch import BatchId, Plan
from watermarks.errors import HintedError
from watermarks.progress import Extracted

MOST_PLANS: Final = 16
"""Those of rows that are named by their keys, and of tombstones, know no horizon; as many of them are passed over."""


class Plans(Protocol):
    """The plans of the chain; `watermarks.Chain` is one."""

    def plan(self, batch: BatchId) -> Plan | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Unproven:
    """What stands in the way."""

    because: str
    remade: BatchId | None = None
    """The batch that met another table than those before it, where nothing else stands in the way."""


def unproven(half: Extracted, plans: Plans) -> Unproven | None:
    """Why it is not certain that all up to the mark was read; None where it is, or the plans do not say.

    It costs a request, and one for each plan more that has to be looked at.
    """
    if half.proven:
        return None
    if half.seq == 0:
        return Unproven(because="nothing has been read since the mark was set")
    try:
        body = _newest(half, plans)
    except HintedError as error:  # whoever asks has an answer already, which this is only the reason for
        return Unproven(because=f"its plans cannot be read: {error.message}")
    horizon: Mapping[str, Any] = body.get("horizon") or {}
    doubt = "" if horizon.get("proven", True) else str(horizon.get("reason", "")).removeprefix("not proven: ")
    remade = remade_in(body)
    table = f"the table is another one since {remade}" if remade else ""
    because = "; ".join(filter(None, (table, doubt)))
    return Unproven(because=because, remade=None if doubt else remade) if because else None


def _newest(half: Extracted, plans: Plans) -> Mapping[str, Any]:
    """The body of the newest plan that knew of a horizon."""
    for batch in islice(half.ids_back(upto=half.last, after=BatchId(half.generation, 0)), MOST_PLANS):
        plan = plans.plan(batch)
        if plan is not None and plan.draft.body.get("horizon"):
            return plan.draft.body
    return {}
