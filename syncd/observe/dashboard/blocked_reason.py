"""Why a stage does not go on, and what would help, in a line."""

from datetime import datetime

from syncd.observe.board_view import StageState, StageView
from syncd.observe.dashboard.formatting import time_element
from syncd.observe.dashboard.markup import Markup, tag


def has_waiting_reason(stage: StageView) -> bool:
    return stage.failure is not None or (
        stage.state in {StageState.WAITING, StageState.HELD_BACK} and bool(stage.waiting_reason)
    )


def waiting_text(stage: StageView, now: datetime) -> tuple[Markup | str, ...]:
    """Why a stage does not go on, and what would help."""
    trouble = stage.failure
    if trouble is None:
        until = f" (until {stage.held_until:%H:%M:%S})" if stage.held_until else ""
        return tag("b", f"{stage.stage} {_state_verb(stage.state)}"), f" {stage.waiting_reason}{until}"
    times = f"{trouble.times:,} times since " if trouble.times > 1 else "at "
    said = (
        tag("b", f"{stage.stage} failed"),
        f" {times}",
        time_element(trouble.since, now=now),
        f": {trouble.message}",
    )
    return (*said, tag("span", trouble.hint, class_="hint")) if trouble.hint else said


def _state_verb(state: StageState) -> str:
    return "is held back:" if state is StageState.HELD_BACK else "waits:"


def css_class(word: str) -> str:
    return word.replace(" ", "-")
