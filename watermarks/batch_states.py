"""States of a batch in one pipeline, and every legal transition."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from watermarks.errors import Misuse


class BatchState(StrEnum):
    """State of a batch in one pipeline: the extraction, or the load into one target."""

    PLANNED = "planned"
    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"
    NOOP = "noop"
    ABANDONED = "abandoned"


class BatchEvent(StrEnum):
    """Event of a batch."""

    CLAIM = "claim"
    FINISH = "finish"
    FIND_NOTHING = "find nothing"
    FAIL = "fail"
    LOSE_OWNER = "lose owner"
    RETRY = "retry"
    ABANDON = "abandon"


TRANSITIONS: Final[Mapping[tuple[BatchState, BatchEvent], BatchState]] = MappingProxyType({
    (BatchState.PLANNED, BatchEvent.CLAIM): BatchState.CLAIMED,
    (BatchState.CLAIMED, BatchEvent.FINISH): BatchState.DONE,
    (BatchState.CLAIMED, BatchEvent.FIND_NOTHING): BatchState.NOOP,
    (BatchState.CLAIMED, BatchEvent.FAIL): BatchState.FAILED,
    (BatchState.CLAIMED, BatchEvent.LOSE_OWNER): BatchState.PLANNED,
    (BatchState.FAILED, BatchEvent.RETRY): BatchState.PLANNED,
    (BatchState.PLANNED, BatchEvent.ABANDON): BatchState.ABANDONED,
    (BatchState.FAILED, BatchEvent.ABANDON): BatchState.ABANDONED,
})  # fmt: skip

FINAL_STATES: Final = frozenset(BatchState) - {state for state, _ in TRANSITIONS}
"""States without a further transition: the batch is a link of the chain."""


class IllegalTransition(Misuse):
    """An event that is not possible in the state of the batch."""


def next_state(state: BatchState, event: BatchEvent) -> BatchState:
    """Return the state after the event. Raises IllegalTransition if the table does not have it."""
    after = TRANSITIONS.get((state, event))
    if after is None:
        possible = [str(e) for s, e in TRANSITIONS if s is state]
        raise IllegalTransition(
            f"event '{event}' is not possible for a batch in state '{state}'",
            hint=f"Possible events: {', '.join(possible)}." if possible else f"{state.capitalize()} is a final state.",
            state=state,
            event=event,
        )
    return after


def render_diagram() -> str:
    """Return the table as a Mermaid state diagram."""
    arrows = [f"    {state} --> {after}: {event}" for (state, event), after in TRANSITIONS.items()]
    ends = [f"    {state} --> [*]" for state in BatchState if state in FINAL_STATES]
    return "\n".join(["stateDiagram-v2", "    [*] --> planned", *arrows, *ends])
