from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watermarks.batch_states import (
    FINAL_STATES,
    TRANSITIONS,
    BatchEvent,
    BatchState,
    IllegalTransition,
    next_state,
    render_diagram,
)
from watermarks.errors import Misuse

ARCHITECTURE = Path(__file__).parents[3] / "docs" / "explanation" / "architecture.md"
LEGAL = {
    ("planned", "claim"): "claimed",
    ("claimed", "finish"): "done",
    ("claimed", "find nothing"): "noop",
    ("claimed", "fail"): "failed",
    ("claimed", "lose owner"): "planned",
    ("failed", "retry"): "planned",
    ("planned", "abandon"): "abandoned",
    ("failed", "abandon"): "abandoned",
}


@pytest.mark.parametrize(("state", "event"), [*product(BatchState, BatchEvent)])
def test_an_event_moves_a_batch_as_the_table_says_or_is_refused_by_name(state: BatchState, event: BatchEvent) -> None:
    """The words are spelled out here: other pipelines, and documents, know them as these texts."""
    expected = LEGAL.get((str(state), str(event)))

    if expected is not None:
        assert next_state(state, event) == expected
        return
    with pytest.raises(
        IllegalTransition, match=f"^event '{event}' is not possible for a batch in state '{state}'$"
    ) as caught:
        next_state(state, event)
    assert caught.value.facts == {"state": state, "event": event}


@pytest.mark.parametrize(("state", "hint"), [
    (BatchState.PLANNED, "Possible events: claim, abandon."),
    (BatchState.CLAIMED, "Possible events: finish, find nothing, fail, lose owner."),
    (BatchState.FAILED, "Possible events: retry, abandon."),
    (BatchState.DONE, "Done is a final state."),
    (BatchState.NOOP, "Noop is a final state."),
    (BatchState.ABANDONED, "Abandoned is a final state."),
])  # fmt: skip
def test_a_refusal_tells_what_can_happen_instead(state: BatchState, hint: str) -> None:
    refused = next(event for event in BatchEvent if (state, event) not in TRANSITIONS)

    with pytest.raises(IllegalTransition) as caught:
        next_state(state, refused)

    assert caught.value.hint == hint


def test_what_is_a_link_of_the_chain_is_one_for_ever() -> None:
    """A done batch that could be abandoned would take landed rows out of the chain."""
    assert {BatchState.DONE, BatchState.NOOP, BatchState.ABANDONED} == FINAL_STATES
    assert not [event for state, event in TRANSITIONS if state in FINAL_STATES]


def test_a_batch_is_never_abandoned_under_its_owner() -> None:
    """It must first be failed or lost: else the owner finishes what the chain holds as abandoned."""
    with pytest.raises(IllegalTransition):
        next_state(BatchState.CLAIMED, BatchEvent.ABANDON)


def test_a_batch_is_done_only_by_whoever_claimed_it() -> None:
    assert {state for (state, _), after in TRANSITIONS.items() if after is BatchState.DONE} == {BatchState.CLAIMED}


@given(st.lists(st.sampled_from(BatchEvent), max_size=20))
def test_whatever_happens_a_batch_can_still_come_to_an_end(events: list[BatchEvent]) -> None:
    state = BatchState.PLANNED
    for event in events:
        state = TRANSITIONS.get((state, event), state)

    reachable = {state}
    while more := {after for (before, _), after in TRANSITIONS.items() if before in reachable} - reachable:
        reachable |= more

    assert reachable & FINAL_STATES


def test_every_state_can_be_reached_and_every_event_happens_somewhere() -> None:
    assert {BatchState.PLANNED, *TRANSITIONS.values()} == set(BatchState)
    assert {event for _, event in TRANSITIONS} == set(BatchEvent)


def test_the_table_cannot_be_changed_while_the_program_runs() -> None:
    with pytest.raises(TypeError):
        TRANSITIONS[BatchState.DONE, BatchEvent.ABANDON] = BatchState.ABANDONED  # type: ignore[index]  # the fault to refuse


def test_the_diagram_shows_every_move_and_every_end() -> None:
    lines = [line.strip() for line in render_diagram().splitlines()]

    assert lines[:2] == ["stateDiagram-v2", "[*] --> planned"]
    assert sorted(lines[2:]) == sorted(
        [f"{state} --> {after}: {event}" for (state, event), after in LEGAL.items()]
        + [f"{state} --> [*]" for state in ("done", "noop", "abandoned")]
    )


def test_the_architecture_shows_the_diagram_of_the_table() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")

    shown = text.split("<!-- moves:begin -->\n", 1)[1].split("<!-- moves:end -->", 1)[0]

    assert shown == f"```mermaid\n{render_diagram()}\n```\n"


def test_an_illegal_move_is_the_callers_to_mend() -> None:
    assert issubclass(IllegalTransition, Misuse)
