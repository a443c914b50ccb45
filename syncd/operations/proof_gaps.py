"""Why a stream is not proven, as far as its newest plans tell."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Protocol

from syncd.tables.table_identity import find_replacing_batch
from watermarks.batch import BatchId, Plan
from watermarks.errors import HintedError
from watermarks.progress import ExtractProgress

MAX_PLANS_READ: Final = 16
"""Those of rows that are named by their keys, and of tombstones, know no horizon; as many of them are passed over."""


class PlanReader(Protocol):
    """The plans of the chain; `watermarks.Chain` is one."""

    def read_plan(self, batch: BatchId) -> Plan | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UnprovenReason:
    """What stands in the way."""

    reason: str
    table_replaced_in: BatchId | None = None
    """The batch that met another table than those before it, where nothing else stands in the way."""


def find_unproven_reason(progress: ExtractProgress, plans: PlanReader) -> UnprovenReason | None:
    """Why it is not certain that all up to the mark was read; None where it is, or the plans do not say.

    It costs a request, and one for each plan more that has to be looked at.
    """
    if progress.proven:
        return None
    if progress.seq == 0:
        return UnprovenReason(reason="nothing has been read since the mark was set")
    try:
        body = _newest_plan_body(progress, plans)
    except HintedError as error:  # whoever asks has an answer already, which this is only the reason for
        return UnprovenReason(reason=f"its plans cannot be read: {error.message}")
    horizon: Mapping[str, Any] = body.get("horizon") or {}
    doubt = "" if horizon.get("proven", True) else str(horizon.get("reason", "")).removeprefix("not proven: ")
    remade = find_replacing_batch(body)
    table = f"the table is another one since {remade}" if remade else ""
    because = "; ".join(filter(None, (table, doubt)))
    return UnprovenReason(reason=because, table_replaced_in=None if doubt else remade) if because else None


def _newest_plan_body(progress: ExtractProgress, plans: PlanReader) -> Mapping[str, Any]:
    """The body of the newest plan that knew of a horizon."""
    for batch in islice(
        progress.batch_ids_newest_first(up_to=progress.last_batch, after=BatchId(progress.generation, 0)),
        MAX_PLANS_READ,
    ):
        plan = plans.read_plan(batch)
        if plan is not None and plan.draft.body.get("horizon"):
            return plan.draft.body
    return {}
