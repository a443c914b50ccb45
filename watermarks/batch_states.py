"""Moves: which states a batch can be in for one pipeline, and every legal way from one to another."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from watermarks.errors import Misuse


class State(StrEnum):
    """Where a batch stands in one pipeline: the extraction, or the load into one target."""

    PLANNED = "planned"
    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"
    NOOP = "noop"
    ABANDONED = "abandoned"


class Event(StrEnum):
    """What can happen to a batch."""

    CLAIM = "claim"
    FINISH = "finish"
    FIND_NOTHING = "find nothing"
    FAIL = "fail"
    LOSE_OWNER = "lose owner"
    RETRY = "retry"
    ABANDON = "abandon"


MOVES: Final[Mapping[tuple[State, Event], State]] = MappingProxyType({
    (State.PLANNED, Event.CLAIM): State.CLAIMED,
    (State.CLAIMED, Event.FINISH): State.DONE,
    (State.CLAIMED, Event.FIND_NOTHING): State.NOOP,
    (State.CLAIMED, Event.FAIL): State.FAILED,
    (State.CLAIMED, Event.LOSE_OWNER): State.PLANNED,
    (State.FAILED, Event.RETRY): State.PLANNED,
    (State.PLANNED, Event.ABANDON): State.ABANDONED,
    (State.FAILED, Event.ABANDON): State.ABANDONED,
})  # fmt: skip

FINAL: Final = frozenset(State) - {state for state, _ in MOVES}
"""States that nothing leads out of: the batch is a link of the chain."""


class IllegalMove(Misuse):
    """An event that cannot happen to a batch in this state."""


def move(state: State, event: Event) -> State:
    """The state after the event.

    Raises:
        IllegalMove: the table does not have it; nothing was changed.
    """
    after = MOVES.get((state, event))
    if after is None:
        possible = [str(e) for s, e in MOVES if s is state]
        raise IllegalMove(
            f"a batch that is {state} cannot {event}",
            hint=f"It can {' or '.join(possible)}." if possible else f"{state.capitalize()} is for ever.",
            state=state,
            event=event,
        )
    return after


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    arrows = [f"    {state} --> {after}: {event}" for (state, event), after in MOVES.items()]
    ends = [f"    {state} --> [*]" for state in State if state in FINAL]
    return "\n".join(["stateDiagram-v2", "    [*] --> planned", *arrows, *ends])
