"""Why a stage does not go on, and what would help, in a line."""

from datetime import datetime

from syncd.observe.board_view import StageSeen, State
from syncd.observe.dashboard.formatting import clock
from syncd.observe.dashboard.markup import Markup, tag


def has_why(stage: StageSeen) -> bool:
    return stage.trouble is not None or (stage.state in {State.WAITING, State.HELD_BACK} and bool(stage.why))


def why(stage: StageSeen, now: datetime) -> tuple[Markup | str, ...]:
    """Why a stage does not go on, and what would help."""
    trouble = stage.trouble
    if trouble is None:
        until = f" (until {stage.until:%H:%M:%S})" if stage.until else ""
        return tag("b", f"{stage.stage} {_verb(stage.state)}"), f" {stage.why}{until}"
    times = f"{trouble.times:,} times since " if trouble.times > 1 else "at "
    said = (tag("b", f"{stage.stage} failed"), f" {times}", clock(trouble.since, now=now), f": {trouble.message}")
    return (*said, tag("span", trouble.hint, class_="hint")) if trouble.hint else said


def _verb(state: State) -> str:
    return "is held back:" if state is State.HELD_BACK else "waits:"


def class_of(word: str) -> str:
    return word.replace(" ", "-")
